"""The log of one task: its thread, the schemas along it and their history, and the watch over the server's log."""

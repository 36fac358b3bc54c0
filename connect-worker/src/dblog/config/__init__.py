"""Options as data: what the worker and its connectors can be told, and what is wrong with what they were told."""

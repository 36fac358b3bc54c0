"""Options as data: what the worker and its connectors can be asked for, and what is wrong with what they were asked for."""

"""A small database in memory, and its dialect: the second implementation of ``dblog.readers.contract``.

It imports nothing of ``dblog.dialects``, so a task that runs on it shows what the reader layer alone does.
"""

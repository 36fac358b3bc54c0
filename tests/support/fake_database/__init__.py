"""A small database in memory and its dialect, a second implementation of
``dblog.readers.contract``.

It imports nothing of ``dblog.dialects``, so a task on it exercises the reader layer alone.
"""

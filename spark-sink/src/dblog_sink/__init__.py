"""dblog's Delta sink: a Structured Streaming query that keeps Delta tables equal to a source's
tables.
"""

__version__ = "0.1.0"

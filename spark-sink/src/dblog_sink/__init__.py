"""dblog's Delta sink: one Structured Streaming query that keeps Delta tables equal to the tables of a source database."""

__version__ = "0.1.0"

"""dblog: change data capture by watermark windows, as a worker compatible with Kafka Connect."""

__version__ = "0.1.0"

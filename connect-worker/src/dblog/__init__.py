"""dblog: change data capture on watermark windows, as a Kafka Connect-compatible worker."""

__version__ = "0.1.0"

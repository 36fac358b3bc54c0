"""Kafka bytes as rows: decoded, ordered by log position, and reduced to the latest of each key."""

"""Micro-batches: read once, sorted by topic, applied at once or landed, and merged when the schedule decides so."""

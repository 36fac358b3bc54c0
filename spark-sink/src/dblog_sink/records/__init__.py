"""Turns Kafka bytes into rows with log positions, and keeps the latest row of each key."""

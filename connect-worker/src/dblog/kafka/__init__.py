"""Clients of Kafka and of the schema registry: producers, compacted topics, admin, registry."""

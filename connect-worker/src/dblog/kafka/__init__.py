"""Everything that talks to Kafka and its registry: producers, compacted topics, admin, registry."""

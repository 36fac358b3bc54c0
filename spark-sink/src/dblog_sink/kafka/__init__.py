"""The stream of Kafka records, what the brokers know, and what the checkpoint belongs to."""

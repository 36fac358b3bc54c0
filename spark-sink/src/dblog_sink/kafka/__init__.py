"""The stream of Kafka records, questions to the brokers, and the checkpoint's binding."""

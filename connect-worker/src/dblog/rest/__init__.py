"""Kafka Connect's REST interface and a schema registry, one file for each resource."""

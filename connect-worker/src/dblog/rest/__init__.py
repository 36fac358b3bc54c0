"""Kafka Connect's REST interface, and a schema registry beside it, one file for each resource."""

"""Schemas from the registry, their Spark types, and how tables follow their source's columns."""

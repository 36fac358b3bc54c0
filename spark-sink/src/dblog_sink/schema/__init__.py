"""Schemas: from the registry to Spark's types, and how a table follows its source's columns."""

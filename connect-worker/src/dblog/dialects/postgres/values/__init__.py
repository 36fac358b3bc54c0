"""Conversion of PostgreSQL's columns for records: schemas, values and defaults. Pure."""

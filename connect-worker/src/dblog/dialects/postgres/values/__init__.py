"""PostgreSQL's columns in records: schemas, values and defaults. Pure."""

"""The shop on a PostgreSQL server: a schema with PostgreSQL's own types and statements."""

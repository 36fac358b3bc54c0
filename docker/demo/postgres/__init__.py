"""The shop on a PostgreSQL server: a schema of its database, with the types and the statements that only PostgreSQL has."""

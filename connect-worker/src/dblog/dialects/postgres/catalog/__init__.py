"""Queries of the system catalogs, and the statements that read rows of tables."""

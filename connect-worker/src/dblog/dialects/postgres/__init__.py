"""PostgreSQL: pgoutput from a replication slot, chunks by COPY, schemas from Relation messages and
the catalog.
"""

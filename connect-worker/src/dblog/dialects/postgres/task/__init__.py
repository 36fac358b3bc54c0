"""Implementation of a source task for PostgreSQL, as readers/contract.py requires it."""

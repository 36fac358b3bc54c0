"""Modes of a table: mirror (SCD1), history (SCD2) and append (list of changes)."""

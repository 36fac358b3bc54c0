"""Applies raw records to one table, by its mode, and quarantines those that cannot be applied."""

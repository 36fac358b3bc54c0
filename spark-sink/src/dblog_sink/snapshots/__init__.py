"""Consistent snapshots: the Delta versions of all tables that belong together."""

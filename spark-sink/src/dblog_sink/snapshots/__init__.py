"""Consistent snapshots: which versions of all tables belong together, published in the manifest."""

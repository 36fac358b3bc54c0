"""One file per way of keeping a table: mirror (SCD1) and changelog (tables without a key)."""

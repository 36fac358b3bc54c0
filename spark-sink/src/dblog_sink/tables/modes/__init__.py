"""One file per way of keeping a table: mirror (SCD1), history (SCD2) and append (the list of changes)."""

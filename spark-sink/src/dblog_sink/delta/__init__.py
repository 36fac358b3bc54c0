"""Delta Lake and Spark: sessions, transactions, merges, tombstones, and file skipping."""

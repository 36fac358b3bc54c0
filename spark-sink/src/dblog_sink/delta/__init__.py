"""Delta Lake and Spark: sessions, transactions, merges, tombstones, and which files hold what."""

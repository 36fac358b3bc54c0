"""The sink's own state beside the tables: the control table, the lease, small files, and the steps where a crash may fall."""

"""PostgreSQL: its log by pgoutput, its catalog, its types and its SQL."""

"""The sink's options: what each is, the job's, and what the configuration sets for each table."""

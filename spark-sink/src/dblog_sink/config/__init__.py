"""The sink's options: their declarations, and the settings of the job and of each table."""

"""The life of one task: its start, its parts put together, its end, and what it shows of itself."""

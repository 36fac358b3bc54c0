"""From a source's log and tables to batches of finished records: threads and waiting live here, rules live in core."""

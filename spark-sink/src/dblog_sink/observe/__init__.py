"""Reports of the job: progress lines, metrics, logs and traces."""

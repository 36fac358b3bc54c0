"""What the job reports of itself: progress lines, metrics and logs."""

"""What the job reports of itself: progress lines and metrics."""

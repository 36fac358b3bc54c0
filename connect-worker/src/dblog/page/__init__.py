"""The worker's web page."""

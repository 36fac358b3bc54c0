"""The herder process: what the cluster should do, who does it, and what became of it."""

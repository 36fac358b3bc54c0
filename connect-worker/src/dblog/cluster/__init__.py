"""The herder process: decides what should run, keeps it running, and records its states."""

"""The job: built, run, stopped, and what a person asks of it while it runs."""

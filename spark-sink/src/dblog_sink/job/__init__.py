"""The job: building, running and stopping it, and carrying out commands while it runs."""

"""The task process: polls a source task, sends its records, and commits its offsets once they are acknowledged."""

"""The task process: polls a source task, sends its records, and commits its offsets after
acknowledgement.
"""

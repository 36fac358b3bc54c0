"""Turns a source's log and tables into batches of finished records. Threads and waiting are here; the
rules are in core.
"""

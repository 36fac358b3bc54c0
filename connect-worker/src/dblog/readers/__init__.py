"""Turns a source's log and tables into batches of finished records. Threads and waiting are in
here; the rules are in core.
"""

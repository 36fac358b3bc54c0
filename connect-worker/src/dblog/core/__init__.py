"""The rules that need no socket, no thread and no clock: windows, dump states, timeline, ledger,
backoff.
"""

"""The demo: copies a small shop under writes to Delta through real servers, and compares both ends.

``make demo`` runs it. It imports no code of the worker or the sink, but starts them as a user does.
The comparison at the end reads both ends independently, so that a fault shared by worker and sink
cannot hide.
"""

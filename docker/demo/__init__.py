"""A small shop under writes, copied into Delta by the real worker and the real sink through real servers, and proof that both ends agree.

Run by ``make demo``. Nothing here imports the worker's or the sink's code: they are started as a user starts them, and the comparison
at the end reads both ends for itself, so that a mistake shared by worker and sink cannot hide.
"""

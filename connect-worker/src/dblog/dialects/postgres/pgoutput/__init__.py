"""Decoding of the log that pgoutput writes: messages, positions, offsets, rows. Pure."""

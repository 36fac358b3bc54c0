"""The log as pgoutput writes it: messages, positions, offsets, rows. Pure."""

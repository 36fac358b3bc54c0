"""The binlog: its events, positions, table maps and row images, and the reference implementation of
the compiled decoder. No I/O.
"""

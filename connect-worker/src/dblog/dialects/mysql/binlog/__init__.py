"""The binlog: its events, positions, table maps and row images; the compiled decoder beside its reference implementation. No I/O."""

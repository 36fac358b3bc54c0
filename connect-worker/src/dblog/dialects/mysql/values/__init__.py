"""Bytes of columns as values: types, character sets, decimals, JSON. No I/O."""

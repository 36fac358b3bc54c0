"""The conversion of column bytes to values: types, charsets, decimals, JSON. No I/O."""

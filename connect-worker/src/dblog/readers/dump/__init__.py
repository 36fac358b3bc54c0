"""The dumps of one task: threads that read chunks, windows, rows on their way out, and the pace of reading."""

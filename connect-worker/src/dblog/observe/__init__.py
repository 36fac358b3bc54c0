"""Log lines, metrics and traces for operators."""

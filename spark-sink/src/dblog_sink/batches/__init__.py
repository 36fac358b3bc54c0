"""Micro-batches: records are applied at once, or land and are merged later."""

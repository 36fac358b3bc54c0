"""A value that the column's schema has no room for: NaN in a decimal, an array of two dimensions, a nanosecond count beyond 64 bits."""

from __future__ import annotations


class InexpressibleError(Exception):
    """Says why, and what helps; never the value. ``ColumnPlan.unfit`` decides what becomes of the field."""

"""Defines the error for a value that the column's schema cannot express: NaN in a decimal, an array
of two dimensions, a nanosecond count beyond 64 bits.
"""

from __future__ import annotations


class InexpressibleError(Exception):
    """The schema cannot express a value. The message says why and what helps, never the value.
    ``ColumnPlan.unfit`` decides what the field becomes.
    """

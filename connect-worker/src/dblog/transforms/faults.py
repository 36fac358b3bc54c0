"""Defines the error of a transform that cannot handle a record."""

from __future__ import annotations


class RecordError(Exception):
    """A record that a transform or a converter cannot handle. ``errors.tolerance`` decides what
    follows.

    The text names fields and types, and never a value: it reaches the log and the status.
    """

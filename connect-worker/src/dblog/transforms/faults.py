"""Defines the error of a transform or a converter that cannot handle a record."""

from __future__ import annotations

TRANSFORMATION, KEY_CONVERTER, VALUE_CONVERTER = "TRANSFORMATION", "KEY_CONVERTER", "VALUE_CONVERTER"
"""Kafka Connect's names of the stages in which a record may fail."""


class RecordError(Exception):
    """A record that a transform or a converter cannot handle. ``errors.tolerance`` decides what
    follows.

    The text names fields and types, and never a value: it reaches the log and the status.
    """

    stage = TRANSFORMATION
    """Stage in which the record failed."""
    class_name = ""
    """Class of the transform or converter, as the configuration names it; empty if it is neither."""


class ConverterError(RecordError):
    """A key or value that its converter cannot write."""

    def __init__(self, message: str, *, stage: str, class_name: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.class_name = class_name

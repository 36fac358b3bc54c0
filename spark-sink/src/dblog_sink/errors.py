"""Classes of failures: those that may pass, and those that need a person.

They match the worker's ``dblog.errors``; the two packages never import each other. The message of a
``DefiniteError`` names the thing, the reason and the remedy, and never a row value or a secret.
"""

from __future__ import annotations


class SinkError(Exception):
    """The base of every error that the sink raises on purpose."""


class TransientError(SinkError):
    """A failure for which a retry may help: the registry or brokers are unavailable, or another
    writer committed in between.
    """


class AwayError(TransientError):
    """A failure of something that every table needs: the registry or the brokers.

    It parks no table.
    """


class DefiniteError(SinkError):
    """A failure for which no retry helps. The message names the fault, the place and the remedy."""


class ParkError(DefiniteError):
    """A failure that parks the table until a person acts, whatever its policy; other tables
    go on.
    """


class ConfigError(DefiniteError):
    """A configuration that cannot be accepted, with one message for each faulty key."""

    def __init__(self, errors: dict[str, str]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{key}: {text}" for key, text in errors.items()))

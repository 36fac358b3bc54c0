"""Which failures of the sink may pass by themselves, and which need a person.

The same three classes as the worker's ``dblog.errors``; the two packages never import each other. The message of a ``DefiniteError`` names
the thing, the reason and the remedy, and never a row value or a secret.
"""

from __future__ import annotations


class SinkError(Exception):
    """The base of every error that the sink raises on purpose."""


class TransientError(SinkError):
    """Trying again may help: the registry or the brokers are away, another writer committed in between."""


class AwayError(TransientError):
    """What every table needs is away: the registry, the brokers. No table is to blame, so none is parked."""


class DefiniteError(SinkError):
    """Trying again cannot help: the message names what is wrong, where, and what to do."""


class ParkError(DefiniteError):
    """The table waits for a person, whatever its policy for failures is; the others go on."""


class ConfigError(DefiniteError):
    """A configuration that cannot be accepted: one message for each key at fault."""

    def __init__(self, errors: dict[str, str]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{key}: {text}" for key, text in errors.items()))

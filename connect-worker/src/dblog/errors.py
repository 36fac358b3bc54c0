"""Which failures may pass by themselves, and which need a person.

``TransientError``: trying again may help; the runtime retries with backoff. ``DefiniteError``: it cannot; the message names the
thing, the reason and the remedy, and never a row value or a secret. Anything else, ``AssertionError`` above all, is a bug of ours
and ends the task with its trace.
"""

from __future__ import annotations


class DblogError(Exception):
    """The base of every error that dblog raises on purpose."""


class TransientError(DblogError):
    """Trying again may help: a connection lost, a broker or registry away, a lock wait timed out."""


class DefiniteError(DblogError):
    """Trying again cannot help: the message says what is wrong, where, and what to do."""


class DamagedLogError(DefiniteError):
    """An event of the log that cannot be read: a wrong checksum, or a length that does not fit. Reading it again shows whether it is so at the source."""


class BadRowsError(DefiniteError):
    """A rows event that cannot be made into records; ``event.processing.failure.handling.mode`` decides what follows. # I5"""


class ConfigError(DefiniteError):
    """A configuration that cannot be accepted: one message for each key at fault."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{key}: {text}" for key, texts in errors.items() for text in texts))

"""Classes of errors: those that may pass without help, and those that need a person.

``TransientError``: trying again may help, and the runtime retries with backoff. ``DefiniteError``:
it cannot; the message names the thing, the reason and the remedy, and never a row value or a
secret. Any other exception, above all ``AssertionError``, is our bug and ends the task with its
trace.
"""

from __future__ import annotations


class DblogError(Exception):
    """Base of every error that dblog raises on purpose."""

    discreet: str | None = None
    """Message with only the server's error number, for readers who may not see the statement that
    the server quotes. None if the message quotes no statement.
    """


def discreet(error: DblogError) -> str:
    """Return the message of an error without the text of a statement."""
    return error.discreet or str(error)


def leaves_transaction_open(number: int) -> str:
    """Return the message for an initial statement that leaves a transaction open.

    ``number`` is the position of the statement in database.initial.statements.
    """
    return (
        f"statement {number} of database.initial.statements leaves a transaction open: each statement after it has to be one of its own; leave out "
        "BEGIN, START TRANSACTION and SET autocommit"
    )


def chunk_would_write(doing: str, address: str, number: str) -> str:
    """Return the message for a chunk's SELECT that the server stopped because a function in it
    writes.

    ``number`` is the server's name of the error.
    """
    return (
        f"{doing} at {address} failed ({number}): a function in it writes, and chunks are read in a transaction that is READ ONLY; leave the function out of "
        "the condition"
    )


class TransientError(DblogError):
    """Error that another try may remove: a lost connection, an absent broker, a lock timeout."""


class NoConnectionsError(TransientError):
    """The server accepts no further connection, from anybody or from this account.

    Somebody has to end other connections, or raise the limit that the message names.
    """


class ServerChangedError(TransientError):
    """Another server answers, or the server has started its log again.

    What was kept of the log so far is worthless then. The task has to start again from its offset,
    which decides if and where it can continue.
    """


class TableChangedError(TransientError):
    """The table is not what the statement assumes; the log will show how it changed.

    Then the chunk can be read again. Waiting for that does not count as a failure, however long it
    takes.
    """


class TableLockedError(TransientError):
    """Another session has locked the table, or rows of it, and was waited for long enough.

    The server answers, so other tables may be read meanwhile.
    """


class DefiniteError(DblogError):
    """Error that no further try can remove: the message says what is wrong, where, and
    what to do.
    """


class RecordTooLargeError(DefiniteError):
    """Kafka does not accept a record of this size."""


class TableDeniedError(DefiniteError):
    """The account may not read this table. Its dump ends with the GRANT that helps; all else
    continues.
    """


class PositionLostError(DefiniteError):
    """The server no longer has the log from the stored position on.

    Only a new dump helps; snapshot.mode=when_needed starts one.
    """


LOST_REMEDY = (
    "with snapshot.mode=when_needed the connector dumps the tables again, and that dump repairs the lake; after a reset of its offsets the dump takes no rows "
    "away, so request one with mode=repair then"
)
"""Remedy named by the errors of a lost position."""


class UnknownKeyError(DefiniteError):
    """A key that does not match the known definition of its table, which has changed since or was
    different before.
    """


class RowsMovedError(DblogError):
    """Rows that are read by their place were moved, so nothing read so far bounds the rest of the
    table.
    """


class DamagedLogError(DefiniteError):
    """An event of the log that cannot be read: a wrong checksum, or a length that does not fit.

    Reading it again shows if the source itself is damaged. ``event_at`` is (file, position) of a
    rows event or table map, which can be skipped without harm to other tables. It is None for any
    other event: without a statement, a GTID or the end of a transaction, later events would be
    misread.
    """

    def __init__(self, message: str, *, event_at: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.event_at = event_at


class BadRowsError(DefiniteError):
    """A rows event that cannot be made into records. # I5

    ``event.processing.failure.handling.mode`` or ``event.deserialization.failure.handling.mode``
    decides what follows.
    """


class ConfigError(DefiniteError):
    """A configuration that cannot be accepted, with messages for each option at fault."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{key}: {text}" for key, texts in errors.items() for text in texts))

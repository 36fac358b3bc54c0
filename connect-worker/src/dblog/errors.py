"""Which failures may pass by themselves, and which need a person.

``TransientError``: trying again may help; the runtime retries with backoff. ``DefiniteError``: it cannot; the message names the
thing, the reason and the remedy, and never a row value or a secret. Anything else, ``AssertionError`` above all, is a bug of ours
and ends the task with its trace.
"""

from __future__ import annotations


class DblogError(Exception):
    """The base of every error that dblog raises on purpose."""

    discreet: str | None = None
    """Of a server's error that may quote its statement: the same with the error's number alone, for statements that not everybody may read."""


def discreet(error: DblogError) -> str:
    """What may be told of an error of such a statement."""
    return error.discreet or str(error)


def leaves_transaction_open(number: int) -> str:
    """Return what to say of a statement of database.initial.statements after which not every statement is a transaction of its own."""
    return (
        f"statement {number} of database.initial.statements leaves a transaction open: each statement after it has to be one of its own; leave out "
        "BEGIN, START TRANSACTION and SET autocommit"
    )


def chunk_would_write(doing: str, address: str, number: str) -> str:
    """Return what to say where the server stops a chunk's SELECT since something in it writes; ``number``: the server's name for the error."""
    return (
        f"{doing} at {address} failed ({number}): a function in it writes, and chunks are read in a transaction that is READ ONLY; leave the function out of "
        "the condition"
    )


class TransientError(DblogError):
    """Trying again may help: a connection lost, a broker or registry away, a lock wait timed out."""


class NoConnectionsError(TransientError):
    """The server takes no further connection, of anybody or of this account: somebody has to end others, or to raise the limit that the message names."""


class ServerChangedError(TransientError):
    """Another server answers, or the server has begun its log again. What is held of the log read so far means nothing there: the task has to start again
    from its offset, which decides whether and where it can go on.
    """


class TableChangedError(TransientError):
    """The table is not what the statement supposes: the log will show how it has changed, then the chunk can be read again. However long that takes, it is no
    trouble.
    """


class DefiniteError(DblogError):
    """Trying again cannot help: the message states what is wrong, where, and what to do."""


class RecordTooLargeError(DefiniteError):
    """Kafka does not take a record of this size."""


class TableDeniedError(DefiniteError):
    """The account may not read this table: its dump ends with the GRANT that helps, and everything else goes on."""


class PositionLostError(DefiniteError):
    """The server does not have the log from the stored position on: only a new dump helps (snapshot.mode=when_needed starts one)."""


LOST_REMEDY = (
    "with snapshot.mode=when_needed the connector dumps the tables again, and that dump repairs the lake; after a reset of its offsets the dump takes no rows "
    "away, so request one with mode=repair then"
)
"""The way out that the errors of a lost position name."""


class UnknownKeyError(DefiniteError):
    """A key that the table's definition, as it is known, does not hold: the table has another one by now, or had another one then."""


class RowsMovedError(DblogError):
    """Rows that are read by their place are in other places by now: what was read of the table bounds nothing any more."""


class DamagedLogError(DefiniteError):
    """An event of the log that cannot be read: a wrong checksum, or a length that does not fit. Reading it again shows whether it is so at the source.

    ``event_at`` (file, position) is that of a rows event or table map, which can be passed over without harm to any other table; None for all other events:
    without a statement, a GTID or a transaction's end, what follows would be read wrongly.
    """

    def __init__(self, message: str, *, event_at: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.event_at = event_at


class BadRowsError(DefiniteError):
    """A rows event that cannot be made into records; ``event.processing.failure.handling.mode`` decides what follows, and so does
    ``event.deserialization.failure.handling.mode``. # I5
    """


class ConfigError(DefiniteError):
    """A configuration that cannot be accepted: one message for each key at fault."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{key}: {text}" for key, texts in errors.items() for text in texts))

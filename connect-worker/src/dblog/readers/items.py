"""Items that a source's log yields, for any database: finished rows, and the few things that need a
decision.

A dialect's log reader yields them in the order of the log (``readers/contract.py``). An item's
``position`` is the dialect's own value for the position after the item. The reader layer hands it
back to the dialect's ``Progress`` and never looks inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dblog.codecs.plan import RowContext
    from dblog.codecs.rowplan import RowEncoder
    from dblog.codecs.schema import Schema
    from dblog.codecs.transactions import TransactionBorder
    from dblog.core.timeline import Position
    from dblog.core.watermark import WatermarkPosition
    from dblog.errors import DefiniteError
    from dblog.model import Headers, TableId

Keys = AbstractSet[bytes]
"""Encoded keys of rows."""


class IgnoredForNow:
    """Result instead of an encoder: drop the rows for now, and ask again at the table's next event.

    The rule that ignores the rows ends at some position.
    """


IGNORED_FOR_NOW = IgnoredForNow()


class RowsParked:
    """Result instead of an encoder: the table is parked, so its rows are skipped.

    The reader layer watches for the statement or position that ends this.
    """


ROWS_PARKED = RowsParked()


@dataclass(slots=True, kw_only=True)
class LogCounts:
    """Counts of a log connection since it was opened, for metrics. An event may hold many rows."""

    bytes: int = 0
    """Bytes of the log's events without heartbeats; of an incomplete event, the part
    that arrived.
    """
    created: int = 0
    """Rows of captured tables."""
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    """Rows dropped by ``skip.messages.without.change``."""
    other_tables: int = 0
    """Events of tables that are not captured, or before the position where they joined."""
    other_sources: int = 0
    """Events of transactions whose source the GTID filters exclude."""
    skipped_operations: int = 0
    """Events dropped by ``skipped.operations``."""
    parked: int = 0
    """Events of parked tables."""
    commits: int = 0
    rollbacks: int = 0

    def plus(self, other: LogCounts) -> LogCounts:
        """Return the sums of both objects' counts."""
        return LogCounts(**{name: getattr(self, name) + getattr(other, name) for name in LogCounts.__slots__})


@dataclass(slots=True, kw_only=True)
class LogRows:
    """Finished records of a stretch of the log: one segment per encoder, in the order of first use.

    Rows of one topic keep their order, whatever their tables: if several encoders write to a topic,
    each change between them begins a segment. Rows of different topics in one item do not show
    which came first. ``position`` is the position after the last event; an item without segments
    only moves it. ``borders`` are the transactions that begin and end in the stretch, in log order,
    if they are reported; ``records`` counts each as one, ``bytes`` does not count them.
    """

    segments: list[tuple[RowEncoder, list[bytes | None], list[bytes | None], dict[int, Headers]]]
    records: int
    bytes: int
    source_ts_us: int | None
    position: Any
    borders: tuple[TransactionBorder, ...] = ()
    moves: bool = True
    """False if the rows are of an incomplete event or were read before: a restart must not begin at
    ``position``.
    """
    lacking: Mapping[TableId, Keys] = field(default_factory=dict)
    """Keys of rows whose records lack values, because the log does not contain them."""


@dataclass(slots=True, kw_only=True)
class Moved:
    """A new position and nothing else."""

    position: Any


@dataclass(slots=True, kw_only=True)
class Statement:
    """A schema change that the log contains as a statement.

    ``statement`` is the dialect's own form of it, for its ``SchemaSource``.
    """

    statement: Any
    text: str
    database: str
    """Default database, "" if there is none."""
    valid_from: Position
    """Position from which the changes hold, as sequence numbers (D7)."""
    position: Any
    begin: Any
    """Position where a second reader of the log would find what follows the statement."""
    note: dict[str, object]
    """Position for people, stored with the table versions in the history."""
    where: str
    """Position of the statement, for messages."""
    source: RowContext
    """Context for the source block of records about the statement."""
    moves: bool = True


@dataclass(slots=True, kw_only=True)
class Watermarks:
    """Rows of the watermark table: (name, token) of each, in order."""

    rows: tuple[tuple[str, str], ...]
    at: WatermarkPosition
    position: Any
    moves: bool = True


@dataclass(slots=True, kw_only=True)
class Signals:
    """Rows of a signal table: (id, type, data) of each, in order. ``fault`` says why they could not
    be read.
    """

    rows: tuple[tuple[str | None, str | None, str | None], ...]
    at: WatermarkPosition
    position: Any
    moves: bool = True
    fault: str | None = None


@dataclass(slots=True, kw_only=True)
class OtherRecord:
    """A record of the log that belongs to no table, such as a logical message.

    Its topic is ``<prefix>.<suffix>``; its partition is left to the producer. ``way_out`` says what
    lets the connector continue without the record if it is too large for Kafka.
    """

    suffix: str
    key_schema: Schema
    key: dict[str, Any]
    value_schema: Schema
    value: dict[str, Any]
    position: Any
    moves: bool = True
    way_out: str = ""


@dataclass(slots=True, kw_only=True)
class Held:
    """An item that lists every table whose logged changes no SELECT can see yet.

    From this item on, no dump window of these tables may be open. # I2
    """

    tables: frozenset[TableId]
    reason: str


@dataclass(slots=True, kw_only=True)
class OnlyByDump:
    """Tables whose rows only a dump can bring; ``tables`` None means every captured table.

    ``behind`` is the position where the log shows the need; an order given after it serves this one
    too. ``repairs`` is True if rows were sent that the tables do not have, so that the dump has to
    be a repair.
    """

    tables: Iterable[TableId] | None
    reason: str
    behind: Position | None = None
    repairs: bool = False


@dataclass(slots=True, kw_only=True)
class Unusable:
    """Part of the log from which no right record can be made.

    The reader layer either stops the task, or asks for the next item to skip this one. ``decoded``
    is False if the bytes could not be read: then the option for deserialization failures also
    allows skipping. # I5
    """

    error: DefiniteError
    decoded: bool = True


LogItem = LogRows | Moved | Statement | Watermarks | Signals | OtherRecord | Held | OnlyByDump | Unusable

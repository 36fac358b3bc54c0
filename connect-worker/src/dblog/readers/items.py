"""What a source's log gives, whatever the database: finished rows, and the few things that need a
decision.

A dialect's log reader yields these in the order of the log (``readers/contract.py``). A
``position`` in an item is the dialect's own value for where the log stands behind the item: the
reader layer hands it back to the dialect's ``Progress``, and never looks inside.
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
    """Instead of an encoder: the table's rows are passed over, and its next ones are asked about again, for the rule ends at a position."""


IGNORED_FOR_NOW = IgnoredForNow()


class RowsParked:
    """Instead of an encoder: the table is parked, and its rows are passed over until a statement or a position that the reader layer watches for."""


ROWS_PARKED = RowsParked()


@dataclass(slots=True, kw_only=True)
class LogCounts:
    """What a connection's reader has met since it was opened, for metrics. An event holds any number of rows."""

    bytes: int = 0
    """Of the log's events, heartbeats left out; of one that has not arrived whole, what is there."""
    created: int = 0
    """Rows of captured tables."""
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    """Rows left out by ``skip.messages.without.change``."""
    other_tables: int = 0
    """Events of tables that are not captured, or in front of the position where they joined."""
    other_sources: int = 0
    """Events of transactions whose source the GTID filters leave out."""
    skipped_operations: int = 0
    """Events that ``skipped.operations`` leaves out."""
    parked: int = 0
    """Events of parked tables."""
    commits: int = 0
    rollbacks: int = 0

    def plus(self, other: LogCounts) -> LogCounts:
        """Both together."""
        return LogCounts(**{name: getattr(self, name) + getattr(other, name) for name in LogCounts.__slots__})


@dataclass(slots=True, kw_only=True)
class LogRows:
    """Finished records of a stretch of the log: one segment for each encoder, in the order of first use.

    Rows of one topic keep their order, whatever tables they are of: where several encoders write into a topic, each change between them begins a
    segment. Rows of different topics within an item do not show which came first. ``position`` is the offset after the last event of the stretch. An
    item without segments only moves the position. ``borders``: the transactions that begin and end in the stretch, in log order, where they are
    reported; ``records`` counts one for each, ``bytes`` none.
    """

    segments: list[tuple[RowEncoder, list[bytes | None], list[bytes | None], dict[int, Headers]]]
    records: int
    bytes: int
    source_ts_us: int | None
    position: Any
    borders: tuple[TransactionBorder, ...] = ()
    moves: bool = True
    """False: rows of an event that is not complete yet, or that was read before; a restart must not begin at ``position``."""
    lacking: Mapping[TableId, Keys] = field(default_factory=dict)
    """Keys of rows of which some record here has not all values, for the log does not have them."""


@dataclass(slots=True, kw_only=True)
class Moved:
    """Nothing but a new position."""

    position: Any


@dataclass(slots=True, kw_only=True)
class Statement:
    """A schema change that the log holds as a statement. ``statement`` is the dialect's own form of it, for its ``SchemaSource``."""

    statement: Any
    text: str
    database: str
    """The default database, "" for none."""
    valid_from: Position
    """Where its changes hold, in D7's numbers."""
    position: Any
    begin: Any
    """Where a second reader of the log would begin to find what follows the statement."""
    note: dict[str, object]
    """Kept beside the table versions in the history, for people."""
    where: str
    """For messages: the statement's position in the log."""
    source: RowContext
    """For the source block of records about it."""
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
    """Rows of a signal table: (id, type, data) of each, in order; ``fault``: why they could not be read."""

    rows: tuple[tuple[str | None, str | None, str | None], ...]
    at: WatermarkPosition
    position: Any
    moves: bool = True
    fault: str | None = None


@dataclass(slots=True, kw_only=True)
class OtherRecord:
    """A record of the log that is of no table, such as a logical message. Its topic is ``<prefix>.<suffix>``, partition 0 is not asked for.

    ``way_out``: what lets the connector go on without it, where it is too large for Kafka.
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
    """From here on these tables, and no others, have changes in the log that no SELECT can see yet: no window of them may be open. # I2"""

    tables: frozenset[TableId]
    reason: str


@dataclass(slots=True, kw_only=True)
class OnlyByDump:
    """Rows that only a dump can bring, of these tables or (None) of every captured one.

    ``behind``: where the log shows the need; an order that was given behind that position serves for this one, too. ``repairs``: rows were sent that
    the tables do not have, so the dump has to be a repair.
    """

    tables: Iterable[TableId] | None
    reason: str
    behind: Position | None = None
    repairs: bool = False


@dataclass(slots=True, kw_only=True)
class Unusable:
    """Something in the log of which no right record can be made. The reader layer stops the task, or asks for the next item, and the dialect goes on behind it.

    ``decoded`` False: its bytes could not be read, so the option for what cannot be deserialized allows skipping, too. # I5
    """

    error: DefiniteError
    decoded: bool = True


LogItem = LogRows | Moved | Statement | Watermarks | Signals | OtherRecord | Held | OnlyByDump | Unusable

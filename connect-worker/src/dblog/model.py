"""The types every part shares: tables, columns, and a batch of finished records.

Values only: no I/O, no rules. A ``Table`` is one version of one source table; ``Batch`` is what travels through the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OffsetMap = Mapping[str, str | int | float | bool | None]
"""A source offset as Kafka Connect stores it: flat, primitives only (Connect's OffsetUtils.validateFormat)."""

Headers = list[tuple[str, bytes | None]]
"""Record headers in the order they are written."""


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's full name as the server spells it."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Written:
    """Length and default of a column in the text of its statement (``INT DEFAULT 1.0``) where the server prints ``int(11)`` and ``1``.

    It changes no row; records of schema changes repeat it as Debezium's do.
    """

    length: int | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of one table version, in the terms of information_schema.COLUMNS.

    ``type`` is DATA_TYPE in lower case (``int``, ``varchar``, ``datetime``, ``tinyint``, ...); ``type_text`` is COLUMN_TYPE
    (``int(10) unsigned``, ``enum('a','b')``). ``length`` means: characters for char and varchar, bytes for binary and varbinary, bits
    for bit, precision for decimal, fraction digits (0..6) for time, datetime and timestamp, display width for integers if given.
    ``scale`` is the decimal's (or float(M,D)'s) scale. ``default`` is the literal without quotes, or the expression's text when
    ``default_is_expression``; None with ``has_default`` means DEFAULT NULL.
    """

    name: str
    type: str
    type_text: str
    nullable: bool
    unsigned: bool = False
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    collation: str | None = None
    members: tuple[str, ...] = ()
    has_default: bool = False
    default: str | None = None
    default_is_expression: bool = False
    auto_increment: bool = False
    generated: bool = False
    invisible: bool = False
    hidden: bool = False
    """In the log's image only: no SELECT can name it and no record has it (MariaDB's hash of a UNIQUE text)."""
    comment: str | None = None
    number: int | None = None
    """The server's own (attnum), which the column keeps under another name, and no other column of the table gets; None where the server has none."""
    filled: bool = field(default=False, compare=False)
    """Rows that were there before the column came may have a value in it, and nothing else shows that (PostgreSQL's attmissingval, its lists of columns)."""
    unread: bool = field(default=False, compare=False)
    """No record has it, so chunks have NULL in its place: the account needs no privilege for it."""
    written: Written | None = field(default=None, compare=False)
    """None: as the server prints it. Left out of comparisons: the same rows, the same schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One index of a table: its name and columns in index order. ``PRIMARY`` is the primary key's name.

    ``partial``: unique, and some column takes part with a prefix only. ``columns`` leaves out functional parts, and ``functional`` shows that there are some.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool
    partial: bool = False
    functional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One version of a table: columns in ordinal order, and the names of its key columns in key order.

    ``key`` is the primary key, else the first unique index whose columns are all NOT NULL, else empty (Debezium's rule).
    ``primary_key`` shows whether ``key`` is the real primary key.
    """

    id: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    primary_key: bool = True
    charset: str | None = None
    comment: str | None = None
    collation: str | None = None
    indexes: tuple[Index, ...] = ()
    """Every index in the server's order: what a later ALTER needs to find which columns become the key."""
    number: int | None = None
    """The server's own, which a table keeps under another name, and no other table gets; None where the log does not have it."""
    partitioned: bool = False
    """Its rows are those of its partitions, which are tables of the server's, and none of the connector's."""
    attached: tuple[str, ...] = ()
    """Which of them were tables of their own, with rows, before they were attached: the server's number and place of each. Attached again, one has another."""
    unfilled: frozenset[str] = field(default=frozenset(), compare=False)
    """Those of ``attached`` that had no row when that was asked."""
    file: int | None = field(default=None, compare=False)
    """What the server keeps the rows in: another number once it has written all of them anew. None where that is not known, or there is more than one."""
    large_values: int | None = field(default=None, compare=False)
    """The number of the server's table for its large values: another one with other files, except where TRUNCATE made these (PostgreSQL's TOAST)."""
    published_by: tuple[str, ...] = field(default=(), compare=False)
    """The entries of the catalog that have the log show the table's rows under its name, each as text with the transactions that wrote it (PostgreSQL's
    publications). Empty where there are none, or they are not known."""
    partitions: tuple[int, ...] = field(default=(), compare=False)
    """The numbers of the server's tables, in order, that have its rows, where it is partitioned. Empty where there are none, or they are not known."""
    columns_written_by: tuple[str, ...] = field(default=(), compare=False)
    """The transactions that wrote the catalog's rows of the table's columns: attaching the table as a partition, and detaching it, writes all of them anew.
    Empty where rows of partitions come under their own names, or that is not known."""

    def column(self, name: str) -> Column | None:
        """The column of that name, compared without case as MySQL does."""
        lowered = name.lower()
        return next((c for c in self.columns if c.name.lower() == lowered), None)


@dataclass(slots=True, eq=False)
class Segment:
    """Finished records of one topic, in log order; parallel lists, ``values[i] is None`` is a tombstone.

    ``table`` names the source table (None for markers, heartbeats and schema changes), ``headers`` holds the extra headers of the few
    records that have any, by index. ``partition`` is set only where the contract fixes it (0 for heartbeat and schema-change topics).
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    table: TableId | None = None
    headers: dict[int, Headers] = field(default_factory=dict)
    partition: int | None = None
    context_headers: bool = True


@dataclass(slots=True, eq=False)
class Batch:
    """A unit of the queue, the sender and the ledger: segments, and how far the source has come once all of them are acknowledged.

    ``step`` is opaque to the runtime: it hands the steps of the acknowledged prefix, in order, to the task's ``OffsetFold``. # I1
    ``bytes_total`` is the sum of key and value lengths, ``source_ts_us`` the source time of the newest record, for lag, ``queued_at_ns`` when its
    reader had finished it (0: it was never queued).
    """

    segments: list[Segment]
    step: object
    records_total: int
    bytes_total: int
    source_ts_us: int | None = None
    queued_at_ns: int = 0

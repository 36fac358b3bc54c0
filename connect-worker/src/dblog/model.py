"""The types that all parts share: tables, columns, and batches of finished records.

They are plain values, without I/O or rules. A ``Table`` is one version of a source table; a
``Batch`` is what the queue carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OffsetMap = Mapping[str, str | int | float | bool | None]
"""A source offset as Kafka Connect stores it: flat, primitives only (Connect's
OffsetUtils.validateFormat).
"""

Headers = list[tuple[str, bytes | None]]
"""Record headers in the order in which they are written."""


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """Full name of a table, spelled as on the server.

    ``database`` is the schema on PostgreSQL.
    """

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Written:
    """Length and default of a column as its statement spells them, if the server prints them
    differently.

    For ``INT DEFAULT 1.0`` the server prints ``int(11)`` and ``1``. The spelling changes no row;
    records of schema changes repeat it, as Debezium's do.
    """

    length: int | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of one table version, in the terms of information_schema.COLUMNS.

    ``type`` is DATA_TYPE in lower case (``int``, ``varchar``, ``datetime``, ...); ``type_text`` is
    COLUMN_TYPE (``int(10) unsigned``, ``enum('a','b')``). ``length`` is in characters for char and
    varchar, bytes for binary and varbinary, bits for bit; it is the precision of decimal, the
    fraction digits (0..6) of time, datetime and timestamp, and the display width of integers if
    given. ``scale`` is that of decimal and float(M,D). ``default`` is the literal without quotes,
    or the expression's text if ``default_is_expression``; None with ``has_default`` means DEFAULT
    NULL.
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
    """True if the column is only in the log's row image: no SELECT can name it, and no record
    contains it (MariaDB's hash of a UNIQUE text).
    """
    comment: str | None = None
    number: int | None = None
    """Column number of the server (attnum), which survives a rename and is never reused in the
    table. None if the server has no such numbers.
    """
    filled: bool = field(default=False, compare=False)
    """True if rows older than the column may have a value in it that no event shows (PostgreSQL's
    attmissingval, or a publication's list of columns).
    """
    unread: bool = field(default=False, compare=False)
    """True if no record contains the column: chunks read NULL instead, so the account needs no
    privilege for it.
    """
    written: Written | None = field(default=None, compare=False)
    """Spelling in the statement; None if the server prints the same. Not compared, because rows and
    schema are the same.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index of a table: its name, and its columns in index order. The primary key is
    ``PRIMARY``.

    ``partial`` is True if it is unique and some column takes part with only a prefix. ``columns``
    lacks functional parts; ``functional`` is True if there are any.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool
    partial: bool = False
    functional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A version of a table: columns in ordinal order, key columns in key order.

    ``key`` is the primary key, else the first unique index whose columns are all NOT NULL, else
    empty (Debezium's rule). ``primary_key`` is True if ``key`` is the real primary key.
    """

    id: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    primary_key: bool = True
    charset: str | None = None
    comment: str | None = None
    collation: str | None = None
    indexes: tuple[Index, ...] = ()
    """Indexes of the table in the server's order. A later ALTER needs them to find the columns of
    the new key.
    """
    number: int | None = None
    """Table number of the server (OID), which survives a rename and belongs to no other table. None
    if the log does not contain it.
    """
    partitioned: bool = False
    """True if the rows are stored in partitions, which are tables on the server but not of the
    connector.
    """
    attached: tuple[str, ...] = ()
    """Partitions that were tables with rows before ATTACH PARTITION, as ``<oid>:<place>``. A
    partition that is attached again gets another entry.
    """
    unfilled: frozenset[str] = field(default=frozenset(), compare=False)
    """Entries of ``attached`` whose partition had no row when the server was asked."""
    file: int | None = field(default=None, compare=False)
    """File number of the rows (PostgreSQL's relfilenode), which changes when the server rewrites
    the table. None if unknown, or if there are several files.
    """
    large_values: int | None = field(default=None, compare=False)
    """OID of the table's TOAST table, which stores its large values. It changes with the table's
    files, except after TRUNCATE. None if unknown or absent.
    """
    published_by: tuple[str, ...] = field(default=(), compare=False)
    """Catalog entries by which the log shows the table's rows under its name (PostgreSQL's
    publications), each with the transactions that wrote it. Empty if there are none, or they are
    unknown.
    """
    partitions: tuple[int, ...] = field(default=(), compare=False)
    """OIDs of the partitions that store the rows, in order. Empty if the table is not partitioned,
    or they are unknown.
    """
    columns_written_by: tuple[str, ...] = field(default=(), compare=False)
    """Transactions that wrote the catalog's rows of the columns. Attaching the table as a
    partition, or detaching it, writes all of these rows again. Empty if unknown, or if rows of
    partitions come under the partitions' own names.
    """

    def column(self, name: str) -> Column | None:
        """Return the column of this name, ignoring case as MySQL does, or None."""
        lowered = name.lower()
        return next((c for c in self.columns if c.name.lower() == lowered), None)


@dataclass(slots=True, eq=False)
class Segment:
    """Finished records of one topic in log order, as parallel lists; a value of None is a
    tombstone.

    ``table`` is the source table, None for markers, heartbeats and schema changes. ``headers`` maps
    the index of a record to its extra headers; few records have any. ``partition`` is set only if
    the contract fixes it (0 for heartbeat and schema-change topics). ``way_out`` says what helps
    against a record that is too large for Kafka, other than more room; empty if nothing does.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    table: TableId | None = None
    headers: dict[int, Headers] = field(default_factory=dict)
    partition: int | None = None
    context_headers: bool = True
    way_out: str = ""
    schemas: tuple[Any, Any] | None = None
    """Schemas of key and value if a chain of transforms has not seen the records yet; their bytes
    are Avro without frame then. None for finished records.
    """


@dataclass(slots=True, eq=False)
class Batch:
    """Unit of the queue, the sender and the ledger: segments, and the progress that they represent.

    ``step`` moves the offset once all records are acknowledged. The runtime does not look into it,
    but passes the steps of the acknowledged prefix to the task's ``OffsetFold``, in order. # I1
    ``bytes_total`` is the length of all keys and values, ``source_ts_us`` the source time of the
    newest record (for lag), ``queued_at_ns`` the time when the reader finished the batch, 0 if it
    was never queued.
    """

    segments: list[Segment]
    step: object
    records_total: int
    bytes_total: int
    source_ts_us: int | None = None
    queued_at_ns: int = 0

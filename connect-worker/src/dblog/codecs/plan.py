"""What a row plan knows about a column: where the bytes come from, and what they become.

A dialect's ``types.py`` makes one ``ColumnPlan`` a column; the reference implementation (rowplan.py) and the extension (_fast.pyx) carry it out with
byte-identical results. Nothing here is asked per row: plans are compiled once for each table version and converter configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from dblog.codecs.rewrites import Rewrite
from dblog.codecs.schema import Schema
from dblog.codecs.transactions import TransactionOrder
from dblog.model import Table


class Source(IntEnum):
    """How the source writes the value; binlog image and binary result set share the code where the type is the same."""

    INT8 = 1
    INT16 = 2
    INT24 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    YEAR = 9
    DATE = 10
    TIME = 11
    """TIME2 in the binlog (big-endian, fraction by fsp); length-prefixed in a binary result set."""
    DATETIME = 12
    TIMESTAMP = 13
    """TIMESTAMP2 in the binlog is UTC seconds; the chunk session runs with time_zone '+00:00'."""
    BIT = 14
    TEXT = 15
    """CHAR, VARCHAR and TEXT kinds; the binlog in the column's charset, the result set in utf8mb4."""
    BINARY = 16
    """BINARY, VARBINARY and BLOB kinds."""
    ENUM = 17
    SET = 18
    JSON = 19
    """MySQL's binary JSON in the binlog, text in the result set."""
    GEOMETRY = 20
    VECTOR = 21
    UUID = 22
    """MariaDB uuid: 16 bytes in its storage order in the binlog, text in the result set."""
    INET4 = 23
    INET6 = 24
    TIME_OLD = 25
    DATETIME_OLD = 26
    TIMESTAMP_OLD = 27


class Form(IntEnum):
    """What the value becomes, in Connect's value space."""

    INT = 1
    """int8, int16, int32 and int64 alike: Avro writes all as zigzag varint."""
    BOOLEAN = 2
    FLOAT32 = 3
    FLOAT64 = 4
    TEXT = 5
    BYTES = 6
    BASE64 = 7
    BASE64_URL = 8
    HEX = 9
    DECIMAL = 10
    """Connect Decimal: big-endian two's complement of the unscaled value, shortest form, as java.math.BigInteger.toByteArray writes."""
    DECIMAL_TEXT = 11
    DECIMAL_DOUBLE = 12
    DAYS = 13
    """int32 days since 1970-01-01 (proleptic Gregorian)."""
    ISO_DATE = 14
    MILLIS = 15
    MICROS = 16
    NANOS = 17
    """int64 since midnight (TIME) or since 1970-01-01T00:00:00 (DATETIME), truncated toward the past, as Java's floorDiv does (types.py)."""
    ISO_TIME = 18
    ISO_TIMESTAMP = 19
    ZONED_TIMESTAMP = 20
    """ISO-8601 UTC text with exactly fsp fraction digits and a Z."""
    BITS = 21
    """Little-endian bytes, ceil(n/8)."""
    POINT = 22
    GEOMETRY = 23
    FLOAT_VECTOR = 24
    UNSIGNED_WRAPPED = 25
    """bigint unsigned in mode ``long``: the 64 bits read as signed."""
    VALUE = 26
    """What the dialect's reader gives, in Connect's value space; written by the schema."""


Unfit = Literal["keep", "null", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """One column of the source image, in image order.

    ``included`` False: the image carries it, the record does not (column filters). ``schema`` is the record field's schema (None when not included).
    ``length``, ``scale`` and ``unsigned`` as in ``model.Column``; ``charset`` decides how binlog text becomes UTF-8. ``zero`` is what a NULL or an
    impossible date becomes where the schema is not optional: the schema default if it has one, else the type's zero, already in Connect's value
    space. ``adjust_years``: a date's years 0 to 69 become 2000 to 2069, 70 to 99 become 1970 to 1999. ``rewrite`` changes the value in the row's
    struct; a key that has the column keeps the value as it is, with ``key_schema`` (the schema without what mappers add to it; None for a type
    unknown here), also when the column is not included.
    """

    name: str
    source: IntEnum
    form: Form
    included: bool = True
    schema: Schema | None = None
    nullable: bool = True
    unsigned: bool = False
    length: int = 0
    scale: int = 0
    charset: str | None = None
    members: tuple[str, ...] = ()
    compressed: bool = False
    """MariaDB's COLUMN COMPRESSED: the log has a header and deflated bytes, a result set the value itself."""
    zero: object = None
    adjust_years: bool = False
    key_schema: Schema | None = None
    rewrite: Rewrite | None = None
    unfit: Unfit = "keep"
    """What becomes of a value that the form cannot express, a TIME below zero or above 24 hours or an empty geometry: a number, NULL, or an error."""

    @property
    def apart(self) -> bool:
        """Whether a key that has the column needs other bytes than the row."""
        return not self.included or self.rewrite is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """Everything that turns one table version's images into records of one topic.

    ``key`` holds indexes into ``columns`` in key order (included in the row or not); empty: no key, records have a null key and deletes no tombstone.
    ``key_prefix`` and ``value_prefix`` are the converter's frame (Avro: 0 and the 4-byte schema id). ``key_schema`` and ``value_schema`` are
    the Connect schemas of key and envelope. The source block's constant strings are ``version``, ``connector``, ``server_name``.
    """

    table: Table
    topic: str
    columns: tuple[ColumnPlan, ...]
    key: tuple[int, ...]
    key_schema: Schema | None
    value_schema: Schema
    key_prefix: bytes
    value_prefix: bytes
    version: str
    connector: str
    server_name: str
    tombstones: bool = True
    skipped_operations: frozenset[str] = field(default_factory=frozenset)
    skip_unchanged: bool = False
    unavailable: str = "__debezium_unavailable_value"
    """ASCII: what stands for a large object that the log left out."""


def distinguishes_rows(plan: TablePlan) -> bool:
    """Whether the message key holds the whole table key: only then does dropping a key drop one row and no other."""
    table = plan.table
    names = {table.columns[index].name for index in plan.key}
    return not table.key or names >= {column.name for column in (table.column(name) for name in table.key) if column is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowContext:
    """What the source block of any database shows of the event (or chunk) that the rows belong to. Times are microseconds since the epoch.

    A dialect's own context adds what only its source block has. ``sequence_high`` and ``sequence_low`` are D7's two numbers of row 0: a row adds its
    number to the latter. They travel as ``source.sequence`` text ``["<high>","<low>"]``. ``snapshot`` is None for log rows, ``incremental`` for chunk rows.
    """

    source_ts_us: int
    now_us: int
    sequence_high: int
    sequence_low: int
    snapshot: str | None = None
    transaction: TransactionOrder | None = None
    """None: the envelope's transaction block is null."""

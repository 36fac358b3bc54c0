"""Describes for a row plan where the bytes of each column come from and what they become.

A dialect's ``types.py`` creates one ``ColumnPlan`` for each column. The reference implementation
(rowplan.py) and the extension (_fast.pyx) execute it with byte-identical results. Nothing here is
evaluated per row: plans are compiled once for each table version and converter configuration.
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
    """The form in which the source writes a value. Binlog images and binary result sets share a
    member if the type is the same.
    """

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
    """TIME. In the binlog it is TIME2 (big-endian, fraction by fsp); in a binary result set it has
    a length prefix.
    """
    DATETIME = 12
    TIMESTAMP = 13
    """TIMESTAMP. In the binlog it is TIMESTAMP2 in UTC seconds; the chunk session has time_zone
    '+00:00'.
    """
    BIT = 14
    TEXT = 15
    """CHAR, VARCHAR and TEXT types: in the column's charset in the binlog, in utf8mb4 in a result
    set.
    """
    BINARY = 16
    """BINARY, VARBINARY and BLOB types."""
    ENUM = 17
    SET = 18
    JSON = 19
    """JSON: MySQL's binary JSON in the binlog, text in a result set."""
    GEOMETRY = 20
    VECTOR = 21
    UUID = 22
    """MariaDB's uuid: 16 bytes in its storage order in the binlog, text in a result set."""
    INET4 = 23
    INET6 = 24
    TIME_OLD = 25
    DATETIME_OLD = 26
    TIMESTAMP_OLD = 27


class Form(IntEnum):
    """The form of the value in Connect's value space."""

    INT = 1
    """Integer of int8, int16, int32 or int64; Avro writes all of them as zigzag varint."""
    BOOLEAN = 2
    FLOAT32 = 3
    FLOAT64 = 4
    TEXT = 5
    BYTES = 6
    BASE64 = 7
    BASE64_URL = 8
    HEX = 9
    DECIMAL = 10
    """Connect Decimal: the unscaled value in big-endian two's complement, shortest form, as
    java.math.BigInteger.toByteArray writes it.
    """
    DECIMAL_TEXT = 11
    DECIMAL_DOUBLE = 12
    DAYS = 13
    """Number of days since 1970-01-01 as int32 (proleptic Gregorian)."""
    ISO_DATE = 14
    MILLIS = 15
    MICROS = 16
    NANOS = 17
    """int64 nanoseconds since midnight (TIME) or since 1970-01-01T00:00:00 (DATETIME), rounded
    toward the past as Java's floorDiv does (types.py).
    """
    ISO_TIME = 18
    ISO_TIMESTAMP = 19
    ZONED_TIMESTAMP = 20
    """ISO-8601 text in UTC with exactly fsp fraction digits and a Z."""
    BITS = 21
    """Little-endian bytes of a bit string, ceil(n/8) of them."""
    POINT = 22
    GEOMETRY = 23
    FLOAT_VECTOR = 24
    UNSIGNED_WRAPPED = 25
    """bigint unsigned in mode ``long``: its 64 bits read as a signed number."""
    VALUE = 26
    """Value as the dialect's reader gives it, in Connect's value space; the schema decides how it
    is written.
    """


Unfit = Literal["keep", "null", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """A column of the source's row image, in image order.

    - ``included`` is False if the image has the column and the record does not (column filters).
    - ``schema`` is the schema of the record's field; None if the column is not included.
    - ``length``, ``scale`` and ``unsigned`` are those of ``model.Column``.
    - ``charset`` decides how text of the binlog becomes UTF-8.
    - ``zero`` replaces NULL and impossible dates if the schema is not optional: the schema's
      default if it has one, else the zero of the type, in Connect's value space.
    - ``adjust_years`` turns a date's years 0 to 69 into 2000 to 2069, and 70 to 99 into 1970 to
      1999.
    - ``rewrite`` changes the value in the row's struct only. A key with this column has the
      original value, with ``key_schema``, even if the column is not included.
    - ``key_schema`` is the schema without the additions of mappers; None for an unknown type.
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
    """True for MariaDB's COLUMN COMPRESSED: the log has a header and deflated bytes, a result set
    the value itself.
    """
    zero: object = None
    adjust_years: bool = False
    key_schema: Schema | None = None
    rewrite: Rewrite | None = None
    unfit: Unfit = "keep"
    """Treatment of a value that the form cannot express (a TIME below zero or above 24 hours, an
    empty geometry): keep it as a number, write NULL, or fail.
    """

    @property
    def apart(self) -> bool:
        """True if a key with this column needs other bytes than the row."""
        return not self.included or self.rewrite is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The complete plan for turning the row images of one table version into records of one topic.

    - ``key`` holds indexes into ``columns`` in key order, of included and other columns. Empty
      means no key: records have a null key, and deletes have no tombstone.
    - ``key_schema`` and ``value_schema`` are the Connect schemas of key and envelope.
    - ``key_prefix`` and ``value_prefix`` are the converter's frame (Avro: 0 and the 4-byte schema
      id).
    - ``version``, ``connector`` and ``server_name`` are the constant texts of the source block.
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
    """ASCII text that replaces a large object which the log left out."""
    transformed: bool = False
    """True if the records pass a chain of transforms before they are written."""

    @property
    def unwritten_schemas(self) -> tuple[Schema | None, Schema] | None:
        """Schemas of key and value for the chain of transforms; None if records need none."""
        return (self.key_schema, self.value_schema) if self.transformed else None


def distinguishes_rows(plan: TablePlan) -> bool:
    """Return True if the message key contains the whole table key. Only then does dropping a key
    drop exactly one row.
    """
    table = plan.table
    names = {table.columns[index].name for index in plan.key}
    return not table.key or names >= {column.name for column in (table.column(name) for name in table.key) if column is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowContext:
    """The facts of an event or chunk that the source block of any database shows. Times are
    microseconds since the epoch.

    A dialect's own context adds the facts that only its source block has. ``sequence_high`` and
    ``sequence_low`` are the two sequence numbers (D7) of row 0; each row adds its number to the
    latter. They are sent as the text ``["<high>","<low>"]`` in ``source.sequence``. ``snapshot`` is
    None for rows of the log and ``incremental`` for rows of a chunk.
    """

    source_ts_us: int
    now_us: int
    sequence_high: int
    sequence_low: int
    snapshot: str | None = None
    transaction: TransactionOrder | None = None
    """Place of the records in their transaction; None if the envelope's transaction block is
    null.
    """

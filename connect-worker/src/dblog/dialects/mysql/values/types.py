"""The record type of each MySQL column: schema, form and default, for every handling mode of
Debezium.

Rule source: Debezium 3.6 (MySqlValueConverters, JdbcValueConverters, MySqlDefaultValueConverter),
as its connector writes a column that it read from SHOW CREATE TABLE. Where Debezium's snapshot and
stream disagree, the snapshot's form counts (BOOL is int16, REAL is float64). Decided once for each
table version; nothing here runs per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from dblog.codecs.plan import ColumnPlan, Form, Source, Unfit
from dblog.codecs.rewrites import Hash, Rewrite, Truncate
from dblog.codecs.schema import Field, Kind, Schema
from dblog.dialects.mysql.values.decimals import unscaled, unscaled_bytes
from dblog.errors import DefiniteError
from dblog.model import Column, TableId

TIME_MODES = ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
DECIMAL_MODES = ("precise", "double", "string")
BIGINT_UNSIGNED_MODES = ("long", "precise")
BINARY_MODES = ("bytes", "base64", "base64-url-safe", "hex")
CONVERTING_FAILURE_MODES = ("warn", "fail", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeModes:
    """The connector options that decide types. Field names are Debezium's property names with
    underscores.
    """

    time_precision_mode: str = "adaptive_time_microseconds"
    decimal_handling_mode: str = "precise"
    bigint_unsigned_handling_mode: str = "long"
    binary_handling_mode: str = "bytes"
    event_converting_failure_handling_mode: str = "warn"
    include_schema_comments: bool = False
    enable_time_adjuster: bool = True
    column_propagate_source_type: Callable[[str], bool] | None = field(default=None, compare=False)
    """A predicate for columns with ``__debezium.source.column.*`` parameters, called with
    ``db.table.column``; None for no columns.
    """
    datatype_propagate_source_type: Callable[[str], bool] | None = field(default=None, compare=False)
    """A predicate for types whose columns have these parameters too, called with ``db.table.TYPE``;
    None for no types.
    """
    column_rewrite: Callable[[str], Rewrite | None] | None = field(default=None, compare=False)
    """The rewrite of a column's values, called with ``db.table.column``; None for no rewrites."""
    boolean_column: Callable[[str, int | None], bool] | None = field(default=None, compare=False)
    """A predicate for columns of type TINYINT that become true and false, called with
    ``db.table.column`` and the display width; None for no columns.
    """

    def __post_init__(self) -> None:
        """Raise DefiniteError for an unknown mode. Like Debezium's MySQL connector this refuses
        ``adaptive``.
        """
        _check("time.precision.mode", self.time_precision_mode, TIME_MODES)
        _check("decimal.handling.mode", self.decimal_handling_mode, DECIMAL_MODES)
        _check("bigint.unsigned.handling.mode", self.bigint_unsigned_handling_mode, BIGINT_UNSIGNED_MODES)
        _check("binary.handling.mode", self.binary_handling_mode, BINARY_MODES)
        _check("event.converting.failure.handling.mode", self.event_converting_failure_handling_mode, CONVERTING_FAILURE_MODES)

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        *,
        column_propagate: Callable[[str], bool] | None = None,
        datatype_propagate: Callable[[str], bool] | None = None,
        column_rewrite: Callable[[str], Rewrite | None] | None = None,
        boolean_column: Callable[[str, int | None], bool] | None = None,
    ) -> TypeModes:
        """Return the modes in a connector's properties or parsed settings, by property name.
        Missing ones keep Debezium's default.
        """

        def text(name: str, default: str) -> str:
            value = settings.get(name)
            return default if value is None else str(value).strip().lower()

        return cls(
            time_precision_mode=text("time.precision.mode", "adaptive_time_microseconds"),
            decimal_handling_mode=text("decimal.handling.mode", "precise"),
            bigint_unsigned_handling_mode=text("bigint.unsigned.handling.mode", "long"),
            binary_handling_mode=text("binary.handling.mode", "bytes"),
            event_converting_failure_handling_mode=text("event.converting.failure.handling.mode", "warn"),
            include_schema_comments=text("include.schema.comments", "false") == "true",
            enable_time_adjuster=text("enable.time.adjuster", "true") == "true",
            column_propagate_source_type=column_propagate,
            datatype_propagate_source_type=datatype_propagate,
            column_rewrite=column_rewrite,
            boolean_column=boolean_column,
        )


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DefiniteError(f"{name}={value} is not supported by this connector; use one of {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Typed:
    """A type in given modes: its form in the source and in records, its bare schema, and the zero
    of that form.
    """

    source: Source
    form: Form
    schema: Schema
    zero: Any


ALIASES = {
    "integer": "int",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "bool": "tinyint",
    "boolean": "tinyint",
    "nchar": "char",
    "national char": "char",
    "nvarchar": "varchar",
    "national varchar": "varchar",
    "geomcollection": "geometrycollection",
    "serial": "bigint",
}
"""Spellings of CREATE TABLE that information_schema never shows."""

GEOMETRIES = frozenset(
    {
        "geometry",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)
_DATED = frozenset({Source.DATE, Source.DATETIME, Source.DATETIME_OLD})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_INTEGERS = {
    "tinyint": (Source.INT8, Kind.INT16, Kind.INT16),
    "smallint": (Source.INT16, Kind.INT16, Kind.INT32),
    "mediumint": (Source.INT24, Kind.INT32, Kind.INT32),
    "int": (Source.INT32, Kind.INT32, Kind.INT64),
    "bigint": (Source.INT64, Kind.INT64, Kind.INT64),
}
"""(source form, schema kind if signed, schema kind if unsigned). TINYINT is int16 up to Debezium
3.6.
"""

_POINT = Schema(
    kind=Kind.STRUCT,
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
    fields=(
        Field(name="x", schema=Schema(kind=Kind.FLOAT64)),
        Field(name="y", schema=Schema(kind=Kind.FLOAT64)),
        Field(name="wkb", schema=Schema(kind=Kind.BYTES, optional=True)),
        Field(name="srid", schema=Schema(kind=Kind.INT32, optional=True)),
    ),
)
_GEOMETRY = Schema(
    kind=Kind.STRUCT,
    name="io.debezium.data.geometry.Geometry",
    version=1,
    doc="Geometry",
    fields=(
        Field(name="wkb", schema=Schema(kind=Kind.BYTES)),
        Field(name="srid", schema=Schema(kind=Kind.INT32, optional=True)),
    ),
)


def column_plan(column: Column, modes: TypeModes, table: TableId, *, included: bool = True) -> ColumnPlan:
    """Return the plan of one column of ``table``. Raise DefiniteError for a type that cannot be
    captured.

    A column that is not ``included`` still needs its source form, because the image has its bytes.
    """
    return assemble(column, column_type(column, modes), modes, table, included=included)


def assemble(column: Column, typed: Typed | None, modes: TypeModes, table: TableId, *, included: bool) -> ColumnPlan:
    """Return a plan from a column and its type, None for an unknown type. Shared with the MariaDB
    dialect, which knows more types.
    """
    if typed is None:
        if included:
            raise DefiniteError(
                f"{table}: column {column.name} has type {column.type_text or column.type}, which this connector cannot capture; "
                f"exclude it with column.exclude.list={table.database}.{table.name}.{column.name} or exclude the table"
            )
        typed = _UNKNOWN
    elif included and _is_boolean(column, modes, table):
        typed = Typed(typed.source, Form.BOOLEAN, Schema(kind=Kind.BOOLEAN), False)
    _require_possible(column, typed, table)
    default = schema_default(column, typed)
    bare = replace(
        typed.schema,
        # Debezium's schema of every geometry except POINT is optional, also for a NOT NULL column.
        optional=column.nullable or typed.form is Form.GEOMETRY,
        default=default,
        doc=column.comment if modes.include_schema_comments and column.comment else typed.schema.doc,
    )
    asked = modes.column_rewrite(f"{table.database}.{table.name}.{column.name}") if included and modes.column_rewrite else None
    # The first mapper that names a column is its only one (ColumnMappers), even if it has no
    # effect.
    rewrite, parameters = (None, _propagated(column, modes, table)) if asked is None else rewritten(column, typed, asked)
    type_name = canonical_type(column)
    return ColumnPlan(
        name=column.name,
        source=typed.source,
        form=typed.form,
        included=included,
        schema=replace(bare, parameters=bare.parameters + parameters) if included else None,
        nullable=column.nullable,
        unsigned=column.unsigned,
        length=_length(column, type_name),
        scale=column.scale or 0,
        charset=column.charset,
        members=column.members,
        compressed="M!100301 COMPRESSED" in column.type_text,
        zero=typed.zero if default is None else default,
        adjust_years=modes.enable_time_adjuster and typed.source in _DATED,
        key_schema=None if typed is _UNKNOWN else bare,
        rewrite=rewrite,
        unfit=_unfit(column, typed, modes),
    )


def _is_boolean(column: Column, modes: TypeModes, table: TableId) -> bool:
    """Return True for a column that TinyIntOneToBooleanConverter takes."""
    if modes.boolean_column is None or source_type_name(column) not in ("TINYINT", "TINYINT UNSIGNED"):
        return False
    return modes.boolean_column(f"{table.database}.{table.name}.{column.name}", column.length)


_FRACTION_DIGITS_MAX = 6
_DECIMAL_DIGITS_MAX, _DECIMAL_SCALE_MAX = 65, 38
_BITS_MAX = 64
_LENGTH_MAX = (1 << 32) - 1
_PADDED_MAX = 65_535
"""Most bytes of a row, and so of a value that is padded to its column's length."""


def _require_possible(column: Column, typed: Typed, table: TableId) -> None:
    """Raise DefiniteError for a length that no server gives a column of this type.

    Lengths come from table maps and from information_schema, so from whatever answers as the
    server. The extension computes from them how many bytes it reads and writes, and does not check
    them again. Source: the servers' DATETIME_MAX_DECIMALS, DECIMAL_MAX_PRECISION, DECIMAL_MAX_SCALE
    and MAX_BIT_FIELD_LENGTH.
    """
    name = canonical_type(column)
    length, scale = _length(column, name), column.scale or 0
    match typed.source:
        case Source.TIME | Source.DATETIME | Source.TIMESTAMP:
            possible = 0 <= length <= _FRACTION_DIGITS_MAX
        case Source.DECIMAL:
            possible = 1 <= length <= _DECIMAL_DIGITS_MAX and 0 <= scale <= min(length, _DECIMAL_SCALE_MAX)
        case Source.BIT:
            possible = 0 <= length <= _BITS_MAX
        case _:
            possible = 0 <= length <= (_PADDED_MAX if name in ("binary", "char") else _LENGTH_MAX)
    if not possible:
        raise DefiniteError(
            f"{table}: the server gives column {column.name}, of type {column.type}, a length or a number of decimals that the type cannot have; see what "
            "answers at database.hostname, and have its certificate verified (database.ssl.mode)"
        )


def _unfit(column: Column, typed: Typed, modes: TypeModes) -> Unfit:
    """Return what to do with values that the form cannot express.

    ``time.precision.mode`` connect and isostring write a time of day, which not every TIME is. An
    empty geometry has neither SRID nor shape; a NOT NULL column without a default gets one in
    sessions that are not strict.

    Debezium 3.6.1 fails to convert such a value (measured). With
    ``event.converting.failure.handling.mode`` warn or skip it leaves out the field, which its
    converter then refuses in a NOT NULL column.
    """
    may_be_null = column.nullable or typed.form is Form.GEOMETRY
    if typed.source is not Source.GEOMETRY and (typed.source is not Source.TIME or typed.form not in (Form.MILLIS, Form.ISO_TIME)):
        return "keep"
    return "null" if may_be_null and modes.event_converting_failure_handling_mode != "fail" else "fail"


def rewritten(column: Column, typed: Typed, asked: Rewrite) -> tuple[Rewrite | None, tuple[tuple[str, str], ...]]:
    """Return the effect of a mask, hash or truncation on a column, and the parameters that it
    leaves in the schema.

    Masks and hashes change only texts, including members of ENUM and SET. A truncation changes
    every value that is text or bytes in records and may be longer. A column of another type has the
    parameter and keeps its values, as in Debezium (MaskStrings, TruncateStrings).
    """
    length = parser_length(column)
    if isinstance(asked, Truncate):
        if length is not None and length <= asked.length:
            return None, ()
        works = typed.schema.kind is Kind.STRING or typed.form is Form.BYTES
        return asked if works else None, (("truncateLength", str(asked.length)),)
    works = typed.form is Form.TEXT and typed.source is not Source.JSON
    if isinstance(asked, Hash):
        asked = replace(asked, length=length or 0)
    return asked if works else None, (("masked", "true"),)


_UNKNOWN = Typed(Source.BINARY, Form.BYTES, Schema(kind=Kind.BYTES), b"")
"""The stand-in for unknown types. Servers store them as blobs (MariaDB's XMLTYPE), so this is
enough to skip an excluded column.
"""


def canonical_type(column: Column) -> str:
    """Return DATA_TYPE in information_schema's spelling, regardless of the statement's."""
    name = column.type.lower()
    return ALIASES.get(name, name)


def column_type(column: Column, modes: TypeModes) -> Typed | None:
    """Return a column's form in the source, its form in records and its bare schema in these modes;
    None if its type cannot be captured.
    """
    name = canonical_type(column)
    if name in _INTEGERS:
        return _integer(name, column, modes)
    if name in TEXTS:
        return text_type() if column.charset != "binary" else _binary(modes)
    if name in BINARIES:
        return _binary(modes)
    if name in GEOMETRIES:
        # Its schema is always optional.
        return Typed(Source.GEOMETRY, Form.GEOMETRY, _GEOMETRY, None)
    match name:
        case "float":
            if column.scale is not None or re.match(r"float\s*\(\s*\d+\s*,", column.type_text, re.IGNORECASE):
                return Typed(Source.FLOAT, Form.FLOAT64, Schema(kind=Kind.FLOAT64), 0.0)
            return Typed(Source.FLOAT, Form.FLOAT32, Schema(kind=Kind.FLOAT32), 0.0)
        case "double":
            return Typed(Source.DOUBLE, Form.FLOAT64, Schema(kind=Kind.FLOAT64), 0.0)
        case "decimal":
            return _decimal(column, modes)
        case "bit":
            return _bit(column)
        case "json":
            return Typed(Source.JSON, Form.TEXT, _named(Kind.STRING, "io.debezium.data.Json"), "{}")
        case "enum":
            return _members(Source.ENUM, "io.debezium.data.Enum", column)
        case "set":
            return _members(Source.SET, "io.debezium.data.EnumSet", column)
        case "year":
            return Typed(Source.YEAR, Form.INT, _named(Kind.INT32, "io.debezium.time.Year"), 0)
        case "date":
            return _date(modes)
        case "time":
            return _time(modes)
        case "datetime":
            return _datetime(column, modes)
        case "timestamp":
            zoned = _named(Kind.STRING, "io.debezium.time.ZonedTimestamp")
            return Typed(Source.TIMESTAMP, Form.ZONED_TIMESTAMP, zoned, EPOCH_ZONED)
        case "point":
            return Typed(Source.GEOMETRY, Form.POINT, _POINT, {"x": 0.0, "y": 0.0, "wkb": None, "srid": None})
        case "vector":
            vector = Schema(kind=Kind.ARRAY, name="io.debezium.data.FloatVector", version=1, items=Schema(kind=Kind.FLOAT32))
            return Typed(Source.VECTOR, Form.FLOAT_VECTOR, vector, [])
        case _:
            return None


EPOCH_ZONED = "1970-01-01T00:00:00Z"


def _named(kind: Kind, name: str) -> Schema:
    return Schema(kind=kind, name=name, version=1)


def text_type() -> Typed:
    """Return the type of a text that is decoded with the column's charset."""
    return Typed(Source.TEXT, Form.TEXT, Schema(kind=Kind.STRING), "")


def _integer(name: str, column: Column, modes: TypeModes) -> Typed:
    source, signed, unsigned = _INTEGERS[name]
    if name == "bigint" and column.unsigned:
        if modes.bigint_unsigned_handling_mode == "precise":
            return Typed(source, Form.DECIMAL, decimal_schema(precision=20, scale=0), b"\x00")
        return Typed(source, Form.UNSIGNED_WRAPPED, Schema(kind=Kind.INT64), 0)
    return Typed(source, Form.INT, Schema(kind=unsigned if column.unsigned else signed), 0)


def decimal_schema(*, precision: int, scale: int) -> Schema:
    """Return Connect's Decimal with Debezium's precision parameter."""
    return Schema(
        kind=Kind.BYTES,
        name="org.apache.kafka.connect.data.Decimal",
        version=1,
        parameters=(("scale", str(scale)), ("connect.decimal.precision", str(precision))),
    )


def _decimal(column: Column, modes: TypeModes) -> Typed:
    match modes.decimal_handling_mode:
        case "double":
            return Typed(Source.DECIMAL, Form.DECIMAL_DOUBLE, Schema(kind=Kind.FLOAT64), 0.0)
        case "string":
            return Typed(Source.DECIMAL, Form.DECIMAL_TEXT, Schema(kind=Kind.STRING), "0")
        case _:
            precision = 10 if column.length is None else column.length
            return Typed(Source.DECIMAL, Form.DECIMAL, decimal_schema(precision=precision, scale=column.scale or 0), b"\x00")


def _bit(column: Column) -> Typed:
    bits = column.length or 1
    if bits == 1:
        return Typed(Source.BIT, Form.BOOLEAN, Schema(kind=Kind.BOOLEAN), False)
    schema = Schema(kind=Kind.BYTES, name="io.debezium.data.Bits", version=1, parameters=(("length", str(bits)),))
    return Typed(Source.BIT, Form.BITS, schema, bytes((min(bits, _BITS_MAX) + 7) // 8))


def _binary(modes: TypeModes) -> Typed:
    text = Schema(kind=Kind.STRING)
    match modes.binary_handling_mode:
        case "base64":
            return Typed(Source.BINARY, Form.BASE64, text, "")
        case "base64-url-safe":
            return Typed(Source.BINARY, Form.BASE64_URL, text, "")
        case "hex":
            return Typed(Source.BINARY, Form.HEX, text, "")
        case _:
            return Typed(Source.BINARY, Form.BYTES, Schema(kind=Kind.BYTES), b"")


def _members(source: Source, name: str, column: Column) -> Typed:
    allowed = (("allowed", ",".join(member.replace(",", "\\,") for member in column.members)),)
    return Typed(source, Form.TEXT, Schema(kind=Kind.STRING, name=name, version=1, parameters=allowed), "")


def _date(modes: TypeModes) -> Typed:
    match modes.time_precision_mode:
        case "connect":
            return Typed(Source.DATE, Form.DAYS, _named(Kind.INT32, "org.apache.kafka.connect.data.Date"), 0)
        case "isostring":
            return Typed(Source.DATE, Form.ISO_DATE, _named(Kind.STRING, "io.debezium.time.IsoDate"), "1970-01-01Z")
        case _:
            return Typed(Source.DATE, Form.DAYS, _named(Kind.INT32, "io.debezium.time.Date"), 0)


def _time(modes: TypeModes) -> Typed:
    match modes.time_precision_mode:
        case "connect":
            return Typed(Source.TIME, Form.MILLIS, _named(Kind.INT32, "org.apache.kafka.connect.data.Time"), 0)
        case "isostring":
            return Typed(Source.TIME, Form.ISO_TIME, _named(Kind.STRING, "io.debezium.time.IsoTime"), "00:00:00Z")
        case "nanoseconds":
            return Typed(Source.TIME, Form.NANOS, _named(Kind.INT64, "io.debezium.time.NanoTime"), 0)
        case _:
            return Typed(Source.TIME, Form.MICROS, _named(Kind.INT64, "io.debezium.time.MicroTime"), 0)


def _datetime(column: Column, modes: TypeModes) -> Typed:
    match modes.time_precision_mode:
        case "connect":
            return Typed(Source.DATETIME, Form.MILLIS, _named(Kind.INT64, "org.apache.kafka.connect.data.Timestamp"), 0)
        case "isostring":
            return Typed(Source.DATETIME, Form.ISO_TIMESTAMP, _named(Kind.STRING, "io.debezium.time.IsoTimestamp"), EPOCH_ZONED)
        case "nanoseconds":
            return Typed(Source.DATETIME, Form.NANOS, _named(Kind.INT64, "io.debezium.time.NanoTimestamp"), 0)
        case "adaptive_time_microseconds" if (column.length or 0) <= 3:  # noqa: PLR2004 - milliseconds hold three digits
            return Typed(Source.DATETIME, Form.MILLIS, _named(Kind.INT64, "io.debezium.time.Timestamp"), 0)
        case _:
            return Typed(Source.DATETIME, Form.MICROS, _named(Kind.INT64, "io.debezium.time.MicroTimestamp"), 0)


_IMPLIED_LENGTH = {"decimal": 10, "bit": 1}


def _length(column: Column, name: str) -> int:
    return _IMPLIED_LENGTH.get(name, 0) if column.length is None else column.length


def _propagated(column: Column, modes: TypeModes, table: TableId) -> tuple[tuple[str, str], ...]:
    """Return the ``__debezium.source.column.*`` parameters, with the source type for consumers that
    rebuild it.
    """
    by_column = modes.column_propagate_source_type
    by_type = modes.datatype_propagate_source_type
    type_name = source_type_name(column)
    wanted = (by_column is not None and by_column(f"{table.database}.{table.name}.{column.name}")) or (
        by_type is not None and by_type(f"{table.database}.{table.name}.{type_name}")
    )
    if not wanted:
        return ()
    parameters = [("__debezium.source.column.type", type_name)]
    length = parser_length(column)
    if length is not None:
        parameters.append(("__debezium.source.column.length", str(length)))
    if column.scale is not None:
        parameters.append(("__debezium.source.column.scale", str(column.scale)))
    if column.comment and modes.include_schema_comments:
        parameters.append(("__debezium.source.column.comment", column.comment))
    parameters.append(("__debezium.source.column.name", column.name))
    return tuple(parameters)


def parser_length(column: Column) -> int | None:
    """Return the length that Debezium's DDL parser notes: 1 for an ENUM, room for the members and
    commas of a SET, None for a time without fraction digits.
    """
    match canonical_type(column):
        case "enum":
            return 1
        case "set":
            return max(0, 2 * len(column.members) - 1)
        case "time" | "datetime" | "timestamp":
            return column.length or None
        case _:
            return column.length


def source_type_name(column: Column) -> str:
    """Return the type's name as Debezium's DDL parser keeps it: upper case, with UNSIGNED and
    ZEROFILL.
    """
    name = canonical_type(column).upper()
    if column.unsigned:
        name += " UNSIGNED"
        if "zerofill" in column.type_text.lower():
            name += " ZEROFILL"
    return name


# --- defaults -------------------------------------------------------------------------------------

_NOW = re.compile(r"(current_timestamp|now|localtime|localtimestamp)\b", re.IGNORECASE)
_DATETIME = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?.*")
_TIME = re.compile(r"(-)?(?:(\d+) )?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?(?:\.(\d{0,9}))?")
EPOCH_DATE = date(1970, 1, 1)
_INT64_MAX = (1 << 63) - 1
_YEAR_2069 = 69
_DAY_NS = 86_400_000_000_000


def schema_default(column: Column, typed: Typed) -> Any:
    """Return the DDL default as a schema default in Connect's value space; None if there is none.

    ``CURRENT_TIMESTAMP`` becomes the zero of the form, except on a nullable TIMESTAMP, which has no
    default. A zero date becomes the zero of the form on a NOT NULL column and no default on a
    nullable one. Other expressions give no default, nor does a text that the type cannot hold.
    """
    if not column.has_default or column.default is None:
        return None
    text = column.default
    if _NOW.match(text) and typed.source in (Source.DATETIME, Source.TIMESTAMP):
        return None if column.nullable and typed.source is Source.TIMESTAMP else typed.zero
    if column.default_is_expression or column.generated:
        return None
    try:
        return _converted(text, column, typed)
    except (ValueError, InvalidOperation, OverflowError):
        return None


def _converted(text: str, column: Column, typed: Typed) -> Any:
    match typed.form:
        case Form.INT | Form.UNSIGNED_WRAPPED:
            number = int(_number(text).to_integral_value(rounding="ROUND_HALF_UP"))
            if typed.source is Source.YEAR and len(text.strip()) <= 2:  # noqa: PLR2004 - two-digit years
                number += 2000 if number <= _YEAR_2069 else 1900
            # Debezium caps a default of BIGINT UNSIGNED, although it wraps the values.
            return min(number, _INT64_MAX)
        case Form.BOOLEAN:
            return _bits(text) != 0
        case Form.FLOAT32 | Form.FLOAT64 | Form.DECIMAL_DOUBLE:
            return float(_number(text))
        case Form.TEXT:
            return text
        case Form.BYTES:
            return _binary_default(text)
        case Form.BASE64 | Form.BASE64_URL | Form.HEX:
            return binary_text(_binary_default(text), typed.form)
        case Form.DECIMAL:
            scale = int(dict(typed.schema.parameters)["scale"])
            return unscaled_bytes(unscaled(_number(text), scale))
        case Form.DECIMAL_TEXT:
            return f"{_scaled(_number(text), column.scale or 0):f}"
        case Form.BITS:
            return _bits(text).to_bytes(((column.length or 1) + 7) // 8, "little")
        case Form.DAYS | Form.ISO_DATE:
            return _date_default(text, column, typed)
        case Form.MILLIS | Form.MICROS | Form.NANOS | Form.ISO_TIME if typed.source is Source.TIME:
            return _time_default(text, typed)
        case Form.MILLIS | Form.MICROS | Form.NANOS | Form.ISO_TIMESTAMP | Form.ZONED_TIMESTAMP:
            return _datetime_default(text, column, typed)
        case _:
            return None


def _number(text: str) -> Decimal:
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return Decimal(1 if lowered == "true" else 0)
    if re.match(r"b'|0b|x'|0x", lowered):
        return Decimal(_bits(text))
    return Decimal(lowered)


def _bits(text: str) -> int:
    """Return the number of ``b'101'``, ``0b101``, ``x'05'``, ``0x05``, ``5`` or ``true``."""
    lowered = text.strip().lower()
    if match := re.fullmatch(r"b'([01]*)'|0b([01]+)", lowered):
        return int(match[1] or match[2] or "0", 2)
    if match := re.fullmatch(r"x'([0-9a-f]*)'|0x([0-9a-f]+)", lowered):
        return int(match[1] or match[2] or "0", 16)
    return int(Decimal(lowered) if lowered not in ("true", "false") else lowered == "true")


def _binary_default(text: str) -> bytes:
    """Return the bytes of a binary default: information_schema shows ``0x...``, statements have the
    text itself (not padded, as in Debezium).
    """
    match = re.fullmatch(r"0x([0-9a-fA-F]*)|[xX]'([0-9a-fA-F]*)'", text)
    return bytes.fromhex(match[1] or match[2] or "") if match else text.encode()


def binary_text(value: bytes, form: Form) -> str:
    """Return bytes in a text form of ``binary.handling.mode``."""
    from base64 import b64encode, urlsafe_b64encode  # noqa: PLC0415

    match form:
        case Form.BASE64:
            return b64encode(value).decode()
        case Form.BASE64_URL:
            return urlsafe_b64encode(value).decode()
        case _:
            return value.hex()


def _scaled(value: Decimal, scale: int) -> Decimal:
    return Decimal(unscaled(value, scale)).scaleb(-scale)


def _parsed_datetime(text: str) -> tuple[datetime, int] | None:
    """Return the datetime in whole seconds, and the nanoseconds; None for a zero date, also one
    with zero month or day.
    """
    match = _DATETIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not month or not day or not year:
        return None
    moment = datetime(year, month, day, int(match[4] or 0), int(match[5] or 0), int(match[6] or 0), tzinfo=UTC)
    return moment, int((match[7] or "").ljust(9, "0") or "0")


def _date_default(text: str, column: Column, typed: Typed) -> Any:
    parsed = _parsed_datetime(text)
    if parsed is None:
        return None if column.nullable else typed.zero
    day = parsed[0].date()
    return f"{day.isoformat()}Z" if typed.form is Form.ISO_DATE else (day - EPOCH_DATE).days


def _time_default(text: str, typed: Typed) -> Any:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    sign = -1 if match[1] else 1
    nanos = int((match[6] or "").ljust(9, "0") or "0")
    if match[4] is None and match[2] is None:  # '1234' is 12 minutes 34 seconds.
        packed = int(match[3])
        hours, minutes, seconds = packed // 10000, packed // 100 % 100, packed % 100
    else:
        hours, minutes, seconds = int(match[2] or 0) * 24 + int(match[3]), int(match[4] or 0), int(match[5] or 0)
    total = sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
    if typed.form in (Form.MILLIS, Form.ISO_TIME) and not 0 <= total < _DAY_NS:
        return None  # a time of day cannot express it
    match typed.form:
        case Form.MILLIS:
            return total // 1_000_000
        case Form.MICROS:
            return total // 1_000
        case Form.NANOS:
            return total
        case _:
            fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
            return f"{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}Z"


def _datetime_default(text: str, column: Column, typed: Typed) -> Any:
    parsed = _parsed_datetime(text)
    if parsed is None:
        return None if column.nullable else typed.zero
    moment, nanos = parsed
    total = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) * 1_000_000_000 + nanos
    match typed.form:
        case Form.MILLIS:
            return total // 1_000_000
        case Form.MICROS:
            return total // 1_000
        case Form.NANOS:
            return total
        case Form.ISO_TIMESTAMP:
            fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
            return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
        case _:
            digits = column.length or 0
            fraction = f".{nanos:09d}"[: digits + 1] if digits else ""
            return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"

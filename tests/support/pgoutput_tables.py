"""Random tables of PostgreSQL: each table's plan, and rows as tuples and as lines of COPY.

Most texts are in the server's format, by its manual. Some are invalid for their type, because both
encoders must refuse the same ones.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
from dblog.codecs import avro, tableplan, topic_naming
from dblog.codecs.envelope import NameAdjustment
from dblog.codecs.plan import TablePlan
from dblog.codecs.rewrites import Hash, Mask, Truncate
from dblog.codecs.transactions import TransactionOrder
from dblog.dialects.postgres.pgoutput.source_block import CONNECTOR, PostgresContext, source_schema
from dblog.dialects.postgres.values import modes as pg_modes
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.types import column_plan
from dblog.model import Column, Table, TableId
from hypothesis import strategies as st

UNSENT = object()
"""Stands for a large value that an UPDATE has not changed."""

Text = bytes | None | object
Row = list[Text]


@dataclass(frozen=True)
class Kind:
    """A column without name and nullability, and a strategy for the texts of its fields."""

    make: Callable[[str, bool], Column]
    texts: st.SearchStrategy[bytes]
    keyable: bool = True


def _kind(name: str, texts: st.SearchStrategy[Any], *, keyable: bool = True, type_text: str = "", **more: Any) -> Kind:
    def make(column: str, nullable: bool) -> Column:
        return Column(name=column, type=name, type_text=type_text or name, nullable=nullable, **more)

    return Kind(make, texts.map(lambda text: text if isinstance(text, bytes) else str(text).encode()), keyable)


def _integers(name: str, low: int, high: int) -> Kind:
    return _kind(name, st.integers(low, high) | st.sampled_from([low, high, 0]))


def float_text(value: float) -> str:
    """Return the server's text of a float: without ``.0``, and NaN and infinities by name."""
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


_FLOATS = st.floats().map(float_text)
_SINGLES = st.floats(width=32).map(float_text)
_DATES = st.one_of(
    st.dates().map(str),
    st.builds(lambda year, day: f"{year}-02-{day:02d}", st.integers(10_000, 5_874_897), st.integers(1, 28)),
    st.builds(lambda year: f"{year:04d}-03-15 BC", st.integers(1, 4713)),
    st.sampled_from(["infinity", "-infinity", "0000-01-01", "2023-02-29", "2024-02-29"]),
)
_TIMES = st.one_of(st.times().map(str), st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000).isoformat().rstrip("0")),
                   st.sampled_from(["24:00:00", "00:00:00.1", "23:59:59.999999", "12:34:5", "99:00:00", "12:34:56.1234567"]))  # fmt: skip
_TIMESTAMPS = st.one_of(
    st.datetimes().map(str),
    st.builds(lambda year: f"{year}-02-28 12:00:00.5", st.integers(10_000, 294_276)),
    st.sampled_from([1677, 1678, 1679, 1680, 2259, 2260, 2261, 2262, 2263]).map(lambda year: f"{year}-04-11 23:47:16.854775"),
    st.sampled_from(["infinity", "-infinity", "0044-03-15 00:00:00 BC", "2024-05-05 24:00:00", "2024-05-05 11:60:00"]),
)
_OFFSETS = st.sampled_from(["+00", "+00", "+00", "+02", "-03:30", "+05:30:15", ""])
_TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
    st.text("ab\\\t\n\r\b\f\v'\"N.", max_size=12),
    st.binary(max_size=12),
)


def numerics(precision: int | None, scale: int | None) -> Kind:
    digits = precision or 90
    fraction = max(scale or 0, 0) if precision else 30
    number = st.builds(
        lambda sign, whole, rest: sign + (whole.lstrip("0") or "0") + (f".{rest}" if rest else ""),
        st.sampled_from(["", "-"]),
        st.text("0123456789", max_size=max(digits - fraction, 1)),
        st.text("0123456789", min_size=fraction if precision else 0, max_size=fraction),
    )
    odd = st.sampled_from(["NaN", "Infinity", "-Infinity", "-", ".", "1.", ".5", "1e5", "1.2.3", "1.5000", "7" * 80, "0." + "3" * 80])
    return _kind("numeric", number | odd, length=precision, scale=scale, type_text="numeric")


def kinds() -> st.SearchStrategy[Kind]:
    """Return a strategy for columns of any type that the connector knows, and some unknown ones."""
    return st.one_of(
        st.sampled_from(
            [
                _integers("int2", -(1 << 15), (1 << 15) - 1),
                _integers("int4", -(1 << 31), (1 << 31) - 1),
                _integers("int8", -(1 << 63), (1 << 63) - 1),
                _integers("oid", 0, (1 << 32) - 1),
                _kind("bool", st.sampled_from("tf")),
                _kind("float4", _SINGLES),
                _kind("float8", _FLOATS),
                _kind("bytea", st.binary(max_size=20).map(lambda raw: rf"\x{raw.hex()}")),
                *(_kind(name, _TEXTS) for name in ("text", "name", "citext", "jsonb", "xml", "inet", "tsvector", "int4range")),
                _kind("varchar", _TEXTS, length=10),
                _kind("bpchar", _TEXTS, length=4),
                _kind("uuid", st.uuids()),
                _kind("enum", st.sampled_from("ab"), members=("a", "b")),
                _kind("date", _DATES),
                _kind("interval", st.sampled_from(["1 year 2 mons 3 days 04:05:06.7", "-00:00:01", "infinity", "00:00:00"])),
                _kind("hstore", st.sampled_from(['"a"=>"1", "b"=>NULL', "", '"a"=>"ü"']), keyable=False),
                _kind("point", st.sampled_from(["(1,2.5)", "(-0,1e+20)"]), keyable=False),
                _kind("vector", st.sampled_from(["[1,2.5]", "[]"]), keyable=False),
                _kind("bit", st.sampled_from("01"), length=1),
                _kind("varbit", st.text("01", max_size=11), length=11),
                _kind("varbit", st.text("01", max_size=1), length=1),
                _kind("money", st.sampled_from(["$1,234.50", "-$0.01"])),
                _kind("box", st.just("(1,1),(0,0)"), keyable=False),
                _kind("shop.own", _TEXTS, keyable=False),
                _kind("_int4", st.sampled_from(["{1,2,NULL}", "{}", "{{1},{2}}", "[0:1]={5,6}", "nothing"]), keyable=False),
                _kind("_text", st.sampled_from(['{a,"b,c",NULL}', "{}", '{"\\"","\\\\"}']), keyable=False),
            ]
        ),
        st.builds(lambda precision, scale: numerics(precision, min(scale, precision)), st.integers(1, 80), st.integers(0, 40)),
        st.sampled_from([numerics(None, None), numerics(5, -2), numerics(3, 5), numerics(18, 2), numerics(12, 2)]),
        *(
            st.sampled_from([None, 0, 1, 3, 6]).map(lambda digits, name=name, texts=texts: _kind(name, texts, length=digits))  # type: ignore[misc]
            for name, texts in (
                ("time", _TIMES),
                ("timetz", st.tuples(_TIMES, _OFFSETS).map("".join)),
                ("timestamp", _TIMESTAMPS),
                ("timestamptz", st.tuples(_TIMESTAMPS, _OFFSETS, st.sampled_from(["", "", "", " BC"])).map("".join)),
            )
        ),
    )


@dataclass(frozen=True)
class Made:
    """A table: its kinds of columns, its plan, and the handling modes."""

    kinds: list[Kind]
    plan: TablePlan
    modes: TypeModes


def plan_of(
    columns: list[Column],
    *,
    key: tuple[str, ...] = (),
    message_key: tuple[str, ...] | None = None,
    left_out: frozenset[int] = frozenset(),
    modes: TypeModes | None = None,
    name: str = "t",
    topic_prefix: str = "p",
    **settings: Any,
) -> TablePlan:
    """Return a plan.

    ``key`` is the table's; ``message_key`` is the key of its records if that differs.
    """
    table = Table(id=TableId("shöp", name), columns=tuple(columns), key=key)
    used = modes or TypeModes()
    return tableplan.build_table_plan(
        table,
        [column_plan(column, used, table.id, included=at not in left_out) for at, column in enumerate(columns)],
        settings=tableplan.PlanSettings(
            connector=CONNECTOR,
            source=source_schema(),
            version="3.6.1.Final",
            naming=topic_naming.TopicNaming(prefix=topic_prefix),
            schema_adjustment=NameAdjustment.AVRO,
            **{"skipped_operations": frozenset({"t"}), **settings},
        ),
        key_columns=key if message_key is None else message_key,
        key_prefix=lambda _topic, _schema: b"\0\0\0\0\x01",
        value_prefix=lambda _topic, _schema: b"\0\0\0\0\x02",
    )


@st.composite
def tables(draw: st.DrawFn, *, columns_max: int = 8, **settings: Any) -> Made:
    """Draw a table of random columns, in any handling modes, with masks, hashes and cuts.

    Its records may have another key than the table, or none.
    """
    chosen = draw(st.lists(kinds(), min_size=1, max_size=columns_max))
    columns = [kind.make(f"c{at}", draw(st.booleans())) for at, kind in enumerate(chosen)]
    modes = draw(every_mode())
    known = [at for at, (kind, column) in enumerate(zip(chosen, columns, strict=True)) if kind.keyable and column.type != "shop.own"]
    key, message_key = (
        tuple(f"c{at}" for at in draw(st.lists(st.sampled_from(known or [0]), unique=True, max_size=3))) if known else () for _ in "ab"
    )
    if draw(st.booleans()):
        message_key = key
    left_out = draw(st.frozensets(st.sampled_from(range(len(columns))), max_size=2))
    options = {
        "tombstones": draw(st.booleans()),
        "skip_unchanged": draw(st.booleans()),
        "skipped_operations": draw(st.sampled_from([frozenset("t")] * 3 + [frozenset("c"), frozenset("ud")])),
        **settings,
    }
    return Made(chosen, plan_of(columns, key=key, message_key=message_key, left_out=left_out, modes=modes, **options), modes)


def every_mode() -> st.SearchStrategy[TypeModes]:
    """Return a strategy for any combination of the handling modes."""
    return st.builds(
        TypeModes,
        time_precision_mode=st.sampled_from(pg_modes.TIME_MODES),
        decimal_handling_mode=st.sampled_from(pg_modes.DECIMAL_MODES),
        binary_handling_mode=st.sampled_from(pg_modes.BINARY_MODES),
        hstore_handling_mode=st.sampled_from(pg_modes.HSTORE_MODES),
        interval_handling_mode=st.sampled_from(pg_modes.INTERVAL_MODES),
        event_converting_failure_handling_mode=st.sampled_from(pg_modes.CONVERTING_FAILURE_MODES),
        include_unknown_datatypes=st.booleans(),
        unavailable_value_placeholder=st.sampled_from([pg_modes.UNAVAILABLE, "hex:00ff", ""]),
        column_rewrite=st.one_of(st.none(), rewrites()),
    )


def rewrites() -> st.SearchStrategy[Any]:
    """Return a strategy for masks, hashes and cuts of some columns, by name."""
    one = st.one_of(
        st.none(),
        st.builds(Truncate, st.integers(1, 12)),
        st.builds(Mask, st.sampled_from(["", "*", "*" * 40])),
        st.builds(Hash, st.sampled_from(["SHA-256", "md5"]), st.text(min_size=1, max_size=3), st.sampled_from([1, 2])),
    )
    return st.lists(one, min_size=12, max_size=12).map(lambda chosen: lambda name: chosen[int(name.rpartition(".c")[2])])


def rows_of(made: Made, *, unsent: bool = False) -> st.SearchStrategy[Row]:
    """Return a strategy for a row, sometimes with NULL where the schema forbids it.

    With ``unsent``, some fields are not sent.
    """
    nothing: list[Any] = [None, UNSENT] if unsent else [None]
    odd = st.binary(max_size=6)
    return st.tuples(*[st.one_of(*[kind.texts] * 8, st.sampled_from(nothing), odd) for kind in made.kinds]).map(list)


@st.composite
def contexts(draw: st.DrawFn, *, snapshot: str | None = None) -> PostgresContext:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    number = st.one_of(st.none(), st.integers(0, 2**62))
    return PostgresContext(
        database=draw(text),
        xid=draw(number),
        lsn=draw(number),
        origin=draw(st.one_of(st.none(), text)),
        origin_lsn=draw(number),
        source_ts_us=draw(st.integers(-(2**50), 2**50)),
        now_us=draw(st.integers(0, 2**51)),
        sequence_high=draw(st.integers(0, 2**62)),
        sequence_low=draw(st.one_of(st.integers(0, 2**62), st.sampled_from([8, 9, 98, 99, 999]))),
        snapshot=snapshot,
        transaction=draw(
            st.one_of(
                st.none(),
                st.builds(TransactionOrder, text, total=st.integers(0, 2**62), of_table=st.one_of(st.integers(0, 99), st.just(2**40))),
            )
        ),
    )


# --- rows as bytes ---------------------------------------------------------------------------------------------------


def tuple_of(row: Row) -> bytes:
    """Return TupleData (PostgreSQL manual, 55.9)."""
    out = struct.pack(">H", len(row))
    for field in row:
        if field is None:
            out += b"n"
        elif isinstance(field, bytes):
            out += b"t" + struct.pack(">I", len(field)) + field
        else:
            out += b"u"
    return out


def change_of(before: Row | None, after: Row | None, *, letter: bytes = b"O") -> bytes:
    """Return the part of an Insert, Update or Delete message after the table's number.

    ``letter`` is the type of ``before``.
    """
    return (b"" if before is None else letter + tuple_of(before)) + (b"" if after is None else b"N" + tuple_of(after))


_ESCAPED = {
    b"\\"[0]: rb"\\",
    b"\b"[0]: rb"\b",
    b"\f"[0]: rb"\f",
    b"\n"[0]: rb"\n",
    b"\r"[0]: rb"\r",
    b"\t"[0]: rb"\t",
    b"\v"[0]: rb"\v",
}


def line_of(row: Row) -> bytes:
    """Return a line of COPY's text format (PostgreSQL manual, COPY)."""
    fields = []
    for field in row:
        if isinstance(field, bytes):
            fields.append(b"".join(_ESCAPED.get(byte) or bytes([byte]) for byte in field))
        else:
            fields.append(rb"\N")
    return b"\t".join(fields) + b"\n"


# --- records as values -----------------------------------------------------------------------------------------------

_PARSED: dict[str, Any] = {}


def decoded(plan: TablePlan, value: bytes) -> Any:
    """Decode an envelope with fastavro, but keep dates and decimals as they are stored."""
    assert value[:5] == plan.value_prefix
    return _read(avro.avro_text(plan.value_schema), value[5:])


def decoded_key(plan: TablePlan, key: bytes) -> Any:
    assert plan.key_schema is not None
    assert key[:5] == plan.key_prefix
    return _read(avro.avro_text(plan.key_schema), key[5:])


def _read(schema: str, raw: bytes) -> Any:
    if schema not in _PARSED:
        _PARSED[schema] = fastavro.parse_schema(json.loads(schema.replace('"logicalType"', '"meaning"')), named_schemas={})
    stream = BytesIO(raw)
    record = fastavro.schemaless_reader(stream, _PARSED[schema])
    assert not stream.read(), "bytes behind the record"
    return record

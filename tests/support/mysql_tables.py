"""Random tables with random rows: each table's plan, and rows as in the log and in result sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
from dblog.codecs import avro, tableplan, topic_naming
from dblog.codecs.envelope import NameAdjustment
from dblog.codecs.plan import TablePlan
from dblog.codecs.rewrites import Hash, Mask, Truncate
from dblog.codecs.transactions import TransactionOrder
from dblog.dialects.mariadb import types as mariadb_types
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema
from dblog.dialects.mysql.values import types
from dblog.model import Column, Table, TableId
from hypothesis import strategies as st
from support.mysql_columns import ABSENT, Cell, Kind, kinds
from support.mysql_log import image, result_row, table_map_body

Row = list[Cell | None]


@dataclass(frozen=True)
class Made:
    """A table: its kinds of columns, the indexes of those left out of records, and its plan."""

    kinds: list[Kind]
    left_out: frozenset[int]
    plan: TablePlan
    modes: types.TypeModes | None = None

    @property
    def table_map(self) -> bytes:
        table = self.plan.table
        codes, metas = bytes(k.code for k in self.kinds), b"".join(k.meta for k in self.kinds)
        return table_map_body(5, table.id.database, table.id.name, codes, metas)

    def image(self, row: Row) -> bytes:
        return image([cell.log if cell else None for cell in row])

    def result_row(self, row: Row) -> bytes:
        return result_row([cell.result if cell else None for cell in row])

    def struct(self, row: Row) -> dict[str, Any]:
        """Return the record's fields for a row, as fastavro reads them."""
        out = {}
        for index, (column, cell) in enumerate(zip(self.plan.columns, row, strict=True)):
            if index in self.left_out:
                continue
            value = ABSENT if cell is None else cell.value
            if value is ABSENT:
                value = None if column.schema.optional else _readable(column, column.zero)
            out[column.name] = value
        return out


def _readable(column: Any, value: Any) -> Any:
    from decimal import Context, Decimal

    if column.schema.name == avro.DECIMAL:
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-column.scale, Context(prec=100))
    return value


def plan_of(
    columns: list[Column],
    *,
    key: tuple[str, ...],
    left_out: frozenset[int] = frozenset(),
    modes: types.TypeModes | None = None,
    name: str = "t",
    **settings: Any,
) -> TablePlan:
    table = Table(id=TableId("shöp", name), columns=tuple(columns), key=key)
    used = modes or types.TypeModes()
    plans = [mariadb_types.column_plan(c, used, table.id, included=i not in left_out) if c.type in ("uuid", "inet4", "inet6")
             else types.column_plan(c, used, table.id, included=i not in left_out) for i, c in enumerate(columns)]  # fmt: skip
    return tableplan.build_table_plan(
        table,
        plans,
        settings=tableplan.PlanSettings(
            connector="mysql",
            source=source_schema("mysql"),
            version="3.6.1.Final",
            naming=topic_naming.TopicNaming(prefix="p"),
            schema_adjustment=NameAdjustment.AVRO,
            **{"skipped_operations": frozenset({"t"}), **settings},
        ),
        key_columns=key,
        key_prefix=lambda _topic, _schema: b"\0\0\0\0\x01",
        value_prefix=lambda _topic, _schema: b"\0\0\0\0\x02",
    )


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    of: st.SearchStrategy[Kind] | None = None,
    columns_max: int = 12,
    modes: st.SearchStrategy[types.TypeModes] | None = None,
    without_key: bool = False,
    **settings: Any,
) -> Made:
    """Draw a table of random columns.

    With ``without_key``, columns of the key may be left out of the row too.
    """
    chosen = draw(st.lists(kinds() if of is None else of, min_size=1, max_size=columns_max))
    columns = [kind.make(f"c{i}", draw(st.booleans())) for i, kind in enumerate(chosen)]
    keyable = [i for i, c in enumerate(columns) if c.type not in ("point", "geometry", "vector", "json")]
    key = draw(st.lists(st.sampled_from(keyable), unique=True, max_size=3)) if keyable else []
    if without_key:
        left_out = draw(st.frozensets(st.sampled_from(range(len(columns))), max_size=len(columns) - 1))
    else:
        left_out = draw(st.frozensets(st.sampled_from([i for i in range(len(columns)) if i not in key] or [0]), max_size=2)) - set(key)
    options = {"tombstones": draw(st.booleans()), "skip_unchanged": draw(st.booleans()), **settings}
    used = None if modes is None else draw(modes)
    plan = plan_of(columns, key=tuple(columns[i].name for i in key), left_out=left_out, modes=used, **options)
    return Made(chosen, left_out, plan, used)


def every_mode() -> st.SearchStrategy[types.TypeModes]:
    """Return a strategy for any combination of the handling modes."""
    return st.builds(
        types.TypeModes,
        time_precision_mode=st.sampled_from(types.TIME_MODES),
        decimal_handling_mode=st.sampled_from(types.DECIMAL_MODES),
        bigint_unsigned_handling_mode=st.sampled_from(types.BIGINT_UNSIGNED_MODES),
        binary_handling_mode=st.sampled_from(types.BINARY_MODES),
        enable_time_adjuster=st.booleans(),
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


def rows_of(made: Made) -> st.SearchStrategy[Row]:
    """Return a strategy for a row.

    Sometimes it has NULL where the schema forbids it, as after an ALTER in a non-strict mode.
    """
    return st.tuples(*[st.one_of(kind.cells, kind.cells, st.none()) for kind in made.kinds]).map(list)


@st.composite
def contexts(draw: st.DrawFn, *, snapshot: str | None = None) -> BinlogContext:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    return BinlogContext(
        file=draw(st.sampled_from(["binlog.000007", "ä.1"])),
        pos=draw(st.integers(4, 2**40)),
        server_id=draw(st.integers(0, 2**32 - 1)),
        source_ts_us=draw(st.integers(-(2**50), 2**50)),
        now_us=draw(st.integers(0, 2**51)),
        sequence_high=draw(st.integers(0, 2**62)),
        sequence_low=draw(st.one_of(st.integers(0, 2**62), st.sampled_from([8, 9, 98, 99, 999]))),
        gtid=draw(st.one_of(st.none(), text)),
        thread=draw(st.one_of(st.none(), st.integers(0, 2**32 - 1))),
        query=draw(st.one_of(st.none(), text)),
        snapshot=snapshot,
        transaction=draw(
            st.one_of(
                st.none(),
                st.builds(TransactionOrder, text, total=st.integers(0, 2**62), of_table=st.one_of(st.integers(0, 99), st.just(2**40))),
            )
        ),
    )


def decoded(plan: TablePlan, value: bytes) -> dict[str, Any]:
    """Decode an envelope with fastavro."""
    assert value[:5] == plan.value_prefix
    return _read(avro.avro_text(plan.value_schema), value[5:])


def undecorated(plan: TablePlan, value: bytes) -> dict[str, Any]:
    """Decode an envelope, but keep dates and decimals as they are stored.

    Python has no year 0 and no negative time of day.
    """
    return _read(avro.avro_text(plan.value_schema).replace('"logicalType"', '"meaning"'), value[5:])


def decoded_key(plan: TablePlan, key: bytes) -> dict[str, Any]:
    assert key[:5] == plan.key_prefix
    return _read(avro.avro_text(plan.key_schema), key[5:])


_PARSED: dict[str, Any] = {}


def _read(schema: str, raw: bytes) -> Any:
    if schema not in _PARSED:
        _PARSED[schema] = fastavro.parse_schema(json.loads(schema), named_schemas={})
    stream = BytesIO(raw)
    record = fastavro.schemaless_reader(stream, _PARSED[schema])
    assert not stream.read(), "bytes behind the record"
    return record

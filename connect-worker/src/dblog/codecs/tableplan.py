"""Builds the plan of one table version: topic, key, schemas, converter frames.

It only assembles: the dialect has decided about each column, the selection about the included
columns, and the converters give the frame of each schema. A plan is built once for each table
version and converter configuration (D4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dblog.codecs.envelope import NameAdjustment, envelope_schema, key_schema, row_schema
from dblog.codecs.plan import ColumnPlan, TablePlan
from dblog.codecs.schema import Schema
from dblog.codecs.topic_naming import TopicNaming
from dblog.errors import DefiniteError
from dblog.model import Table

Prefix = Callable[[str, Schema], bytes]
"""Function of topic and schema that returns the bytes before each record; b"" for a converter
without such a frame. It may ask the registry.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The settings that all tables of a connector share."""

    connector: str
    """Value of ``source.connector``: ``mysql``, ``mariadb`` or ``postgresql``."""
    source: Schema
    """Schema of the source block."""
    version: str
    """Value of ``source.version``."""
    naming: TopicNaming
    schema_adjustment: NameAdjustment = NameAdjustment.NONE
    field_adjustment: NameAdjustment = NameAdjustment.NONE
    tombstones: bool = True
    skipped_operations: frozenset[str] = frozenset({"t"})
    skip_unchanged: bool = False
    unavailable: str = "__debezium_unavailable_value"


def build_table_plan(
    table: Table,
    columns: Sequence[ColumnPlan],
    *,
    settings: PlanSettings,
    key_columns: Sequence[str],
    key_prefix: Prefix,
    value_prefix: Prefix,
    row_parameters: tuple[tuple[str, str], ...] = (),
) -> TablePlan:
    """Return the plan of ``table``.

    ``columns`` are in image order, one for each of ``table.columns``. ``key_columns`` are in key
    order and may be empty. ``row_parameters`` are the parameters of the row's schema.

    A column's name in the plan is its adjusted name in records; ``table.columns`` keeps the
    server's spelling. Raise DefiniteError if two columns adjust to one name, or if a key column is
    unknown.
    """
    assert len(columns) == len(table.columns), "one plan a column, in the order of the image"
    adjusted = tuple(replace(c, name=settings.field_adjustment.field_name(c.name)) for c in columns)
    key = tuple(_index(table, name) for name in key_columns)
    for index in key:
        if adjusted[index].key_schema is None:
            raise DefiniteError(
                f"{table.id}: key column {table.columns[index].name} has a type that this connector cannot capture; "
                "choose other key columns with message.key.columns"
            )
    fields = [(c.name, c.schema) for c in adjusted if c.included and c.schema is not None]
    _refuse_duplicates(table, [name for name, _ in fields])
    topic = settings.naming.table(table.id)
    row = replace(row_schema(topic, fields, adjustment=settings.schema_adjustment), parameters=row_parameters)
    value = envelope_schema(topic, row, settings.source, adjustment=settings.schema_adjustment)
    key_fields = [(adjusted[i].name, s) for i in key if (s := adjusted[i].key_schema) is not None]
    key_struct = key_schema(topic, key_fields, adjustment=settings.schema_adjustment) if key else None
    return TablePlan(
        table=table,
        topic=topic,
        columns=adjusted,
        key=key,
        key_schema=key_struct,
        value_schema=value,
        key_prefix=key_prefix(topic, key_struct) if key_struct is not None else b"",
        value_prefix=value_prefix(topic, value),
        version=settings.version,
        connector=settings.connector,
        server_name=settings.naming.prefix,
        tombstones=settings.tombstones,
        skipped_operations=settings.skipped_operations,
        skip_unchanged=settings.skip_unchanged,
        unavailable=settings.unavailable,
    )


def _index(table: Table, name: str) -> int:
    lowered = name.lower()
    for index, column in enumerate(table.columns):
        if column.name.lower() == lowered:
            return index
    raise DefiniteError(f"{table.id} has no column {name}, which message.key.columns or its key names")


def _refuse_duplicates(table: Table, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DefiniteError(
                f"{table.id}: two columns get the field name {name}; use field.name.adjustment.mode=avro_unicode or exclude one of them"
            )
        seen.add(name)

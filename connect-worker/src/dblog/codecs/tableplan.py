"""The plan of one table version, put together: topic, key, schemas, converter frames.

Pure assembly: the dialect has decided each column, the selection which columns take part, the converters give the frame of each schema.
Built once for each table version and converter configuration (D4).
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
"""(topic, schema) -> the frame in front of each record's bytes; b"" for a converter without one. May ask the registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What is the same for every table of a connector."""

    connector: str
    """``source.connector``: ``mysql``, ``mariadb``, ``postgresql``."""
    source: Schema
    """Of the source block."""
    version: str
    """The value of ``source.version``."""
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
    """The plan of ``table``; ``columns`` in image order, one for each of ``table.columns``; ``key_columns`` in key order, may be empty. ``row_parameters``
    are those of the row's schema.

    A column's name in the plan is its name in records (adjusted); ``table.columns`` keeps the server's spelling. Raises DefiniteError
    for two columns that adjust to one name and for a key column that is unknown.
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

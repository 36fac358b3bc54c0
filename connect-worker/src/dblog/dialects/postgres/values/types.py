"""Decides what each PostgreSQL column becomes in a record: schema, form and default, for every
handling mode of Debezium's.

Source of the rules: Debezium 3.6.1 (PostgresValueConverter, PostgresDefaultValueConverter,
TableSchemaBuilder, ColumnMappers). It is decided once for each table version; nothing here runs per
row. The types themselves are in ``schemas``, the values in ``fields``.
"""

from __future__ import annotations

from dataclasses import replace

from dblog.codecs.plan import ColumnPlan, Form, Unfit
from dblog.codecs.rewrites import Hash, Rewrite, Truncate
from dblog.codecs.schema import Kind
from dblog.dialects.postgres.values.declared import UNLIMITED, declared_length, declared_scale, declared_type
from dblog.dialects.postgres.values.default_field import schema_default
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.plans import PgColumnPlan
from dblog.dialects.postgres.values.schemas import Typed, decimal_scale, fraction_digits, typed
from dblog.dialects.postgres.values.sources import PgSource
from dblog.model import Column, TableId

__all__ = ["PgColumnPlan", "TypeModes", "column_plan"]

_MASKED_TYPES = frozenset({"text", "varchar", "bpchar", "char", "name", "enum", "citext"})
"""Types that a mask or hash changes: Debezium's character types, and citext, which is one although
PostgreSQL's JDBC driver does not say so.
"""


def column_plan(column: Column, modes: TypeModes, table: TableId, *, included: bool = True) -> ColumnPlan:
    """Return the plan of one column of ``table``, whose database is the schema.

    A type that Debezium does not know is left out of the record: ``included`` is False then, and
    there is no schema, not even for a key.
    """
    known = typed(column, modes)
    if known is None:
        return PgColumnPlan(
            name=column.name, source=PgSource.VALUE, form=Form.VALUE, included=False, nullable=column.nullable, declared=column
        )
    default = schema_default(column, known, modes)
    optional = column.nullable or known.schema.optional
    bare = replace(
        known.schema,
        optional=optional,
        default=default,
        doc=column.comment if modes.include_schema_comments and column.comment else known.schema.doc,
    )
    asked = modes.column_rewrite(f"{table.database}.{table.name}.{column.name}") if included and modes.column_rewrite else None
    # The first mapper that names a column is its only one (ColumnMappers), even if it has nothing
    # to do.
    rewrite, parameters = (None, _propagated(column, modes, table)) if asked is None else _rewritten(column, known, asked)
    return PgColumnPlan(
        name=column.name,
        source=known.source,
        form=known.form,
        included=included,
        schema=replace(bare, parameters=bare.parameters + parameters) if included else None,
        nullable=column.nullable,
        length=fraction_digits(column) if known.form is Form.ZONED_TIMESTAMP else column.length or 0,
        scale=decimal_scale(column),
        members=column.members,
        zero=known.zero if default is None else default,
        key_schema=bare,
        rewrite=rewrite,
        unfit=_unfit(known, modes, optional=optional),
        declared=column,
    )


def _unfit(known: Typed, modes: TypeModes, *, optional: bool) -> Unfit:
    """Return the treatment of a value that the schema cannot express: NULL, unless the option says
    fail or the column takes no NULL. This is what Debezium's converter does.
    """
    if not known.fallible:
        return "keep"
    return "null" if optional and modes.event_converting_failure_handling_mode != "fail" else "fail"


def _rewritten(column: Column, known: Typed, asked: Rewrite) -> tuple[Rewrite | None, tuple[tuple[str, str], ...]]:
    """Return the rewrite that a mask, hash or truncation applies to a column, and the parameters
    that it adds to the schema (MaskStrings, TruncateColumn).

    A truncation changes values that are text or bytes in records and may be longer. A column of
    another type gets the parameter and keeps its values.
    """
    length = declared_length(column)
    if isinstance(asked, Truncate):
        if length <= asked.length:
            return None, ()
        works = known.schema.kind is Kind.STRING or known.form is Form.BYTES
        return asked if works else None, (("truncateLength", str(asked.length)),)
    works = column.type in _MASKED_TYPES
    if isinstance(asked, Hash):
        asked = replace(asked, length=0 if length == UNLIMITED else length)
    return asked if works else None, (("masked", "true"),)


def _propagated(column: Column, modes: TypeModes, table: TableId) -> tuple[tuple[str, str], ...]:
    """Return the parameters ``__debezium.source.column.*``, with which consumers can rebuild the
    source type.
    """
    by_column = modes.column_propagate_source_type
    by_type = modes.datatype_propagate_source_type
    name = declared_type(column)
    wanted = (by_column is not None and by_column(f"{table.database}.{table.name}.{column.name}")) or (
        by_type is not None and by_type(f"{table.database}.{table.name}.{name}")
    )
    if not wanted:
        return ()
    parameters = [
        ("__debezium.source.column.type", name.upper()),
        ("__debezium.source.column.length", str(declared_length(column))),
        ("__debezium.source.column.scale", str(declared_scale(column))),
    ]
    if column.comment and modes.include_schema_comments:
        parameters.append(("__debezium.source.column.comment", column.comment))
    parameters.append(("__debezium.source.column.name", column.name))
    return tuple(parameters)

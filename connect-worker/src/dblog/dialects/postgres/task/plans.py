"""Builds the row plans of a table version, for tuples of the log and lines of COPY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.codecs.plan import ColumnPlan, TablePlan
from dblog.codecs.rowplan import ReferencePlan, RowEncoder, Writers
from dblog.codecs.schema import Schema
from dblog.config.namespaces import Namespace
from dblog.config.options import Settings
from dblog.core.selection import KeyRule, Selection, column_rewrite, key_rules, message_key, name_matcher
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.postgres.catalog.read_columns import ReadColumns
from dblog.dialects.postgres.catalog.tables import BUILTIN_SCHEMAS
from dblog.dialects.postgres.pgoutput._fast import FastPlan
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage
from dblog.dialects.postgres.pgoutput.source_block import CONNECTOR, PostgresContext, source_block, source_schema
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.types import column_plan
from dblog.dialects.postgres.values.unavailable import cannot_show
from dblog.model import Column, Table, TableId

_COLUMN, _DATATYPE = "column.propagate.source.type", "datatype.propagate.source.type"


class _NeededColumns:
    """Function that returns the columns of a table that its records or their keys have."""

    def __init__(self, selection: Selection, rules: tuple[KeyRule, ...]) -> None:
        self._selection = selection
        self._rules = rules

    def __call__(self, table: Table) -> frozenset[str]:
        chosen = (column.name for column, included in zip(table.columns, self._selection.columns(table), strict=True) if included)
        return frozenset(chosen) | set(message_key(table, self._rules))


class PostgresPlans:
    """The row plans of one connector. Implements ``readers.contract.RowPlans``."""

    name = CONNECTOR

    def __init__(self, settings: Settings) -> None:
        self._database = settings.text("database.dbname")
        self._modes = TypeModes.from_settings(
            settings,
            column_propagate=name_matcher(settings.originals.get(_COLUMN), option=_COLUMN),
            datatype_propagate=name_matcher(settings.originals.get(_DATATYPE), option=_DATATYPE),
            column_rewrite=column_rewrite(settings.originals),
        )
        self._image = PostgresImage(self._modes)
        selection = Selection.from_settings(settings.originals, namespace=Namespace.SCHEMA, builtin=BUILTIN_SCHEMAS)
        self._needed = _NeededColumns(selection, key_rules(settings.originals.get("message.key.columns")))
        self.chunk_sql = ReadColumns(self._needed)
        """Statements that read only the columns that records have."""

    @property
    def source(self) -> Schema:
        """Schema of the source block."""
        return source_schema()

    def source_block(self, plan: TablePlan, context: PostgresContext, *, row: int) -> dict[str, Any]:
        """Return the ``source`` of one row."""
        return source_block(plan, context, row=row)

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> PostgresContext:
        """Return the context of a chunk's rows: they have the position of the low watermark, and
        belong to no transaction.
        """
        return PostgresContext(
            database=self._database,
            source_ts_us=now_us,
            now_us=now_us,
            sequence_high=low.sequence_high,
            sequence_low=low.sequence_low,
            snapshot="incremental",
        )

    def column_plan(self, column: Column, table: TableId, *, included: bool) -> ColumnPlan:
        """Return the plan of one column."""
        return column_plan(column, self._modes, table, included=included)

    def cannot_show(self, table: Table) -> list[str]:
        """Return the names of the table's columns in which a placeholder looks like a value."""
        plans = (self.column_plan(column, table.id, included=True) for column in table.columns)
        return [plan.name for plan in plans if cannot_show(plan, self._modes)]

    def encoder(self, plan: TablePlan, writers: Writers | None) -> RowEncoder:
        """Return the encoder of a table version: the compiled one if it writes Avro itself, else
        the reference implementation.
        """
        return FastPlan(plan, self._image) if writers is None else ReferencePlan(plan, self._image, writers)

    def schema_change(self, report: Any, at: Any, *, prefix: str, snapshot: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Raise AssertionError: Debezium's PostgreSQL connector reports no schema changes."""
        raise AssertionError(report, at, prefix, snapshot)

"""The way from a table version to records: row plans for row images of the log and for result-set
packets, and the source block of schema changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from dblog import __version__
from dblog.codecs.plan import ColumnPlan, Form, Source, TablePlan
from dblog.codecs.rowplan import ReferencePlan, RowEncoder, Writers
from dblog.codecs.schema import Schema
from dblog.config.column_converters import column_converters
from dblog.config.options import Settings
from dblog.core.selection import column_rewrite, name_matcher
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.mysql.binlog import reread_image, row_image
from dblog.dialects.mysql.binlog._fast import FastPlan
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_block, source_schema
from dblog.dialects.mysql.ddl.schema_changes import SchemaChange, schema_change_values
from dblog.dialects.mysql.task.dialect import BinlogDialect, rereads
from dblog.dialects.mysql.values.types import TypeModes
from dblog.errors import DefiniteError
from dblog.model import Column, TableId

log = structlog.get_logger(__name__)


class BinlogPlans:
    """The row plans of one connector. Implements ``readers.contract.RowPlans``."""

    def __init__(self, dialect: BinlogDialect, settings: Settings) -> None:
        self._dialect = dialect
        self._image = reread_image if rereads(settings) else row_image
        self._modes = TypeModes.from_settings(
            settings,
            column_propagate=name_matcher(settings.originals.get("column.propagate.source.type"), option="column.propagate.source.type"),
            datatype_propagate=name_matcher(
                settings.originals.get("datatype.propagate.source.type"), option="datatype.propagate.source.type"
            ),
            column_rewrite=column_rewrite(settings.originals),
            boolean_column=_boolean_column(settings.originals),
        )

    @property
    def name(self) -> str:
        """The value of ``source.connector``."""
        return self._dialect.name

    @property
    def source(self) -> Schema:
        """The schema of the source block."""
        return source_schema(self._dialect.name)

    def source_block(self, plan: TablePlan, context: BinlogContext, *, row: int) -> dict[str, Any]:
        """Return ``source`` of one row."""
        return source_block(plan, context, row=row)

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> BinlogContext:
        """Return the context of a chunk's rows, which are at the position of the low watermark."""
        return BinlogContext(
            file=low.file,
            pos=low.pos,
            server_id=0,
            source_ts_us=now_us,
            now_us=now_us,
            sequence_high=low.sequence_high,
            sequence_low=low.sequence_low,
            snapshot="incremental",
        )

    def column_plan(self, column: Column, table: TableId, *, included: bool) -> ColumnPlan:
        """Return the plan of a column."""
        plan: ColumnPlan = self._dialect.column_plan(column, self._modes, table, included=included)
        return plan

    def encoder(self, plan: TablePlan, writers: Writers | None) -> RowEncoder:
        """Return the encoder of a table version; it is compiled if the plan writes Avro itself."""
        if odd := [plan.columns[at].name for at in plan.key if _is_made_boolean(plan.columns[at])]:
            raise DefiniteError(
                f"{plan.table.id}: column {', '.join(odd)} is in the key of its records, and would have one key for all numbers but 0 as true and "
                "false; leave it out of the selector of TinyIntOneToBooleanConverter"
            )
        lost = [c.name for c in plan.columns if c.included and c.unfit == "null" and (c.source is Source.TIME or not c.nullable)]
        if lost and self._modes.event_converting_failure_handling_mode == "warn":
            # once per table version, not per value
            log.warning(
                "a TIME below zero or above 24 hours with this time.precision.mode, and an empty geometry, becomes null",
                table=str(plan.table.id),
                columns=", ".join(lost),
            )
        return FastPlan(plan, self._image) if writers is None else ReferencePlan(plan, self._image, writers)

    def schema_change(self, report: SchemaChange, at: Any, *, prefix: str, snapshot: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return key and value of a record of the schema-change topic, as Debezium writes it."""
        source = {
            "version": __version__,
            "connector": self._dialect.name,
            "name": prefix,
            "ts_ms": at.source_ts_us // 1000,
            "snapshot": "true" if snapshot else "false",
            "db": report.database,
            "sequence": None,
            "ts_us": at.source_ts_us,
            "ts_ns": at.source_ts_us * 1000,
            "table": "" if report.of_nothing else ",".join(table.name for table in report.tables) or None,
            "server_id": at.server_id,
            "gtid": at.gtid,
            "file": at.file,
            "pos": at.pos,
            "row": 0,
            "thread": at.thread,
            "query": None,
        }
        return schema_change_values(report, source=source, ts_ms=at.now_us // 1000)


def _boolean_column(properties: Mapping[str, str]) -> Callable[[str, int | None], bool] | None:
    """Return the predicate of columns that become true and false; None without such a converter."""
    chosen = [
        (name_matcher(one.selector, option=one.option) if one.selector else None, one.only_width_one)
        for one in column_converters(properties)[0]
    ]
    if not chosen:
        return None

    def is_boolean(name: str, width: int | None) -> bool:
        return any((width == 1 or not only_one) and (matches is None or matches(name)) for matches, only_one in chosen)

    return is_boolean


def _is_made_boolean(column: ColumnPlan) -> bool:
    return column.form is Form.BOOLEAN and column.source is not Source.BIT

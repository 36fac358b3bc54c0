"""Makes the records of a binlog task: the row encoder of each table version, and the few records that are no rows.

Rows go the compiled way when both converters are Avro (the row plan writes their bytes itself), else through the converters, value by value. Markers,
heartbeats and schema changes are rare and always take the converters.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import Any

import structlog

from dblog import __version__
from dblog.clock import Clock
from dblog.codecs import envelope, marker
from dblog.codecs._fast import FastPlan
from dblog.codecs.logitems import LogEvent
from dblog.codecs.plan import RowContext, Source, TablePlan
from dblog.codecs.rowplan import RowEncoder, SlowPlan, Writers, source_block
from dblog.codecs.schema import Schema
from dblog.codecs.tableplan import PlanSettings, Prefix, TopicNaming, build_table_plan
from dblog.codecs.transactions import TransactionBorder
from dblog.config.options import Settings
from dblog.core.dumps import key_to_json
from dblog.core.selection import Selection, column_rewrite, key_rules, message_key, name_matcher
from dblog.core.watermark import MarkPosition
from dblog.dialects.mysql import image
from dblog.dialects.mysql.offset import LogProgress
from dblog.dialects.mysql.tablechanges import SchemaChange, schema_change_values
from dblog.dialects.mysql.types import TypeModes
from dblog.kafka.converters import Converter
from dblog.model import Headers, Segment, Table
from dblog.readers.binlog_dialect import BinlogDialect
from dblog.readers.interleaved import ChunkMarker

log = structlog.get_logger(__name__)


class Encoders:
    """One connector's record makers. Registry calls happen here, when a table version or a record kind is first met."""

    def __init__(
        self,
        *,
        settings: Settings,
        dialect: BinlogDialect,
        key_converter: Converter,
        value_converter: Converter,
        clock: Clock,
        task: int,
    ) -> None:
        self._settings = settings
        self._dialect = dialect
        self._key = key_converter
        self._value = value_converter
        self._clock = clock
        self._naming = TopicNaming(
            prefix=settings.text("topic.prefix"),
            delimiter=settings.text("topic.delimiter"),
            heartbeat_prefix=settings.text("topic.heartbeat.prefix"),
            heartbeat_name=settings.text_or_none("topic.heartbeat.name"),
            transaction_suffix=settings.text("topic.transaction"),
        )
        self._selection = Selection.from_settings(settings.originals)
        self._modes = TypeModes.from_settings(
            settings,
            column_propagate=name_matcher(settings.originals.get("column.propagate.source.type"), option="column.propagate.source.type"),
            datatype_propagate=name_matcher(
                settings.originals.get("datatype.propagate.source.type"), option="datatype.propagate.source.type"
            ),
            column_rewrite=column_rewrite(settings.originals),
        )
        self._key_rules = key_rules(settings.originals.get("message.key.columns"))
        self._plan_settings = PlanSettings(
            connector=dialect.name,
            version=__version__,
            naming=self._naming,
            schema_adjustment=envelope.NameAdjustment(settings.text("schema.name.adjustment.mode")),
            field_adjustment=envelope.NameAdjustment(settings.text("field.name.adjustment.mode")),
            tombstones=settings.boolean("tombstones.on.delete"),
            skipped_operations=frozenset(o.strip() for o in settings.items_of("skipped.operations")) - {"none"},
            skip_unchanged=settings.boolean("skip.messages.without.change"),
            unavailable=settings.text("unavailable.value.placeholder"),
        )
        self.context_headers: Headers = (
            [
                ("__debezium.context.connectorLogicalName", settings.text("topic.prefix").encode()),
                ("__debezium.context.taskId", str(task).encode()),
                ("__debezium.context.connectorName", dialect.name.encode()),
                ("__debezium.context.runId", _run_id(clock.now_us() // 1000).encode()),
            ]
            if settings.boolean("extended.headers.enabled")
            else []
        )

    def encoder(self, table: Table) -> RowEncoder:
        """The row encoder of a table version."""
        plan = self._plan(table, self._key.prefix, self._value.prefix)
        lost = [c.name for c in plan.columns if c.included and c.unfit == "null" and (c.source is Source.TIME or not c.nullable)]
        if lost and self._modes.event_converting_failure_handling_mode == "warn":
            # Once for a table version, not for each value.
            log.warning(
                "a TIME below zero or above 24 hours with this time.precision.mode, and an empty geometry, becomes null",
                table=str(table.id),
                columns=", ".join(lost),
            )
        if self._key.is_avro and self._value.is_avro:
            return FastPlan(plan, image)
        key_schema = plan.key_schema
        return SlowPlan(
            plan,
            image,
            Writers(
                key=lambda value: self._key.serialize(plan.topic, key_schema, value) or b"",
                value=lambda value: self._value.serialize(plan.topic, plan.value_schema, value) or b"",
            ),
        )

    def schemas(self, table: Table) -> TablePlan:
        """The schemas of a table version's records, with nothing registered."""
        return self._plan(table, lambda _topic, _schema: b"", lambda _topic, _schema: b"")

    def converters(self) -> tuple[Converter, Converter]:
        """Of keys and values."""
        return self._key, self._value

    def _plan(self, table: Table, key_prefix: Prefix, value_prefix: Prefix) -> TablePlan:
        included = self._selection.columns(table)
        columns = [
            self._dialect.column_plan(column, self._modes, table.id, included=chosen and not column.hidden)
            for column, chosen in zip(table.columns, included, strict=True)
        ]
        return build_table_plan(
            table,
            columns,
            settings=self._plan_settings,
            key_columns=message_key(table, self._key_rules),
            key_prefix=key_prefix,
            value_prefix=value_prefix,
        )

    def marker(self, made: ChunkMarker) -> Segment | None:
        """The record of a closed window (D6)."""
        topic = self._settings.text_or_none("dblog.chunk.marker.topic") or f"{self._settings.text('topic.prefix')}.dblog.chunks"
        value = {
            "version": __version__,
            "connector": self._dialect.name,
            "server": self._settings.text("topic.prefix"),
            "table": str(made.table),
            "chunk_id": made.chunk_id,
            "range_after": None if made.after is None else json.dumps(key_to_json(made.after)),
            "range_upto": None if made.upto is None else json.dumps(key_to_json(made.upto)),
            "final": made.final,
            "low": _place(made.low),
            "high": _place(made.high),
            "rows_read": made.rows_read,
            "rows_dropped": made.rows_dropped,
            "digest": marker.signed(made.digest),
            "topic": made.topic,
            "offsets": None,
            "ts_ms": self._clock.now_us() // 1000,
        }
        return self._segment(topic, marker.MARKER_KEY, {"table": str(made.table)}, marker.MARKER_VALUE, value, partition=None)

    def heartbeat(self) -> Segment:
        """One beat, with the wall clock's time."""
        return self._segment(
            self._naming.heartbeat,
            envelope.HEARTBEAT_KEY,
            {"serverName": self._settings.text("topic.prefix")},
            envelope.HEARTBEAT_VALUE,
            {"ts_ms": self._clock.now_us() // 1000},
            partition=0,
        )

    def borders(self, borders: Sequence[TransactionBorder]) -> Segment:
        """The records of transactions that begin and end, in log order; one partition keeps it."""
        topic = self._naming.transactions
        return Segment(
            topic,
            [self._key.serialize(topic, envelope.TRANSACTION_KEY, {"id": border.id}) for border in borders],
            [self._value.serialize(topic, envelope.TRANSACTION_VALUE, _border_value(border)) for border in borders],
            partition=0,
            context_headers=False,
        )

    def truncated(self, event: LogEvent, encoder: RowEncoder) -> Segment | None:
        """The record of a TRUNCATE TABLE (op ``t``, no key), None where ``skipped.operations`` leaves it out (Debezium's default)."""
        plan = encoder.plan
        if "t" in plan.skipped_operations:
            return None
        now_us = self._clock.now_us()
        value = {
            "source": source_block(plan, _context_of(event, now_us), row=0),
            "op": "t",
            "ts_ms": now_us // 1000,
            "ts_us": now_us,
            "ts_ns": now_us * 1000,
        }
        return Segment(plan.topic, [None], [self._value.serialize(plan.topic, plan.value_schema, value)], plan.table.id)

    def schema_change(self, event: LogEvent, change: SchemaChange) -> Segment:
        """One record of the schema-change topic, as Debezium writes it."""
        return self._schema_change(_context_of(event, self._clock.now_us()), change, snapshot="false")

    def first_schema(self, at: LogProgress, change: SchemaChange) -> Segment:
        """The same for what the connector found at its first start."""
        now_us = self._clock.now_us()
        context = RowContext(
            file=at.file,
            pos=at.pos,
            server_id=0,
            source_ts_us=now_us,
            now_us=now_us,
            sequence_high=at.sequence[0],
            sequence_low=at.sequence[1],
        )
        return self._schema_change(context, change, snapshot="true")

    def _schema_change(self, at: RowContext, change: SchemaChange, *, snapshot: str) -> Segment:
        source = {
            "version": __version__,
            "connector": self._dialect.name,
            "name": self._naming.prefix,
            "ts_ms": at.source_ts_us // 1000,
            "snapshot": snapshot,
            "db": change.database,
            "sequence": None,
            "ts_us": at.source_ts_us,
            "ts_ns": at.source_ts_us * 1000,
            "table": "" if change.of_nothing else ",".join(table.name for table in change.tables) or None,
            "server_id": at.server_id,
            "gtid": at.gtid,
            "file": at.file,
            "pos": at.pos,
            "row": 0,
            "thread": at.thread,
            "query": None,
        }
        key, value = schema_change_values(change, source=source, ts_ms=at.now_us // 1000)
        return self._segment(
            self._naming.schema_changes,
            envelope.schema_change_key(self._dialect.name),
            key,
            envelope.schema_change_value(self._dialect.name),
            value,
            partition=0,
            context_headers=True,
        )

    def _segment(
        self,
        topic: str,
        key_schema: Schema,
        key: Any,
        value_schema: Schema,
        value: Any,
        *,
        partition: int | None,
        context_headers: bool = False,
    ) -> Segment:
        return Segment(
            topic,
            [self._key.serialize(topic, key_schema, key)],
            [self._value.serialize(topic, value_schema, value)],
            partition=partition,
            context_headers=context_headers,
        )


def _run_id(now_ms: int) -> str:
    """A number for one run of a task, as Debezium 3.6 gives itself one: UUID version 7, so that runs sort by their start (RFC 9562)."""
    random = int.from_bytes(os.urandom(10))
    return str(uuid.UUID(int=now_ms << 80 | 7 << 76 | (random >> 62 & 0xFFF) << 64 | 2 << 62 | random & (1 << 62) - 1))


def _border_value(border: TransactionBorder) -> dict[str, Any]:
    counts = border.tables
    return {
        "status": "BEGIN" if counts is None else "END",
        "id": border.id,
        "event_count": None if counts is None else sum(counts.values()),
        "data_collections": None
        if counts is None
        else [{"data_collection": table, "event_count": records} for table, records in sorted(counts.items())],
        "ts_ms": border.ts_us // 1000,
    }


def _context_of(event: LogEvent, now_us: int) -> RowContext:
    return RowContext(
        file=event.file,
        pos=event.start_pos,
        server_id=event.server_id,
        source_ts_us=event.source_ts_us or event.timestamp_s * 1_000_000,
        now_us=now_us,
        sequence_high=event.sequence_high,
        sequence_low=event.sequence_low,
        gtid=event.gtid,
        thread=event.thread,
    )


def _place(position: MarkPosition) -> dict[str, Any]:
    return {
        "file": position.file,
        "pos": position.pos,
        "gtid": position.gtid,
        "sequence_high": position.sequence_high,
        "sequence_low": position.sequence_low,
    }

"""Makes the records of a task: the row encoder of each table version, and the few records that are
not rows.

Rows take the compiled path if both converters are Avro (the row plan writes their bytes itself),
else they go through the converters value by value. Markers, heartbeats and schema changes are rare
and always use the converters.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from zlib import crc32

import structlog

from dblog import __version__
from dblog.clock import Clock
from dblog.codecs import envelope, marker
from dblog.codecs.avro import avro_text
from dblog.codecs.notification import NOTIFICATION_KEY, NOTIFICATION_VALUE
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import RowEncoder, Writers
from dblog.codecs.schema import Schema
from dblog.codecs.tableplan import PlanSettings, Prefix, build_table_plan
from dblog.codecs.topic_naming import own_topic
from dblog.codecs.transactions import TransactionBorder
from dblog.config.namespaces import namespace_of
from dblog.config.options import Settings
from dblog.core.dumps import key_to_json
from dblog.core.notices import Notice
from dblog.core.selection import Selection, key_rules, message_key
from dblog.core.watermark import WatermarkPosition
from dblog.errors import DblogError, DefiniteError
from dblog.kafka.converters import Converter, UnframedAvro
from dblog.kafka.frames import frames, registers_together
from dblog.model import Headers, Segment, Table, TableId
from dblog.readers.chunk_read import ChunkMarker
from dblog.readers.contract import Progress, RowPlans
from dblog.readers.items import OtherRecord
from dblog.readers.notification_size import smaller_notifications
from dblog.readers.reserved_topics import state_topics
from dblog.readers.schema_change_size import smaller_forms, value_bytes_max
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.topics import SharedTopicWarnings, naming_of
from dblog.transforms.chain import Chain
from dblog.transforms.dead_letters import DeadLetters
from dblog.transforms.stage import TransformStage

Made = TypeVar("Made")

log = structlog.get_logger(__name__)


class Records:
    """Makers of one connector's records. They ask the registry at the first use of a table version
    or kind of record.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        plans: RowPlans,
        key_converter: Converter,
        value_converter: Converter,
        clock: Clock,
        task: int,
        record_bytes_max: int | None = None,
        chain: Chain | None = None,
    ) -> None:
        self._settings = settings
        self._plans = plans
        self._final_key = self._key = key_converter
        self._final_value = self._value = value_converter
        self._clock = clock
        self._naming = naming_of(settings)
        self._selection = Selection.from_settings(settings.originals, namespace=namespace_of(settings))
        self._key_rules = key_rules(settings.originals.get("message.key.columns"))
        self._plan_settings = PlanSettings(
            connector=plans.name,
            source=plans.source,
            version=__version__,
            naming=self._naming,
            schema_adjustment=envelope.NameAdjustment(settings.text("schema.name.adjustment.mode")),
            field_adjustment=envelope.NameAdjustment(settings.text("field.name.adjustment.mode")),
            tombstones=settings.boolean("tombstones.on.delete"),
            skipped_operations=frozenset(o.strip() for o in settings.items_of("skipped.operations")) - {"none"},
            skip_unchanged=settings.boolean("skip.messages.without.change"),
            unavailable=settings.text("unavailable.value.placeholder"),
        )
        self._value_bytes_max = value_bytes_max(record_bytes_max)
        self._schema_change_value = envelope.schema_change_value(plans.name, plans.source)
        self.context_headers: Headers = (
            [
                ("__debezium.context.connectorLogicalName", settings.text("topic.prefix").encode()),
                ("__debezium.context.taskId", str(task).encode()),
                ("__debezium.context.connectorName", plans.name.encode()),
                ("__debezium.context.runId", _run_id(clock.now_us() // 1000).encode()),
            ]
            if settings.boolean("extended.headers.enabled")
            else []
        )
        self._kept_topics = state_topics(settings)
        tolerate = settings.originals.get("errors.tolerance", "").strip().lower() == "all"
        # Avro writes every row, so only other converters may fail on one.
        may_fail = tolerate and not (key_converter.is_avro and value_converter.is_avro)
        if chain is None and may_fail:
            chain = Chain(())
        self._chain = chain
        self.stage: TransformStage | None = None
        """Chain of transforms that records pass before they are queued; None if topics are named by
        the chain already, or there is none. A chain of none has a stage if errors are tolerated and a
        converter may fail.
        """
        if chain is not None and (may_fail or not chain.routes_only):
            self.stage = TransformStage(
                chain,
                key_converter=key_converter,
                value_converter=value_converter,
                context_headers=self.context_headers,
                tolerate=tolerate,
                kept_topics=self._kept_topics,
                classes=(type(key_converter).__name__, type(value_converter).__name__),
                dead_letters=_dead_letters(settings, task),
            )
            self._key = self._value = UnframedAvro()

    def encoder(self, table: Table) -> RowEncoder:
        """Return the row encoder of a table version."""
        return self._encoder(self._plan(table, self._key.prefix, self._value.prefix), lambda topic, _: topic)

    def encoders(self, tables: Sequence[Table]) -> list[RowEncoder | None]:
        """Return the row encoders of several table versions, whose schemas are registered together.

        An encoder that cannot be built is None; ``encoder`` raises the reason. Raise TransientError
        if none can be built.
        """
        if self.stage is not None:
            return [_made(lambda table=table: self.encoder(table)) for table in tables]  # type: ignore[misc]
        plans = [_made(lambda table=table: self.schemas(table)) for table in tables]  # type: ignore[misc]
        asked = [
            (converter, plan.topic, schema)
            for plan in plans
            if plan is not None
            for converter, schema in ((self._key, plan.key_schema), (self._value, plan.value_schema))
            if schema is not None
        ]
        framed = iter(frames(asked))
        return [None if plan is None else self._framed(plan, framed) for plan in plans]

    def _framed(self, plan: TablePlan, framed: Iterator[bytes | None]) -> RowEncoder | None:
        """Return the encoder with the next frames; None if they could not be registered."""
        key, value = b"" if plan.key_schema is None else next(framed), next(framed)
        if key is None or value is None:
            return None
        whole = replace(plan, key_prefix=key, value_prefix=value)
        return _made(lambda: self._encoder(whole, lambda topic, _: topic))

    @property
    def registered_together(self) -> bool:
        """True if one request registers the schemas of several tables."""
        return self.stage is None and (registers_together(self._key) or registers_together(self._value))

    def partial_encoder(self, table: Table, columns: Collection[str]) -> RowEncoder:
        """Return the encoder of rows that have only the key and these columns, named as on the
        server.

        Their schema has its own subject. The registry compares a new version with the previous one.
        Under the subject of whole rows it would refuse the table's next columns without defaults,
        after a version that lacks the others.
        """
        names = {name.lower() for name in columns} | {name.lower() for name in message_key(table, self._key_rules)}

        def subject_topic(topic: str, schema: Schema) -> str:
            return f"{topic}.columns.{crc32(avro_text(schema, subject=topic).encode()):08x}" if self._value.is_avro else topic

        plan = self._plan(
            table,
            self._key.prefix,
            lambda topic, schema: self._value.prefix(subject_topic(topic, schema), schema),
            only=frozenset(names),
        )
        return self._encoder(plan, subject_topic)

    def _encoder(self, plan: TablePlan, value_topic: Callable[[str, Schema], str]) -> RowEncoder:
        if self._key.is_avro and self._value.is_avro:
            return self._plans.encoder(plan, None)
        key_schema, topic = plan.key_schema, value_topic(plan.topic, plan.value_schema)
        writers = Writers(
            key=lambda value: self._key.serialize(plan.topic, key_schema, value) or b"",
            value=lambda value: self._value.serialize(topic, plan.value_schema, value) or b"",
        )
        return self._plans.encoder(plan, writers)

    def topic_warnings(self, warnings: StandingWarnings) -> SharedTopicWarnings:
        """Return the warnings about topics that captured tables share."""
        return SharedTopicWarnings(self._settings, warnings, route=self._routed)

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a table's rows, as far as transforms decide it by the topic's name."""
        return self._routed(self._naming.table(table))

    def topic_ahead(self, table: TableId) -> str | None:
        """Return the topic that will get the table's rows; None if only the rows show it."""
        return self.topic_of(table) if self._chain is None or self._chain.keeps_all else None

    def _routed(self, topic: str) -> str:
        return topic if self._chain is None else self._chain.route(topic)

    def _named(self, topic: str) -> str:
        """Return the topic of a record that is made here: as it is if the chain still sees the
        record.
        """
        return topic if self.stage is not None else self._routed(topic)

    def transforms_fault(self, *, whole: bool) -> str | None:
        """Return why the sink could not find the rows of a dump again, or None if it can.

        ``whole`` is True for a dump that needs every row to be in the topic.
        """
        if self._chain is None or (self._chain.keeps_all if whole else self.stage is None or not self._chain.steps):
            return None
        if whole and self._chain.keeps_rows:
            return "its transforms drop records, so a row that is not in the topic may be in the source"
        return "its transforms change the records of rows, so nobody could compare them with the source"

    def schemas(self, table: Table) -> TablePlan:
        """Return the plan with the schemas of a table version's records, without
        registering them.
        """
        return self._plan(table, lambda _topic, _schema: b"", lambda _topic, _schema: b"")

    def converters(self) -> tuple[Converter, Converter]:
        """Return the converters of keys and of values."""
        return self._final_key, self._final_value

    def _plan(self, table: Table, key_prefix: Prefix, value_prefix: Prefix, *, only: frozenset[str] | None = None) -> TablePlan:
        """Return the plan of a table version; ``only`` limits it to these captured columns (lower
        case).
        """
        included = self._selection.columns(table)
        named = self._named
        columns = [
            self._plans.column_plan(
                column, table.id, included=chosen and not column.hidden and (only is None or column.name.lower() in only)
            )
            for column, chosen in zip(table.columns, included, strict=True)
        ]
        plan = build_table_plan(
            table,
            columns,
            settings=self._plan_settings,
            key_columns=message_key(table, self._key_rules),
            key_prefix=lambda topic, schema: key_prefix(named(topic), schema),
            value_prefix=lambda topic, schema: value_prefix(named(topic), schema),
            row_parameters=() if only is None else envelope.PARTIAL,
        )
        if self._chain is not None:
            plan = replace(plan, topic=named(plan.topic), transformed=self.stage is not None)
        if self.stage is None and (option := self._kept_topics.get(plan.topic)) is not None:
            raise DefiniteError(
                f"table {table.id}: its rows would come into the topic {plan.topic} of {option}, which no record of a table belongs in; leave the table out "
                "with table.exclude.list, or give that option another name"
            )
        return plan

    def marker(self, made: ChunkMarker) -> Segment | None:
        """Return the record of a closed window (D6).

        Return None if transforms change the rows, for a reader could not find them by the marker, and
        if a converter writes no such record.
        """
        if not (self._final_key.writes_structs and self._final_value.writes_structs):
            return None
        if self._chain is not None and not self._chain.keeps_rows:
            return None
        topic = self._settings.text_or_none("dblog.chunk.marker.topic") or own_topic("chunks", self._settings.text("topic.prefix"))
        value = {
            "version": __version__,
            "connector": self._plans.name,
            "server": self._settings.text("topic.prefix"),
            "table": str(made.table),
            "chunk_id": made.chunk_id,
            "range_after": None if made.after is None else json.dumps(key_to_json(made.after)),
            "range_upto": None if made.upto is None else json.dumps(key_to_json(made.upto)),
            "final": made.final,
            "low": _log_position(made.low),
            "high": _log_position(made.high),
            "rows_read": made.rows_read,
            "rows_dropped": made.rows_dropped,
            "digest": marker.signed(made.digest),
            "topic": made.topic if self.stage is None else self._routed(made.topic),
            "offsets": None,
            "ts_ms": self._clock.now_us() // 1000,
            "dump": made.dump,
            "mode": made.mode,
            "begins": made.begins,
            "scope": made.scope,
            "fingerprints": made.fingerprints,
            "schemas": None if made.schemas is None else dict(zip(("key", "row"), made.schemas, strict=True)),
            "low_ts_ms": made.opened_ms,
            "own_left": made.own_left,
            "rows_passed": made.rows_passed,
        }
        return Segment(
            topic,
            [self._final_key.serialize(topic, marker.MARKER_KEY, {"table": str(made.table)})],
            [self._final_value.serialize(topic, marker.MARKER_VALUE, value)],
            context_headers=False,
        )

    def notification(self, notice: Notice) -> Segment:
        """Return the record of a dump's notice. A notice without an id gets a random one."""
        topic = self._settings.text("notification.sink.topic.name")
        identity = notice.id if notice.id is not None else str(uuid.uuid4())
        value = {
            "id": identity,
            "type": notice.type,
            "aggregate_type": notice.aggregate,
            "additional_data": {**notice.data, "connector_name": self._settings.text("topic.prefix")},
            "timestamp": self._clock.now_us() // 1000,
        }
        segment = self._segment(topic, NOTIFICATION_KEY, {"id": identity}, NOTIFICATION_VALUE, value, partition=None)
        bytes_total = _value_bytes(segment)
        if bytes_total <= self._value_bytes_max:
            return segment
        for smaller in smaller_notifications(value):
            segment = self._segment(topic, NOTIFICATION_KEY, {"id": identity}, NOTIFICATION_VALUE, smaller, partition=None)
            if _value_bytes(segment) <= self._value_bytes_max:
                break
        log.warning(
            "a notification is cut: its record would be larger than Kafka takes", topic=topic, type=notice.type, record_bytes=bytes_total
        )
        return segment

    def heartbeat(self) -> Segment:
        """Return a heartbeat with the wall clock's time."""
        return self._segment(
            self._naming.heartbeat,
            envelope.HEARTBEAT_KEY,
            {"serverName": self._settings.text("topic.prefix")},
            envelope.HEARTBEAT_VALUE,
            {"ts_ms": self._clock.now_us() // 1000},
            partition=0,
        )

    def borders(self, borders: Sequence[TransactionBorder]) -> Segment:
        """Return the records of transactions that begin and end, in log order, for one
        partition.
        """
        topic = self._named(self._naming.transactions)
        return Segment(
            topic,
            [self._key.serialize(topic, envelope.TRANSACTION_KEY, {"id": border.id}) for border in borders],
            [self._value.serialize(topic, envelope.TRANSACTION_VALUE, _border_value(border)) for border in borders],
            partition=0,
            context_headers=False,
            way_out="set provide.transaction.metadata=false",
            schemas=self._unwritten(envelope.TRANSACTION_KEY, envelope.TRANSACTION_VALUE),
        )

    def other(self, item: OtherRecord) -> Segment:
        """Return a record of the log that belongs to no table."""
        topic = self._naming.other(item.suffix)
        return self._segment(topic, item.key_schema, item.key, item.value_schema, item.value, partition=None, way_out=item.way_out)

    def chunk_context(self, low: WatermarkPosition, now_us: int) -> RowContext:
        """Return the context of a chunk's rows, from the low watermark of its window."""
        return self._plans.chunk_context(low, now_us)

    def truncated(self, at: RowContext, encoder: RowEncoder) -> Segment | None:
        """Return the record of a TRUNCATE TABLE (op ``t``, no key).

        Return None if ``skipped.operations`` excludes it, which is Debezium's default.
        """
        plan = encoder.plan
        if "t" in plan.skipped_operations:
            return None
        now_us = self._clock.now_us()
        value = {
            "source": self._plans.source_block(plan, at, row=0),
            "op": "t",
            "ts_ms": now_us // 1000,
            "ts_us": now_us,
            "ts_ns": now_us * 1000,
        }
        return Segment(
            plan.topic,
            [None],
            [self._value.serialize(plan.topic, plan.value_schema, value)],
            plan.table.id,
            schemas=plan.unwritten_schemas,
        )

    def schema_change(self, at: RowContext, report: Any) -> Segment:
        """Return a record of the schema-change topic; ``report`` is the dialect's."""
        return self._schema_change(replace(at, now_us=self._clock.now_us()), report, snapshot=False)

    def first_schema(self, at: Progress, report: Any) -> Segment:
        """Return a schema-change record for a table found at the connector's first start."""
        return self._schema_change(at.row_context(now_us=self._clock.now_us()), report, snapshot=True)

    def _schema_change(self, at: RowContext, report: Any, *, snapshot: bool) -> Segment:
        key, value = self._plans.schema_change(report, at, prefix=self._naming.prefix, snapshot=snapshot)
        segment = self._schema_change_of(key, value)
        bytes_total = _value_bytes(segment)
        if bytes_total <= self._value_bytes_max:
            return segment
        for smaller in smaller_forms(value):
            segment = self._schema_change_of(key, smaller)
            if _value_bytes(segment) <= self._value_bytes_max:
                break
        log.warning(
            "a statement is cut in the schema-change topic: its record would be larger than Kafka takes",
            topic=self._naming.schema_changes,
            database=value["databaseName"],
            statement_characters=len(value["ddl"]),
            record_bytes=bytes_total,
            bytes_max=self._value_bytes_max,
            at=str(at),
        )
        return segment

    def _schema_change_of(self, key: Any, value: Any) -> Segment:
        return self._segment(
            self._naming.schema_changes,
            envelope.schema_change_key(self._plans.name),
            key,
            self._schema_change_value,
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
        way_out: str = "",
    ) -> Segment:
        topic = self._named(topic)
        return Segment(
            topic,
            [self._key.serialize(topic, key_schema, key)],
            [self._value.serialize(topic, value_schema, value)],
            partition=partition,
            context_headers=context_headers,
            way_out=way_out,
            schemas=self._unwritten(key_schema, value_schema),
        )

    def _unwritten(self, key: Schema, value: Schema) -> tuple[Schema, Schema] | None:
        """Return the schemas for the chain of transforms; None if records are finished here."""
        return None if self.stage is None else (key, value)


def _dead_letters(settings: Settings, task: int) -> DeadLetters | None:
    """Return the maker of records about failed ones; None if no topic is named."""
    topic = settings.text_or_none("errors.deadletterqueue.topic.name")
    if not topic:
        return None
    return DeadLetters(
        topic=topic,
        connector=settings.originals.get("name", ""),
        task=task,
        whole=settings.boolean("dblog.errors.deadletterqueue.records"),
        headers=settings.boolean("errors.deadletterqueue.context.headers.enable"),
    )


def _made(make: Callable[[], Made]) -> Made | None:
    """Return the result, or None if a DblogError is raised."""
    try:
        return make()
    except DblogError:
        return None


def _run_id(now_ms: int) -> str:
    """Return an identifier of one run of a task, as Debezium 3.6 makes it.

    It is a UUID of version 7, so runs sort by their start (RFC 9562).
    """
    random = int.from_bytes(os.urandom(10))
    return str(uuid.UUID(int=now_ms << 80 | 7 << 76 | (random >> 62 & 0xFFF) << 64 | 2 << 62 | random & (1 << 62) - 1))


def _value_bytes(segment: Segment) -> int:
    return sum(len(value or b"") for value in segment.values)


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


def _log_position(position: WatermarkPosition) -> dict[str, Any]:
    return {
        "file": position.file,
        "pos": position.pos,
        "gtid": position.gtid,
        "sequence_high": position.sequence_high,
        "sequence_low": position.sequence_low,
    }

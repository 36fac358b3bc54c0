"""A connector's task without Kafka, for any database.

The sent records are folded here, and the offset is kept over several runs of the task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

from dblog.clock import SystemClock
from dblog.config.connector import parse_connector
from dblog.config.options import Option, Settings
from dblog.core.dumprequests import DumpRequest, parse_request
from dblog.kafka.converters import converters_of
from dblog.model import Headers, OffsetMap
from dblog.readers.contract import Source
from dblog.readers.log.history import SchemaHistory
from dblog.readers.records import Records
from dblog.readers.run.task import ReaderTask
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings
from dblog.readers.standing_warnings import StandingWarnings
from dblog.transforms.configuration import chain_of
from support.history import FakeHistoryLog

TIMEOUT_S = 120.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts from which a task is built."""

    settings: Settings
    source: Source
    records: Records


class TaskFollower:
    """A connector over several task runs, with its sent records and the stored offset.

    A subclass implements access to the database.
    """

    def __init__(self, config: Mapping[str, str], options: Sequence[Option]) -> None:
        self.config = {
            "schema.history.internal.kafka.topic": "h",
            "schema.history.internal.kafka.bootstrap.servers": "unused:9092",
            "key.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            **config,
        }
        self.options = options
        self.name = self.config["name"]
        self.history = FakeHistoryLog()
        self.wrapped: Callable[[Source], Source] = lambda source: source
        """Wraps the source of the next runs."""
        self.rows: dict[str, dict[str, Row]] = {}
        self.values: list[tuple[str, Row | None]] = []
        self.headers: list[tuple[str, Headers]] = []
        """Headers of the records that have some, with the table."""
        self.reported: list[Row] = []
        """Records for the schema-change topic."""
        self.notifications: list[Row] = []
        """Records for the notification topic."""
        self.borders: list[Row] = []
        """Records for the transaction topic."""
        self.marked: Callable[[bytes], None] = lambda _: None
        """Called with the value of each chunk marker, in order with the rows."""
        self.offset: OffsetMap | None = None
        self.requests: dict[str, DumpRequest] = {}
        """The requested dumps by id."""
        self.signal_topic: SignalTopicSettings | None = None
        """An additional topic from which the next task reads signals."""
        self.signal_file: SignalFileSettings | None = None
        self.task = self.new_task()

    def source_of(self, settings: Settings) -> Source:
        """Return the source for these options."""
        raise NotImplementedError

    def selected(self, table: str) -> list[Row]:
        """Return the current rows of a table in the database."""
        raise NotImplementedError

    def parts(self) -> Parts:
        """Return the parts of the next task."""
        settings = parse_connector(self.options, self.config)
        source = self.source_of(settings)
        key, value = converters_of({}, self.config, own_registry=None)
        records = Records(
            settings=settings,
            plans=source.plans,
            key_converter=key,
            value_converter=value,
            clock=SystemClock(),
            task=0,
            chain=chain_of(self.config),
        )
        return Parts(settings=settings, source=source, records=records)

    def new_task(self) -> ReaderTask:
        """Return a task of this connector that has not started. ``config`` may have changed."""
        parts = self.parts()
        self.warnings = StandingWarnings()
        return ReaderTask(
            connector=self.name,
            settings=parts.settings,
            source=self.wrapped(parts.source),
            records=parts.records,
            history=SimpleNamespace(open=lambda: SchemaHistory(self.history, server=self.config["topic.prefix"])),
            clock=SystemClock(),
            requests=sorted(self.requests.values(), key=lambda request: request.created_ms),
            warnings=self.warnings,
            signal_topic=self.signal_topic,
            signal_file=self.signal_file,
        )

    # ---- requested dumps

    def ask(self, *tables: str, **body: Any) -> DumpRequest:
        """Request a dump from the running task, after the check that a worker makes.

        The dump continues over restarts.
        """
        number = len(self.requests) + 1
        asked = {"tables": list(tables), **body}
        request = parse_request(asked, id=f"{number:012x}", connector=self.name, created_ms=number, requested_by="test")
        desk = self.task.desk
        assert desk is not None
        desk.check(request)
        return self.tell(request)

    def tell(self, request: DumpRequest) -> DumpRequest:
        """Give the task a new or changed request."""
        self.requests[request.id] = request
        desk = self.task.desk
        assert desk is not None
        desk.take(request)
        return request

    def status(self, identity: str) -> Row | None:
        """Return the task's status of a dump, None if there is none."""
        desk = self.task.desk
        assert desk is not None
        return next((one for one in desk.statuses() if one["id"] == identity), None)

    def until_state(self, request: DumpRequest, state: str) -> Row:
        """Poll until the task reports this state of the dump. Return the status."""
        self.until(lambda: (self.status(request.id) or {}).get("state") == state)
        found = self.status(request.id)
        assert found is not None
        return found

    # ---- runs

    def start(self) -> Self:
        """Start a run as the runtime does: store the start offset, then take the first record."""
        self.task.start(self.offset)
        self.offset = self.task.fold.offset()
        self.task.commit(self.offset)
        return self

    def restart(self) -> None:
        """Start a new task run from the stored offset, as after kill -9.

        Records that were not polled are lost.
        """
        self.task.stop()
        self.task = self.new_task()
        self.start()

    def poll(self, *, records_max: int = 2000) -> None:
        """Take the available records, and store their offset."""
        batches = self.task.poll(timeout_s=0.05, records_max=records_max, bytes_max=1 << 20)
        for batch in batches:
            for segment in batch.segments:
                if segment.table is None:
                    if segment.topic == f"__dblog-chunks.{self.config['topic.prefix']}":
                        for value in segment.values:
                            assert value is not None
                            self.marked(value)
                    if segment.topic == self.config["topic.prefix"]:
                        self.reported += [json.loads(value) for value in segment.values if value is not None]
                    if segment.topic == self.config.get("notification.sink.topic.name"):
                        self.notifications += [json.loads(value) for value in segment.values if value is not None]
                    if segment.topic == f"{self.config['topic.prefix']}.transaction":
                        keys = [json.loads(key) for key in segment.keys if key is not None]
                        self.borders += [json.loads(value) for value in segment.values if value is not None]
                        assert keys == [{"id": border["id"]} for border in self.borders[-len(keys) :]]
                        assert (segment.partition, segment.context_headers) == (0, False)
                    continue
                self.headers += [(segment.table.name, made) for _, made in sorted(segment.headers.items())]
                for key, value in zip(segment.keys, segment.values, strict=True):
                    self._take(segment.table.name, key, value)
            self.task.fold.advance(batch.step)
        if batches:
            self.offset = self.task.fold.offset()
            self.task.commit(self.offset)

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        record = None if value is None else json.loads(value)
        self.values.append((table, record))
        if record is None:
            return
        rows = self.rows.setdefault(table, {})
        name = key.decode() if key is not None else f"row {len(rows)}"
        if record["op"] == "d":
            rows.pop(name, None)
        else:
            rows[name] = record["after"]

    # ---- what it has come to

    def until(self, condition: Callable[[], Any]) -> None:
        """Poll until the condition is true."""
        self.until_polled(condition, records_max=2000)

    def until_polled(self, condition: Callable[[], Any], *, records_max: int) -> None:
        """Poll until the condition is true, ``records_max`` records or one batch at a time."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"it never became true; rows { ({t: len(r) for t, r in self.rows.items()}) }"
            self.poll(records_max=records_max)

    def until_dumped(self) -> None:
        """Poll until the offset shows that the dump is done."""
        self.until(lambda: self.offset is not None and "dblog_dump" in self.offset and "snapshot" not in self.offset)

    def until_equal(self, table: str) -> None:
        """Poll until the folded output equals the result of SELECT. # I3"""
        self.until(lambda: _sorted(self.rows.get(table, {}).values()) == _sorted(self.selected(table)))

    def until_has(self, table: str) -> None:
        """Poll until the fold has every row of SELECT; it may keep old rows."""
        self.until(lambda: not set(_sorted(self.selected(table))) - set(_sorted(self.rows.get(table, {}).values())))

    def until_part(self, table: str) -> None:
        """Poll until SELECT has every row of the fold, if not all rows were requested."""
        self.until(lambda: not set(_sorted(self.rows.get(table, {}).values())) - set(_sorted(self.selected(table))))

    def until_equal_by_name(self, table: str) -> None:
        """Poll until the fold equals SELECT by column name, for a table whose columns have changed.

        A new column is NULL in earlier rows; dropped columns are ignored.
        """

        def equal() -> bool:
            selected = self.selected(table)
            names = list(selected[0]) if selected else []
            return _sorted({n: row.get(n) for n in names} for row in self.rows.get(table, {}).values()) == _sorted(selected)

        self.until(equal)

    def keys(self, table: str) -> list[str]:
        return sorted(self.rows.get(table, {}))

    def ops(self, table: str) -> list[str]:
        """Return the operations written for a table, in order."""
        return [record["op"] for name, record in self.values if name == table and record is not None]


def _sorted(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)

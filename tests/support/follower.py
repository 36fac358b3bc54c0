"""A connector's task without Kafka: what it sends is folded here, and its offset kept, over several task lives."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pymysql
from dblog.clock import SystemClock
from dblog.config.connector import parse_connector
from dblog.config.plugins import CONNECTORS
from dblog.dialects.mysql.sql import quote
from dblog.kafka.converters import converters_of
from dblog.model import OffsetMap
from dblog.readers.binlog_dialect import DIALECTS
from dblog.readers.binlog_task import BinlogTask
from dblog.readers.encoders import Encoders
from dblog.readers.history import SchemaHistory
from stack.database import Database
from support.history import FakeHistoryLog
from support.servers import connected, execute

TIMEOUT_S = 60.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
Row = dict[str, Any]


class Follower:
    """One connector's life over several task lives: what it sent, and the offset a runtime would have stored."""

    def __init__(self, source: Database, database: str, **config: str) -> None:
        self.source = source
        self.database = database
        self.name = f"c-{uuid.uuid4().hex[:8]}"
        self.history = FakeHistoryLog()
        self.config = {
            "name": self.name,
            "connector.class": next(c.class_name for c in CONNECTORS if c.flavor == source.flavor),
            "topic.prefix": self.name,
            "database.hostname": source.host,
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "database.server.id": str(uuid.uuid4().int % 2_000_000_000 + 1000),
            "database.include.list": database,
            "schema.history.internal.kafka.topic": "h",
            "schema.history.internal.kafka.bootstrap.servers": "unused:9092",
            "key.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "decimal.handling.mode": "string",
            **config,
        }
        self.rows: dict[str, dict[str, Row]] = {}
        self.values: list[tuple[str, Row | None]] = []
        self.told: list[Row] = []
        """What the schema-change topic got."""
        self.borders: list[Row] = []
        """What the transaction topic got."""
        self.offset: OffsetMap | None = None
        self.dialect = DIALECTS[source.flavor]
        self.task = self._new_task()

    def _new_task(self) -> BinlogTask:
        plugin = next(c for c in CONNECTORS if c.flavor == self.source.flavor)
        settings = parse_connector(plugin.options, self.config)
        key, value = converters_of({}, self.config, own_registry=None)
        clock = SystemClock()
        encoders = Encoders(settings=settings, dialect=self.dialect, key_converter=key, value_converter=value, clock=clock, task=0)
        return BinlogTask(
            connector=self.name,
            settings=settings,
            dialect=self.dialect,
            encoders=encoders,
            history_of=lambda: SchemaHistory(self.history, server=self.name),
            clock=clock,
        )

    def start(self) -> Follower:
        """A life as the runtime begins it: where it begins is stored before its first record is taken."""
        self.task.start(self.offset)
        self.offset = dict(self.task.fold.offset())
        self.task.commit(self.offset)
        return self

    def restart(self) -> None:
        """A new task life from the stored offset, as after kill -9."""
        self.task.stop()
        self.task = self._new_task()
        self.start()

    def poll(self) -> None:
        """Take what is there, and store its offset."""
        batches = self.task.poll(timeout_s=0.05, records_max=2000, bytes_max=1 << 20)
        for batch in batches:
            for segment in batch.segments:
                if segment.table is None:
                    if segment.topic == self.name:
                        self.told += [json.loads(value) for value in segment.values if value is not None]
                    if segment.topic == f"{self.name}.transaction":
                        keys = [json.loads(key) for key in segment.keys if key is not None]
                        self.borders += [json.loads(value) for value in segment.values if value is not None]
                        assert keys == [{"id": border["id"]} for border in self.borders[-len(keys) :]]
                        assert (segment.partition, segment.context_headers) == (0, False)
                    continue
                for key, value in zip(segment.keys, segment.values, strict=True):
                    self._take(segment.table.name, key, value)
            self.task.fold.advance(batch.step)
        if batches:
            self.offset = dict(self.task.fold.offset())
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

    def until(self, condition: Any) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"it never became true; rows { ({t: len(r) for t, r in self.rows.items()}) }"
            self.poll()

    def until_dumped(self) -> None:
        self.until(lambda: self.offset is not None and "dblog_dump" in self.offset and "snapshot" not in self.offset)

    def until_equal(self, table: str) -> None:
        """Until the fold of the output is what SELECT gives. # I3"""
        self.until(lambda: self._sorted(self.rows.get(table, {}).values()) == self._sorted(self._selected(table)))

    def until_equal_by_name(self, table: str) -> None:
        """The same for a table whose columns have changed: a reader sees NULL where a row of before has no such column, and passes over those that are gone."""

        def equal() -> bool:
            selected = self._selected(table)
            names = list(selected[0]) if selected else []
            return self._sorted({n: row.get(n) for n in names} for row in self.rows.get(table, {}).values()) == self._sorted(selected)

        self.until(equal)

    def ops(self, table: str) -> list[str]:
        """The operations written for a table, in order."""
        return [record["op"] for name, record in self.values if name == table and record is not None]

    def _selected(self, table: str) -> list[Row]:
        with connected(self.source, database=self.database) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM {quote(table)}")
            return list(cursor.fetchall())

    @staticmethod
    def _sorted(rows: Any) -> list[str]:
        return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)

    def sql(self, *statements: str) -> None:
        execute(self.source, *statements, database=self.database)

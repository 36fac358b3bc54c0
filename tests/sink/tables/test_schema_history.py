"""A pattern of topics may take in the connector's schema history: its records are no rows, and no trouble."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import support
from dblog.core.timeline import START, Database, Timeline
from dblog.model import Column, Table, TableId
from dblog.readers.log.history import SchemaHistory
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.history import FakeHistoryLog
from support.registry_server import RegistryServer

DEBEZIUM = Path(support.__path__[0]) / "debezium" / "history.json"


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def test_the_schema_histories_of_the_worker_and_of_debezium_are_passed_over_in_any_topic(sink: Sink, items: TableSchema) -> None:
    sink.settings["quarantine.rows.max"] = "0"  # one record in quarantine would end the job
    log, timeline, id_ = FakeHistoryLog(), Timeline(), TableId("shop", "items")
    history = SchemaHistory(log, server="p")
    timeline.put(Table(id=id_, columns=(Column(name="id", type="int", type_text="int", nullable=False),), key=("id",)), START)
    timeline.databases["shop"] = Database("utf8mb4", "utf8mb4_bin")
    history.save_all(timeline)
    history.begin_epoch(timeline, (7 << 32, 4))
    records = [
        *log.records,
        (log.records[0][0], None),  # a table that is gone is erased
        *((None, json.dumps(one, indent=indent).encode()) for one in json.loads(DEBEZIUM.read_text())["history"] for indent in (None, 2)),
    ]

    topics = ("p.history", "p.schema.history", items.topic)  # named as no table, named as a table, and among a table's rows
    sink.batch(
        *(Record(topic=topic, key=key, value=value) for topic in topics for key, value in records),
        change(items, "c", {"id": 1, "name": "a"}, at=1),
    )

    assert sink.quarantined() == []
    assert sink.rows(items) == [{"id": 1, "name": "a"}]
    assert sorted(path.name for path in (sink.folder / "lake").iterdir()) == ["_dblog", "shop"]


def test_what_only_resembles_a_schema_history_is_kept_in_quarantine(sink: Sink, items: TableSchema) -> None:
    good = change(items, "c", {"id": 1, "name": "a"}, at=1)
    near = [
        Record(topic=items.topic, key=good.key, value=b'{"source":{"server":"p"},"position":{},"ddl":""}'),  # Debezium's have no key
        Record(topic=items.topic, key=None, value=b'{"source":{"server":"p"},"op":"c","after":{"position":1}}'),
        Record(topic=items.topic, key=b'{"dblog":"x"}', value=b'{"versions":[]}'),
        Record(topic=items.topic, key=b'{"dblog":1,"server":"p","table":"a.b"}', value=b"no JSON"),
    ]

    sink.batch(*near, good)

    assert sorted(bytes(one["value"]) for one in sink.quarantined()) == sorted(one.value for one in near if one.value)
    assert sink.rows(items) == [{"id": 1, "name": "a"}]

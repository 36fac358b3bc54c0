"""The internal topics' records, byte for byte as Kafka Connect 4.3 writes them (kafka-connect contract, section 4)."""

import pytest
from dblog.cluster import records
from dblog.cluster.records import (
    CommitRecord,
    ConnectorRecord,
    ConnectorStatusRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    State,
    Status,
    Target,
    TargetRecord,
    TaskId,
    TaskRecord,
    TaskStatusRecord,
    TopicUse,
    TopicUseRecord,
    read_config_record,
    read_offset_key,
    read_status_record,
)


@pytest.mark.parametrize(
    ("written", "key", "value"),
    [
        (
            records.connector_record("inv", {"name": "inv", "tasks.max": "1"}),
            b"connector-inv",
            b'{"properties":{"name":"inv","tasks.max":"1"}}',
        ),
        (records.connector_record("inv", None), b"connector-inv", None),
        (records.connector_record("größe", {"k": "ä/ö"}), "connector-größe".encode(), '{"properties":{"k":"ä/ö"}}'.encode()),
        (records.task_record(TaskId("a-b", 0), {"k": "v"}), b"task-a-b-0", b'{"properties":{"k":"v"}}'),
        (records.commit_record("inv", 2), b"commit-inv", b'{"tasks":2}'),
        (records.target_record("inv", Target.PAUSED), b"target-state-inv", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
        (records.target_record("inv", Target.STOPPED), b"target-state-inv", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        (records.target_record("inv", Target.STARTED), b"target-state-inv", b'{"state":"STARTED","state.v2":"STARTED"}'),
        (records.target_record("inv", None), b"target-state-inv", None),
        (
            records.restart_record("inv", include_tasks=True, only_failed=False),
            b"restart-connector-inv",
            b'{"include-tasks":true,"only-failed":false}',
        ),
        (
            records.session_key_record("a2V5", algorithm="HmacSHA256", created_ms=1755860000000),
            b"session-key",
            b'{"key":"a2V5","algorithm":"HmacSHA256","creation-timestamp":1755860000000}',
        ),
        (records.logger_record("dblog.rest", "WARN"), b"logger-cluster-dblog.rest", b'{"level":"WARN"}'),
        (
            records.connector_status_record("inv", Status(state=State.RUNNING, worker_id="h:8083", generation=7, version="3.6.3.Final")),
            b"status-connector-inv",
            b'{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":7,"version":"3.6.3.Final"}',
        ),
        (
            records.task_status_record(TaskId("inv", 0), Status(state=State.FAILED, worker_id="h:8083", generation=7, trace="no\n\tway")),
            b"status-task-inv-0",
            b'{"state":"FAILED","trace":"no\\n\\tway","worker_id":"h:8083","generation":7,"version":null}',
        ),
        (records.task_status_record(TaskId("inv", 0), None), b"status-task-inv-0", None),
        (
            records.topic_use_record("t", "inv", TopicUse(topic="t", connector="inv", task=0, discovered_ms=1755860000000)),
            b"status-topic-t:connector-inv",
            b'{"topic":{"name":"t","connector":"inv","task":0,"discoverTimestamp":1755860000000}}',
        ),
        (
            records.offset_record("inv", {"server": "dbserver1"}, {"file": "mysql-bin.000003", "pos": 154, "ts_sec": 1755860000}),
            b'["inv",{"server":"dbserver1"}]',
            b'{"file":"mysql-bin.000003","pos":154,"ts_sec":1755860000}',
        ),
        (records.offset_record("inv", {"server": "dbserver1"}, None), b'["inv",{"server":"dbserver1"}]', None),
    ],
)
def test_a_record_is_written_as_connect_writes_it(written, key, value):
    assert written == (key, value)


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        (b"connector-inv", b'{"properties":{"a":"1"}}', ConnectorRecord("inv", {"a": "1"})),
        (b"connector-inv", None, ConnectorRecord("inv", None)),
        (b"task-my-inv-12", b'{"properties":{"a":"1"}}', TaskRecord(TaskId("my-inv", 12), {"a": "1"})),
        (b"commit-inv", b'{"tasks":2}', CommitRecord("inv", 2)),
        (b"target-state-inv", b'{"state":"PAUSED","state.v2":"STOPPED"}', TargetRecord("inv", Target.STOPPED)),
        # Written by a worker before 3.5, which knows no state.v2.
        (b"target-state-inv", b'{"state":"PAUSED"}', TargetRecord("inv", Target.PAUSED)),
        (b"target-state-inv", b'{"state":"STARTED","state.v2":"LATER"}', TargetRecord("inv", Target.STARTED)),
        (b"target-state-inv", None, TargetRecord("inv", None)),
        (b"restart-connector-inv", b'{"include-tasks":true,"only-failed":false}', RestartRecord("inv", True, False)),
        (b"tasks-fencing-inv", b'{"task-count":2}', FencingRecord("inv", 2)),
        (
            b"session-key",
            b'{"key":"a2V5","algorithm":"HmacSHA256","creation-timestamp":1755860000000}',
            SessionKeyRecord("a2V5", "HmacSHA256", 1755860000000),
        ),
        (b"logger-cluster-dblog.rest", b'{"level":"WARN"}', LoggerRecord("dblog.rest", "WARN")),
    ],
)
def test_a_config_record_of_connect_is_understood(key, value, read):
    assert read_config_record(key, value) == read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff\xfe", b"{}"),
        (b"connector-inv", b"not json"),
        (b"connector-inv", b"[1]"),
        (b"connector-inv", b'{"properties":[1]}'),
        (b"task-inv-0", None),
        (b"task-inv", b'{"properties":{}}'),
        (b"commit-inv", b'{"tasks":"two"}'),
        (b"target-state-inv", b'{"state":"SLEEPING"}'),
        (b"something-new", b'{"a":1}'),
    ],
)
def test_a_config_record_that_cannot_be_read_is_skipped(key, value):
    assert read_config_record(key, value) is None


def test_a_status_record_without_version_is_of_an_older_worker_and_is_understood():
    read = read_status_record(b"status-connector-inv", b'{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":7}')

    assert read == ConnectorStatusRecord("inv", Status(state=State.RUNNING, worker_id="h:8083", generation=7))


def test_status_records_and_their_tombstones_are_understood():
    value = b'{"topic":{"name":"a.b","connector":"i:n","task":0,"discoverTimestamp":5}}'

    assert read_status_record(b"status-task-a-b-3", None) == TaskStatusRecord(TaskId("a-b", 3), None)
    assert read_status_record(b"status-topic-a.b:connector-i:n", value) == TopicUseRecord(
        "a.b", "i:n", TopicUse(topic="a.b", connector="i:n", task=0, discovered_ms=5)
    )
    assert read_status_record(b"status-topic-a.b:connector-inv", None) == TopicUseRecord("a.b", "inv", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"status-connector-", b"{}"),
        (b"status-connector-a", b'{"state":"DANCING","worker_id":"h","generation":1}'),
        (b"status-task-a", None),
        (b"status-topic-:connector-a", None),
        (b"status-topic-a", None),
        (b"other", None),
    ],
)
def test_a_status_record_that_cannot_be_read_is_skipped(key, value):
    assert read_status_record(key, value) is None


def test_an_offset_key_gives_connector_and_partition_in_their_order():
    assert read_offset_key(b'["inv",{"b":1,"a":"x"}]') == ("inv", {"b": 1, "a": "x"})
    assert records.offset_key("inv", {"b": 1, "a": "x"}) == b'["inv",{"b":1,"a":"x"}]'
    assert read_offset_key(b'["inv"]') is None
    assert read_offset_key(b"inv") is None
    assert read_offset_key(None) is None

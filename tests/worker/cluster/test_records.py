"""The internal topics' records, byte for byte as Kafka Connect 4.3 writes them (KafkaConfigBackingStore, KafkaStatusBackingStore)."""

import json
from dataclasses import replace

import pytest
from dblog.cluster import records
from dblog.cluster.records import (
    TASKS_MAX,
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
    read_offset_value,
    read_status_record,
)
from dblog.cluster.state import ConfigState, StatusState
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


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
        (b"commit-inv", b'{"tasks":1000000000}'),
        (b"commit-inv", b'{"tasks":-1}'),
        (b"commit-inv", b'{"tasks":true}'),
        (b"tasks-fencing-inv", b'{"task-count":1e5}'),
        (b"task-inv-" + b"9" * 5000, b'{"properties":{}}'),
        (b"connector-inv", b"[" * 100_000),
        (b"connector-inv", b'{"properties":{"a":' + b"9" * 5000 + b"}}"),
        (b"connector-inv", b'{"properties":{"a":"\\ud800"}}'),
        (b"connector-inv", b'{"properties":{"a":"\xff"}}'),
        (b"session-key", b'{"key":"a","algorithm":"b","creation-timestamp":' + b"9" * 4000 + b"}"),
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
        (b"status-task-a-" + b"9" * 5000, None),
        (b"status-task-a-10000", None),
        (b"status-connector-a", b"[" * 100_000),
        (b"status-connector-a", b'{"state":"RUNNING","worker_id":"h","generation":' + b"9" * 4000 + b"}"),
        (b"status-connector-a", b'{"state":"RUNNING","worker_id":"h","generation":true}'),
        (b"status-connector-a", b'{"state":"RUNNING","worker_id":"h","generation":1,"trace":"\\udcff"}'),
        (
            b"status-topic-t:connector-a",
            b'{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":' + b"9" * 4000 + b"}}",
        ),
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


@pytest.mark.parametrize(
    "key", [b"[" * 100_000, b'["a",{"b":{"c":1}}]', b'["\\ud800",{}]', b'["a",{"b":' + b"9" * 5000 + b"}]", b'["\xff",{}]', b"null"]
)
def test_an_offset_key_that_could_not_be_written_again_is_skipped(key):
    assert read_offset_key(key) is None


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b'{"pos":{"a":1}}', b'{"file":"\\ud800"}', b'{"pos":' + b"9" * 5000 + b"}", b"[]", b"null"]
)
def test_an_offset_that_could_not_be_written_again_is_skipped(value):
    assert read_offset_value(value) is None


ODD_TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["RUNNING", "STARTED", "\ud800", "\udcff", "a-0", "\0\n"]))
ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.floats(),
        st.sampled_from([10**9, 2**53 - 1, 2**53, 10**4000]),
        ODD_TEXTS,
    ),
    lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(ODD_TEXTS, part, max_size=3)),
    max_leaves=5,
)
FIELDS = "properties tasks task-count state state.v2 include-tasks only-failed key algorithm creation-timestamp level trace worker_id generation version topic"
BODIES = st.one_of(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS.split(), ODD)),
    st.fixed_dictionaries({"state": st.sampled_from(["RUNNING", "PAUSED"]), "worker_id": st.just("w"), "generation": ODD}),
    st.fixed_dictionaries({"topic": st.fixed_dictionaries({"name": ODD, "connector": ODD, "task": ODD, "discoverTimestamp": ODD})}),
    st.fixed_dictionaries({"properties": st.dictionaries(ODD_TEXTS, ODD, max_size=2)}),
    ODD,
)
VALUES = st.one_of(
    st.none(),
    BODIES.map(lambda body: json.dumps(body).encode()),
    BODIES.map(lambda body: json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")),
    st.binary(max_size=20),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 990 + b"1" + b"}" * 990, b'{"generation":' + b"9" * 5000 + b"}"]),
)
NAMES = st.one_of(st.text(max_size=4), st.sampled_from(["v", "v-0", "v-1", "v-" + "9" * 5000, "t:connector-v", "v-²"]))
KINDS = "connector- task- commit- target-state- restart-connector- tasks-fencing- session-key logger-cluster- status-connector- status-task- status-topic-"
KEYS = st.one_of(
    st.builds(lambda kind, name: f"{kind}{name}".encode(), st.sampled_from(KINDS.split()), NAMES),
    st.builds(lambda name, partition: json.dumps([name, partition]).encode(), ODD_TEXTS, ODD),
    st.binary(max_size=20),
    st.none(),
)


@pytest.mark.parametrize("half", [b"\\ud800", b"\xed\xa0\x80"])
def test_a_text_with_half_of_a_surrogate_pair_is_no_record_however_it_is_written(half):
    assert read_config_record(b"connector-a", b'{"properties": {"": "' + half + b'"}}') is None


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(KEYS, VALUES), max_size=6))
def test_whatever_the_records_are_reading_and_folding_them_raises_nothing_and_what_is_known_can_be_written_and_answered(written):
    config, status = ConfigState(), StatusState()
    for key, value in written:
        if (known := read_config_record(key, value)) is not None:
            config.apply(known)
        if (record := read_status_record(key, value)) is not None:
            status.apply(record)
        if (of := read_offset_key(key)) is not None:
            json.dumps(of)
            offset = None if value is None else read_offset_value(value)
            records.offset_record(*of, offset)

    for name, view in config.views().items():
        assert len(view.tasks) <= TASKS_MAX
        records.connector_record(name, view.config)
    for name, known in status.connectors.items():
        records.connector_status_record(name, replace(known, generation=status.generation_max()))
    for name, tasks in status.tasks.items():
        for number, known in tasks.items():
            records.task_status_record(TaskId(name, number), known)
    for connector, topics in status.topics.items():
        for topic, use in topics.items():
            records.topic_use_record(topic, connector, use)


def test_the_run_of_a_status_survives_its_way_through_the_topic():
    status = Status(state=State.RUNNING, worker_id="h:8083", generation=7, run="0f")

    assert read_status_record(*records.task_status_record(TaskId("inv", 0), status)) == TaskStatusRecord(TaskId("inv", 0), status)

"""The text of the metrics: what it counts, and what it costs where there are many connectors."""

import asyncio
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import httpx
from dblog.observe.declared import HERDER_TASK_METRICS, OF_TASK, TASK_METRICS, WORKER_METRICS, Kind
from dblog.observe.jmx import DEBEZIUM
from dblog.observe.metrics import STALE_S, Naming, PluginNames, TaskNumbers, WorkerNumbers, metrics_text
from dblog.observe.numbers import OTHER, Counts, Histogram, Recent, named, share_below
from dblog.rest import admin
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette


def numbers(connectors, *states):
    """Every connector has a task in each of the states."""
    tasks = [
        TaskNumbers(connector=f"c{n}", task=task, state=state, plugin="mysql", server="s", kills=0, values={})
        for n in range(connectors)
        for task, state in enumerate(states)
    ]
    return WorkerNumbers(connectors={f"c{n}": "running" for n in range(connectors)}, tasks=tuple(tasks), startup_counts={})


def test_tasks_are_counted_by_connector_and_state():
    text = metrics_text(lambda: numbers(2, "running", "failed", "running"))().decode()

    assert 'kafka_connect_worker_connector_total_task_count{connector="c1"} 3.0' in text
    assert 'kafka_connect_worker_connector_running_task_count{connector="c0"} 2.0' in text
    assert 'kafka_connect_worker_connector_failed_task_count{connector="c1"} 1.0' in text
    assert 'kafka_connect_worker_connector_paused_task_count{connector="c1"} 0.0' in text


def test_the_series_that_dashboards_join_are_there_for_each_connector():
    """Strimzi's panel of connectors multiplies them, and is empty where one lacks."""
    mysql = PluginNames(class_name="io.debezium.connector.mysql.MySqlConnector", type="source", version="1.2")
    text = metrics_text(lambda: replace(numbers(2, "running"), plugins={"c0": mysql}))().decode()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}

    labels = ("status", "connector_class", "connector_type", "connector_version")
    found = {
        label: {s.labels["connector"]: (s.labels[label], s.value) for s in families[f"kafka_connect_connector_{label}"]} for label in labels
    }
    assert [found[label]["c0"] for label in labels] == [("running", 1), (mysql.class_name, 1), ("source", 1), ("1.2", 1)]
    assert [found[label]["c1"] for label in labels] == [("running", 1), ("unknown", 1), ("unknown", 1), ("unknown", 1)]


def test_the_time_grows_with_the_number_of_connectors_and_not_with_its_square():
    def took_s(connectors):
        now = numbers(connectors, "running")
        began_s = time.process_time()
        metrics_text(lambda: now)()
        return time.process_time() - began_s

    few_s, many_s = (min(took_s(connectors) for _ in range(3)) for connectors in (500, 4000))

    assert many_s < 8 * few_s * 2.5, (few_s, many_s)


def test_the_event_loop_serves_others_while_the_text_is_made():
    asked, answered = threading.Event(), threading.Event()

    def slow():
        asked.set()
        return b"in time" if answered.wait(10) else b"too late"

    app = Starlette(routes=admin.ROUTES)
    app.state.services = SimpleNamespace(metrics=slow, commit="c", herder=SimpleNamespace(cluster_id="k"))

    async def both():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://w") as client:
            scrape = asyncio.create_task(client.get("/metrics"))
            assert await asyncio.to_thread(asked.wait, 10)
            assert (await client.get("/")).status_code == 200
            answered.set()
            return (await scrape).content

    assert asyncio.run(both()) == b"in time"


def one(values, *, now_s=1000.0, reported_s=999.0, naming=None, **more):
    """The families of a worker with one task that reported these."""
    task = TaskNumbers(
        connector="c", task=0, state="running", plugin="mysql", server="s", kills=0, values=values, reported_s=reported_s, **more
    )
    now = WorkerNumbers(connectors={"c": "running"}, tasks=(task,), startup_counts={}, now_s=now_s)
    text = metrics_text(lambda: now, naming)().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value_of(families, name, /, **labels):
    family = families[name.removesuffix("_total")] if name.removesuffix("_total") in families else families[name]
    found = [s.value for s in family.samples if s.name == name and all(s.labels.get(key) == text for key, text in labels.items())]
    assert len(found) == 1, (name, labels, family.samples)
    return found[0]


def test_a_number_with_labels_and_a_bar_in_the_last_one_is_shown_with_them():
    families = one({named("topic_records_total", "a|b"): 3.0, named("errors_total", "TransientError", "true"): 2.0})

    assert value_of(families, "dblog_task_topic_records_total", topic="a|b", connector="c", task="0") == 3
    assert value_of(families, "dblog_task_errors_total", **{"class": "TransientError", "retriable": "true"}) == 2


def test_counters_have_the_type_of_counters_and_their_old_names():
    families = one({"records_sent_total": 5.0, "queue_records": 1.0})

    assert (families["dblog_task_records_sent"].type, families["dblog_task_queue_records"].type) == ("counter", "gauge")
    assert value_of(families, "dblog_task_records_sent_total") == 5


def test_a_record_is_written_for_connect_once_kafka_has_it():
    families = one({"records_sent_total": 5.0, "records_acknowledged_total": 2.0, "records_outstanding": 3.0})

    assert families["kafka_connect_source_task_source_record_write"].type == "counter"
    assert value_of(families, "kafka_connect_source_task_source_record_write_total") == 2
    assert value_of(families, "kafka_connect_source_task_source_record_active_count") == 3


def test_a_histogram_comes_out_as_one():
    latency = Histogram((0.1, 1.0))
    for value in (0.05, 0.5, 7.0, -3.0):
        latency.observe(value)
    families = one(latency.numbers("event_latency_seconds", "read"))

    family = families["dblog_task_event_latency_seconds"]
    assert family.type == "histogram"
    found = {(s.name.rpartition("_")[2], s.labels.get("le")): s.value for s in family.samples if s.labels["stage"] == "read"}
    assert found == {("bucket", "0.1"): 2, ("bucket", "1.0"): 3, ("bucket", "+Inf"): 4, ("count", None): 4, ("sum", None): 7.55}


def test_numbers_of_a_task_that_hangs_are_left_out_but_for_what_the_worker_knows():
    families = one({"lag_ms": 5.0}, now_s=1000 + STALE_S, restarts={"killed": 2}, failures=1)

    assert "dblog_task_lag_ms" not in families
    assert "debezium_metrics_MilliSecondsBehindSource" not in families
    assert value_of(families, "dblog_task_reported_timestamp_seconds") == 999
    assert value_of(families, "dblog_task_restarts_total", reason="killed") == 2
    assert value_of(families, "dblog_task_failures_total") == 1
    assert value_of(families, "dblog_task_state", state="running") == 1


def test_states_are_ones_and_zeros():
    families = one({})

    samples = {s.labels["state"]: s.value for s in families["dblog_task_state"].samples}
    assert samples == {"running": 1, "paused": 0, "failed": 0, "unassigned": 0, "restarting": 0}
    assert {s.labels["state"]: s.value for s in families["dblog_connector_state"].samples}["stopped"] == 0


def test_debezium_s_attributes_follow_from_the_task_s_numbers():
    values = {
        "queue_capacity_records": 8192.0,
        "queue_records": 92.0,
        "queue_capacity_bytes": 1e6,
        named("events_total", "create"): 5.0,
        named("events_total", "update"): 2.0,
        named("events_filtered_total", "table"): 3.0,
        "log_last_record_timestamp_seconds": 400.0,
        "log_last_heard_timestamp_seconds": 998.5,
        "dump_tables_total": 4.0,
        "dump_tables_done": 1.0,
        "dump_tables_failed": 0.0,
        "dump_running": 1.0,
        named("jmx:rows_scanned", "shop.orders"): 70.0,
        "connected": 1.0,
    }
    families = one(values)

    def attribute(name, context="streaming", **labels):
        return value_of(families, f"debezium_metrics_{name}", context=context, plugin="mysql", name="s", task="0", **labels)

    assert attribute("QueueTotalCapacity") == 8192
    assert attribute("QueueRemainingCapacity") == 8100
    assert attribute("MaxQueueSizeInBytes", "snapshot") == 1e6
    assert attribute("TotalNumberOfEventsSeen") == 10
    assert attribute("TotalNumberOfCreateEventsSeen") == 5
    assert attribute("NumberOfEventsFiltered") == 3
    assert (attribute("NumberOfLargeTransactions"), attribute("NumberOfNotWellFormedTransactions")) == (0, 0)
    assert attribute("MilliSecondsSinceLastEvent") == 1500
    assert attribute("RemainingTableCount", "snapshot") == 3
    assert (attribute("SnapshotRunning", "snapshot"), attribute("SnapshotCompleted", "snapshot")) == (1, 0)
    assert (attribute("SnapshotSkipped", "snapshot"), attribute("SnapshotAborted", "snapshot")) == (0, 0)
    assert attribute("RowsScanned", "snapshot", table="shop.orders") == 70
    assert attribute("MilliSecondsSinceLastAppliedChange", "schema-history") == -1


def test_a_quiet_database_is_not_one_that_is_silent():
    def since_ms(values):
        return value_of(one(values), "debezium_metrics_MilliSecondsSinceLastEvent", context="streaming")

    assert since_ms({"connected": 1.0, "log_last_record_timestamp_seconds": 10.0, "log_last_heard_timestamp_seconds": 999.0}) == 1000
    assert since_ms({"starting_seconds": 3.0}) == 0


def snapshot(values):
    """What Debezium's context has of how a snapshot stands: running, completed, aborted, skipped."""
    families = one({"connected": 1.0, **values})
    return [
        value_of(families, f"debezium_metrics_Snapshot{state}", context="snapshot")
        for state in ("Running", "Completed", "Aborted", "Skipped")
    ]


def test_a_task_without_a_dump_reports_a_snapshot_that_was_skipped_with_zeros():
    families = one({"connected": 1.0})
    found = {
        each.name: value_of(families, f"debezium_metrics_{each.name}", context="snapshot")
        for each in DEBEZIUM
        if each.group == "snapshot" and not each.name.endswith(("Capacity", "InBytes"))
    }

    assert found.pop("SnapshotSkipped") == 1
    assert found.pop("MilliSecondsSinceLastEvent") == -1
    assert len(found) > 10
    assert set(found.values()) == {0}


def test_a_task_that_does_not_run_yet_knows_of_no_snapshot():
    assert "debezium_metrics_SnapshotRunning" not in one({"starting_seconds": 3.0})


def test_a_dump_with_tables_that_failed_is_not_completed():
    dump = {"dump_tables_total": 3.0, "dump_tables_done": 2.0}

    assert snapshot({**dump, "dump_running": 0.0, "dump_tables_failed": 0.0}) == [0, 1, 0, 0]
    assert snapshot({**dump, "dump_running": 0.0, "dump_tables_failed": 1.0}) == [0, 0, 1, 0]
    assert snapshot({**dump, "dump_running": 1.0, "dump_tables_failed": 0.0}) == [1, 0, 0, 0]


def test_the_option_picks_the_names_and_their_case():
    values = {"lag_ms": 5.0}
    own, jmx, lower = (one(values, naming=naming) for naming in (Naming(jmx=False), Naming(own=False), Naming(own=False, lower=True)))

    assert "dblog_task_lag_ms" in own
    assert not [name for name in own if name.startswith(("kafka_connect", "debezium"))]
    assert not [name for name in jmx if name.startswith("dblog")]
    assert "debezium_metrics_MilliSecondsBehindSource" in jmx
    assert "debezium_metrics_millisecondsbehindsource" in lower


def test_names_keep_prometheus_s_rules():
    for metric in (*TASK_METRICS, *HERDER_TASK_METRICS, *WORKER_METRICS):
        assert metric.doc.endswith("."), metric.name
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total") or metric.name == "dump_tables_total"
        assert len(metric.labels) <= 3


def test_each_metric_of_a_task_is_declared_once():
    assert len(OF_TASK) == len(TASK_METRICS) + len(HERDER_TASK_METRICS)


def test_label_values_beyond_the_limit_are_counted_together():
    counts = Counts(2)
    for topic in ("a", "b", "a", "c", "d"):
        counts.add(topic)
    nothing = Counts(0)
    nothing.add("a")

    assert counts.numbers("n") == {"n|a": 2, "n|b": 1, f"n|{OTHER}": 2}
    assert nothing.numbers("n") == {}


def test_recent_values_are_forgotten_after_a_minute():
    recent = Recent(0.0)
    recent.add(8.0, 10.0)
    recent.add(2.0, 35.0)

    assert (recent.greatest(40.0), recent.mean(40.0)) == (8, 5)
    assert recent.greatest(65.0) == 2
    assert recent.greatest(200.0) == 0
    assert (recent.mean(200.0), recent.rate(200.0)) == (0, 0)


def test_a_longer_time_keeps_values_longer():
    recent = Recent(0.0, 90.0)
    recent.add(8.0, 10.0)

    assert (recent.greatest(179.0), recent.greatest(181.0)) == (8, 0)


def test_a_rate_is_by_second():
    recent = Recent(0.0)
    for second in range(20):
        recent.add(50.0, float(second))

    assert recent.rate(20.0) == 50


def test_shares_of_ordered_values():
    assert [share_below(range(100), share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 99]
    assert share_below([], 0.5) == 0

"""Each metric that Kafka Connect documents is on /metrics, or in the list of those that are not, with the reason."""

import re
from collections.abc import Mapping

import pytest
from dblog.observe.jmx import CONNECT_LEFT_OUT
from dblog.observe.metrics import PluginNames, TaskNumbers, WorkerNumbers, metrics_text

TASKS = "total running paused failed unassigned destroyed restarting"
STARTUPS = "attempts-total success-total success-percentage failure-total failure-percentage"
CONVERTERS = [f"{which}-converter-{what}" for which in ("key", "value", "header") for what in ("class", "version")]

GROUPS: Mapping[str, list[str]] = {
    "worker": [
        "connector-count",
        "task-count",
        *(f"{kind}-startup-{what}" for kind in ("connector", "task") for what in STARTUPS.split()),
        *(f"connector-{state}-task-count" for state in TASKS.split()),
    ],
    "worker_rebalance": [
        "completed-rebalances-total",
        "connect-protocol",
        "epoch",
        "leader-name",
        "rebalance-avg-time-ms",
        "rebalance-max-time-ms",
        "rebalancing",
        "time-since-last-rebalance-ms",
    ],
    "coordinator": ["assigned-connectors", "assigned-tasks"],
    "connector": ["connector-class", "connector-type", "connector-version", "status"],
    "connector_task": [
        "batch-size-avg",
        "batch-size-max",
        "connector-class",
        "connector-type",
        "connector-version",
        *CONVERTERS,
        "offset-commit-avg-time-ms",
        "offset-commit-failure-percentage",
        "offset-commit-max-time-ms",
        "offset-commit-success-percentage",
        "pause-ratio",
        "running-ratio",
        "status",
        "task-class",
        "task-version",
    ],
    "source_task": [
        "poll-batch-avg-time-ms",
        "poll-batch-max-time-ms",
        "source-record-active-count",
        "source-record-active-count-avg",
        "source-record-active-count-max",
        "source-record-poll-rate",
        "source-record-poll-total",
        "source-record-write-rate",
        "source-record-write-total",
        "transaction-size-avg",
        "transaction-size-max",
        "transaction-size-min",
    ],
    "task_error": [
        "deadletterqueue-produce-failures",
        "deadletterqueue-produce-requests",
        "last-error-timestamp",
        "total-errors-logged",
        "total-record-errors",
        "total-record-failures",
        "total-records-skipped",
        "total-retries",
    ],
}
"""Kafka 4.1's documentation, "Connect Monitoring"; the groups as Strimzi's rules name them."""


class Every(dict):
    """The numbers of a task that has counted all there is."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, _name: str) -> float:
        return 1.0

    def get(self, _name: str, _default: float | None = None) -> float:
        return 1.0


@pytest.fixture(scope="module")
def shown():
    task = TaskNumbers(connector="c", task=0, state="running", plugin="mysql", server="s", kills=0, values=Every())
    now = WorkerNumbers(
        connectors={"c": "running"}, tasks=(task,), startup_counts={}, plugins={"c": PluginNames()}, leader="w", generation=1, leads=True
    )
    return set(re.findall(r"^kafka_connect_\w+", metrics_text(lambda: now)().decode(), re.MULTILINE))


@pytest.mark.parametrize("group", GROUPS)
def test_each_metric_is_shown_or_left_out_with_a_reason(shown, group):
    left_out = {name for names in CONNECT_LEFT_OUT for name in re.findall(r"[\w-]+", names)}

    def is_shown(name):
        return f"kafka_connect_{group}_{name.replace('-', '_')}" in shown

    assert [name for name in GROUPS[group] if not is_shown(name) and name not in left_out] == []


def test_what_a_dashboard_may_ask_for_beside_the_groups_is_answered():
    names = " ".join(CONNECT_LEFT_OUT)

    for name in ("jvm_*", "kafka_connect_metrics_*", "kafka_connect_start_time_seconds", "kafka_producer_*", "sink-task-metrics"):
        assert name in names

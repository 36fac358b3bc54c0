"""Every number that a configuration sets is bounded, gets a warning where it takes much from others, or has a reason why it takes nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from dblog.cluster.remarks import ordinary, remarks_on
from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS, parse_connector
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.large_values import large_values
from dblog.config.options import Kind, Option
from dblog.config.plugins import find_connector
from dblog.config.worker_options import WORKER_OPTIONS
from dblog_sink.config.job_options import OPTIONS as SINK_OPTIONS
from dblog_sink.config.tables import TABLE_OPTIONS
from support.worker import connector_config, postgres_config

TIME = "a time: nothing is kept for it"
NAME = "an address or a number that names something"
RECORDS = "records are bounded by bytes as well: max.queue.size.in.bytes, 64 MiB where that is 0"
ROWS = "rows are bounded by bytes as well: dblog.chunk.bytes.max, and 256 MiB without a key"
COUNT = "a count that is compared, and kept as one number"
KAFKA = "what the brokers make of it, once, of a topic of the worker's owner"

CONNECTOR = {
    **dict.fromkeys(("database.port", "database.server.id", "database.server.id.offset", "dblog.dump.port"), NAME),
    **dict.fromkeys(
        (
            "database.query.timeout.ms",
            "connection.validation.timeout.ms",
            "connect.timeout.ms",
            "connect.keep.alive.interval.ms",
            "heartbeat.interval.ms",
            "poll.interval.ms",
            "retriable.restart.connector.wait.ms",
            "signal.poll.interval.ms",
            "dblog.retry.timeout.ms",
            "dblog.metrics.server.interval.ms",
            "status.update.interval.ms",
        ),
        TIME,
    ),
    **dict.fromkeys(("max.batch.size", "max.queue.size"), RECORDS),
    **dict.fromkeys(("incremental.snapshot.chunk.size", "dblog.chunk.rows"), ROWS),
    **dict.fromkeys(("errors.max.retries",), COUNT),
    **dict.fromkeys(
        (
            "dblog.dump.limit.threads.running",
            "dblog.dump.limit.statement.p95.ms",
            "dblog.dump.limit.replica.lag.ms",
            "dblog.dump.limit.history.list.length",
            "dblog.dump.limit.transaction.age.s",
            "dblog.dump.limit.log.lag.ms",
        ),
        COUNT,
    ),
    "money.fraction.digits": "digits of one value, 32767 at most, in records that are bounded by bytes",
}
WORKER = {
    **dict.fromkeys(
        (
            "config.storage.replication.factor",
            "offset.storage.replication.factor",
            "offset.storage.partitions",
            "status.storage.replication.factor",
            "status.storage.partitions",
            "dblog.registry.replication.factor",
            "dblog.dumps.storage.replication.factor",
        ),
        KAFKA,
    ),
    **dict.fromkeys(
        (
            "offset.flush.interval.ms",
            "offset.flush.timeout.ms",
            "task.shutdown.graceful.timeout.ms",
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "rebalance.timeout.ms",
        ),
        TIME,
    ),
    "rest.advertised.port": NAME,
    **dict.fromkeys(("dblog.rest.login.failures.per.minute", "dblog.rest.writes.per.minute", "dblog.task.restart.max"), COUNT),
    "dblog.metrics.tables.max": "no more series than the connectors have tables; set by the worker's owner, whose memory it is",
    "proxy.port": NAME,
}
JOB = "the job's own process and cluster, which its configuration is written for: "
SINK = {
    **dict.fromkeys(
        (
            "registry.wait.max.s",
            "registry.unknown.wait.s",
            "trigger.interval.s",
            "merge.age.max.s",
            "manifest.interval.s",
            "manifest.keep.h",
            "manifest.incomplete.max.s",
            "landing.keep.h",
            "control.interval.s",
            "vacuum.interval.h",
            "vacuum.keep.h",
            "tombstones.keep.h",
            "chunks.wait.s",
            "chunks.keep.h",
        ),
        TIME,
    ),
    **dict.fromkeys(
        (
            "merge.attempts.max",
            "compact.commits",
            "vacuum.share.max",
            "quarantine.rows.max",
            "quarantine.fraction.max",
            "restart.attempts.max",
        ),
        COUNT,
    ),
    "batch.records.max": JOB + "records stay in Spark, which spills",
    "rewrite.rows.max": JOB + "rows stay in Spark, which spills",
    "merge.rows.min": COUNT,
    "merge.rows.max": JOB + "rows stay in Spark, which spills",
    "merge.broadcast.rows.max": JOB + "Spark broadcasts 8 GiB at most",
    "merge.threads": JOB + "threads are made as tables wait",
    "merge.background.threads": JOB + "threads are made as tables wait",
    "progress.file.mib.max": JOB + "a file on its own disk",
    "failure.retries": COUNT,
    "report.interval.s": COUNT,
}


def numbers(options: Iterable[Option]) -> dict[str, Option]:
    """The options that are numbers and have an effect."""
    kinds = (Kind.INT, Kind.LONG, Kind.SHORT, Kind.DOUBLE)
    return {one.name: one for one in options if one.kind in kinds and one.no_effect is None and one.refused is None}


CONNECTORS = numbers([*MYSQL_OPTIONS, *MARIADB_OPTIONS, *POSTGRES_OPTIONS])
LARGE = {name: option.large for name, option in CONNECTORS.items() if option.large is not None}


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (CONNECTORS.keys() - LARGE.keys(), CONNECTOR),
        (numbers([*WORKER_OPTIONS, *CONVERTER_OPTIONS]).keys(), WORKER),
        ({one.name for one in (*SINK_OPTIONS, *TABLE_OPTIONS) if (one.default or "").replace(".", "", 1).isdigit()}, SINK),
    ],
    ids=["connector", "worker", "sink"],
)
def test_every_number_has_a_warning_or_a_reason_to_have_none(options: set[str], reasons: dict[str, str]) -> None:
    assert set(options) == set(reasons)


@pytest.mark.parametrize("name", LARGE)
def test_a_value_that_takes_much_from_others_is_taken_with_a_warning(name: str) -> None:
    configs = [
        (MYSQL_OPTIONS, connector_config(name="a")),
        (MARIADB_OPTIONS, connector_config(name="a") | {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"}),
        (POSTGRES_OPTIONS, postgres_config(name="a")),
    ]
    for options, config in configs:
        plugin = find_connector(config["connector.class"])
        assert plugin is not None
        for value, warned in ((LARGE[name].above, False), (LARGE[name].above + 1, True), (2_000_000_000, True)):
            given = config | {name: str(value)}
            parse_connector(options, given)

            found = [text for text in remarks_on(plugin, given) if text.startswith(f"{name}: {value} is more than {LARGE[name].above}: ")]

            assert bool(found) is warned
            assert not set(found) & set(ordinary(plugin, given))


def test_queues_of_kafka_clients_that_take_much_are_named_too() -> None:
    config = {"producer.override.queue.buffering.max.kbytes": "2000000000", "signal.consumer.queued.max.messages.kbytes": "1048577"}

    assert large_values(MYSQL_OPTIONS, config).keys() == config.keys()
    assert large_values(MYSQL_OPTIONS, dict.fromkeys(config, "1048576")) == {}


def test_what_production_configurations_have_and_what_is_no_number_gets_no_warning() -> None:
    production = {
        "max.batch.size": "65536",
        "max.queue.size": "524288",
        "max.queue.size.in.bytes": "1073741824",
        "snapshot.max.threads": "32",
        "incremental.snapshot.chunk.size": "100000",
        "producer.override.buffer.memory": "1073741824",
        "dblog.dump.threads": "${file:/f:threads}",
        "dblog.window.keys.max": "many",
    }

    assert large_values(MYSQL_OPTIONS, production) == {}

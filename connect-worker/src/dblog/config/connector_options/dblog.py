"""Options under dblog., which Debezium does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dblog.config.connector_options.connection import hostname
from dblog.config.connector_options.forms import DUMP_THREADS, OURS, bool_option, int_option, long_option, option
from dblog.config.options import (
    Importance,
    Large,
    Option,
    Value,
    all_of,
    not_negative,
    not_negative_long,
    positive,
    positive_long,
    topic_name,
)
from dblog.config.tracing import TRACING, installed


def _retry_timeout(value: Value, _all: Mapping[str, Value]) -> str | None:
    return (
        "A positive number of milliseconds is expected, or -1 for ever" if isinstance(value, int) and value <= 0 and value != -1 else None
    )


def _read_only(value: Value, everything: Mapping[str, Value]) -> str | None:
    if value is not None and not everything.get("read.only"):
        return "Chunks come from another server than the log with read.only=true only: a written watermark proves one server"
    return None


def dump_limit(name: str, *, label: str, default: str, unit: str, doc: str) -> Option:
    """Return the option ``dblog.dump.limit.<name>``: a load of the source that dumps must not
    exceed.

    ``doc`` says what is measured.
    """
    return long_option(
        name=f"dblog.dump.limit.{name}",
        doc=f"{doc} Near this limit dumps read less; at it they read nothing until the value is well below it. 0 means no limit.",
        default=default,
        unit=unit,
        group=OURS,
        label=f"Dump limit: {label}",
        importance=Importance.LOW,
        check=not_negative_long,
    )


OUR_OPTIONS = (
    option(
        name="dblog.watermark.table",
        doc="Table, as database.table, into which watermarks are written. It is created if it is missing and the user may create it.",
        default="dblog.watermark",
        group=OURS,
        label="Watermark table",
        check=lambda value, _all: (
            None
            if isinstance(value, str) and re.fullmatch(r"[^.`\s]+\.[^.`\s]+", value)
            else "A name of the form database.table is expected"
        ),
    ),
    int_option(
        name="dblog.chunk.rows",
        doc="Maximum number of rows in one chunk of a dump.",
        default="20000",
        unit="rows",
        group=OURS,
        label="Chunk rows",
        check=positive,
    ),
    long_option(
        name="dblog.chunk.bytes.max",
        doc="Maximum size of one chunk. A larger chunk is read again with fewer rows.",
        default="16777216",
        unit="bytes",
        group=OURS,
        label="Chunk bytes",
        check=positive_long,
        large=Large(256 << 20, "each of dblog.dump.threads keeps up to two chunks of so many bytes in the memory of the task's process"),
    ),
    int_option(
        name="dblog.dump.threads",
        doc=(
            "Number of connections that dump at the same time, each a table or a part of a large one. Each "
            "keeps up to two chunks in memory."
        ),
        default="1",
        group=OURS,
        label="Dump threads",
        check=positive,
        large=DUMP_THREADS,
    ),
    option(
        name="dblog.dump.hostname",
        doc=(
            "Host name of a replica of database.hostname from which chunks are read; it needs read.only=true. "
            "Each chunk waits until the replica has applied what was read from the log. If absent, chunks are "
            "read from database.hostname."
        ),
        group=OURS,
        label="Dump host",
        importance=Importance.LOW,
        check=all_of(_read_only, hostname),
    ),
    int_option(
        name="dblog.dump.port",
        doc="Port of that replica. If absent, it is database.port.",
        group=OURS,
        label="Dump port",
        importance=Importance.LOW,
        check=all_of(_read_only, positive),
    ),
    dump_limit(
        "threads.running",
        label="threads",
        default="0",
        unit="threads",
        doc="Threads_running of the server that chunks are read from. A few of these threads are the connector's own.",
    ),
    dump_limit(
        "statement.p95.ms",
        label="statements",
        default="0",
        unit="ms",
        doc=(
            "Time within which 95 % of the connector's SELECTs of chunks end, over the last half minute; on "
            "MySQL also of all statements of the server."
        ),
    ),
    dump_limit(
        "replica.lag.ms",
        label="replica",
        default="0",
        unit="ms",
        doc="Replication lag of the server that chunks are read from.",
    ),
    dump_limit("transaction.age.s", label="transactions", default="0", unit="s", doc="Age of the server's oldest transaction."),
    dump_limit(
        "log.lag.ms",
        label="log",
        default="300000",
        unit="ms",
        doc="Time since the connector last reached the end of the log, at most the age of the change that it reads.",
    ),
    int_option(
        name="dblog.window.keys.max",
        doc=(
            "Maximum number of keys that are remembered between two watermarks. A chunk whose window exceeds "
            "it is discarded and read again with fewer rows."
        ),
        default="500000",
        unit="keys",
        group=OURS,
        label="Window keys",
        check=positive,
        large=Large(10_000_000, "so many keys may be noted in the memory of the task's process, some 100 bytes each"),
    ),
    long_option(
        name="dblog.retry.timeout.ms",
        doc=(
            "Time to wait for a lost database, broker or registry before the task fails. -1 waits for ever "
            "and shows the reason in the task's status."
        ),
        default="-1",
        unit="ms",
        group=OURS,
        label="Retry timeout",
        check=_retry_timeout,
    ),
    option(
        name="dblog.ddl.redump",
        doc=(
            "Dumps after DDL that changed rows without row events, such as a default, a conversion, a rename "
            "or another key: changed dumps the table again, never does not. A dump removes no row: what DROP, "
            "TRUNCATE or a former name or key leaves in a topic stays there, as with Debezium."
        ),
        default="changed",
        group=OURS,
        label="Dump again after DDL",
        choices=("changed", "never"),
    ),
    option(
        name="dblog.new.tables",
        doc=(
            "Treatment of a table that matches the filters and that the connector does not have yet, since it "
            "was created, renamed, or the filters have changed. dump captures it and dumps the rows that no "
            "log contains, if snapshot.mode dumps at all; log captures it without a dump; ignore does "
            "neither."
        ),
        default="dump",
        group=OURS,
        label="New tables",
        choices=("dump", "log", "ignore"),
    ),
    int_option(
        name="dblog.metrics.server.interval.ms",
        doc=(
            "Interval at which the server is asked, on a separate connection, for the end of its log and for "
            "how much of it is kept. The answers are metrics; 0 means never."
        ),
        default="10000",
        unit="ms",
        group=OURS,
        label="Log watch interval",
        check=not_negative,
    ),
    bool_option(
        name="dblog.signals.filters",
        doc=(
            "If true, a signal may have filters (additional-conditions). They are SQL of anybody who may write to "
            "the channel; they run under the connector's account, in a READ ONLY transaction. If false, such "
            "a signal is refused, and dumps that earlier ones began end. An administrator can still give a "
            "predicate to POST /connectors/NAME/dumps."
        ),
        default="true",
        group=OURS,
        label="Filters of signals",
        importance=Importance.LOW,
    ),
    bool_option(
        name="dblog.topics.shared",
        doc=(
            "If true, captured tables may share a topic, and connectors a topic.prefix, as with Debezium. If "
            "false, a configuration that leads to shared topics is refused, except for tables that "
            "topic.regex brings together."
        ),
        default="false",
        group=OURS,
        label="Shared topics",
        importance=Importance.LOW,
    ),
    bool_option(
        name=TRACING,
        doc=(
            "If true, the task reports OpenTelemetry traces and gives each record the header traceparent. If "
            "absent, the worker's option of the same name decides."
        ),
        group=OURS,
        label="Traces",
        importance=Importance.LOW,
        check=installed,
    ),
    option(
        name="dblog.owner",
        doc=(
            "Name of the set of files that this connector is kept equal to. dblog connectors apply writes it "
            "here, and changes or deletes no connector of another set. The worker itself does not use it."
        ),
        group=OURS,
        label="Owner",
        importance=Importance.LOW,
    ),
    option(
        name="dblog.chunk.marker.topic",
        doc="Topic of the chunk markers. If absent, it is __dblog-chunks.<topic.prefix>.",
        group=OURS,
        label="Chunk marker topic",
        check=topic_name,
    ),
)
"""dblog's own options, in the order of forms and of the reference page."""

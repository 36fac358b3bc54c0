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
        doc=f"{doc} In front of it dumps read less and less, at it nothing until it is well below. 0: no limit.",
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
        doc="Table (database.table) that watermarks are written to; created if the user may create it.",
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
        doc="Most rows of one chunk of the initial dump.",
        default="20000",
        unit="rows",
        group=OURS,
        label="Chunk rows",
        check=positive,
    ),
    long_option(
        name="dblog.chunk.bytes.max",
        doc="Most bytes of one chunk; a larger one is read again with fewer rows.",
        default="16777216",
        unit="bytes",
        group=OURS,
        label="Chunk bytes",
        check=positive_long,
        large=Large(256 << 20, "each of dblog.dump.threads keeps up to two chunks of so many bytes in the memory of the task's process"),
    ),
    int_option(
        name="dblog.dump.threads",
        doc="Connections that dump at once, each a table or a part of a large one; each keeps up to two chunks in memory.",
        default="1",
        group=OURS,
        label="Dump threads",
        check=positive,
        large=DUMP_THREADS,
    ),
    option(
        name="dblog.dump.hostname",
        doc="A replica of database.hostname that chunks are read from, with read.only=true: each chunk waits until the replica has executed what the log has "
        "brought; absent: database.hostname.",
        group=OURS,
        label="Dump host",
        importance=Importance.LOW,
        check=all_of(_read_only, hostname),
    ),
    int_option(
        name="dblog.dump.port",
        doc="Its port; absent: database.port.",
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
        doc="Threads_running of the server that chunks are read from; a few of them are the connector's.",
    ),
    dump_limit(
        "statement.p95.ms",
        label="statements",
        default="0",
        unit="ms",
        doc="How long 95 % of the connector's own SELECTs of chunks take at most, over half a minute, and on MySQL also of all statements.",
    ),
    dump_limit(
        "replica.lag.ms",
        label="replica",
        default="0",
        unit="ms",
        doc="How far the server that chunks are read from is behind the one that it replicates.",
    ),
    dump_limit("transaction.age.s", label="transactions", default="0", unit="s", doc="Age of the server's oldest transaction."),
    dump_limit(
        "log.lag.ms",
        label="log",
        default="300000",
        unit="ms",
        doc="How long the connector has not come to the end of the log, at most the age of what it reads.",
    ),
    int_option(
        name="dblog.window.keys.max",
        doc="Most keys noted between two watermarks; a window beyond it is thrown away and read again, smaller.",
        default="500000",
        unit="keys",
        group=OURS,
        label="Window keys",
        check=positive,
        large=Large(10_000_000, "so many keys may be noted in the memory of the task's process, some 100 bytes each"),
    ),
    long_option(
        name="dblog.retry.timeout.ms",
        doc="How long a lost database, broker or registry is waited for before the task is FAILED; -1: for ever, with the reason in its status.",
        default="-1",
        unit="ms",
        group=OURS,
        label="Retry timeout",
        check=_retry_timeout,
    ),
    option(
        name="dblog.ddl.redump",
        doc="Whether a table is dumped again after DDL that changed its rows without row events (a default, a conversion, another name or key): changed, or "
        "never. A dump takes no row away: what DROP, TRUNCATE or a former name or key leaves in a topic stays there, as with Debezium.",
        default="changed",
        group=OURS,
        label="Dump again after DDL",
        choices=("changed", "never"),
    ),
    option(
        name="dblog.new.tables",
        doc="What happens to a table that matches the filters and that the connector does not have yet, because it was made, renamed or the filters were "
        "changed: dump, it is followed and what no log brings is dumped (where snapshot.mode dumps at all); log, it is followed only; ignore, neither: the "
        "connector keeps to the tables that it has.",
        default="dump",
        group=OURS,
        label="New tables",
        choices=("dump", "log", "ignore"),
    ),
    int_option(
        name="dblog.metrics.server.interval.ms",
        doc="How often the server is asked, on a connection of its own, how far its log goes and how much of it is left, for the metrics; 0: never.",
        default="10000",
        unit="ms",
        group=OURS,
        label="Log watch interval",
        check=not_negative,
    ),
    bool_option(
        name="dblog.signals.filters",
        doc="Whether a signal may have filters (additional-conditions). They are SQL of whoever may write to the channel, and run as the connector's account, "
        "in a transaction that is READ ONLY. false: such a signal is refused, and the dumps of earlier ones end; POST /connectors/NAME/dumps takes a "
        "predicate of an administrator.",
        default="true",
        group=OURS,
        label="Filters of signals",
        importance=Importance.LOW,
    ),
    bool_option(
        name="dblog.topics.shared",
        doc="Whether captured tables may share a topic, and this connector its topic.prefix with another one, as with Debezium. false: a configuration that "
        "makes them is refused, but for tables that topic.regex brings together.",
        default="false",
        group=OURS,
        label="Shared topics",
        importance=Importance.LOW,
    ),
    bool_option(
        name=TRACING,
        doc="Whether the task reports OpenTelemetry traces, and gives each record the header traceparent; absent: as the worker's key of that name.",
        group=OURS,
        label="Traces",
        importance=Importance.LOW,
        check=installed,
    ),
    option(
        name="dblog.owner",
        doc="Who keeps this connector equal to its files: dblog connectors apply writes its name here, and changes or deletes no connector of another one. "
        "The worker itself does not look at it.",
        group=OURS,
        label="Owner",
        importance=Importance.LOW,
    ),
    option(
        name="dblog.chunk.marker.topic",
        doc="Topic of the chunk markers; absent: __dblog-chunks.<topic.prefix>.",
        group=OURS,
        label="Chunk marker topic",
        check=topic_name,
    ),
)
"""dblog's own options, in the order of forms and of the reference page."""

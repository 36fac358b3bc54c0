"""The keys of the MySQL and MariaDB source connectors: Debezium's, with their defaults, and ours under ``dblog.``.

Debezium's names, types and defaults are its manual's (debezium.md 3.1 and 3.2), so a configuration made for Debezium is taken unchanged.
What a key asks for and dblog does not do yet is refused with the reason: a privacy mask or a filter that is silently ignored is worse
than an error. Keys nobody declares are ignored, as Connect does, and named (unknown_keys.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from dblog.config.column_rules import column_rules
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.options import (
    Checked,
    Importance,
    Kind,
    Option,
    Properties,
    Settings,
    Value,
    Voice,
    Width,
    all_of,
    check_properties,
    excludes,
    not_negative,
    not_negative_long,
    only,
    positive,
    positive_long,
    regexes,
    split_list,
    topic_name,
)
from dblog.config.topic_creation import check_topic_creation
from dblog.config.unused_stores import MODE, refused_stores
from dblog.errors import ConfigError

CONNECTION = "Connection"
FILTERS = "Filters"
EVENTS = "Events"
SNAPSHOT = "Snapshot"
SIGNALS = "Signals"
TOPICS = "Topics"
RUNTIME = "Run time"
HISTORY = "Schema history"
OURS = "dblog"

_HOSTNAME = re.compile(r"[A-Za-z0-9_.:\-\[\]]+")
_SERVER_ID_MAX = 2**32 - 1
_PLACEHOLDER_CHARACTERS_MAX = 63

_opt = partial(Option, voice=Voice.DEBEZIUM)
_int = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.INT)
_long = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.LONG)
_bool = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.BOOLEAN, width=Width.SHORT)
_list = partial(Option, voice=Voice.DEBEZIUM, kind=Kind.LIST, width=Width.LONG)
_HIGH, _LOW = Importance.HIGH, Importance.LOW


def _hostname(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, str) and not _HOSTNAME.fullmatch(value):
        return "{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"
    return None


def _server_id(value: Value, everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, int) and value > _SERVER_ID_MAX:
        return f"A replica id is at most {_SERVER_ID_MAX}"
    return positive_long(value, everything)


def _queue_size(value: Value, everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, int) and value <= 0:
        return "A positive queue size is required"
    batch = everything.get("max.batch.size")
    if isinstance(value, int) and isinstance(batch, int) and value <= batch:
        return "Must be larger than the maximum batch size"
    return None


def _skipped_operations(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, tuple):
        return None
    if any(item not in ("none", "c", "u", "d", "t", "r") for item in value):
        return "Invalid operation"
    return "'none' cannot be specified with other skipped operation types" if "none" in value and len(value) > 1 else None


def _key_columns(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, str):
        return None
    for part in filter(None, (part.strip() for part in value.split(";"))):
        table, colon, columns = part.rpartition(":")
        if not colon or not table.strip() or not columns.strip():
            return f"{part} has an invalid format (expecting '<table regex>:<column>,<column>')"
        if (problem := regexes((table, *columns.split(",")), {})) is not None:
            return problem
    return None


def _placeholder(value: Value, _all: Mapping[str, Value]) -> str | None:
    """It has to fit the shortest large object, of 255 bytes, in every character set; Debezium's hex: notation is not read."""
    text = str(value)
    if not text.isascii() or not 0 < len(text) <= _PLACEHOLDER_CHARACTERS_MAX or text.startswith("hex:"):
        return f"1 to {_PLACEHOLDER_CHARACTERS_MAX} ASCII characters are expected, the first four of them not 'hex:'"
    return None


def _retry_timeout(value: Value, _all: Mapping[str, Value]) -> str | None:
    return (
        "A positive number of milliseconds is expected, or -1 for ever" if isinstance(value, int) and value <= 0 and value != -1 else None
    )


def _history_topic(value: Value, everything: Mapping[str, Value]) -> str | None:
    # Debezium's check: both streams in one topic would feed DDL events to the history reader.
    if value == everything.get("topic.prefix"):
        return "Kafka topic name and topic prefix must be different: the latter names the topic of schema changes"
    return None


def _not_yet(what: str) -> str:
    return f"dblog does not {what} yet; remove the key"


_CONNECTION_OPTIONS = (
    _opt(
        name="topic.prefix",
        doc="Name of the source in topics, schemas, offsets and metrics. Changing it later means a new source.",
        required=True,
        importance=_HIGH,
        group=CONNECTION,
        label="Topic prefix",
        check=topic_name,
    ),
    _opt(
        name="database.hostname",
        doc="Host name or address of the database server.",
        required=True,
        importance=_HIGH,
        group=CONNECTION,
        label="Hostname",
        check=_hostname,
    ),
    _int(
        name="database.port",
        doc="Port of the database server.",
        default="3306",
        importance=_HIGH,
        group=CONNECTION,
        label="Port",
        check=positive,
    ),
    _opt(
        name="database.user",
        doc="User that reads the log and the tables.",
        required=True,
        importance=_HIGH,
        group=CONNECTION,
        label="User",
    ),
    _opt(name="database.password", doc="Its password.", kind=Kind.PASSWORD, importance=_HIGH, group=CONNECTION, label="Password"),
    _long(
        name="database.server.id",
        doc="Replica id that this connector uses; unique among all replicas of the server.",
        required=True,
        importance=_HIGH,
        group=CONNECTION,
        label="Cluster ID",
        check=_server_id,
    ),
    _long(
        name="database.server.id.offset",
        doc="Distance of the replica ids of further log connections.",
        default="10000",
        group=CONNECTION,
        label="Cluster ID offset",
    ),
    _opt(
        name="database.ssl.keystore",
        doc="Client certificate and key: PEM or PKCS12.",
        group=CONNECTION,
        label="SSL Keystore",
    ),
    _opt(
        name="database.ssl.keystore.password",
        doc="Password of the keystore.",
        kind=Kind.PASSWORD,
        group=CONNECTION,
        label="SSL Keystore Password",
    ),
    _opt(
        name="database.ssl.truststore",
        doc="Authorities of the server's certificate: PEM or PKCS12.",
        group=CONNECTION,
        label="SSL Truststore",
    ),
    _opt(
        name="database.ssl.truststore.password",
        doc="Password of the truststore.",
        kind=Kind.PASSWORD,
        group=CONNECTION,
        label="SSL Truststore Password",
    ),
    _opt(
        name="database.initial.statements",
        doc="SQL statements to run on every new connection.",
        importance=_LOW,
        group=CONNECTION,
        label="Initial statements",
    ),
    _int(
        name="database.query.timeout.ms",
        doc="Longest time of one statement; 0 means no limit.",
        default="600000",
        unit="ms",
        importance=_LOW,
        group=CONNECTION,
        label="Query timeout",
        check=not_negative,
    ),
    _long(
        name="connection.validation.timeout.ms",
        doc="Longest time that the check of a new configuration may take on the database.",
        default="60000",
        unit="ms",
        importance=_LOW,
        group=CONNECTION,
        label="Validation timeout",
        check=positive_long,
    ),
    _int(
        name="connect.timeout.ms",
        doc="Longest time to open a connection.",
        default="30000",
        unit="ms",
        group=CONNECTION,
        label="Connection timeout",
        check=positive,
    ),
    _bool(
        name="connect.keep.alive",
        doc="Whether the log connection is watched and opened again when it is silent for too long.",
        default="true",
        importance=_LOW,
        group=CONNECTION,
        label="Keep connection alive",
    ),
    _long(
        name="connect.keep.alive.interval.ms",
        doc="How often.",
        default="60000",
        unit="ms",
        importance=_LOW,
        group=CONNECTION,
        label="Keep alive interval",
        check=positive_long,
    ),
    _bool(
        name="use.nongraceful.disconnect",
        doc="Close the log connection without waiting for the server (this worker always does).",
        default="false",
        importance=_LOW,
        group=CONNECTION,
        label="Disconnect without grace",
    ),
    _int(
        name="binlog.net.write.timeout",
        doc="The server's net_write_timeout for the log connection; 0 leaves the server's.",
        default="0",
        unit="s",
        importance=_LOW,
        group=CONNECTION,
        label="Net write timeout",
        refused=only(0, because=_not_yet("set the server's network timeouts")),
    ),
    _int(
        name="binlog.net.read.timeout",
        doc="The server's net_read_timeout for the log connection; 0 leaves the server's.",
        default="0",
        unit="s",
        importance=_LOW,
        group=CONNECTION,
        label="Net read timeout",
        refused=only(0, because=_not_yet("set the server's network timeouts")),
    ),
)

_FILTER_OPTIONS = (
    _list(
        name="database.include.list",
        doc="Regular expressions of the databases to capture; anchored, any case.",
        importance=_HIGH,
        group=FILTERS,
        label="Include Databases",
        check=regexes,
    ),
    _list(
        name="database.exclude.list",
        doc="Regular expressions of the databases to leave out.",
        group=FILTERS,
        label="Exclude Databases",
        check=all_of(regexes, excludes("database.include.list")),
    ),
    _list(
        name="table.include.list",
        doc="Regular expressions of the tables (database.table) to capture; anchored, any case.",
        importance=_HIGH,
        group=FILTERS,
        label="Include Tables",
        check=regexes,
    ),
    _list(
        name="table.exclude.list",
        doc="Regular expressions of the tables to leave out.",
        group=FILTERS,
        label="Exclude Tables",
        check=all_of(regexes, excludes("table.include.list")),
    ),
    _list(
        name="column.include.list",
        doc="Regular expressions of the columns (database.table.column) to write.",
        group=FILTERS,
        label="Include Columns",
        check=regexes,
    ),
    _list(
        name="column.exclude.list",
        doc="Regular expressions of the columns to leave out of records.",
        group=FILTERS,
        label="Exclude Columns",
        check=all_of(regexes, excludes("column.include.list")),
    ),
    _bool(
        name="table.ignore.builtin",
        doc="Leave out the server's own databases.",
        default="true",
        importance=_LOW,
        group=FILTERS,
        label="Ignore system databases",
    ),
    _opt(
        name="message.key.columns",
        doc="Other key columns for tables, as table-regex:column,column;...",
        group=FILTERS,
        label="Columns PK mapping",
        check=_key_columns,
    ),
    _list(
        name="gtid.source.includes",
        doc="Sources (UUIDs, MariaDB: domain-server) whose transactions are read.",
        group=FILTERS,
        label="Include GTID sources",
        check=regexes,
    ),
    _list(
        name="gtid.source.excludes",
        doc="Sources whose transactions are left out.",
        group=FILTERS,
        label="Exclude GTID sources",
        check=all_of(regexes, excludes("gtid.source.includes")),
    ),
    _bool(
        name="gtid.source.filter.dml.events",
        doc="Whether that filter holds for row changes.",
        default="true",
        group=FILTERS,
        label="Filter DML events",
    ),
    _bool(
        name="gtid.ignore.on.recovery",
        doc="Resume by file and position although the offset has GTIDs: what dblog never does, for the GTIDs name the transactions on any server.",
        default="false",
        importance=_LOW,
        group=FILTERS,
        label="Ignore GTIDs on recovery",
        refused=only(
            False,
            because="dblog always resumes by the offset's GTIDs, which name the same transactions on every server, and a file and position do not; use "
            "false. To resume at a file and position once, stop the connector and change its offset to one without gtids (PATCH /connectors/NAME/offsets)",
        ),
    ),
    _int(
        name="guardrail.collections.max",
        doc="Most tables that may be captured; 0 means no limit.",
        default="0",
        importance=_LOW,
        group=FILTERS,
        label="Guardrail: tables max",
        refused=only(0, because=_not_yet("limit the number of captured tables")),
    ),
    _opt(
        name="guardrail.collections.limit.action",
        doc="What happens above that limit.",
        default="warn",
        importance=_LOW,
        group=FILTERS,
        label="Guardrail: action",
        choices=("warn", "fail"),
    ),
)

_EVENT_OPTIONS = (
    _opt(
        name="decimal.handling.mode",
        doc="How DECIMAL and NUMERIC are written: exact bytes, text, or double.",
        default="precise",
        group=EVENTS,
        label="Decimal Handling",
        choices=("precise", "string", "double"),
    ),
    _opt(
        name="bigint.unsigned.handling.mode",
        doc="How BIGINT UNSIGNED is written: long (wraps above 2^63-1), or exact bytes.",
        default="long",
        group=EVENTS,
        label="BIGINT UNSIGNED Handling",
        choices=("long", "precise"),
    ),
    _opt(
        name="binary.handling.mode",
        doc="How binary columns are written.",
        default="bytes",
        importance=_LOW,
        group=EVENTS,
        label="Binary Handling",
        choices=("bytes", "base64", "base64-url-safe", "hex"),
    ),
    _bool(
        name="enable.time.adjuster",
        doc="Read two-digit years as the server does.",
        default="true",
        importance=_LOW,
        group=EVENTS,
        label="Adjust two-digit years",
    ),
    _opt(
        name="schema.name.adjustment.mode",
        doc="How schema names are made fit for the converter.",
        default="none",
        group=EVENTS,
        label="Schema Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    _opt(
        name="field.name.adjustment.mode",
        doc="How field names are made fit for the converter.",
        default="none",
        group=EVENTS,
        label="Field Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    _bool(
        name="tombstones.on.delete",
        doc="Whether a delete is followed by a record with the same key and no value, so that compaction can drop the key.",
        default="true",
        group=EVENTS,
        label="Emit tombstones",
    ),
    _list(
        name="skipped.operations",
        doc="Operations that are not written: c, u, d, t, or none.",
        default="t",
        importance=_LOW,
        group=EVENTS,
        label="Skipped operations",
        check=_skipped_operations,
        refused=lambda value: "dblog writes every row of a dump; remove r" if isinstance(value, tuple) and "r" in value else None,
    ),
    _bool(
        name="skip.messages.without.change",
        doc="Leave out updates that change no written column.",
        default="false",
        group=EVENTS,
        label="Skip unchanged",
    ),
    _bool(
        name="include.query",
        doc="Write the SQL text of the change into the source block.",
        default="false",
        group=EVENTS,
        label="Include the query",
        refused=only(False, because=_not_yet("write the SQL text of a change")),
    ),
    _bool(
        name="include.schema.changes",
        doc="Write every schema change to the topic named by the prefix.",
        default="true",
        group=EVENTS,
        label="Include schema changes",
    ),
    _bool(
        name="include.schema.comments",
        doc="Keep table and column comments in the schema history.",
        default="false",
        group=EVENTS,
        label="Include comments",
    ),
    _bool(
        name="extended.headers.enabled",
        doc="Add the __debezium.context headers to every record.",
        default="true",
        importance=_LOW,
        group=EVENTS,
        label="Context headers",
    ),
    _opt(
        name="unavailable.value.placeholder",
        doc="What stands for a value that the log does not carry: a large object that an update left alone, where the log has images without them.",
        default="__debezium_unavailable_value",
        check=_placeholder,
        group=EVENTS,
        label="Unavailable value",
    ),
    _list(
        name="column.propagate.source.type",
        doc="Columns whose source type goes into the schema's parameters.",
        group=EVENTS,
        label="Propagate column types",
        check=regexes,
    ),
    _list(
        name="datatype.propagate.source.type",
        doc="Types whose source type goes into the schema's parameters.",
        group=EVENTS,
        label="Propagate types",
        check=regexes,
    ),
    _list(
        name="converters",
        doc="Java classes that convert values.",
        group=EVENTS,
        label="Converters",
        refused=only(because="Java classes cannot run in this worker; remove the key"),
    ),
    _list(
        name="post.processors",
        doc="Java classes that process events.",
        group=EVENTS,
        label="Post processors",
        refused=only(because="Java classes cannot run in this worker; remove the key"),
    ),
    _opt(
        name="sourceinfo.struct.maker",
        doc="Java class that builds the source block.",
        importance=_LOW,
        group=EVENTS,
        label="Source block maker",
        refused=only(
            "io.debezium.connector.mysql.MySqlSourceInfoStructMaker",
            "io.debezium.connector.mariadb.MariaDbSourceInfoStructMaker",
            because="Java classes cannot run in this worker; remove the key",
        ),
    ),
    _bool(
        name="provide.transaction.metadata",
        doc="Give each change its place in its transaction, and write the transactions' BEGIN and END to a topic of their own.",
        default="false",
        group=EVENTS,
        label="Transaction metadata",
    ),
    _opt(
        name="event.processing.failure.handling.mode",
        doc="What happens to an event that cannot be processed.",
        default="fail",
        group=EVENTS,
        label="Event failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    _opt(
        name="event.deserialization.failure.handling.mode",
        doc="What happens to a rows event that cannot be read, also after it has been read again three times: the task fails, or goes on without its rows, "
        "with a warning and a count. Any other damaged event fails the task.",
        default="fail",
        group=EVENTS,
        label="Event reading failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    _opt(
        name="inconsistent.schema.handling.mode",
        doc="What happens to rows of a table whose schema at their place cannot be told. Of a table that snapshot.mode and "
        "snapshot.include.collection.list have dumped they are passed over, and it is dumped again; of any other table the task fails, or goes on "
        "without them, with a warning and a count.",
        default="fail",
        group=EVENTS,
        label="Inconsistent schema handling",
        choices=("fail", "warn", "skip"),
    ),
    _opt(
        name="event.converting.failure.handling.mode",
        doc="What happens to one column's value that cannot be converted (a TIME beyond a day as a time of day, an empty geometry): warn and skip write null.",
        default="warn",
        group=EVENTS,
        label="Conversion failure handling",
        choices=("warn", "fail", "skip"),
    ),
)

_SNAPSHOT_OPTIONS = (
    _list(
        name="snapshot.include.collection.list",
        doc="Regular expressions of the captured tables to dump; absent: all.",
        group=SNAPSHOT,
        label="Tables to dump",
        check=regexes,
    ),
    _list(
        name="snapshot.select.statement.overrides",
        doc="Tables with a SELECT of their own.",
        group=SNAPSHOT,
        label="SELECT overrides",
        refused=only(because=_not_yet("take a SELECT of the user's own")),
    ),
    _opt(
        name="snapshot.query.mode",
        doc="Where the SELECT of a dump comes from.",
        default="select_all",
        importance=_LOW,
        group=SNAPSHOT,
        label="Snapshot query mode",
        choices=("select_all", "custom"),
        refused=only("select_all", because="Java classes cannot run in this worker; use select_all"),
    ),
    *(
        _opt(
            name=name,
            doc="Java class; cannot run here.",
            importance=_LOW,
            group=SNAPSHOT,
            label=name,
            refused=only(because="Java classes cannot run in this worker; remove the key"),
        )
        for name in ("snapshot.mode.custom.name", "snapshot.locking.mode.custom.name", "snapshot.query.mode.custom.name")
    ),
    *(
        _bool(
            name=f"snapshot.mode.configuration.based.{part}",
            doc="Part of snapshot.mode=configuration_based.",
            default="false",
            importance=_LOW,
            group=SNAPSHOT,
            label=f"Configuration based: {part}",
            refused=only(False, because=_not_yet("build a snapshot mode from flags")),
        )
        for part in ("snapshot.data", "snapshot.schema", "start.stream", "snapshot.on.schema.error", "snapshot.on.data.error")
    ),
    _int(
        name="snapshot.fetch.size",
        doc="Rows fetched at a time in a Debezium snapshot; dblog reads chunks instead (dblog.chunk.rows).",
        unit="rows",
        group=SNAPSHOT,
        label="Snapshot fetch size",
        check=positive,
    ),
    _int(
        name="snapshot.max.threads",
        doc="Connections that dump at once; dblog.dump.threads wins.",
        default="1",
        group=SNAPSHOT,
        label="Snapshot maximum threads",
        check=positive,
    ),
    _int(
        name="snapshot.max.threads.multiplier",
        doc="Chunks for each thread in Debezium; dblog sizes chunks by rows.",
        default="1",
        importance=_LOW,
        group=SNAPSHOT,
        label="Snapshot threads multiplier",
        check=positive,
    ),
    _bool(
        name="legacy.snapshot.max.threads",
        doc="One table for each thread, as Debezium before 3.5.",
        default="false",
        importance=_LOW,
        group=SNAPSHOT,
        label="Legacy snapshot threads",
    ),
    _long(
        name="snapshot.delay.ms",
        doc="Pause before the dump starts.",
        default="0",
        unit="ms",
        importance=_LOW,
        group=SNAPSHOT,
        label="Snapshot delay",
        check=not_negative_long,
        refused=only(0, because=_not_yet("delay a dump")),
    ),
    _long(
        name="streaming.delay.ms",
        doc="Pause before the log is read.",
        default="0",
        unit="ms",
        importance=_LOW,
        group=SNAPSHOT,
        label="Streaming delay",
        check=not_negative_long,
        refused=only(0, because="dblog reads log and tables at once: there is no pause between them; remove the key"),
    ),
    _opt(
        name="snapshot.tables.order.by.row.count",
        doc="Dump the smallest or the largest tables first.",
        default="disabled",
        importance=_LOW,
        group=SNAPSHOT,
        label="Snapshot order",
        choices=("disabled", "ascending", "descending"),
        refused=only("disabled", because=_not_yet("order a dump by table size")),
    ),
    _long(
        name="snapshot.lock.timeout.ms",
        doc="Longest wait for a table lock; dblog takes none.",
        default="10000",
        unit="ms",
        importance=_LOW,
        group=SNAPSHOT,
        label="Snapshot lock timeout",
    ),
    _long(
        name="min.row.count.to.stream.results",
        doc="From how many rows on Debezium streams a table; dblog always reads chunks.",
        default="1000",
        unit="rows",
        importance=_LOW,
        group=SNAPSHOT,
        label="Stream result set of size",
        check=not_negative_long,
    ),
    _int(
        name="incremental.snapshot.chunk.size",
        doc="Rows of one chunk of a dump asked for by a signal.",
        default="1024",
        unit="rows",
        group=SNAPSHOT,
        label="Incremental snapshot chunk size",
        check=positive,
    ),
    _opt(
        name="incremental.snapshot.watermarking.strategy",
        doc="How Debezium writes its marks; dblog updates one row of dblog.watermark.table.",
        default="insert_insert",
        importance=_LOW,
        group=SNAPSHOT,
        label="Watermarking strategy",
        choices=("insert_insert", "insert_delete"),
    ),
    _bool(
        name="incremental.snapshot.allow.schema.changes",
        doc="Whether a table may change while it is dumped; dblog always allows it.",
        default="false",
        importance=_LOW,
        group=SNAPSHOT,
        label="Allow schema changes",
    ),
)

_SIGNAL_OPTIONS = (
    _bool(
        name="read.only",
        doc="Never write to the source, not even marks.",
        default="false",
        group=SIGNALS,
        label="Read only",
        refused=only(False, because=_not_yet("dump without writing marks")),
    ),
    _opt(
        name="signal.data.collection",
        doc="Table that signals are inserted into.",
        group=SIGNALS,
        label="Signal table",
        refused=only(because=_not_yet("obey signals")),
    ),
    _list(
        name="signal.enabled.channels",
        doc="Ways that signals come.",
        default="source",
        group=SIGNALS,
        label="Signal channels",
        refused=lambda value: None if value in ((), ("source",)) else _not_yet("obey signals from a topic or a file"),
    ),
    _opt(name="signal.kafka.topic", doc="Topic of signals.", group=SIGNALS, label="Signal topic"),
    _opt(name="signal.kafka.groupId", doc="Group that reads it.", default="kafka-signal", group=SIGNALS, label="Signal group"),
    _opt(name="signal.kafka.bootstrap.servers", doc="Brokers of that topic.", group=SIGNALS, label="Signal brokers"),
    _int(
        name="signal.kafka.poll.timeout.ms",
        doc="Wait of one poll.",
        default="0",
        unit="ms",
        importance=_LOW,
        group=SIGNALS,
        label="Signal poll",
    ),
    _opt(name="signal.file", doc="File of signals.", default="file-signals.txt", importance=_LOW, group=SIGNALS, label="Signal file"),
    _long(
        name="signal.poll.interval.ms",
        doc="How often signals are looked for.",
        default="5000",
        unit="ms",
        importance=_LOW,
        group=SIGNALS,
        label="Signal poll interval",
        check=positive_long,
    ),
    _int(
        name="signal.emit.failure.max.retries",
        doc="Tries to write a mark.",
        default="0",
        importance=_LOW,
        group=SIGNALS,
        label="Signal retries",
        check=not_negative,
    ),
    _long(
        name="signal.emit.failure.backoff.ms",
        doc="Pause between them.",
        default="10000",
        unit="ms",
        importance=_LOW,
        group=SIGNALS,
        label="Signal retry pause",
        check=not_negative_long,
    ),
    _list(
        name="notification.enabled.channels",
        doc="Ways that notifications go out.",
        group=SIGNALS,
        label="Notification channels",
        refused=only(because=_not_yet("send notifications")),
    ),
    _opt(name="notification.sink.topic.name", doc="Topic of notifications.", group=SIGNALS, label="Notification topic"),
)

_TOPIC_OPTIONS = (
    _int(
        name="heartbeat.interval.ms",
        doc="How often a heartbeat is written, which moves the offset of a source whose captured tables are quiet; 0 means never.",
        default="0",
        unit="ms",
        group=TOPICS,
        label="Heartbeat interval",
        check=not_negative,
    ),
    _opt(
        name="topic.heartbeat.prefix",
        doc="Head of the heartbeat topic's name, before the topic prefix.",
        default="__debezium-heartbeat",
        importance=_LOW,
        group=TOPICS,
        label="Heartbeat topic prefix",
        aliases=("heartbeat.topics.prefix",),
        check=topic_name,
    ),
    _opt(
        name="topic.heartbeat.name",
        doc="Whole name of the heartbeat topic.",
        importance=_LOW,
        group=TOPICS,
        label="Heartbeat topic",
        check=topic_name,
    ),
    _opt(
        name="heartbeat.action.query",
        doc="SQL to run with each heartbeat.",
        group=TOPICS,
        label="Heartbeat query",
        refused=only(because=_not_yet("run SQL with a heartbeat")),
    ),
    _opt(
        name="topic.transaction",
        doc="Tail of the transaction topic.",
        default="transaction",
        importance=_LOW,
        group=TOPICS,
        label="Transaction topic",
    ),
    _opt(
        name="topic.delimiter",
        doc="What joins the parts of a topic name.",
        default=".",
        group=TOPICS,
        label="Topic delimiter",
        check=topic_name,
    ),
    _opt(
        name="topic.naming.strategy",
        doc="How topics are named: <prefix>.<database>.<table>.",
        default="io.debezium.schema.DefaultTopicNamingStrategy",
        group=TOPICS,
        label="Topic naming strategy",
        refused=only(
            "io.debezium.schema.DefaultTopicNamingStrategy",
            "io.debezium.schema.SchemaTopicNamingStrategy",
            because="Java classes cannot run in this worker; remove the key",
        ),
    ),
    _int(name="topic.cache.size", doc="Names kept; no effect here.", default="10000", importance=_LOW, group=TOPICS, label="Topic cache"),
)

_RUNTIME_OPTIONS = (
    _int(
        name="max.batch.size",
        doc="Most records of one poll.",
        default="2048",
        unit="records",
        group=RUNTIME,
        label="Change event batch size",
        check=positive,
    ),
    _int(
        name="max.queue.size",
        doc="Most records between reader and sender; larger than max.batch.size.",
        default="8192",
        unit="records",
        group=RUNTIME,
        label="Change event buffer size",
        check=_queue_size,
    ),
    _long(
        name="max.queue.size.in.bytes",
        doc="Most bytes between reader and sender; 0 means this worker's own limit.",
        default="0",
        unit="bytes",
        group=RUNTIME,
        label="Change event buffer bytes",
        check=not_negative_long,
    ),
    _long(
        name="poll.interval.ms",
        doc="Longest wait of a poll for a first record.",
        default="500",
        unit="ms",
        group=RUNTIME,
        label="Poll interval",
        check=positive_long,
    ),
    _int(
        name="errors.max.retries",
        doc="How often a lost connection and the like is tried again before the task fails; -1 for ever.",
        default="-1",
        group=RUNTIME,
        label="Retries",
    ),
    _long(
        name="retriable.restart.connector.wait.ms",
        doc="Pause before such a try.",
        default="10000",
        unit="ms",
        importance=_LOW,
        group=RUNTIME,
        label="Retriable wait",
        check=positive_long,
    ),
    _opt(
        name="custom.metric.tags",
        doc="Further tags of the metrics.",
        importance=_LOW,
        group=RUNTIME,
        label="Metric tags",
        refused=only(because=_not_yet("tag metrics")),
    ),
    _opt(
        name="custom.sanitize.pattern",
        doc="Regular expression of keys whose values logs hide; this worker never logs values.",
        importance=_LOW,
        group=RUNTIME,
        label="Sanitize pattern",
    ),
    _bool(
        name="statistics.metrics.enabled",
        doc="Percentiles of the lag.",
        default="true",
        importance=_LOW,
        group=RUNTIME,
        label="Statistics metrics",
    ),
    _int(
        name="binlog.buffer.size",
        doc="Look-ahead for rolled-back transactions; a log of row events needs none.",
        default="0",
        unit="events",
        importance=_LOW,
        group=RUNTIME,
        label="Look-ahead buffer",
        check=not_negative,
    ),
    _int(
        name="executor.shutdown.timeout.ms",
        doc="Longest wait for the readers at a stop.",
        default="4000",
        unit="ms",
        importance=_LOW,
        group=RUNTIME,
        label="Shutdown timeout",
    ),
)

_HISTORY_OPTIONS = (
    _opt(
        name="schema.history.internal",
        doc="Where the schema history is kept.",
        kind=Kind.CLASS,
        default="io.debezium.storage.kafka.history.KafkaSchemaHistory",
        importance=_LOW,
        group=HISTORY,
        label="Schema history class",
        refused=only(
            "io.debezium.storage.kafka.history.KafkaSchemaHistory",
            because="dblog keeps the schema history in a Kafka topic only; remove the key",
        ),
    ),
    _opt(
        name="schema.history.internal.kafka.topic",
        doc="Topic of the schema history.",
        required=True,
        importance=_HIGH,
        group=HISTORY,
        label="History topic",
        check=all_of(topic_name, _history_topic),
    ),
    _opt(
        name="schema.history.internal.kafka.bootstrap.servers",
        doc="Brokers of that topic.",
        required=True,
        importance=_HIGH,
        group=HISTORY,
        label="History brokers",
    ),
    *(
        _int(
            name=f"schema.history.internal.kafka.{tail}",
            doc=doc,
            default=default,
            unit=unit,
            importance=_LOW,
            group=HISTORY,
            label=tail,
            check=positive,
        )
        for tail, doc, default, unit in (
            ("recovery.poll.interval.ms", "Wait of one poll while the history is read.", "100", "ms"),
            ("recovery.attempts", "Polls without a record before the reading of the history is given up.", "100", None),
            ("query.timeout.ms", "Longest wait for the cluster's answer.", "3000", "ms"),
            ("create.timeout.ms", "Longest wait for the topic's creation.", "30000", "ms"),
            ("buffer.batch.size", "Records written at a time.", "1024", "records"),
        )
    ),
    _bool(
        name="schema.history.internal.skip.unparseable.ddl",
        doc="Pass over statements that cannot be understood; dblog never needs to: it re-reads the table they name.",
        default="false",
        importance=_LOW,
        group=HISTORY,
        label="Skip DDL that cannot be understood",
    ),
    _bool(
        name="schema.history.internal.store.only.captured.tables.ddl",
        doc="Tell the schema-change topic of captured tables only, not of all tables of the server (the history keeps no others in any case).",
        default="false",
        importance=_LOW,
        group=HISTORY,
        label="History of captured tables only",
    ),
    _bool(
        name="schema.history.internal.store.only.captured.databases.ddl",
        doc="Tell the schema-change topic of captured databases only (the history keeps no others in any case).",
        default="false",
        importance=_LOW,
        group=HISTORY,
        label="History of captured databases only",
    ),
    _bool(
        name="schema.history.internal.prefer.ddl",
        doc="Recover from statements instead of schemas.",
        default="false",
        importance=_LOW,
        group=HISTORY,
        label="Prefer DDL",
        refused=only(False, because="dblog recovers from full table schemas; remove the key"),
    ),
    _opt(
        name="schema.history.internal.ddl.filter",
        doc="Statements (regular expressions) whose text is kept out of the history and the schema-change topic; their effect is followed all the same.",
        importance=_LOW,
        group=HISTORY,
        label="DDL filter",
    ),
    _opt(
        name="schema.history.internal.memory.optimization",
        doc="How Debezium saves memory; dblog keeps captured tables only.",
        default="off",
        importance=_LOW,
        group=HISTORY,
        label="History memory",
    ),
)

_OUR_OPTIONS = (
    _opt(
        name="dblog.watermark.table",
        doc="Table (database.table) that marks are written to; created if the user may create it.",
        default="dblog.watermark",
        group=OURS,
        label="Watermark table",
        check=lambda value, _all: (
            None
            if isinstance(value, str) and re.fullmatch(r"[^.`\s]+\.[^.`\s]+", value)
            else "A name of the form database.table is expected"
        ),
    ),
    _int(
        name="dblog.chunk.rows",
        doc="Most rows of one chunk of the initial dump.",
        default="20000",
        unit="rows",
        group=OURS,
        label="Chunk rows",
        check=positive,
    ),
    _long(
        name="dblog.chunk.bytes.max",
        doc="Most bytes of one chunk; a larger one is read again with fewer rows.",
        default="16777216",
        unit="bytes",
        group=OURS,
        label="Chunk bytes",
        check=positive_long,
    ),
    _int(
        name="dblog.dump.threads",
        doc="Connections that dump at once, each a table of its own; each keeps up to two chunks in memory.",
        default="1",
        group=OURS,
        label="Dump threads",
        check=positive,
    ),
    _int(
        name="dblog.window.keys.max",
        doc="Most keys noted between two marks; a window beyond it is thrown away and read again, smaller.",
        default="500000",
        unit="keys",
        group=OURS,
        label="Window keys",
        check=positive,
    ),
    _long(
        name="dblog.retry.timeout.ms",
        doc="How long a lost database, broker or registry is waited for before the task is FAILED; -1: for ever, with the reason in its status.",
        default="-1",
        unit="ms",
        group=OURS,
        label="Retry timeout",
        check=_retry_timeout,
    ),
    _opt(
        name="dblog.ddl.redump",
        doc="Whether a table is dumped again after DDL that changed its rows without row events (a default, a conversion, another name or key): changed, or "
        "never. A dump takes no row away: what DROP, TRUNCATE or a former name or key leaves in a topic stays there, as with Debezium.",
        default="changed",
        group=OURS,
        label="Dump again after DDL",
        choices=("changed", "never"),
    ),
    _opt(
        name="dblog.row.image.missing",
        doc="What happens to rows that the log has without all columns (binlog_row_image=MINIMAL) and that follow from no other image: fail; or reread, which "
        "reads inserted and updated rows again from the table by their key (as they are then, or newer), writes updates without the row before, and deletes "
        "with the key only.",
        default="fail",
        group=OURS,
        label="Row images without all columns",
        choices=("fail", "reread"),
    ),
    _opt(
        name="dblog.chunk.marker.topic",
        doc="Topic of the chunk markers; absent: <topic.prefix>.dblog.chunks.",
        group=OURS,
        label="Chunk marker topic",
        check=topic_name,
    ),
)

_MODES = ("initial", "initial_only", "always", "no_data", "schema_only", "when_needed", "never")
_MODES_REFUSED = ("recovery", "schema_only_recovery", "configuration_based", "custom")
_TIME_MODES = ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")


def _refuse_mode(value: Value) -> str | None:
    match value:
        case str() if value.strip().lower() in ("recovery", "schema_only_recovery"):
            return "dblog does not rebuild a lost schema history yet; use no_data with a new topic.prefix, or when_needed"
        case str() if value.strip().lower() == "configuration_based":
            return "dblog does not build a snapshot mode from flags yet; use initial, no_data or when_needed"
        case str() if value.strip().lower() == "custom":
            return "Java classes cannot run in this worker; use initial, no_data or when_needed"
        case _:
            return None


def _family_options(*, ssl_modes: tuple[str, ...], ssl_default: str, locking: tuple[str, ...]) -> tuple[Option, ...]:
    return (
        _opt(
            name="snapshot.mode",
            doc="What is dumped before and while the log is followed. Dumps run beside the log and take no locks.",
            default="initial",
            group=SNAPSHOT,
            label="Snapshot mode",
            choices=_MODES + _MODES_REFUSED,
            refused=_refuse_mode,
        ),
        _opt(
            name="snapshot.locking.mode",
            doc="Locks of a Debezium snapshot; dblog takes none in any mode.",
            default="minimal",
            importance=_LOW,
            group=SNAPSHOT,
            label="Snapshot locking mode",
            choices=(*locking, "custom"),
            refused=lambda value: "Java classes cannot run in this worker; use none" if value == "custom" else None,
        ),
        _opt(
            name="database.ssl.mode",
            doc="Whether the connection is encrypted and the server's certificate checked.",
            default=ssl_default,
            group=CONNECTION,
            label="SSL mode",
            choices=ssl_modes,
        ),
        _bool(
            name="driver.allowPublicKeyRetrieval",
            doc="Whether the password may be encrypted with a key that the server sends over a connection without TLS (caching_sha2_password).",
            default="false",
            importance=_LOW,
            group=CONNECTION,
            label="Allow public key retrieval",
        ),
        _opt(
            name="time.precision.mode",
            doc="How times are written; adaptive is not allowed for this source, as in Debezium.",
            default="adaptive_time_microseconds",
            group=EVENTS,
            label="Time Precision",
            choices=_TIME_MODES,
        ),
    )


def _ordered(family: tuple[Option, ...]) -> tuple[Option, ...]:
    """Important keys first within each topic, the order of forms and of the reference page."""
    parts = (*_CONNECTION_OPTIONS, *_FILTER_OPTIONS, *family, *_SNAPSHOT_OPTIONS, *_EVENT_OPTIONS, *_TOPIC_OPTIONS, *_RUNTIME_OPTIONS)
    return (*parts, *_SIGNAL_OPTIONS, *_HISTORY_OPTIONS, *_OUR_OPTIONS)


MYSQL_OPTIONS = _ordered(
    _family_options(
        ssl_modes=("disabled", "preferred", "required", "verify_ca", "verify_identity"),
        ssl_default="preferred",
        locking=("minimal", "minimal_percona", "minimal_percona_no_table_locks", "minimal_at_least_once", "extended", "none"),
    )
)
"""Every key of the MySQL connector besides Connect's own."""

MARIADB_OPTIONS = _ordered(
    _family_options(
        ssl_modes=("disable", "trust", "verify-ca", "verify-full"),
        ssl_default="disable",
        locking=("minimal", "minimal_at_least_once", "extended", "none"),
    )
)
"""Every key of the MariaDB connector besides Connect's own."""

_REFUSED_PATTERNS = (
    (re.compile(r"snapshot\.select\.statement\.overrides\..+"), _not_yet("take a SELECT of the user's own")),
    (re.compile(r"driver\.(?!allowPublicKeyRetrieval$).+"), "a JDBC driver's settings mean nothing to this worker; remove the key"),
)
"""Families of keys that would change what is written, and that must not be ignored."""


def check_connector(options: tuple[Option, ...], properties: Properties, *, shown: Mapping[str, str] | None = None) -> Checked:
    """Connect's keys, the connector's keys, families of keys: all values and all messages, without touching the database."""
    checked = check_properties((*FRAMEWORK_OPTIONS, *options), properties, shown=shown)
    errors = checked.errors
    for name, text in properties.items():
        for pattern, reason in _REFUSED_PATTERNS:
            if pattern.fullmatch(name):
                errors.setdefault(name, []).append(f"The '{name}' value is invalid: {reason}")
        if text is None and name not in errors and name not in checked.values:
            errors[name] = [f"Invalid value null for configuration {name}: Null value can not be supplied as the configuration value."]
    rules, unlike = column_rules(properties)
    for name, texts in unlike.items():
        errors.setdefault(name, []).extend(f"The '{name}' value is invalid: {text}" for text in texts)
    for rule in rules:
        wrong = regexes(split_list(rule.columns), {})
        if wrong is not None:
            errors.setdefault(rule.option, []).append(f"The '{rule.option}' value is invalid: {wrong}")
    modes = [option.default for option in options if option.name == MODE]
    for name, texts in refused_stores(properties, mode_default=modes[0] if modes else None).items():
        errors.setdefault(name, []).extend(texts)
    for name, texts in check_topic_creation({k: v for k, v in properties.items() if v is not None}).items():
        errors.setdefault(name, []).extend(texts)
    return checked


def parse_connector(options: tuple[Option, ...], properties: Mapping[str, str]) -> Settings:
    """Typed settings of a connector or a task; a ``ConfigError`` with every message."""
    checked = check_connector(options, properties)
    if checked.errors:
        raise ConfigError(checked.errors)
    return Settings(checked.values, properties)

"""Options that MySQL and MariaDB have because their log is a binlog: replica ids, GTIDs, statements
in the log, databases of tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.dblog import dump_limit
from dblog.config.connector_options.forms import (
    CONNECTION,
    EVENTS,
    FILTERS,
    HIGH,
    LOW,
    OURS,
    RUNTIME,
    SNAPSHOT,
    bool_option,
    int_option,
    list_option,
    long_option,
    not_yet,
    option,
)
from dblog.config.connector_options.history import HISTORY_OPTIONS
from dblog.config.options import (
    Kind,
    Option,
    Value,
    all_of,
    excludes,
    not_negative,
    not_negative_long,
    only,
    positive_long,
    regexes,
)

_SERVER_ID_MAX = 2**32 - 1


def _server_id(value: Value, everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, int) and value > _SERVER_ID_MAX:
        return f"A replica id is at most {_SERVER_ID_MAX}"
    return positive_long(value, everything)


_LOGIN = (
    long_option(
        name="database.server.id",
        doc="Replica id under which this connector reads the log. It must be unique among all replicas of the server.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="Cluster ID",
        check=_server_id,
    ),
    long_option(
        name="database.server.id.offset",
        doc="Difference between the replica ids of this connector's further log connections and database.server.id.",
        default="10000",
        group=CONNECTION,
        label="Cluster ID offset",
        check=positive_long,
    ),
    option(
        name="database.ssl.keystore",
        doc="File with the client's certificate and key, in PEM or PKCS12.",
        group=CONNECTION,
        label="SSL Keystore",
    ),
    option(
        name="database.ssl.keystore.password",
        doc="Password of the keystore.",
        kind=Kind.PASSWORD,
        group=CONNECTION,
        label="SSL Keystore Password",
    ),
    option(
        name="database.ssl.truststore",
        doc="File with the certificate authorities that may sign the server's certificate, in PEM or PKCS12.",
        group=CONNECTION,
        label="SSL Truststore",
    ),
    option(
        name="database.ssl.truststore.password",
        doc="Password of the truststore.",
        kind=Kind.PASSWORD,
        group=CONNECTION,
        label="SSL Truststore Password",
    ),
)

_LOG_CONNECTION = (
    bool_option(
        name="connect.keep.alive",
        doc="If true, the log connection is opened again after it has been silent for too long.",
        default="true",
        importance=LOW,
        group=CONNECTION,
        label="Keep connection alive",
    ),
    long_option(
        name="connect.keep.alive.interval.ms",
        doc="Interval between two checks that the log connection is alive.",
        default="60000",
        unit="ms",
        importance=LOW,
        group=CONNECTION,
        label="Keep alive interval",
        check=positive_long,
    ),
    bool_option(
        name="use.nongraceful.disconnect",
        no_effect="the log connection is always closed without waiting for the server",
        doc="Closes the log connection without waiting for the server, which this worker always does.",
        default="false",
        importance=LOW,
        group=CONNECTION,
        label="Disconnect without grace",
    ),
    int_option(
        name="binlog.net.write.timeout",
        doc="Value of the server's net_write_timeout for the log connection; 0 keeps the server's own value.",
        default="0",
        unit="s",
        importance=LOW,
        group=CONNECTION,
        label="Net write timeout",
        refused=only(0, because=not_yet("set the server's network timeouts")),
    ),
    int_option(
        name="binlog.net.read.timeout",
        doc="Value of the server's net_read_timeout for the log connection; 0 keeps the server's own value.",
        default="0",
        unit="s",
        importance=LOW,
        group=CONNECTION,
        label="Net read timeout",
        refused=only(0, because=not_yet("set the server's network timeouts")),
    ),
)

_DATABASES = (
    list_option(
        name="database.include.list",
        doc=(
            "Regular expressions, separated by commas, of the databases to capture. Each must match the whole "
            "name; upper and lower case are the same."
        ),
        importance=HIGH,
        group=FILTERS,
        label="Include Databases",
        check=regexes,
    ),
    list_option(
        name="database.exclude.list",
        doc="Regular expressions, separated by commas, of the databases that are not captured.",
        group=FILTERS,
        label="Exclude Databases",
        check=all_of(regexes, excludes("database.include.list")),
    ),
)

_GTIDS = (
    list_option(
        name="gtid.source.includes",
        doc="Regular expressions of the server UUIDs (MariaDB: domain-server) whose transactions are captured.",
        group=FILTERS,
        label="Include GTID sources",
        check=regexes,
    ),
    list_option(
        name="gtid.source.excludes",
        doc="Regular expressions of the server UUIDs (MariaDB: domain-server) whose transactions are not captured.",
        group=FILTERS,
        label="Exclude GTID sources",
        check=all_of(regexes, excludes("gtid.source.includes")),
    ),
    bool_option(
        name="gtid.source.filter.dml.events",
        doc="If true, the filter of GTID sources also applies to row changes.",
        default="true",
        group=FILTERS,
        label="Filter DML events",
    ),
    bool_option(
        name="gtid.ignore.on.recovery",
        doc=(
            "Resumes by file and position although the offset has GTIDs. dblog never does so, since GTIDs "
            "name the same transactions on every server."
        ),
        default="false",
        importance=LOW,
        group=FILTERS,
        label="Ignore GTIDs on recovery",
        refused=only(
            False,
            because="dblog always resumes by the offset's GTIDs, which name the same transactions on every server, and a file and position do not; use "
            "false. To resume at a file and position once, stop the connector and change its offset to one without gtids (PATCH /connectors/NAME/offsets)",
        ),
    ),
)

_RESULT_SETS = (
    long_option(
        name="min.row.count.to.stream.results",
        no_effect="a dump always reads chunks",
        doc="Number of rows from which on Debezium streams a table. dblog always reads chunks.",
        default="1000",
        unit="rows",
        importance=LOW,
        group=SNAPSHOT,
        label="Stream result set of size",
        check=not_negative_long,
    ),
)

_DDL_WHILE_DUMPED = (
    bool_option(
        name="incremental.snapshot.allow.schema.changes",
        no_effect="a table may always change while it is dumped",
        doc="If true, a table may change while it is dumped. dblog always allows it.",
        default="false",
        importance=LOW,
        group=SNAPSHOT,
        label="Allow schema changes",
    ),
)

_UNSIGNED = (
    option(
        name="bigint.unsigned.handling.mode",
        doc="Form of BIGINT UNSIGNED in records: long (values above 2^63-1 become negative) or precise (exact, as bytes).",
        default="long",
        group=EVENTS,
        label="BIGINT UNSIGNED Handling",
        choices=("long", "precise"),
    ),
)

_YEARS = (
    bool_option(
        name="enable.time.adjuster",
        doc="Reads two-digit years as the server does.",
        default="true",
        importance=LOW,
        group=EVENTS,
        label="Adjust two-digit years",
    ),
)

_STATEMENTS = (
    bool_option(
        name="include.query",
        doc=(
            "Writes the SQL text of the change into the source block. The server must log it "
            "(binlog_rows_query_log_events, MariaDB: binlog_annotate_row_events)."
        ),
        default="false",
        group=EVENTS,
        label="Include the query",
        refused=only(False, because=not_yet("write the SQL text of a change")),
    ),
    bool_option(
        name="include.schema.changes",
        doc="Writes every schema change to the topic that is named topic.prefix.",
        default="true",
        group=EVENTS,
        label="Include schema changes",
    ),
)

_UNREADABLE = (
    option(
        name="event.deserialization.failure.handling.mode",
        doc=(
            "Treatment of a rows event that cannot be read, even after three more attempts: fail ends the "
            "task; warn and skip go on without its rows and count them, warn with a warning. Any other "
            "damaged event fails the task."
        ),
        default="fail",
        group=EVENTS,
        label="Event reading failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    option(
        name="inconsistent.schema.handling.mode",
        doc=(
            "Treatment of rows of a table whose schema at their position is unknown. A table that was dumped "
            "under snapshot.mode and snapshot.include.collection.list is dumped again, and its rows are left "
            "out until then. For any other table, fail ends the task; warn and skip go on without the rows "
            "and count them, warn with a warning."
        ),
        default="fail",
        group=EVENTS,
        label="Inconsistent schema handling",
        choices=("fail", "warn", "skip"),
    ),
)

_LOOK_AHEAD = (
    int_option(
        name="binlog.buffer.size",
        no_effect="the end of a transaction is always looked for before its rows are sent, whatever its size",
        doc=(
            "Number of events that Debezium reads ahead to detect a rollback. dblog always detects it, with "
            "16 MiB in memory and a second log connection for longer transactions."
        ),
        default="0",
        unit="events",
        importance=LOW,
        group=RUNTIME,
        label="Look-ahead buffer",
        check=not_negative,
    ),
)

_ROW_IMAGES = (
    option(
        name="dblog.row.image.missing",
        doc=(
            "Treatment of rows that the log contains without all columns (binlog_row_image=MINIMAL) and whose "
            "other values are unknown. fail ends the task. reread reads inserted and updated rows again from "
            "the table by their key, with their values at that time or later; updates then lack the row "
            "before, and deletes have the key only."
        ),
        default="fail",
        group=OURS,
        label="Row images without all columns",
        choices=("fail", "reread"),
    ),
)

BINLOG_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "database.password": _LOGIN,
    "connect.timeout.ms": (*_LOG_CONNECTION, *_DATABASES),
    "message.key.columns": _GTIDS,
    "snapshot.lock.timeout.ms": _RESULT_SETS,
    "incremental.snapshot.watermarking.strategy": _DDL_WHILE_DUMPED,
    "decimal.handling.mode": _UNSIGNED,
    "binary.handling.mode": _YEARS,
    "skip.messages.without.change": _STATEMENTS,
    "event.processing.failure.handling.mode": _UNREADABLE,
    "statistics.metrics.enabled": _LOOK_AHEAD,
    "notification.sink.topic.name": HISTORY_OPTIONS,
    "dblog.dump.limit.replica.lag.ms": (
        dump_limit(
            "history.list.length",
            label="history",
            default="0",
            unit="transactions",
            doc="Length of InnoDB's history list, which grows while old snapshots keep changes from being purged.",
        ),
    ),
    "dblog.new.tables": _ROW_IMAGES,
}
"""Options by the shared option that they follow (``forms.placed``). Debezium's names, types and
defaults.
"""

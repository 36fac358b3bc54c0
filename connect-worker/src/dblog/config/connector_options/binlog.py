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
        doc="Replica id that this connector uses; unique among all replicas of the server.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="Cluster ID",
        check=_server_id,
    ),
    long_option(
        name="database.server.id.offset",
        doc="Distance of the replica ids of further log connections.",
        default="10000",
        group=CONNECTION,
        label="Cluster ID offset",
        check=positive_long,
    ),
    option(
        name="database.ssl.keystore",
        doc="Client certificate and key: PEM or PKCS12.",
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
        doc="Authorities of the server's certificate: PEM or PKCS12.",
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
        doc="Whether the log connection is watched and opened again when it is silent for too long.",
        default="true",
        importance=LOW,
        group=CONNECTION,
        label="Keep connection alive",
    ),
    long_option(
        name="connect.keep.alive.interval.ms",
        doc="How often.",
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
        doc="Close the log connection without waiting for the server (this worker always does).",
        default="false",
        importance=LOW,
        group=CONNECTION,
        label="Disconnect without grace",
    ),
    int_option(
        name="binlog.net.write.timeout",
        doc="The server's net_write_timeout for the log connection; 0 leaves the server's.",
        default="0",
        unit="s",
        importance=LOW,
        group=CONNECTION,
        label="Net write timeout",
        refused=only(0, because=not_yet("set the server's network timeouts")),
    ),
    int_option(
        name="binlog.net.read.timeout",
        doc="The server's net_read_timeout for the log connection; 0 leaves the server's.",
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
        doc="Regular expressions of the databases to capture; anchored, any case.",
        importance=HIGH,
        group=FILTERS,
        label="Include Databases",
        check=regexes,
    ),
    list_option(
        name="database.exclude.list",
        doc="Regular expressions of the databases to leave out.",
        group=FILTERS,
        label="Exclude Databases",
        check=all_of(regexes, excludes("database.include.list")),
    ),
)

_GTIDS = (
    list_option(
        name="gtid.source.includes",
        doc="Sources (UUIDs, MariaDB: domain-server) whose transactions are read.",
        group=FILTERS,
        label="Include GTID sources",
        check=regexes,
    ),
    list_option(
        name="gtid.source.excludes",
        doc="Sources whose transactions are left out.",
        group=FILTERS,
        label="Exclude GTID sources",
        check=all_of(regexes, excludes("gtid.source.includes")),
    ),
    bool_option(
        name="gtid.source.filter.dml.events",
        doc="Whether that filter holds for row changes.",
        default="true",
        group=FILTERS,
        label="Filter DML events",
    ),
    bool_option(
        name="gtid.ignore.on.recovery",
        doc="Resume by file and position although the offset has GTIDs: what dblog never does, for the GTIDs name the transactions on any server.",
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
        doc="From how many rows on Debezium streams a table; dblog always reads chunks.",
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
        doc="Whether a table may change while it is dumped; dblog always allows it.",
        default="false",
        importance=LOW,
        group=SNAPSHOT,
        label="Allow schema changes",
    ),
)

_UNSIGNED = (
    option(
        name="bigint.unsigned.handling.mode",
        doc="How BIGINT UNSIGNED is written: long (wraps above 2^63-1), or exact bytes.",
        default="long",
        group=EVENTS,
        label="BIGINT UNSIGNED Handling",
        choices=("long", "precise"),
    ),
)

_YEARS = (
    bool_option(
        name="enable.time.adjuster",
        doc="Read two-digit years as the server does.",
        default="true",
        importance=LOW,
        group=EVENTS,
        label="Adjust two-digit years",
    ),
)

_STATEMENTS = (
    bool_option(
        name="include.query",
        doc="Write the SQL text of the change into the source block.",
        default="false",
        group=EVENTS,
        label="Include the query",
        refused=only(False, because=not_yet("write the SQL text of a change")),
    ),
    bool_option(
        name="include.schema.changes",
        doc="Write every schema change to the topic named by the prefix.",
        default="true",
        group=EVENTS,
        label="Include schema changes",
    ),
)

_UNREADABLE = (
    option(
        name="event.deserialization.failure.handling.mode",
        doc="What happens to a rows event that cannot be read, also after it has been read again three times: the task fails, or goes on without its rows, "
        "with a warning and a count. Any other damaged event fails the task.",
        default="fail",
        group=EVENTS,
        label="Event reading failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    option(
        name="inconsistent.schema.handling.mode",
        doc="What happens to rows of a table whose schema at their position is not known. A table that snapshot.mode and "
        "snapshot.include.collection.list have dumped is dumped again, and its rows are passed over until then; for any other table the task fails, "
        "or goes on without them, with a warning and a count.",
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
        doc="Look-ahead for rolled-back transactions: always done, with 16 MiB in memory and a second log connection for what is longer.",
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
        doc="What happens to rows that the log has without all columns (binlog_row_image=MINIMAL) and that follow from no other image: fail; or reread, which "
        "reads inserted and updated rows again from the table by their key (as they are then, or newer), writes updates without the row before, and deletes "
        "with the key only.",
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
            doc="InnoDB's history list: changes that old snapshots keep from being purged.",
        ),
    ),
    "dblog.new.tables": _ROW_IMAGES,
}
"""Options by the shared option that they follow (``forms.placed``). Debezium's names, types and
defaults.
"""

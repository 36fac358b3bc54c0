"""The PostgreSQL connector's changes to the shared options, and its own options.

Names, types and defaults are those of Debezium 3.6's ``PostgresConnectorConfig``, except
``plugin.name``: its default there is a plugin that has to be built into the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.config.connector_options.forms import (
    CONNECTION,
    EVENTS,
    FILTERS,
    HIGH,
    LOW,
    SNAPSHOT,
    bool_option,
    list_option,
    option,
)
from dblog.config.connector_options.history import OWN_HISTORY_OPTIONS
from dblog.config.connector_options.java import JAVA_OPTIONS, NO_JAVA
from dblog.config.connector_options.replication import REPLICATION_OPTIONS, identifier
from dblog.config.connector_options.signals import signal_tables
from dblog.config.connector_options.topics import STRATEGIES
from dblog.config.namespaces import Namespace
from dblog.config.options import (
    Kind,
    Option,
    Value,
    all_of,
    excludes,
    not_negative,
    only,
    regexes,
)

_MODES = ("initial", "initial_only", "always", "no_data", "when_needed", "never")
_MODES_REFUSED = ("configuration_based", "custom")


def _refused_mode(value: Value) -> str | None:
    match str(value).strip().lower():
        case "configuration_based":
            return "dblog does not build a snapshot mode from flags yet; use initial, no_data or when_needed"
        case "custom":
            return "Java classes cannot run in this worker; use initial, no_data or when_needed"
        case _:
            return None


_LOGIN_METHODS = ("password", "md5", "gss", "sspi", "scram-sha-256", "none")


def _login_methods(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check a list like libpq (PostgreSQL manual, 34.1.2, require_auth): no blanks, no repetitions,
    and ! before all items or none.
    """
    if not isinstance(value, str) or not value:
        return None
    items = value.split(",")
    refused = [item for item in items if item.startswith("!")]
    methods = {item.removeprefix("!") for item in items}
    if methods <= set(_LOGIN_METHODS) and len(methods) == len(items) and len(refused) in (0, len(items)):
        return None
    return f"write {', '.join(_LOGIN_METHODS)}, separated by commas without blanks, each once, and ! before all of them or none"


_WITH_TLS = ("require", "verify-ca", "verify-full")


def _direct_tls(value: Value, everything: Mapping[str, Value]) -> str | None:
    """Check libpq's rule: a mode that allows clear text cannot start with TLS directly."""
    mode = str(everything.get("database.sslmode") or "prefer").lower().replace("_", "-")
    if str(value).lower() != "direct" or mode in _WITH_TLS:
        return None
    return f"direct takes a database.sslmode of {', '.join(_WITH_TLS)}, and it is {mode}"


POSTGRES_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "database.port": {"default": "5432"},
    "table.include.list": {"doc": "Regular expressions of the tables (schema.table) to capture; anchored, any case."},
    "column.include.list": {"doc": "Regular expressions of the columns (schema.table.column) to write."},
    "datatype.propagate.source.type": {
        "doc": "Types, as schema.table.type, whose columns have their source type in the schema's parameters."
    },
    "table.ignore.builtin": {
        "doc": "Leave out the server's own schemas, and PostGIS's table spatial_ref_sys.",
        "label": "Ignore system schemas",
    },
    "snapshot.select.statement.overrides": {
        "doc": "Tables, as schema.table, of whose rows the first dump brings those that a SELECT of their own chooses: SELECT * FROM "
        "schema.table WHERE condition, in snapshot.select.statement.overrides.<schema>.<table>. Changes are followed for all rows."
    },
    "decimal.handling.mode": {"doc": "How numeric and money are written: exact bytes, text, or double."},
    "skip.messages.without.change": {"doc": "Leaves out updates that change none of the written columns."},
    "unavailable.value.placeholder": {
        "doc": "Placeholder for a value that the log does not contain, such as a large object that an update did not change."
    },
    "event.converting.failure.handling.mode": {
        "doc": (
            "Treatment of a value that cannot be converted, such as a TIME of more than a day or an empty "
            "geometry: fail ends the task; warn and skip write null, warn with a warning."
        )
    },
    "converters": {
        "doc": "Java classes that convert values of columns.",
        "refused": only(because="Java classes cannot run in this worker; remove the key"),
    },
    "sourceinfo.struct.maker": {"refused": only("io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", because=NO_JAVA)},
    "heartbeat.action.query": {
        "refused": None,
        "doc": "SQL statement that is run in the database with each heartbeat. A slot whose tables are quiet is moved on without it.",
    },
    "topic.naming.strategy": {
        "default": STRATEGIES[1],
        "doc": (
            "Java class that names the topics of tables. Default: <prefix>.<database>.<table>; Schema: "
            "<prefix>.<table>. Their Unicode forms write characters that topics do not allow as numbers; "
            "their Regex forms rename the topics that topic.regex matches."
        ),
    },
    "read.only": {
        "doc": (
            "If true, nothing is written to the source, not even watermarks. GTIDs then prove what a chunk's "
            "snapshot contains (MySQL: gtid_mode=ON). The account needs no privilege to write, and chunks may "
            "be read from a replica (dblog.dump.hostname)."
        )
    },
    "signal.data.collection": {
        "doc": (
            "Tables into which signals are inserted, as database.table, separated by commas. Each begins with "
            "three text columns: id, type and data. Their rows are written to no topic."
        ),
        "check": signal_tables(Namespace.SCHEMA),
    },
    "incremental.snapshot.watermarking.strategy": {
        "doc": "Way in which Debezium writes its watermarks. dblog updates one row of dblog.watermark.table.",
        "no_effect": "watermarks are messages of the log (pg_logical_emit_message), not signals",
    },
    "dblog.watermark.table": {
        "doc": "Table that watermarks are written to where the log holds rows only.",
        "check": None,
        "no_effect": "watermarks are messages of the log (pg_logical_emit_message), which no table holds",
    },
    "dblog.dump.limit.threads.running": {
        "doc": "Connections of the server that run a statement; a few of them are the connector's. In front of it dumps read less and "
        "less, at it nothing until it is well below. 0: no limit."
    },
    "dblog.dump.limit.statement.p95.ms": {
        "doc": (
            "Time within which 95 % of the connector's SELECTs of chunks end, over the last half minute; on "
            "MySQL also of all statements of the server."
        )
    },
}
"""Changed fields of the shared options: defaults, and texts that speak of schemas."""

_DATABASE = (
    option(
        name="database.dbname",
        doc="Database whose tables are captured. A connector captures one database.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="Database",
        check=identifier,
    ),
    option(
        name="database.sslmode",
        doc="Encryption of the connection, and verification of the server's certificate.",
        default="prefer",
        group=CONNECTION,
        label="SSL mode",
        choices=("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    ),
    option(
        name="database.sslrootcert",
        doc="File with the certificate authorities that may sign the server's certificate.",
        group=CONNECTION,
        label="SSL root certificate",
    ),
    option(name="database.sslcert", doc="File with the client's certificate.", group=CONNECTION, label="SSL client certificate"),
    option(name="database.sslkey", doc="File with the private key of the client's certificate.", group=CONNECTION, label="SSL client key"),
    option(
        name="database.sslpassword",
        doc="Password of the private key.",
        kind=Kind.PASSWORD,
        group=CONNECTION,
        label="SSL client key password",
    ),
    option(
        name="driver.requireAuth",
        doc=(
            "Login methods that the server may ask for, separated by commas: password (in clear text), md5, "
            "scram-sha-256, gss, sspi, none; or refused ones, each with ! before it. If absent, password is "
            "refused unless database.sslmode verifies the server's certificate."
        ),
        importance=LOW,
        group=CONNECTION,
        label="Login methods",
        check=_login_methods,
    ),
    option(
        name="driver.channelBinding",
        doc=(
            "Channel binding: a SCRAM login that is bound to its TLS connection, so that nobody between can "
            "pass it on. require refuses every other login."
        ),
        default="prefer",
        importance=LOW,
        group=CONNECTION,
        label="Channel binding",
        choices=("disable", "prefer", "require"),
    ),
    option(
        name="driver.sslNegotiation",
        doc=(
            "Beginning of TLS: postgres asks the server first, in clear text; direct begins with the first "
            "byte (PostgreSQL 17 and later, with database.sslmode=require or stricter)."
        ),
        default="postgres",
        importance=LOW,
        group=CONNECTION,
        label="TLS negotiation",
        choices=("postgres", "direct"),
        check=_direct_tls,
    ),
    option(
        name="database.sslfactory",
        doc="Java class that opens TLS connections.",
        importance=LOW,
        group=CONNECTION,
        label="SSL factory",
        refused=only(
            because="Java classes cannot run in this worker; remove the key, and set database.sslmode: require encrypts without a look "
            "at the server's certificate, verify-full checks it"
        ),
    ),
    bool_option(
        name="database.tcpKeepAlive",
        doc="If true, the operating system probes a silent connection (TCP keepalive), so that a dead connection is detected.",
        default="true",
        group=CONNECTION,
        label="TCP keep-alive",
    ),
)

_SCHEMAS = (
    list_option(
        name="schema.include.list",
        doc=(
            "Regular expressions, separated by commas, of the schemas to capture. Each must match the whole "
            "name; upper and lower case are the same."
        ),
        importance=HIGH,
        group=FILTERS,
        label="Include Schemas",
        check=regexes,
    ),
    list_option(
        name="schema.exclude.list",
        doc="Regular expressions, separated by commas, of the schemas that are not captured.",
        group=FILTERS,
        label="Exclude Schemas",
        check=all_of(regexes, excludes("schema.include.list")),
    ),
)

_MESSAGES = (
    list_option(
        name="message.prefix.include.list",
        doc=(
            "Regular expressions, separated by commas, of the prefixes of logical messages "
            "(pg_logical_emit_message) that are written. Each must match the whole prefix; upper and lower "
            "case are the same."
        ),
        group=FILTERS,
        label="Include message prefixes",
        check=regexes,
    ),
    list_option(
        name="message.prefix.exclude.list",
        doc="Regular expressions, separated by commas, of the prefixes of logical messages that are not written.",
        group=FILTERS,
        label="Exclude message prefixes",
        check=all_of(regexes, excludes("message.prefix.include.list")),
    ),
)

_SNAPSHOTS = (
    option(
        name="snapshot.mode",
        doc="Dumps at the first start and while the log is read. They run beside the log and take no locks.",
        default="initial",
        group=SNAPSHOT,
        label="Snapshot mode",
        choices=_MODES + _MODES_REFUSED,
        refused=_refused_mode,
    ),
    option(
        name="snapshot.isolation.mode",
        doc="Isolation level of a Debezium snapshot.",
        default="serializable",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot isolation mode",
        choices=("serializable", "repeatable_read", "read_committed", "read_uncommitted"),
        no_effect="each chunk is read in a snapshot of its own, and the log has what is changed beside it",
    ),
    option(
        name="snapshot.locking.mode",
        doc="Locks that a Debezium snapshot takes. dblog takes none in any mode.",
        default="none",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot locking mode",
        choices=("none", "shared", "custom"),
        refused=lambda value: "Java classes cannot run in this worker; use none" if value == "custom" else None,
        no_effect="dblog takes no locks in any mode",
    ),
)

_TYPES = (
    option(
        name="time.precision.mode",
        doc=(
            "Form of times and dates in records: adaptive depends on the column's precision; "
            "adaptive_time_microseconds does so too, except for times of day; the others are the same for "
            "every column."
        ),
        default="adaptive",
        group=EVENTS,
        label="Time Precision",
        choices=("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"),
    ),
    option(
        name="interval.handling.mode",
        doc="Form of interval in records: numeric (microseconds, with a month of 365.25/12 days) or string (ISO 8601).",
        default="numeric",
        importance=LOW,
        group=EVENTS,
        label="Interval Handling",
        choices=("numeric", "string"),
    ),
    option(
        name="hstore.handling.mode",
        doc="Form of hstore in records: json (text) or map.",
        default="json",
        importance=LOW,
        group=EVENTS,
        label="HStore Handling",
        choices=("json", "map"),
    ),
    option(
        name="money.fraction.digits",
        doc="Number of digits after the decimal point of money, which the server's lc_monetary decides.",
        kind=Kind.SHORT,
        default="2",
        unit="digits",
        importance=LOW,
        group=EVENTS,
        label="Money fraction digits",
        check=not_negative,
    ),
    bool_option(
        name="include.unknown.datatypes",
        doc=(
            "If true, a column of a type that has no form of its own is written as the bytes of its text (see "
            "binary.handling.mode); otherwise it is left out."
        ),
        default="false",
        group=EVENTS,
        label="Include unknown types",
    ),
    option(
        name="schema.refresh.mode",
        doc="Occasions on which Debezium reads a table's columns again.",
        default="columns_diff",
        importance=LOW,
        group=EVENTS,
        label="Schema refresh mode",
        choices=("columns_diff", "columns_diff_exclude_unchanged_toast"),
        no_effect="a table's columns follow the log, which describes them where they have changed",
    ),
)

POSTGRES_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "database.password": _DATABASE,
    "connect.timeout.ms": (*REPLICATION_OPTIONS, *_SCHEMAS),
    "message.key.columns": _MESSAGES,
    "guardrail.collections.limit.action": _SNAPSHOTS,
    "binary.handling.mode": _TYPES,
    "executor.shutdown.timeout.ms": JAVA_OPTIONS,
    "notification.sink.topic.name": OWN_HISTORY_OPTIONS,
}
"""PostgreSQL's own options, by the shared option that they follow (``forms.placed``)."""

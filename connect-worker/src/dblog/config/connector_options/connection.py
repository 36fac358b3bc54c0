"""Where the database is, and how the connector connects to it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dblog.config.connector_options.forms import CONNECTION, HIGH, LOW, bool_option, int_option, long_option, not_yet, option
from dblog.config.options import Kind, Value, not_negative, only, positive, positive_long, topic_name

_HOSTNAME = re.compile(r"[A-Za-z0-9_.:\-\[\]]+")
_SERVER_ID_MAX = 2**32 - 1


def _hostname(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, str) and not _HOSTNAME.fullmatch(value):
        return "{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"
    return None


def _server_id(value: Value, everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, int) and value > _SERVER_ID_MAX:
        return f"A replica id is at most {_SERVER_ID_MAX}"
    return positive_long(value, everything)


CONNECTION_OPTIONS = (
    option(
        name="topic.prefix",
        doc="Name of the source in topics, schemas, offsets and metrics. Changing it later means a new source.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="Topic prefix",
        check=topic_name,
    ),
    option(
        name="database.hostname",
        doc="Host name or address of the database server.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="Hostname",
        check=_hostname,
    ),
    int_option(
        name="database.port",
        doc="Port of the database server.",
        default="3306",
        importance=HIGH,
        group=CONNECTION,
        label="Port",
        check=positive,
    ),
    option(
        name="database.user",
        doc="User that reads the log and the tables.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="User",
    ),
    option(name="database.password", doc="Its password.", kind=Kind.PASSWORD, importance=HIGH, group=CONNECTION, label="Password"),
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
    option(
        name="database.initial.statements",
        doc="SQL statements to run on every new connection.",
        importance=LOW,
        group=CONNECTION,
        label="Initial statements",
    ),
    int_option(
        name="database.query.timeout.ms",
        doc="Longest time of one statement; 0 means no limit.",
        default="600000",
        unit="ms",
        importance=LOW,
        group=CONNECTION,
        label="Query timeout",
        check=not_negative,
    ),
    long_option(
        name="connection.validation.timeout.ms",
        doc="Longest time that the check of a new configuration may take on the database.",
        default="60000",
        unit="ms",
        importance=LOW,
        group=CONNECTION,
        label="Validation timeout",
        check=positive_long,
    ),
    int_option(
        name="connect.timeout.ms",
        doc="Longest time to open a connection.",
        default="30000",
        unit="ms",
        group=CONNECTION,
        label="Connection timeout",
        check=positive,
    ),
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
"""Debezium's names, types and defaults; in the order of forms and of the reference page."""

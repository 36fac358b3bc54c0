"""Options for the database's address and the connection to it."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.addresses import has_host_form
from dblog.config.connector_options.forms import CONNECTION, HIGH, LOW, int_option, long_option, option
from dblog.config.options import Kind, Value, not_negative, positive, positive_long, topic_name


def hostname(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check the form of one host. The phrasing is Debezium's."""
    if isinstance(value, str) and not has_host_form(value):
        return "{value} has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"
    return None


CONNECTION_OPTIONS = (
    option(
        name="topic.prefix",
        doc=(
            "Name of the source, the first part of its topics, schemas, offsets and metrics. Another name "
            "later means another source, which is read from the beginning."
        ),
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
        check=hostname,
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
        doc="User name with which the log and the tables are read.",
        required=True,
        importance=HIGH,
        group=CONNECTION,
        label="User",
    ),
    option(name="database.password", doc="Password of that user.", kind=Kind.PASSWORD, importance=HIGH, group=CONNECTION, label="Password"),
    option(
        name="database.initial.statements",
        doc="SQL statements, separated by semicolons, that are executed on every new connection to the database.",
        importance=LOW,
        group=CONNECTION,
        label="Initial statements",
    ),
    int_option(
        name="database.query.timeout.ms",
        doc="Time limit of one SQL statement; 0 means no limit.",
        default="600000",
        unit="ms",
        importance=LOW,
        group=CONNECTION,
        label="Query timeout",
        check=not_negative,
    ),
    long_option(
        name="connection.validation.timeout.ms",
        doc="Time limit of all statements that check a new configuration on the database.",
        default="60000",
        unit="ms",
        importance=LOW,
        group=CONNECTION,
        label="Validation timeout",
        check=positive_long,
    ),
    int_option(
        name="connect.timeout.ms",
        doc="Time limit for opening a connection.",
        default="30000",
        unit="ms",
        group=CONNECTION,
        label="Connection timeout",
        check=positive,
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""

"""What this worker can run: its connectors, converters and header converters, under the names that Connect users write.

The Debezium class names are the connectors' names here, since configurations, dashboards and records carry them (D1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.converter_options import AVRO_OPTIONS, JSON_OPTIONS, STRING_OPTIONS
from dblog.config.framework import CONVERTER_CLASSES, HEADER_CONVERTER_CLASSES
from dblog.config.options import Option

CONNECT_VERSION = "4.3.0"
"""The Kafka Connect whose REST interface and topics this worker speaks; clients choose features by it."""

PLUGIN_VERSION = "3.6.3.Final"
"""The Debezium whose configuration and records the connectors speak; status and plugin answers carry it, as ``source.version`` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """Something a configuration can name by class."""

    class_name: str
    type: str
    version: str | None
    options: tuple[Option, ...] = ()
    flavor: str = ""
    """``mysql``, ``mariadb`` or ``postgres`` for connectors: the kind of database (``dialects/registry.py``), as Debezium's metrics name it."""
    task_class: str = ""
    aliases: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Families of keys that other connectors have and this one never reads: what is left of them in a configuration must not refuse it."""

    @property
    def system(self) -> str:
        """The kind of database as Debezium's packages and OpenTelemetry name it (Semantic Conventions, db.system.name): ``postgresql``."""
        return self.class_name.split(".")[-2]

    def read_keys(self, properties: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the configuration without keys that this connector never reads."""
        return {name: value for name, value in properties.items() if not name.startswith(self.unread)} if self.unread else dict(properties)

    def is_called(self, name: str) -> bool:
        """Full name, simple name, or simple name without its suffix."""
        simple = self.class_name.rsplit(".", 1)[1]
        return name in (self.class_name, simple, simple.removesuffix("Connector"), simple.removesuffix("Converter"), *self.aliases)


CONNECTORS = (
    Plugin(
        class_name="io.debezium.connector.mariadb.MariaDbConnector",
        type="source",
        version=PLUGIN_VERSION,
        options=MARIADB_OPTIONS,
        flavor="mariadb",
        task_class="io.debezium.connector.mariadb.MariaDbConnectorTask",
        aliases=("dblog.mariadb", "dblog.MariaDbConnector"),
    ),
    Plugin(
        class_name="io.debezium.connector.mysql.MySqlConnector",
        type="source",
        version=PLUGIN_VERSION,
        options=MYSQL_OPTIONS,
        flavor="mysql",
        task_class="io.debezium.connector.mysql.MySqlConnectorTask",
        aliases=("dblog.mysql", "dblog.MySqlConnector"),
    ),
    Plugin(
        class_name="io.debezium.connector.postgresql.PostgresConnector",
        type="source",
        version=PLUGIN_VERSION,
        options=POSTGRES_OPTIONS,
        flavor="postgres",
        task_class="io.debezium.connector.postgresql.PostgresConnectorTask",
        aliases=("dblog.postgres", "dblog.PostgresConnector"),
        unread=("schema.history.internal",),  # PostgreSQL's log describes its tables: Debezium's connector keeps no such history
    ),
)

CONVERTERS = (
    Plugin(class_name=CONVERTER_CLASSES[1], type="converter", version=None, options=AVRO_OPTIONS),
    Plugin(class_name=CONVERTER_CLASSES[3], type="converter", version=CONNECT_VERSION),
    Plugin(class_name=CONVERTER_CLASSES[0], type="converter", version=CONNECT_VERSION, options=JSON_OPTIONS),
    Plugin(class_name=CONVERTER_CLASSES[2], type="converter", version=CONNECT_VERSION, options=STRING_OPTIONS),
)
HEADER_CONVERTERS = (Plugin(class_name=HEADER_CONVERTER_CLASSES[0], type="header_converter", version=CONNECT_VERSION),)

PLUGINS = (*CONNECTORS, *CONVERTERS, *HEADER_CONVERTERS)
"""All of them, in the order Connect lists types."""


def find_connector(name: str | None) -> Plugin | None:
    """The connector a ``connector.class`` means."""
    return next((plugin for plugin in CONNECTORS if name is not None and plugin.is_called(name.strip())), None)


def find_plugin(name: str) -> Plugin | None:
    """The plugin a path segment means."""
    return next((plugin for plugin in PLUGINS if plugin.is_called(name)), None)

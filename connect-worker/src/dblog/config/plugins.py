"""The connectors, converters and header converters that this worker can run, under the names that
Connect users write.

Connectors have Debezium's class names, because configurations, dashboards and records carry them
(D1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.converter_options import AVRO_OPTIONS, BINARY_OPTIONS, CLOUD_EVENTS_OPTIONS, JSON_OPTIONS, STRING_OPTIONS
from dblog.config.framework import BINARY_CONVERTER_CLASSES, CONVERTER_CLASSES, HEADER_CONVERTER_CLASSES
from dblog.config.options import Option

CONNECT_VERSION = "4.3.0"
"""The Kafka Connect version whose REST interface and topics this worker speaks. Clients choose
features by it.
"""

PLUGIN_VERSION = "3.6.3.Final"
"""The Debezium version whose configuration and records the connectors speak. Status and plugin
answers carry it, as ``source.version`` does.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that a configuration can name by class."""

    class_name: str
    type: str
    version: str | None
    options: tuple[Option, ...] = ()
    flavor: str = ""
    """``mysql``, ``mariadb`` or ``postgres`` for connectors: the kind of database
    (``dialects/registry.py``), as Debezium's metrics name it.
    """
    task_class: str = ""
    aliases: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Prefixes of options that other connectors have and this one never reads. Leftovers of them
    must not make a configuration invalid.
    """

    @property
    def system(self) -> str:
        """The kind of database in the names of Debezium's packages and OpenTelemetry (Semantic
        Conventions, db.system.name), such as ``postgresql``.
        """
        return self.class_name.split(".")[-2]

    def read_keys(self, properties: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the configuration without keys that this connector never reads."""
        return {name: value for name, value in properties.items() if not name.startswith(self.unread)} if self.unread else dict(properties)

    def is_called(self, name: str) -> bool:
        """Return True for the full name, the simple name, or the simple name without its suffix."""
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
        # PostgreSQL's log describes its tables, so Debezium's connector keeps no such history
        unread=("schema.history.internal",),
    ),
)

_OPTIONS = {
    "JsonConverter": JSON_OPTIONS,
    "AvroConverter": AVRO_OPTIONS,
    "StringConverter": STRING_OPTIONS,
    "CloudEventsConverter": CLOUD_EVENTS_OPTIONS,
}
"""Options of converters by the simple names of their classes."""


def _converter(class_name: str) -> Plugin:
    version = (
        CONNECT_VERSION if class_name.startswith("org.apache.kafka.") else PLUGIN_VERSION if class_name.startswith("io.debezium.") else None
    )
    options = BINARY_OPTIONS if class_name in BINARY_CONVERTER_CLASSES else _OPTIONS.get(class_name.rpartition(".")[2], ())
    return Plugin(class_name=class_name, type="converter", version=version, options=options)


CONVERTERS = tuple(map(_converter, sorted(CONVERTER_CLASSES)))
HEADER_CONVERTERS = (Plugin(class_name=HEADER_CONVERTER_CLASSES[0], type="header_converter", version=CONNECT_VERSION),)

PLUGINS = (*CONNECTORS, *CONVERTERS, *HEADER_CONVERTERS)
"""All plugins, in the order in which Connect lists types."""


def find_connector(name: str | None) -> Plugin | None:
    """Return the connector that a ``connector.class`` names, or None."""
    return next((plugin for plugin in CONNECTORS if name is not None and plugin.is_called(name.strip())), None)


def find_plugin(name: str) -> Plugin | None:
    """Return the plugin that a path segment names, or None."""
    return next((plugin for plugin in PLUGINS if plugin.is_called(name)), None)

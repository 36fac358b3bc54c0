"""The options of the source connectors for MySQL, MariaDB and PostgreSQL: Debezium's with their
defaults, and dblog's own under ``dblog.``.

Names, types and defaults are those of Debezium's manual (Connector properties of each connector),
so a configuration made for Debezium works unchanged. A value that asks for something dblog does not
do yet is refused with the reason: a privacy mask or a filter that is silently ignored is worse than
an error. Undeclared keys are ignored, as in Connect, and named (unknown_keys.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.column_converters import column_converters
from dblog.config.column_rules import column_rules
from dblog.config.connector_options import postgres
from dblog.config.connector_options.binlog import BINLOG_OPTIONS
from dblog.config.connector_options.connection import CONNECTION_OPTIONS
from dblog.config.connector_options.dblog import OUR_OPTIONS
from dblog.config.connector_options.events import EVENT_OPTIONS
from dblog.config.connector_options.family import family_options
from dblog.config.connector_options.filters import FILTER_OPTIONS
from dblog.config.connector_options.forms import changed, placed
from dblog.config.connector_options.runtime import RUNTIME_OPTIONS
from dblog.config.connector_options.signals import SIGNAL_OPTIONS
from dblog.config.connector_options.snapshot import SNAPSHOT_OPTIONS
from dblog.config.connector_options.topics import TOPIC_OPTIONS
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.namespaces import namespace_of
from dblog.config.options import (
    Checked,
    Option,
    Properties,
    Settings,
    check_properties,
    regexes,
    split_list,
)
from dblog.config.regex import Room
from dblog.config.select_overrides import select_overrides
from dblog.config.topic_creation import check_topic_creation
from dblog.config.unused_stores import mode_of, refused_stores
from dblog.errors import ConfigError

_SHARED = (
    *CONNECTION_OPTIONS,
    *FILTER_OPTIONS,
    *SNAPSHOT_OPTIONS,
    *EVENT_OPTIONS,
    *TOPIC_OPTIONS,
    *RUNTIME_OPTIONS,
    *SIGNAL_OPTIONS,
    *OUR_OPTIONS,
)
"""The options of every connector, important ones first within each topic. Forms and the reference
page use this order.
"""


def _of_binlog(family: tuple[Option, ...]) -> tuple[Option, ...]:
    return placed(_SHARED, {**BINLOG_OPTIONS, FILTER_OPTIONS[-1].name: family})


MYSQL_OPTIONS = _of_binlog(
    family_options(
        ssl_modes=("disabled", "preferred", "required", "verify_ca", "verify_identity"),
        ssl_default="preferred",
        locking=("minimal", "minimal_percona", "minimal_percona_no_table_locks", "minimal_at_least_once", "extended", "none"),
    )
)
"""Every option of the MySQL connector besides Connect's own."""

MARIADB_OPTIONS = _of_binlog(
    family_options(
        ssl_modes=("disable", "trust", "verify-ca", "verify-full"),
        ssl_default="disable",
        locking=("minimal", "minimal_at_least_once", "extended", "none"),
    )
)
"""Every option of the MariaDB connector besides Connect's own."""

POSTGRES_OPTIONS = placed(changed(_SHARED, postgres.POSTGRES_CHANGES), postgres.POSTGRES_OPTIONS)
"""Every option of the PostgreSQL connector besides Connect's own."""

_REFUSED_FAMILIES = {"driver.": "a JDBC driver's settings mean nothing to this worker; remove the key"}
"""Prefixes of keys that would change what is written, and so must not be ignored. Declared options
are exempt.
"""


def check_connector(options: tuple[Option, ...], properties: Properties, *, shown: Mapping[str, str] | None = None) -> Checked:
    """Check Connect's options, the connector's options and the key families, without the database.

    Return all values and all messages.
    """
    checked = check_properties((*FRAMEWORK_OPTIONS, *options), properties, shown=shown)
    errors = checked.errors
    declared = {option.name for option in options}
    for name, text in properties.items():
        for family, reason in _REFUSED_FAMILIES.items():
            if name.startswith(family) and name != family and name not in declared:
                errors.setdefault(name, []).append(f"The '{name}' value is invalid: {reason}")
        if text is None and name not in errors and name not in checked.values:
            errors[name] = [f"Invalid value null for configuration {name}: Null value can not be supplied as the configuration value."]
    rules, unlike = column_rules(properties)
    for name, texts in unlike.items():
        errors.setdefault(name, []).extend(f"The '{name}' value is invalid: {text}" for text in texts)
    room = Room()
    for rule in rules:
        wrong = regexes(split_list(rule.columns), {}, room=room)
        if wrong is not None:
            errors.setdefault(rule.option, []).append(f"The '{rule.option}' value is invalid: {wrong}")
    if "converters" not in errors:
        for name, texts in column_converters(properties)[1].items():
            errors.setdefault(name, []).extend(f"The '{name}' value is invalid: {text}" for text in texts)
    for name, texts in select_overrides(properties, namespace=namespace_of(declared))[1].items():
        errors.setdefault(name, []).extend(f"The '{name}' value is invalid: {text}" for text in texts)
    for name, texts in refused_stores(properties, mode=mode_of(options)).items():
        errors.setdefault(name, []).extend(texts)
    for name, texts in check_topic_creation({k: v for k, v in properties.items() if v is not None}).items():
        errors.setdefault(name, []).extend(texts)
    return checked


def parse_connector(options: tuple[Option, ...], properties: Mapping[str, str]) -> Settings:
    """Return the typed settings of a connector or a task. Raise ConfigError with every message."""
    checked = check_connector(options, properties)
    if checked.errors:
        raise ConfigError(checked.errors)
    return Settings(checked.values, properties)

"""Positions where a connector's configuration may have placeholders of config providers: in
secrets, addresses, files, accounts and statements.

A user who may change a connector may name any value that the worker's providers give. An option
whose value becomes visible must therefore not take placeholders: every reader sees a topic's name,
and the metrics show the size of a queue. So the list says what is allowed, and a new option takes
no placeholder until somebody has considered it. Options with choices are allowed, because a wrong
value is refused with the placeholder in the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.clients import CONNECTOR_CLIENTS
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import CONVERTER_PREFIXES, FRAMEWORK_OPTIONS
from dblog.config.options import Kind, Option
from dblog.config.providers import placeholders_in
from dblog.config.secret_values import is_secret

ALLOWED = frozenset(
    {
        # Addresses.
        *("database.hostname", "database.port", "dblog.dump.hostname", "dblog.dump.port"),
        *("signal.kafka.bootstrap.servers", "schema.history.internal.kafka.bootstrap.servers"),
        # Files.
        *("database.ssl.keystore", "database.ssl.truststore", "database.sslrootcert", "database.sslcert", "database.sslkey", "signal.file"),
        # Accounts, and the ids by which a server distinguishes its replicas.
        *("database.user", "database.dbname", "database.server.id", "database.server.id.offset"),
        # Statements, which may contain a password.
        *("database.initial.statements", "heartbeat.action.query"),
    }
)
ALLOWED_IN_CONVERTERS = frozenset(
    {
        *("schema.registry.url", "proxy.host", "proxy.port"),
        *("schema.registry.ssl.truststore.location", "schema.registry.ssl.keystore.location"),
    }
)
NAMES_OF_CLIENTS = frozenset({"client.id", "client.rack", "group.id", "group.instance.id", "transactional.id"})
_CONVERTERS = (*CONVERTER_PREFIXES, "header.converter.")
_SHOWN_FAMILIES = ("column.", "topic.creation.", "transforms.", "predicates.")
"""Families of keys whose values become names, or parts of records: a transform may make a topic's
name, a field or a header of any of its values, and its checks may quote a part of one.
"""
_REASON = (
    "it takes no placeholder, because every reader would see its value; write the value itself. "
    "Placeholders are for secrets, addresses, files, accounts and statements"
)
_OF_CONVERTERS = {option.name: option for option in CONVERTER_OPTIONS}


def may_hold_placeholder(options: Mapping[str, Option], name: str) -> bool:
    """Return True if the key takes placeholders.

    ``options`` are the declared ones by all their names. A key that nobody reads takes any text.
    """
    if (option := options.get(name)) is not None:
        return option.name in ALLOWED or _shows_nothing(option)
    if prefix := next((prefix for prefix in _CONVERTERS if name.startswith(prefix)), None):
        of_converter = _OF_CONVERTERS.get(name.removeprefix(prefix))
        return (
            of_converter is None
            or of_converter.name in ALLOWED_IN_CONVERTERS
            or is_secret(of_converter.name)
            or _shows_nothing(of_converter)
        )
    if prefix := next((prefix for prefix in CONNECTOR_CLIENTS if name.startswith(prefix)), None):
        return name.removeprefix(prefix) not in NAMES_OF_CLIENTS
    return not name.startswith(_SHOWN_FAMILIES)


def refused_placeholders(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the reasons, by key, for each placeholder whose value would be shown."""
    declared = {name: option for option in (*FRAMEWORK_OPTIONS, *options) for name in (option.name, *option.aliases)}
    return {
        name: [f"The '{name}' value is invalid: {_REASON}"]
        for name, text in properties.items()
        if text and any(True for _ in placeholders_in(text)) and not may_hold_placeholder(declared, name)
    }


def _shows_nothing(option: Option) -> bool:
    return option.kind in (Kind.PASSWORD, Kind.BOOLEAN, Kind.CLASS) or bool(option.choices) or option.no_effect is not None

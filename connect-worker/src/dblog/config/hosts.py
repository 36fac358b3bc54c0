"""Limits the hosts that a connector's configuration may make this worker call
(``dblog.connector.allowed.hosts``).

A user who may post a connector names a database, brokers and a registry, and the worker connects to
them from inside its network. The list keeps it from addresses that no connector needs. A cloud's
metadata service, which gives the machine's credentials to every caller on it, is refused even
without a list. The address behind a name is not checked, because the name service may answer
another one a moment later.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from dblog.config.addresses import Address, host_of
from dblog.config.clients import CONNECTOR_CLIENTS
from dblog.config.framework import CONVERTER_PREFIXES
from dblog.config.plugins import find_connector

OPTION = "dblog.connector.allowed.hosts"

_SERVER_LISTS = (
    "schema.history.internal.kafka.bootstrap.servers",
    "signal.kafka.bootstrap.servers",
    *(f"{prefix}bootstrap.servers" for prefix in CONNECTOR_CLIENTS),
)
_SCHEME_PORTS = {"http": "80", "https": "443"}
_KAFKA_PORT = "9092"

_METADATA_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32")
)
"""Link-local addresses, where most clouds have their metadata service, then those of AWS and Google
in IPv6, of Alibaba and of Azure.
"""
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"})


def check_hosts(config: Mapping[str, str], allowed: Sequence[str]) -> dict[str, list[str]]:
    """Return the refused hosts, by key.

    ``allowed`` has entries of the form host, host:port, *.suffix or a network such as 10.1.0.0/16.
    An empty list allows everything except link-local and metadata addresses.
    """
    entries = [entry.strip().lower() for entry in allowed]
    return {
        key: [f"This worker does not let connectors talk to {host}; it may be added to {OPTION} in the worker's configuration"]
        for key, host, port in _named(config)
        if not _is_allowed(host_of(host), port, entries)
    }


def is_listed(host: str, port: str, entries: Sequence[str]) -> bool:
    """Return True if one of the entries, in the form of ``check_hosts``, matches the host."""
    return any(_matches(entry.strip().lower(), host_of(host), port) for entry in entries)


def _is_allowed(host: Address | str, port: str, entries: Sequence[str]) -> bool:
    if _is_metadata(host):
        # A suffix or a wide network is no permission for the metadata service.
        return any(_names_metadata(entry) and _matches(entry, host, port) for entry in entries)
    return not entries or any(_matches(entry, host, port) for entry in entries)


def _is_metadata(host: Address | str) -> bool:
    if isinstance(host, str):
        return host in _METADATA_NAMES
    return any(host in network for network in _METADATA_NETWORKS)


def _names_metadata(entry: str) -> bool:
    name = _split(entry)[0]
    try:
        network = ipaddress.ip_network(name, strict=False)
    except ValueError:
        return not name.startswith("*.")
    return any(network.version == known.version and network.subnet_of(known) for known in _METADATA_NETWORKS)  # type: ignore[arg-type]


def _named(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (key, host, port) of every address that a configuration names."""
    if host := config.get("database.hostname", "").strip():
        yield "database.hostname", host, config.get("database.port", "").strip() or _database_port(config)
    if host := config.get("dblog.dump.hostname", "").strip():
        port = config.get("dblog.dump.port", "").strip() or config.get("database.port", "").strip() or _database_port(config)
        yield "dblog.dump.hostname", host, port
    for key in _SERVER_LISTS:
        for server in config.get(key, "").split(","):
            if server.strip():
                yield key, *_of_server(server.strip())
    for prefix in CONVERTER_PREFIXES:
        for url in config.get(f"{prefix}schema.registry.url", "").split(","):
            if url.strip():
                yield f"{prefix}schema.registry.url", *_of_url(url.strip())
        if proxy := config.get(f"{prefix}proxy.host", "").strip():
            yield f"{prefix}proxy.host", proxy, config.get(f"{prefix}proxy.port", "80").strip()


def _database_port(config: Mapping[str, str]) -> str:
    """Return the default port of the configured connector."""
    plugin = find_connector(config.get("connector.class"))
    options = plugin.options if plugin is not None else ()
    return next((option.default for option in options if option.name == "database.port" and option.default), "")


def _of_server(server: str) -> tuple[str, str]:
    """Parse a server as librdkafka does (``rd_kafka_broker_name_parse``): scheme and path are
    ignored, and the port may be missing.
    """
    _, scheme, rest = server.partition("://")
    if scheme:
        server = rest.partition("/")[0]
    name, colon, port = server.rpartition(":")
    if colon and (":" not in name or name.endswith("]")):
        return name or "localhost", port
    return server or "localhost", _KAFKA_PORT


def _of_url(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        return parts.hostname or url, str(parts.port or _SCHEME_PORTS.get(parts.scheme, ""))
    except ValueError:
        return url, ""


def _matches(entry: str, host: Address | str, port: str) -> bool:
    name, wanted_port = _split(entry)
    if wanted_port is not None and wanted_port != port:
        return False
    if isinstance(host, str):
        return host.endswith(name[1:]) if name.startswith("*.") else host == host_of(name)
    if "/" not in name:
        return host == host_of(name)
    try:
        return host in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _split(entry: str) -> tuple[str, str | None]:
    """Return host, suffix or network, and the port.

    An IPv6 address has a port only after brackets.
    """
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        return name.strip("[]"), port
    return entry.strip("[]"), None

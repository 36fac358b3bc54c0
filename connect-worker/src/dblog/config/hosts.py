"""Which hosts a connector's configuration may make this worker talk to (``dblog.connector.allowed.hosts``).

Whoever may post a connector names a database, brokers and a registry, and the worker connects to them from inside its network. The list keeps it from
addresses that are none of a connector's business, such as a cloud's metadata service.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

OPTION = "dblog.connector.allowed.hosts"

_SERVER_LISTS = ("schema.history.internal.kafka.bootstrap.servers",)
_CLIENT_PREFIXES = (
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    "schema.history.internal.producer.",
    "schema.history.internal.consumer.",
)
_SCHEME_PORTS = {"http": "80", "https": "443"}
_CONVERTERS = ("key.converter.", "value.converter.")


def check_hosts(config: Mapping[str, str], allowed: Sequence[str]) -> dict[str, list[str]]:
    """What is wrong, by key. ``allowed``: host, host:port, *.suffix or a network such as 10.1.0.0/16; empty allows everything."""
    if not allowed:
        return {}
    return {
        key: [f"This worker does not let connectors talk to {host}; it may be added to {OPTION} in the worker's configuration"]
        for key, host, port in _named(config)
        if not any(_matches(entry.strip().lower(), host.lower(), port) for entry in allowed)
    }


def _named(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(key, host, port) of every address that a configuration names."""
    if host := config.get("database.hostname", "").strip():
        yield "database.hostname", host, config.get("database.port", "3306").strip()
    for key in (*_SERVER_LISTS, *(f"{prefix}bootstrap.servers" for prefix in _CLIENT_PREFIXES)):
        for server in config.get(key, "").split(","):
            if server.strip():
                name, _, port = server.strip().rpartition(":")
                yield key, name.strip("[]"), port
    for prefix in _CONVERTERS:
        for url in config.get(f"{prefix}schema.registry.url", "").split(","):
            if url.strip():
                yield f"{prefix}schema.registry.url", *_of_url(url.strip())
        if proxy := config.get(f"{prefix}proxy.host", "").strip():
            yield f"{prefix}proxy.host", proxy, config.get(f"{prefix}proxy.port", "80").strip()


def _of_url(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        return parts.hostname or url, str(parts.port or _SCHEME_PORTS.get(parts.scheme, ""))
    except ValueError:
        return url, ""


def _matches(entry: str, host: str, port: str) -> bool:
    name, colon, wanted_port = entry.rpartition(":")
    if colon and wanted_port.isdigit() and not name.endswith(":"):
        if wanted_port != port:
            return False
        entry = name.strip("[]")
    if entry.startswith("*."):
        return host.endswith(entry[1:])
    if entry == host:
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False

"""The worker's settings, and what follows from them: its addresses, its clients' settings. ``worker_options.py`` declares the keys."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dblog.config.clients import to_librdkafka
from dblog.config.options import Settings, parse
from dblog.config.worker_options import WORKER_OPTIONS
from dblog.errors import ConfigError

_OWN_CLIENT_KEYS = re.compile(r"(bootstrap\.servers|client\.id|client\.rack|security\.protocol|sasl\..+|ssl\..+|socket\..+|reconnect\..+)")

OWN_TOKEN = "dblog.rest.own.token"  # noqa: S105  its name
"""Made again at each start of a worker, and handed to its tasks with its properties; no user's key."""


@dataclass(frozen=True, slots=True)
class OwnRegistry:
    """Where a worker's own schema registry is, and what lets its tasks in."""

    url: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The worker's settings, and what follows from them."""

    settings: Settings
    listen_host: str
    listen_port: int
    readonly_listener: tuple[str, int] | None
    """Host and port of the second listener."""
    advertised_host: str
    advertised_port: int

    @property
    def own_registry(self) -> OwnRegistry:
        """The schema registry beside this worker's REST interface."""
        return OwnRegistry(self.advertised_url, self.settings.originals.get(OWN_TOKEN, ""))

    @property
    def worker_id(self) -> str:
        """How status records and answers name this worker."""
        host = f"[{self.advertised_host}]" if ":" in self.advertised_host else self.advertised_host
        return f"{host}:{self.advertised_port}"

    @property
    def advertised_url(self) -> str:
        """Where others reach this worker's REST interface."""
        return f"http://{self.worker_id}"

    def client_settings(self, role: str) -> dict[str, str]:
        """Librdkafka settings of the worker's own clients: the shared connection keys, then ``<role>.*`` (producer, consumer, admin)."""
        shared = {name: text for name, text in self.settings.originals.items() if _OWN_CLIENT_KEYS.fullmatch(name) and text}
        own = {
            name: text for name, text in self.settings.with_prefix(f"{role}.").items() if not name.startswith("listeners")
        }  # admin.listeners
        addresses = {"bootstrap.servers": ",".join(self.settings.items_of("bootstrap.servers"))}
        try:
            return to_librdkafka(addresses | shared | own, of_worker=True)
        except ConfigError as e:
            raise ConfigError({f"{role}.{name}" if name in own else name: texts for name, texts in e.errors.items()}) from None


def read_worker_config(properties: Mapping[str, str], *, shown: Mapping[str, str] | None = None) -> WorkerConfig:
    """The checked configuration; ``ConfigError`` names every bad key. ``shown``: what messages have for keys that a config provider resolved."""
    settings = parse(WORKER_OPTIONS, properties, shown=shown)
    distinct = [settings.text(f"{kind}.storage.topic") for kind in ("config", "offset", "status")]
    if len(set(distinct)) < len(distinct):
        raise ConfigError({"config.storage.topic": ["config, offset and status need three different topics"]})
    url = urlsplit(settings.items_of("listeners")[0])
    listen_host = url.hostname or ""
    listen_port = url.port or 0
    advertised_host = settings.text_or_none("rest.advertised.host.name") or _reachable(listen_host)
    advertised = settings["rest.advertised.port"]
    reading = settings.text_or_none("dblog.rest.readonly.listener")
    reading_url = urlsplit(reading.strip()) if reading else None
    worker = WorkerConfig(
        settings=settings,
        listen_host=listen_host,
        listen_port=listen_port,
        readonly_listener=(reading_url.hostname or "", reading_url.port or 0) if reading_url is not None else None,
        advertised_host=advertised_host,
        advertised_port=advertised if isinstance(advertised, int) else listen_port,
    )
    for role in ("producer", "consumer", "admin"):
        worker.client_settings(role)
    return worker


def is_loopback(host: str) -> bool:
    """Whether a listener on this host is reached from its own machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _reachable(host: str) -> str:
    """The host part others get: a listener on all addresses is reached by the machine's own name or address."""
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104  compared, not bound
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"

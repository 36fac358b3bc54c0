"""The worker's settings, and what follows from them: its addresses, its clients' settings. ``worker_options.py`` declares the keys."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from dblog.config.clients import to_librdkafka
from dblog.config.listeners import ANY_HOSTS, Listener, advertised, parse_listener
from dblog.config.options import Settings, parse, split_list
from dblog.config.worker_options import DUMPS_TOPIC, WORKER_OPTIONS
from dblog.errors import ConfigError

_OWN_CLIENT_KEYS = re.compile(r"(bootstrap\.servers|client\.id|client\.rack|security\.protocol|sasl\..+|ssl\..+|socket\..+|reconnect\..+)")

OWN_TOKEN = "dblog.rest.own.token"  # noqa: S105  its name
"""Made again at each start of a worker, and handed to its tasks with its properties; no user's key."""
OWN_URL = "dblog.rest.own.url"
"""Where its tasks reach its registry if that is not the address that others get; made and handed on in the same way."""


@dataclass(frozen=True, slots=True)
class OwnRegistry:
    """Where a worker's own schema registry is, and what lets its tasks in."""

    url: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The worker's settings, and what follows from them."""

    settings: Settings
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    """Where /admin is served, if not with the rest; empty: nowhere."""
    readonly_listener: Listener | None
    advertised_scheme: str
    advertised_host: str
    advertised_port: int

    @property
    def own_registry(self) -> OwnRegistry:
        """The schema registry beside this worker's REST interface."""
        return OwnRegistry(self.settings.originals.get(OWN_URL, self.advertised_url), self.settings.originals.get(OWN_TOKEN, ""))

    @property
    def worker_id(self) -> str:
        """How status records and answers name this worker."""
        host = f"[{self.advertised_host}]" if ":" in self.advertised_host else self.advertised_host
        return f"{host}:{self.advertised_port}"

    @property
    def advertised_url(self) -> str:
        """Where others reach this worker's REST interface."""
        return f"{self.advertised_scheme}://{self.worker_id}"

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
    if dumps_topic(settings) in distinct:
        raise ConfigError({DUMPS_TOPIC: ["is the topic of configurations, offsets or statuses; requests for dumps need one of their own"]})
    listeners = tuple(map(parse_listener, settings.items_of("listeners")))
    scheme = settings.text_or_none("rest.advertised.listener")
    others_get = advertised(listeners, scheme)
    if others_get is None:
        raise ConfigError(
            {"rest.advertised.listener": [f"is {scheme}, and listeners has none of that scheme; name one there, or leave this key out"]}
        )
    advertised_port = settings["rest.advertised.port"]
    admin = settings.text_or_none("admin.listeners")
    reading = settings.text_or_none("dblog.rest.readonly.listener")
    worker = WorkerConfig(
        settings=settings,
        listeners=listeners,
        admin_listeners=None if admin is None else tuple(map(parse_listener, split_list(admin))),
        readonly_listener=parse_listener(reading) if reading else None,
        advertised_scheme=others_get.scheme,
        advertised_host=settings.text_or_none("rest.advertised.host.name") or _reachable(others_get.host),
        advertised_port=advertised_port if isinstance(advertised_port, int) else others_get.port,
    )
    for role in ("producer", "consumer", "admin"):
        worker.client_settings(role)
    return worker


def own_topics(settings: Settings) -> dict[str, str]:
    """Return the topics that the worker alone writes, each with the key that names it."""
    named = {f"{kind}.storage.topic": settings.text(f"{kind}.storage.topic") for kind in ("config", "offset", "status")}
    named |= {DUMPS_TOPIC: dumps_topic(settings), "dblog.registry.topic": settings.text("dblog.registry.topic")}
    return {topic: key for key, topic in named.items() if topic}


def reserved(topic: str, key: str) -> str:
    """Return the sentence for a topic of the worker that a connector would write."""
    return f"{topic} is the worker's own topic ({key} in its file), which no connector may write or read; choose another name"


def dumps_topic(settings: Settings) -> str:
    """The topic of requests for dumps; empty: none are taken."""
    named = settings.text_or_none(DUMPS_TOPIC)
    return f"{settings.text('config.storage.topic')}-dumps" if named is None else named


def _reachable(host: str) -> str:
    """The host part others get: a listener on all addresses is reached by the machine's own name or address."""
    if host not in ANY_HOSTS:
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"

"""The worker's settings, and what derives from them: its addresses and its clients' settings.

``worker_options.py`` declares the options.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from dblog.config.clients import to_librdkafka
from dblog.config.listeners import ANY_HOSTS, Listener, advertised, parse_listener
from dblog.config.options import Settings, parse, split_list
from dblog.config.worker_options import DUMPS_TOPIC, SINKS_TOPIC, WORKER_OPTIONS
from dblog.errors import ConfigError

_OWN_CLIENT_KEYS = re.compile(r"(bootstrap\.servers|client\.id|client\.rack|security\.protocol|sasl\..+|ssl\..+|socket\..+|reconnect\..+)")

OWN_TOKEN = "dblog.rest.own.token"  # noqa: S105  its name
"""Token for the worker's own tasks. Created at each start and passed to the tasks with the
properties; not an option for users.
"""
OWN_URL = "dblog.rest.own.url"
"""Address of the worker's registry for its own tasks, if others get another one. Created and passed
on in the same way.
"""


@dataclass(frozen=True, slots=True)
class OwnRegistry:
    """Address of a worker's own schema registry, and the token of its tasks."""

    url: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The worker's settings, and what derives from them."""

    settings: Settings
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    """Listeners of /admin. None serves it with the rest; an empty tuple does not serve it."""
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
        """This worker's name in status records and answers."""
        host = f"[{self.advertised_host}]" if ":" in self.advertised_host else self.advertised_host
        return f"{host}:{self.advertised_port}"

    @property
    def advertised_url(self) -> str:
        """Address at which others reach this worker's REST interface."""
        return f"{self.advertised_scheme}://{self.worker_id}"

    def client_settings(self, role: str) -> dict[str, str]:
        """Return librdkafka settings of the worker's own clients.

        They are the shared connection settings, overridden by ``<role>.*`` (producer, consumer,
        admin).
        """
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
    """Return the checked configuration. Raise ConfigError naming every bad option.

    ``shown`` maps keys that a config provider resolved to what messages show.
    """
    settings = parse(WORKER_OPTIONS, properties, shown=shown)
    distinct = [settings.text(f"{kind}.storage.topic") for kind in ("config", "offset", "status")]
    if len(set(distinct)) < len(distinct):
        raise ConfigError({"config.storage.topic": ["config, offset and status need three different topics"]})
    if settings.text(SINKS_TOPIC) in {*distinct, dumps_topic(settings), settings.text("dblog.registry.topic")} - {""}:
        raise ConfigError({SINKS_TOPIC: ["is a topic that the worker uses for something else; the reports of sinks need one of their own"]})
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
    """Return the topics that no connector may write or read, each with the option that names it."""
    named = {f"{kind}.storage.topic": settings.text(f"{kind}.storage.topic") for kind in ("config", "offset", "status")}
    named |= {DUMPS_TOPIC: dumps_topic(settings), "dblog.registry.topic": settings.text("dblog.registry.topic")}
    named |= {SINKS_TOPIC: settings.text(SINKS_TOPIC)}
    return {topic: key for key, topic in named.items() if topic}


def reserved(topic: str, key: str) -> str:
    """Return the sentence that refuses one of the worker's topics to a connector."""
    return f"{topic} is the worker's own topic ({key} in its file), which no connector may write or read; choose another name"


def dumps_topic(settings: Settings) -> str:
    """Return the topic of dump requests. Empty if none are accepted."""
    named = settings.text_or_none(DUMPS_TOPIC)
    return f"{settings.text('config.storage.topic')}-dumps" if named is None else named


def _reachable(host: str) -> str:
    """Return the advertised host: for a listener on all addresses the machine's own address."""
    if host not in ANY_HOSTS:
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"

"""The worker's properties file: Kafka Connect's distributed worker keys, and ours under ``dblog.``.

A file made for Kafka Connect is taken as it is. Keys that only a JVM worker obeys (``plugin.path``, reporters) are accepted without
effect; keys that would change what a user relies on and that this worker does not do (exactly once, REST extensions, TLS listeners)
are refused at start.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dblog.config.clients import to_librdkafka
from dblog.config.framework import CONVERTER_CLASSES, HEADER_CONVERTER_CLASSES, class_known
from dblog.config.login import BASIC_AUTH_ALIAS, BASIC_AUTH_EXTENSION, LOGIN_CONFIG
from dblog.config.options import Importance, Kind, Option, Settings, Value, at_least, only, parse
from dblog.config.overrides import ALLOWLIST, POLICY, POLICY_CHOICES
from dblog.errors import ConfigError

_OWN_CLIENT_KEYS = re.compile(r"(bootstrap\.servers|client\.id|client\.rack|security\.protocol|sasl\..+|ssl\..+|socket\..+|reconnect\..+)")


def _listeners(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, tuple) or not value:
        return "at least one listener is needed, such as http://:8083"
    for item in value:
        url = urlsplit(item)
        if url.scheme.lower() == "https":
            return "this worker has no TLS listener yet; use http and put a TLS proxy in front"
        try:
            port = url.port
        except ValueError:
            port = None
        if url.scheme.lower() != "http" or port is None:
            return "a listener is written as http://host:port"
    return "this worker listens on one address; give a single listener" if len(value) > 1 else None


def _readonly_listener(value: Value, everything: Mapping[str, Value]) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "a listener is written as http://host:port"
    return _listeners((value.strip(),), everything)


def _extensions(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, tuple) and any(item not in (BASIC_AUTH_EXTENSION, BASIC_AUTH_ALIAS) for item in value):
        return f"Java classes cannot run in this worker, whose own is {BASIC_AUTH_EXTENSION}; guard its REST interface with that one or a proxy"
    return None


def _storage(kind: str, *, partitions: int | None) -> tuple[Option, ...]:
    options = [
        Option(
            name=f"{kind}.storage.topic",
            doc=f"Topic of the {'statuses' if kind == 'status' else kind + 's'} of all connectors; compacted.",
            required=True,
            importance=Importance.HIGH,
        ),
        Option(
            name=f"{kind}.storage.replication.factor",
            doc="Its replication when the worker creates it; -1 leaves it to the broker.",
            kind=Kind.SHORT,
            default="3",
            importance=Importance.LOW,
            check=_count,
        ),
    ]
    if partitions is not None:
        options.append(
            Option(
                name=f"{kind}.storage.partitions",
                doc="Its partitions when the worker creates it; -1 leaves them to the broker.",
                kind=Kind.INT,
                default=str(partitions),
                importance=Importance.LOW,
                check=_count,
            )
        )
    return tuple(options)


def _count(value: Value, _all: Mapping[str, Value]) -> str | None:
    return "Value must be -1 or larger than 0" if isinstance(value, int) and value != -1 and value < 1 else None


def _without_effect(name: str, default: str | None, kind: Kind = Kind.STRING) -> Option:
    return Option(
        name=name, doc="Accepted for files made for a JVM worker; no effect here.", default=default, kind=kind, importance=Importance.LOW
    )


def _time(name: str, default: str, doc: str, *, low: int = 0) -> Option:
    return Option(name=name, doc=doc, kind=Kind.LONG, default=default, unit="ms", importance=Importance.LOW, check=at_least(low))


WORKER_OPTIONS: tuple[Option, ...] = (
    Option(name="bootstrap.servers", doc="Brokers to start from, host:port.", kind=Kind.LIST, required=True, importance=Importance.HIGH),
    Option(name="group.id", doc="Name of the cluster of workers.", required=True, importance=Importance.HIGH),
    Option(name="client.id", doc="Name of this worker in the brokers' logs.", default="", importance=Importance.LOW),
    Option(
        name="key.converter",
        doc="Converter of record keys for connectors that name none.",
        kind=Kind.CLASS,
        required=True,
        importance=Importance.HIGH,
        check=class_known(CONVERTER_CLASSES, "Converter"),
    ),
    Option(
        name="value.converter",
        doc="Converter of record values for connectors that name none.",
        kind=Kind.CLASS,
        required=True,
        importance=Importance.HIGH,
        check=class_known(CONVERTER_CLASSES, "Converter"),
    ),
    Option(
        name="header.converter",
        doc="Converter of record headers for connectors that name none.",
        kind=Kind.CLASS,
        default=HEADER_CONVERTER_CLASSES[0],
        importance=Importance.LOW,
        check=class_known(HEADER_CONVERTER_CLASSES, "Converter"),
    ),
    *_storage("config", partitions=None),
    *_storage("offset", partitions=25),
    *_storage("status", partitions=5),
    Option(
        name="internal.topics.automatic.creation.enable",
        doc="Whether the worker creates its topics when they are missing.",
        kind=Kind.BOOLEAN,
        default="true",
    ),
    _time("offset.flush.interval.ms", "60000", "How often offsets are stored.", low=1),
    _time("offset.flush.timeout.ms", "5000", "Longest wait for that."),
    _time("task.shutdown.graceful.timeout.ms", "5000", "How long a task may take to stop before its process is killed."),
    Option(
        name="listeners",
        doc="Address of the REST interface.",
        kind=Kind.LIST,
        default="http://:8083",
        check=_listeners,
    ),
    Option(name="rest.advertised.host.name", doc="Host name that clients and other workers get.", importance=Importance.LOW),
    Option(name="rest.advertised.port", doc="Port that clients and other workers get.", kind=Kind.INT, importance=Importance.LOW),
    Option(
        name="rest.advertised.listener",
        doc="Scheme that clients and other workers get.",
        importance=Importance.LOW,
        choices=("http", "https"),
    ),
    Option(
        name="admin.listeners",
        doc="Where /admin is served; absent: with the rest; empty: not at all.",
        importance=Importance.LOW,
        refused=only(because="this worker serves /admin with the rest of its interface, or not at all (empty)"),
    ),
    Option(
        name="rest.extension.classes",
        doc=f"Asks for a login when it is {BASIC_AUTH_EXTENSION}; other Java classes cannot run in this worker.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=_extensions,
    ),
    Option(
        name=LOGIN_CONFIG,
        doc="The JAAS file that names the file of users, for that extension. Absent: what KAFKA_OPTS has as -Djava.security.auth.login.config.",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.readonly.listener",
        doc="Address of a second listener, without a login, that only reads and shows no configurations: health, metrics, statuses, offsets, schemas. "
        "Absent: none.",
        importance=Importance.LOW,
        check=_readonly_listener,
    ),
    Option(
        name="access.control.allow.origin", doc="Origins that browsers may call from; empty: none.", default="", importance=Importance.LOW
    ),
    Option(name="access.control.allow.methods", doc="Methods that browsers may call.", default="", importance=Importance.LOW),
    Option(
        name="dblog.connector.allowed.hosts",
        doc="Hosts that connectors may name as database, brokers, registry or proxy: host, host:port, *.suffix or a network such as 10.1.0.0/16; "
        "empty: any but link-local addresses and metadata services of clouds, which only an entry of their own allows. Asked when a connector is posted and "
        "again when its task starts. What a name resolves to is not looked at, nor which brokers a broker names.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.allowed.hosts",
        doc="Names, with or without port, that clients may reach the REST interface by (their Host header); empty: any. A list keeps a web page from "
        "pointing a name of its own at this worker.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="response.http.headers.config",
        doc="Headers of every answer.",
        default="",
        importance=Importance.LOW,
        refused=only(because="this worker does not add headers yet; do it in a proxy"),
    ),
    Option(name="config.providers", doc="Names of the config providers.", kind=Kind.LIST, default="", importance=Importance.LOW),
    Option(
        name=POLICY,
        doc="Which producer.override.*, consumer.override.* and admin.override.* keys connectors may set; also by the class names of Kafka Connect.",
        default="All",
        choices=POLICY_CHOICES,
    ),
    Option(
        name=ALLOWLIST,
        doc="The keys that connectors may set under the policy Allowlist, without producer.override. and the like; empty: none.",
        kind=Kind.LIST,
        default="",
    ),
    Option(
        name="topic.creation.enable",
        doc="Whether topic.creation.* of connectors is obeyed.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    Option(
        name="topic.tracking.enable",
        doc="Whether the topics in use are noted.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    Option(
        name="topic.tracking.allow.reset",
        doc="Whether that list may be reset.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    _time(
        "session.timeout.ms",
        "10000",
        "How long a worker may be silent before a standby of its group takes its connectors. Its own tasks end after four fifths of it.",
        low=1,
    ),
    _time("heartbeat.interval.ms", "3000", "How often a worker sends a heartbeat to its group."),
    _time("rebalance.timeout.ms", "60000", "Longest time of a rebalance."),
    _time("worker.sync.timeout.ms", "3000", "Longest wait for the config topic in a rebalance."),
    _time("worker.unsync.backoff.ms", "300000", "Pause of a worker that could not keep up."),
    _time("scheduled.rebalance.max.delay.ms", "300000", "How long a lost worker's tasks wait for its return."),
    Option(
        name="connect.protocol",
        doc="Protocol of the group.",
        default="sessioned",
        importance=Importance.LOW,
        choices=("sessioned", "compatible", "eager"),
    ),
    Option(
        name="exactly.once.source.support",
        doc="Whether source connectors write in transactions.",
        default="disabled",
        importance=Importance.HIGH,
        choices=("disabled", "preparing", "enabled"),
        refused=only("disabled", because="this worker does not have exactly once yet; set it to disabled"),
    ),
    Option(
        name="security.protocol",
        doc="How brokers are talked to.",
        default="PLAINTEXT",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Option(
        name="dblog.task.restart.max",
        doc="How often in a row a task whose process was killed is started again; -1 for ever. A task that reports FAILED stays failed.",
        kind=Kind.INT,
        default="-1",
        unit="times",
        check=at_least(-1),
    ),
    Option(
        name="dblog.registry.topic",
        doc="Topic of the worker's own schema registry. Workers of several groups may share it: they write in turns, by the transactional id "
        "dblog-writer-<topic>, which the worker's principal needs WRITE and DESCRIBE on where the brokers check access.",
        default="_schemas",
    ),
    Option(
        name="dblog.registry.enable",
        doc="Whether the worker serves a schema registry beside its REST interface.",
        kind=Kind.BOOLEAN,
        default="true",
    ),
    Option(
        name="dblog.registry.replication.factor",
        doc="Replication of that topic when the worker creates it; -1 leaves it to the broker. Absent: config.storage.replication.factor.",
        kind=Kind.SHORT,
        check=_count,
    ),
    Option(name="dblog.log.format", doc="json: one object a line; plain: for reading.", default="json", choices=("json", "plain")),
    Option(
        name="dblog.log.level",
        doc="Least level that is logged.",
        default="INFO",
        choices=("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"),
    ),
    *(
        _without_effect(name, default)
        for name, default in (
            ("plugin.path", None),
            ("plugin.discovery", "hybrid_warn"),
            ("metric.reporters", None),
            ("metrics.recording.level", "INFO"),
            ("metrics.num.samples", "2"),
            ("metrics.sample.window.ms", "30000"),
            ("inter.worker.key.generation.algorithm", "HmacSHA256"),
            ("inter.worker.key.size", None),
            ("inter.worker.key.ttl.ms", "3600000"),
            ("inter.worker.signature.algorithm", "HmacSHA256"),
            ("inter.worker.verification.algorithms", "HmacSHA256"),
        )
    ),
)
"""Every key of the worker; ``producer.*``, ``consumer.*``, ``admin.*``, ``sasl.*`` and ``ssl.*`` pass through to the clients."""


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

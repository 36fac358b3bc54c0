"""The options of a worker's properties file: Kafka Connect's distributed worker options, and
dblog's own under ``dblog.``.

A file made for Kafka Connect works unchanged. Options that only a JVM worker obeys
(``plugin.path``, reporters) are accepted without effect, and named at start with the reason.
Options that users rely on and that this worker does not support (exactly once, REST extensions) are
refused at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.framework import CONVERTER_CLASSES, HEADER_CONVERTER_CLASSES, class_known
from dblog.config.listeners import SCHEMES, parse_listener
from dblog.config.login import BASIC_AUTH_ALIAS, BASIC_AUTH_EXTENSION, LOGIN_CONFIG, USERS_FILE
from dblog.config.options import Importance, Kind, Option, Value, at_least, only, split_list
from dblog.config.origins import check_origins
from dblog.config.overrides import ALLOWLIST, POLICY, POLICY_CHOICES
from dblog.config.proxies import PROXIES, proxies
from dblog.config.response_headers import check_response_headers
from dblog.config.roles import ROLES_FILE
from dblog.config.tracing import TRACING, installed

DUMPS_TOPIC = "dblog.dumps.storage.topic"
SINKS_TOPIC = "dblog.sinks.topic"

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


def _listeners(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, tuple) or not value:
        return "at least one listener is needed, such as http://:8083"
    return _no_listener(value)


def _no_listener(texts: Iterable[str]) -> str | None:
    try:
        for text in texts:
            parse_listener(text)
    except ValueError as e:
        return str(e)
    return None


def _admin_listeners(value: Value, _all: Mapping[str, Value]) -> str | None:
    return _no_listener(split_list(value)) if isinstance(value, str) else None


def _readonly_listener(value: Value, _all: Mapping[str, Value]) -> str | None:
    return _no_listener([value]) if isinstance(value, str) else None


def _extensions(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, tuple) and any(item not in (BASIC_AUTH_EXTENSION, BASIC_AUTH_ALIAS) for item in value):
        return f"Java classes cannot run in this worker, whose own is {BASIC_AUTH_EXTENSION}; guard its REST interface with that one or a proxy"
    return None


def _log_levels(value: Value, _all: Mapping[str, Value]) -> str | None:
    for pair in value if isinstance(value, tuple) else ():
        name, _, level = pair.partition("=")
        if not name.strip() or level.strip().upper() not in LOG_LEVELS:
            return f"{pair} is not a pair logger=LEVEL; levels are {', '.join(LOG_LEVELS)}"
    return None


def _storage(kind: str, *, partitions: int | None) -> tuple[Option, ...]:
    options = [
        Option(
            name=f"{kind}.storage.topic",
            doc=f"Topic of the {'statuses' if kind == 'status' else kind + 's'} of all connectors. It must be compacted.",
            required=True,
            importance=Importance.HIGH,
        ),
        Option(
            name=f"{kind}.storage.replication.factor",
            doc="Replication factor of that topic when the worker creates it; -1 uses the broker's default.",
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
                doc="Number of partitions of that topic when the worker creates it; -1 uses the broker's default.",
                kind=Kind.INT,
                default=str(partitions),
                importance=Importance.LOW,
                check=_count,
            )
        )
    return tuple(options)


def _count(value: Value, _all: Mapping[str, Value]) -> str | None:
    return "Value must be -1 or larger than 0" if isinstance(value, int) and value != -1 and value < 1 else None


def _without_effect(name: str, because: str, default: str | None = None) -> Option:
    return Option(
        name=name,
        doc="Accepted in files that were written for a worker of Kafka Connect.",
        default=default,
        importance=Importance.LOW,
        no_effect=because,
    )


def _time(name: str, default: str, doc: str, *, low: int = 0) -> Option:
    return Option(name=name, doc=doc, kind=Kind.LONG, default=default, unit="ms", importance=Importance.LOW, check=at_least(low))


_NO_REBALANCE = "one worker of a group runs its connectors and the others stand by, so no tasks are handed around"
_NO_JARS = "the connectors are part of this program"
_NO_JMX = "metrics are read at /metrics"
_NO_KEY = "tasks run in processes of the worker that has them, so workers send each other no task configurations"

WORKER_OPTIONS: tuple[Option, ...] = (
    Option(
        name="bootstrap.servers",
        doc="Brokers to which the worker connects first, as host:port, separated by commas.",
        kind=Kind.LIST,
        required=True,
        importance=Importance.HIGH,
    ),
    Option(
        name="group.id",
        doc="Name of the cluster of workers. Workers with the same name share connectors.",
        required=True,
        importance=Importance.HIGH,
    ),
    Option(name="client.id", doc="Name of this worker in the logs of the brokers.", default="", importance=Importance.LOW),
    Option(
        name="key.converter",
        doc="Converter of record keys for connectors that do not name one.",
        kind=Kind.CLASS,
        required=True,
        importance=Importance.HIGH,
        check=class_known(CONVERTER_CLASSES, "Converter"),
    ),
    Option(
        name="value.converter",
        doc="Converter of record values for connectors that do not name one.",
        kind=Kind.CLASS,
        required=True,
        importance=Importance.HIGH,
        check=class_known(CONVERTER_CLASSES, "Converter"),
    ),
    Option(
        name="header.converter",
        doc="Converter of record headers for connectors that do not name one.",
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
        doc="If true, the worker creates its internal topics if they are missing.",
        kind=Kind.BOOLEAN,
        default="true",
    ),
    _time("offset.flush.interval.ms", "60000", "How often offsets are stored.", low=1),
    _time("offset.flush.timeout.ms", "5000", "Longest wait for that."),
    _time("task.shutdown.graceful.timeout.ms", "5000", "How long a task may take to stop before its process is killed."),
    Option(
        name="listeners",
        doc=(
            "Addresses of the REST interface, with http or https, separated by commas. For https, keys that "
            "begin with listeners.https. name the certificate and its key (ssl.keystore.location, or "
            "ssl.certificate.location and ssl.key.location), the passwords of both (ssl.keystore.password, "
            "ssl.key.password), and the clients that are let in (ssl.client.auth none, requested or required, "
            "with ssl.truststore.location). If none of them is given, the worker's own ssl.* keys apply."
        ),
        kind=Kind.LIST,
        default="http://:8083",
        check=_listeners,
    ),
    Option(
        name="rest.advertised.host.name",
        doc="Host name under which clients and other workers reach this worker.",
        importance=Importance.LOW,
    ),
    Option(
        name="rest.advertised.port",
        doc="Port on which clients and other workers reach this worker.",
        kind=Kind.INT,
        importance=Importance.LOW,
    ),
    Option(
        name="rest.advertised.listener",
        doc="Scheme (http or https) with which clients and other workers reach this worker.",
        importance=Importance.LOW,
        choices=SCHEMES,
    ),
    Option(
        name="admin.listeners",
        doc=(
            "Addresses on which /admin is served. If absent, it is served with the other resources; if empty, "
            "it is not served. Keys of TLS begin with admin.listeners.https."
        ),
        importance=Importance.LOW,
        check=_admin_listeners,
    ),
    Option(
        name="rest.extension.classes",
        doc=f"With {BASIC_AUTH_EXTENSION} the worker asks for a login. Other Java classes cannot run in this worker.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=_extensions,
    ),
    Option(
        name=LOGIN_CONFIG,
        doc=(
            "JAAS file that names the file of users for that extension. If absent, it is the file that "
            "KAFKA_OPTS gives as -Djava.security.auth.login.config."
        ),
        importance=Importance.LOW,
    ),
    Option(
        name=USERS_FILE,
        doc=(
            "File of users, with one line user=password for each, in place of Connect's extension. A password "
            "may be a hash made by dblog users hash. A changed file is read again without a restart."
        ),
        importance=Importance.LOW,
    ),
    Option(
        name=ROLES_FILE,
        doc=(
            "File with the rights of users: lines user=role or user=role pattern, several roles separated by "
            "commas. Roles are reader, viewer, operator and admin; the pattern matches names of connectors. "
            "@name stands for a group in a token, * for every user who is logged in. A changed file is read "
            "again without a restart. If absent, every user is admin."
        ),
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.without.login",
        doc=(
            "Rights of requests from other machines if the worker asks for no login: read (what the read-only "
            "listener shows), all (everything, as in Kafka Connect), or refuse (the worker starts on loopback "
            "addresses only)."
        ),
        default="read",
        importance=Importance.LOW,
        choices=("read", "all", "refuse"),
    ),
    Option(
        name="dblog.rest.login.certificates",
        doc=(
            "If true, a client certificate that is signed by an authority of the listener's truststore is a "
            "login beside passwords or tokens. Without passwords and tokens it always is."
        ),
        kind=Kind.BOOLEAN,
        default="false",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.config.secrets",
        doc=(
            "Users who see passwords that are part of configurations: admin (as given, as Kafka Connect shows "
            "them, which tools that compare configurations need) or nobody. All others see [hidden]."
        ),
        default="admin",
        importance=Importance.LOW,
        choices=("admin", "nobody"),
    ),
    Option(
        name="dblog.rest.login.failures.per.minute",
        doc="Number of wrong logins of one address after which it has to wait (status 429); 0 means no limit.",
        kind=Kind.INT,
        default="20",
        importance=Importance.LOW,
        check=at_least(0),
    ),
    Option(
        name="dblog.rest.writes.per.minute",
        doc="Number of changes and checks of configurations by one address after which it has to wait (status 429); 0 means no limit.",
        kind=Kind.INT,
        default="1200",
        importance=Importance.LOW,
        check=at_least(0),
    ),
    Option(
        name="dblog.rest.oidc.issuer",
        doc=(
            "Issuer whose tokens (OpenID Connect, JSON Web Tokens) are accepted as logins. It needs the extra "
            "dblog[oidc]. If absent, no token is accepted."
        ),
        importance=Importance.LOW,
    ),
    Option(name="dblog.rest.oidc.audience", doc="Audience that a token must name in its claim aud.", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.jwks.url", doc="URL of the issuer's keys; only https is accepted.", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.jwks.file", doc="File with the issuer's keys.", importance=Importance.LOW),
    Option(
        name="dblog.rest.oidc.ssl.ca.location",
        doc="PEM file with the certificate authorities that are trusted for the issuer's URL. If absent, they are the machine's.",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.oidc.algorithms",
        doc="Signature algorithms that are accepted.",
        kind=Kind.LIST,
        default="RS256,ES256",
        importance=Importance.LOW,
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
    ),
    Option(name="dblog.rest.oidc.user.claim", doc="Claim that contains the user's name.", default="sub", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.groups.claim", doc="Claim that contains the user's groups.", default="groups", importance=Importance.LOW),
    Option(
        name="dblog.rest.readonly.listener",
        doc=(
            "Address of a second listener without a login. It serves health, metrics, statuses, offsets and "
            "schemas for reading, and shows no configurations. If absent, there is none. With https it uses "
            "the certificate of listeners."
        ),
        importance=Importance.LOW,
        check=_readonly_listener,
    ),
    Option(
        name="dblog.ui.enable",
        doc="If true, the worker serves its web page at /ui beside the REST interface, for the same logins and roles.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    Option(
        name="access.control.allow.origin",
        doc=(
            "Origins from which browsers may call the REST interface, with * for any text "
            "(https://*.corp.example) or as regular expressions. Empty: none."
        ),
        default="",
        importance=Importance.LOW,
        check=check_origins,
    ),
    Option(
        name="access.control.allow.methods",
        doc="HTTP methods that browsers may call from those origins.",
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.connector.allowed.hosts",
        doc=(
            "Hosts that connectors may name as database, brokers, registry or proxy: host, host:port, "
            "*.suffix or a network such as 10.1.0.0/16. Empty: any, except link-local addresses and metadata "
            "services of clouds, which must be listed to be allowed. The check runs when a connector is "
            "posted and when its task starts. It looks at names as given, neither at the addresses that they "
            "resolve to nor at the brokers that a broker names."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.allowed.hosts",
        doc=(
            "Host names, with or without a port, under which clients may reach the REST interface (their Host "
            "header), beside rest.advertised.host.name and the machine's own. The list keeps a web page from "
            "directing a name of its own to this worker. Empty: any name if a login is required; without a "
            "login, a client that may change something must use an address, a name without a dot, or a name "
            "that only this machine, network or cluster resolves. The read-only listener accepts every name."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.workers.allowed.hosts",
        doc=(
            "Hosts of the other workers of the group: host, host:port, *.suffix or a network such as "
            "10.1.0.0/16. A standby forwards requests, including their logins, only to a leader on one of "
            "these hosts. Empty: to any leader that the group names, which a lying broker could choose. A "
            "request for any other leader is answered with 409 and its address."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name=PROXIES,
        doc=(
            "Addresses and networks of proxies whose header X-Forwarded-For is believed, for limits and the "
            "audit log. Empty: none. Name only proxies that set the header themselves."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=proxies,
    ),
    Option(
        name="response.http.headers.config",
        doc=(
            "Headers that are added to every answer, as rules separated by commas, for example set X-Frame- "
            "Options: DENY. A rule begins with set, add, setDate or addDate (milliseconds from now); a rule "
            "that contains a comma is put in double quotes."
        ),
        default="",
        importance=Importance.LOW,
        check=check_response_headers,
    ),
    Option(
        name="config.providers",
        doc="Names of the config providers, separated by commas.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.config.providers.own",
        doc=(
            "Config providers that resolve placeholders of this file only. A connector that names one of them "
            "is refused, so that users who may post connectors cannot reach the worker's own secrets."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name=POLICY,
        doc=(
            "Policy for the producer.override.*, consumer.override.* and admin.override.* keys that "
            "connectors may set. The class names of Kafka Connect are accepted too."
        ),
        default="All",
        choices=POLICY_CHOICES,
    ),
    Option(
        name=ALLOWLIST,
        doc="Keys that connectors may set under the policy Allowlist, without producer.override. and the like. Empty: none.",
        kind=Kind.LIST,
        default="",
    ),
    Option(
        name="topic.creation.enable",
        doc="If true, connectors may set topic.creation.*.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    Option(
        name="topic.tracking.enable",
        doc="If true, the topics that each connector writes to are recorded.",
        kind=Kind.BOOLEAN,
        default="true",
        importance=Importance.LOW,
    ),
    Option(
        name="topic.tracking.allow.reset",
        doc="If true, the recorded topics of a connector may be reset.",
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
    Option(
        name="exactly.once.source.support",
        doc="Exactly-once support of source connectors: disabled, preparing or enabled.",
        default="disabled",
        importance=Importance.HIGH,
        choices=("disabled", "preparing", "enabled"),
        refused=only("disabled", because="this worker does not have exactly once yet; set it to disabled"),
    ),
    Option(
        name="security.protocol",
        doc="Protocol of connections to brokers.",
        default="PLAINTEXT",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Option(
        name="dblog.task.restart.max",
        doc=(
            "Number of times in a row that a task whose process died is started again; -1 means no limit. A "
            "task that reports FAILED is not started again."
        ),
        kind=Kind.INT,
        default="-1",
        unit="times",
        check=at_least(-1),
    ),
    Option(
        name="dblog.registry.topic",
        doc=(
            "Topic of the worker's own schema registry. Workers of several groups may share it: they write in "
            "turns, under the transactional id dblog-writer-<topic>, for which the worker's principal needs "
            "WRITE and DESCRIBE if the brokers check access."
        ),
        default="_schemas",
    ),
    Option(
        name="dblog.registry.enable",
        doc="If true, the worker serves a schema registry beside its REST interface.",
        kind=Kind.BOOLEAN,
        default="true",
    ),
    Option(
        name="dblog.registry.replication.factor",
        doc=(
            "Replication factor of that topic when the worker creates it; -1 uses the broker's default. If "
            "absent, it is config.storage.replication.factor."
        ),
        kind=Kind.SHORT,
        check=_count,
    ),
    Option(
        name=DUMPS_TOPIC,
        doc=(
            "Compacted topic of the requests for dumps of all connectors, and of how they ended. If absent, "
            "it is config.storage.topic followed by -dumps; if empty, this worker accepts no requests for "
            "dumps."
        ),
    ),
    Option(
        name="dblog.dumps.storage.replication.factor",
        doc=(
            "Replication factor of that topic when the worker creates it; -1 uses the broker's default. If "
            "absent, it is config.storage.replication.factor."
        ),
        kind=Kind.SHORT,
        check=_count,
    ),
    Option(
        name=SINKS_TOPIC,
        doc=(
            "Compacted topic in which sinks report how they and their tables are (report.topic in their "
            "configurations); the page and `dblog sinks` show it. Empty: this worker does not read it."
        ),
        default="__dblog-sinks",
    ),
    Option(
        name="dblog.signal.files.folder",
        doc=(
            "Folder of the files of signals, which connectors name in signal.file and which are emptied after "
            "their signals are read. If absent, no connector reads signals from a file."
        ),
    ),
    Option(
        name="dblog.log.format",
        doc="Format of log lines: json (one object a line) or plain (for people).",
        default="json",
        choices=("json", "plain"),
    ),
    Option(
        name="dblog.log.level",
        doc="Lowest level that is logged.",
        default="INFO",
        choices=LOG_LEVELS,
    ),
    Option(
        name="dblog.log.levels",
        doc=(
            "Levels of single loggers at the start, as logger=LEVEL pairs separated by commas: "
            "dblog.readers=DEBUG,dblog.kafka.registry=WARN. PUT /admin/loggers changes them while the worker "
            "runs."
        ),
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=_log_levels,
    ),
    Option(
        name=TRACING,
        doc=(
            "If true, tasks report OpenTelemetry traces and give each record the header traceparent, with "
            "which the sink continues the same trace. It needs the extra dblog[tracing]. "
            "OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry decide where traces are "
            "sent, and how many."
        ),
        kind=Kind.BOOLEAN,
        default="false",
        importance=Importance.LOW,
        check=installed,
    ),
    Option(
        name="dblog.metrics.names",
        doc=(
            "Names of metrics under /metrics: dblog (this program's own), jmx (those that a JMX exporter "
            "gives to the metrics of Kafka Connect and Debezium, by the rules of Strimzi and of Debezium's "
            "examples), or both."
        ),
        default="both",
        choices=("both", "dblog", "jmx"),
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.metrics.jmx.case",
        doc=(
            "Spelling of Debezium's attributes in names of metrics: attribute "
            "(debezium_metrics_SnapshotRunning) or lower, as an exporter with lowercaseOutputName writes "
            "them."
        ),
        default="attribute",
        choices=("attribute", "lower"),
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.metrics.tables.max",
        doc="Maximum number of tables, and of topics, of a task that have metrics of their own; 0 means none.",
        kind=Kind.INT,
        default="100",
        importance=Importance.LOW,
        check=at_least(0),
    ),
    _without_effect("worker.sync.timeout.ms", _NO_REBALANCE, "3000"),
    _without_effect("worker.unsync.backoff.ms", _NO_REBALANCE, "300000"),
    _without_effect("scheduled.rebalance.max.delay.ms", "a standby takes over after session.timeout.ms", "300000"),
    _without_effect("connect.protocol", _NO_REBALANCE, "sessioned"),
    _without_effect("plugin.path", _NO_JARS),
    _without_effect("plugin.discovery", _NO_JARS, "hybrid_warn"),
    _without_effect("metric.reporters", _NO_JMX, ""),
    _without_effect("metrics.recording.level", _NO_JMX, "INFO"),
    _without_effect("metrics.num.samples", _NO_JMX, "2"),
    _without_effect("metrics.sample.window.ms", _NO_JMX, "30000"),
    _without_effect("inter.worker.key.generation.algorithm", _NO_KEY, "HmacSHA256"),
    _without_effect("inter.worker.key.size", _NO_KEY),
    _without_effect("inter.worker.key.ttl.ms", _NO_KEY, "3600000"),
    _without_effect("inter.worker.signature.algorithm", _NO_KEY, "HmacSHA256"),
    _without_effect("inter.worker.verification.algorithms", _NO_KEY, "HmacSHA256"),
)
"""Every option of the worker. ``producer.*``, ``consumer.*``, ``admin.*``, ``sasl.*`` and ``ssl.*``
are passed to the clients.
"""

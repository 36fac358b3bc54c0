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


def _without_effect(name: str, because: str, default: str | None = None) -> Option:
    return Option(name=name, doc="Accepted for files made for a JVM worker.", default=default, importance=Importance.LOW, no_effect=because)


def _time(name: str, default: str, doc: str, *, low: int = 0) -> Option:
    return Option(name=name, doc=doc, kind=Kind.LONG, default=default, unit="ms", importance=Importance.LOW, check=at_least(low))


_NO_REBALANCE = "one worker of a group runs its connectors and the others stand by, so no tasks are handed around"
_NO_JARS = "the connectors are part of this program"
_NO_JMX = "metrics are read at /metrics"
_NO_KEY = "tasks run in processes of the worker that has them, so workers send each other no task configurations"

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
        doc="Addresses of the REST interface, with http or https. For https, keys below listeners.https. name certificate and key "
        "(ssl.keystore.location, or ssl.certificate.location and ssl.key.location), what opens them (ssl.keystore.password, ssl.key.password) and "
        "whose clients may come in (ssl.client.auth none, requested or required, with ssl.truststore.location); without any of them the worker's own "
        "ssl.* count.",
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
        choices=SCHEMES,
    ),
    Option(
        name="admin.listeners",
        doc="Where /admin is served; absent: with the rest; empty: not at all. TLS keys: admin.listeners.https.",
        importance=Importance.LOW,
        check=_admin_listeners,
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
        name=USERS_FILE,
        doc="A file of users, a line user=password for each, instead of Connect's extension; a password may be a hash made by dblog users hash. Followed: a "
        "change needs no restart.",
        importance=Importance.LOW,
    ),
    Option(
        name=ROLES_FILE,
        doc="What users may do: lines user=role or user=role pattern, several with commas between them. Roles are reader, viewer, operator and admin; the "
        "pattern matches names of connectors; @name stands for a group of a token, * for everybody who is let in. Followed. Absent: all are admin.",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.without.login",
        doc="What a worker without any login is for whoever comes from another machine: read (they see what the read-only listener shows), all (they may do "
        "everything, as with Connect), or refuse (it does not start on more than loopback addresses).",
        default="read",
        importance=Importance.LOW,
        choices=("read", "all", "refuse"),
    ),
    Option(
        name="dblog.rest.login.certificates",
        doc="Whether a client's certificate, signed by an authority of the listener's truststore, is a login beside passwords or tokens; without these it is.",
        kind=Kind.BOOLEAN,
        default="false",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.config.secrets",
        doc="Who sees passwords that stand in configurations: admin (as they were given, as Connect shows them, which tools that compare configurations need), "
        "or nobody. Others see [hidden] instead.",
        default="admin",
        importance=Importance.LOW,
        choices=("admin", "nobody"),
    ),
    Option(
        name="dblog.rest.login.failures.per.minute",
        doc="Wrong logins of one address, before it has to wait (429); 0: any number.",
        kind=Kind.INT,
        default="20",
        importance=Importance.LOW,
        check=at_least(0),
    ),
    Option(
        name="dblog.rest.writes.per.minute",
        doc="Changes and checks of configurations of one address, before it has to wait (429); 0: any number.",
        kind=Kind.INT,
        default="1200",
        importance=Importance.LOW,
        check=at_least(0),
    ),
    Option(
        name="dblog.rest.oidc.issuer",
        doc="The issuer whose tokens (OpenID Connect, JSON Web Tokens) are logins; needs the extra dblog[oidc]. Absent: none are.",
        importance=Importance.LOW,
    ),
    Option(name="dblog.rest.oidc.audience", doc="What a token must be made for: its claim aud.", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.jwks.url", doc="Where the issuer's keys are; https only.", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.jwks.file", doc="The same in a file.", importance=Importance.LOW),
    Option(
        name="dblog.rest.oidc.ssl.ca.location",
        doc="PEM with the certificates that are trusted there. Absent: the machine's.",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.oidc.algorithms",
        doc="Signatures that are taken.",
        kind=Kind.LIST,
        default="RS256,ES256",
        importance=Importance.LOW,
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
    ),
    Option(name="dblog.rest.oidc.user.claim", doc="The claim with the user's name.", default="sub", importance=Importance.LOW),
    Option(name="dblog.rest.oidc.groups.claim", doc="The claim with the user's groups.", default="groups", importance=Importance.LOW),
    Option(
        name="dblog.rest.readonly.listener",
        doc="Address of a second listener, without a login, that only reads and shows no configurations: health, metrics, statuses, offsets, schemas. "
        "Absent: none. With https it has the certificate of listeners.",
        importance=Importance.LOW,
        check=_readonly_listener,
    ),
    Option(
        name="access.control.allow.origin",
        doc="Origins that browsers may call from, with * for anything (https://*.corp.example) or as regular expressions; empty: none.",
        default="",
        importance=Importance.LOW,
        check=check_origins,
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
        doc="Names, with or without port, that clients may reach the REST interface by (their Host header), beside rest.advertised.host.name and the "
        "machine's. A list keeps a web page from pointing a name of its own at this worker. Empty: any name where a login is asked for; without one, whoever "
        "may change something goes by an address, by a name without a dot, or by one that only this machine, network or cluster knows. The read-only "
        "listener goes by every name.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.rest.workers.allowed.hosts",
        doc="Hosts of the group's workers: host, host:port, *.suffix or a network such as 10.1.0.0/16. A standby hands requests on to a leader on one of them "
        "alone, with the logins in them; empty: to whichever the group names, so to any that a broker names which lies. Requests for another leader are "
        "answered 409, with its address.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
    Option(
        name=PROXIES,
        doc="Addresses and networks of proxies whose X-Forwarded-For tells whom a request is from, for limits and the audit; empty: nobody's is believed. Name "
        "only proxies that set the header themselves.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=proxies,
    ),
    Option(
        name="response.http.headers.config",
        doc="Headers of every answer: rules such as set X-Frame-Options: DENY, with set, add, setDate or addDate (milliseconds from now), and commas between "
        "them; a rule with a comma stands in double quotes.",
        default="",
        importance=Importance.LOW,
        check=check_response_headers,
    ),
    Option(name="config.providers", doc="Names of the config providers.", kind=Kind.LIST, default="", importance=Importance.LOW),
    Option(
        name="dblog.config.providers.own",
        doc="Those of them that resolve placeholders of this file alone: a connector that names one is refused, so that who may post connectors does not "
        "reach the worker's own secrets by it.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
    ),
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
    Option(
        name=DUMPS_TOPIC,
        doc="Topic of the requests for dumps of all connectors, and of their ends; compacted. Absent: config.storage.topic with -dumps behind it; empty: this "
        "worker takes no such requests.",
    ),
    Option(
        name="dblog.dumps.storage.replication.factor",
        doc="Replication of that topic when the worker creates it; -1 leaves it to the broker. Absent: config.storage.replication.factor.",
        kind=Kind.SHORT,
        check=_count,
    ),
    Option(
        name="dblog.signal.files.folder",
        doc="Folder that the files of signals stand in (signal.file of a connector names one of them, which is emptied behind its signals). Absent: no "
        "connector reads signals from a file.",
    ),
    Option(name="dblog.log.format", doc="json: one object a line; plain: for reading.", default="json", choices=("json", "plain")),
    Option(
        name="dblog.log.level",
        doc="Least level that is logged.",
        default="INFO",
        choices=LOG_LEVELS,
    ),
    Option(
        name="dblog.log.levels",
        doc="Levels of single loggers from the start, as logger=LEVEL pairs: dblog.readers=DEBUG,dblog.kafka.registry=WARN. While the worker runs "
        "PUT /admin/loggers sets them.",
        kind=Kind.LIST,
        default="",
        importance=Importance.LOW,
        check=_log_levels,
    ),
    Option(
        name=TRACING,
        doc="Whether tasks report OpenTelemetry traces, and give each record the header traceparent, by which the sink goes on with the same trace. Needs the "
        "extra dblog[tracing]. OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry say where the traces go, and how many.",
        kind=Kind.BOOLEAN,
        default="false",
        importance=Importance.LOW,
        check=installed,
    ),
    Option(
        name="dblog.metrics.names",
        doc="Names that /metrics has: dblog (this program's own), jmx (those that a JMX exporter gives Kafka Connect's and Debezium's metrics by the rules of "
        "Strimzi and of Debezium's examples), or both.",
        default="both",
        choices=("both", "dblog", "jmx"),
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.metrics.jmx.case",
        doc="How the names of Debezium's attributes are spelled: attribute (debezium_metrics_SnapshotRunning), or lower, as an exporter with "
        "lowercaseOutputName writes them.",
        default="attribute",
        choices=("attribute", "lower"),
        importance=Importance.LOW,
    ),
    Option(
        name="dblog.metrics.tables.max",
        doc="Most tables, and most topics, of a task that have metrics of their own; 0: none.",
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

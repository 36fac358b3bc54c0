"""Settings of Kafka clients: the ones that a configuration may give, and their names in librdkafka.

Users write the names of Kafka's Java clients. Names that only librdkafka has are accepted too, but
from a list. librdkafka has settings that load native code (``plugin.library.paths``,
``ssl.engine.location``, ``ssl.providers``), run a command (``sasl.kerberos.kinit.cmd``) or call any
address (``sasl.oauthbearer.*``), and a user who may post a connector must not get these. A setting
on no list is refused by name. Sources: Kafka's producer, consumer and admin configuration pages;
librdkafka's CONFIGURATION.md (2.16).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dblog.config.cipher_suites import CipherSuites
from dblog.config.jaas import JaasError, parse_modules
from dblog.config.named_files import NamedFile
from dblog.config.overrides import OverridePolicy
from dblog.config.request_parts import is_host
from dblog.errors import ConfigError

CONNECTOR_CLIENTS = (
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    "schema.history.internal.producer.",
    "schema.history.internal.consumer.",
    "signal.consumer.",
)
"""Prefixes of client settings in a connector's configuration."""

HISTORY_SERVERS = "schema.history.internal.kafka.bootstrap.servers"
SIGNAL_SERVERS = "signal.kafka.bootstrap.servers"

_OVERRIDES = ("producer.override.", "consumer.override.", "admin.override.")

_JAVA_ONLY = re.compile(
    r"(key|value)\.(de)?serializer(\..*)?|interceptor\.classes|metrics?\..+|auto\.include\.jmx\.reporter|enable\.metrics\.push|max\.block\.ms|"
    r"buffer\.memory|send\.buffer\.bytes|receive\.buffer\.bytes|partition\.assignment\.strategy|partition\.assignment\.uniform.*|"
    r"partitioner\.(class|ignore\.keys|adaptive\.partitioning\.enable|availability\.timeout\.ms)|max\.poll\.records|client\.dns\.lookup|"
    r"security\.providers|compression\.(gzip|lz4|zstd)\.level|config\.providers(\..+)?|"
    r"metadata\.(recovery\..+|max\.idle\.ms)|default\.api\.timeout\.ms|exclude\.internal\.topics|"
    r"socket\.connection\.setup\.timeout\.max\.ms|bootstrap\.controllers|confluent\..+|"
    r"transaction\.two\.phase\.commit\.enable|share\..+|internal\..+|"
    r"sasl\.(client|server)\.callback\.handler\.class|sasl\.login\..+|sasl\.kerberos\..+|"
    r"sasl\.oauthbearer\.(jwks\..+|scope\.claim\.name|sub\.claim\.name|header\..+|clock\.skew\.seconds|expected\..+)|"
    r"ssl\.(truststore\.(type|password)|keystore\.type|protocol|provider|enabled\.protocols|engine\.factory\.class|(key|trust)manager\.algorithm|"
    r"secure\.random\.implementation|client\.auth)"
)
"""Settings of the Java clients without a counterpart here. They are accepted and ignored, so that a
configuration made for Kafka Connect works.
"""

_SPELLINGS = {
    "max.request.size": "message.max.bytes",
    "compression.type": "compression.codec",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}

_SAME_NAMES = """
acks allow.auto.create.topics api.version.request api.version.request.timeout.ms auto.commit.interval.ms auto.offset.reset batch.num.messages
batch.size bootstrap.servers broker.address.family broker.address.ttl broker.version.fallback check.crcs client.id client.rack compression.codec
compression.level connections.max.idle.ms debug delivery.timeout.ms enable.auto.commit enable.gapless.guarantee enable.idempotence
enable.ssl.certificate.verification fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
linger.ms log.connection.close log_level max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms metadata.max.age.ms partitioner queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages receive.message.max.bytes reconnect.backoff.max.ms
reconnect.backoff.ms request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms sasl.mechanism sasl.mechanisms
sasl.password sasl.username security.protocol session.timeout.ms socket.blocking.max.ms
socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.sigalgs.list
statistics.interval.ms sticky.partitioning.linger.ms topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
"""
_SAME = frozenset(_SAME_NAMES.split())
"""Names that are passed on unchanged."""

CLIENT_CHOICES = frozenset(
    [
        "read_committed",
        "read_uncommitted",
        "consistent",
        "consistent_random",
        "murmur2_random",
        "fnv1a_random",
        "cooperative-sticky",
        "roundrobin",
        "scram-sha-256",
        "scram-sha-512",
        "oauthbearer",
        "basic",
        "auth_none",
        "user_info",
        "sasl_inherit",
        "earliest",
        "smallest",
        "beginning",
        "disabled",
        "required",
        "requested",
    ]
)
"""Values that settings of clients and converters choose from, in lower case: those of 8 letters or
more, and some shorter ones.
"""

_WORKER_ONLY_NAMES = """
enable.sasl.oauthbearer.unsecure.jwt sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
"""
_WORKER_ONLY = frozenset(_WORKER_ONLY_NAMES.split())
"""Settings that make a client fetch a token from any address. Allowed in the worker's own file, not
in a connector.
"""

_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")


def to_librdkafka(java: Mapping[str, str], *, of_worker: bool = False) -> dict[str, str]:
    """Return settings in librdkafka's names, without those that only a JVM knows.

    ``sasl.jaas.config`` becomes user name and password (PLAIN and SCRAM logins). PEM truststores
    work; librdkafka cannot read Java keystores, so these are refused rather than ignored.
    ``of_worker`` is True for settings of the worker's own file. Raise ConfigError naming every key
    that may not be given.
    """
    out: dict[str, str] = {}
    refused: dict[str, list[str]] = {}
    for name, given in java.items():
        text = given if "password" in name else given.strip()  # Java strips blanks around a value
        if name == "sasl.jaas.config":
            try:
                out |= _login(text, of_worker=of_worker)
            except JaasError as e:
                refused[name] = [str(e)]
        elif name == "ssl.endpoint.identification.algorithm":
            out[name] = text.strip() or "none"
        elif name == "ssl.cipher.suites" and (suites := CipherSuites.of(text)):
            if suites.of_tls_1_2:
                out[name] = suites.openssl_list
            elif not of_worker or java.get("security.protocol", "").strip().upper() in ("SSL", "SASL_SSL"):
                refused[name] = [_OF_TLS_1_3_ALONE]  # otherwise the list is for the worker's listeners
        elif name == "ssl.truststore.location":
            if java.get("ssl.truststore.type", "JKS").strip().upper() != "PEM":
                kind = "not PEM" if "ssl.truststore.type" in java else "JKS, its default"
                reason = (
                    f"only PEM can be read, and ssl.truststore.type is {kind}; name a file of PEM certificates here and set ssl.truststore.type=PEM "
                    "(keytool -exportcert -rfc writes a certificate of a Java store as PEM)"
                )
                refused[name] = [reason]
            out["ssl.ca.location"] = text
        elif name == "ssl.keystore.location" and java.get("ssl.keystore.type", "JKS").strip().upper() == "PEM":
            out["ssl.certificate.location"] = text
            out["ssl.key.location"] = text
        elif (spelt := _SPELLINGS.get(name, name)) in _SAME or name in _SPELLINGS or (of_worker and name in _WORKER_ONLY):
            out[spelt] = text
        elif not _JAVA_ONLY.fullmatch(name):
            refused[name] = [_WORKERS if name in _WORKER_ONLY else _REFUSED]
    if refused:
        raise ConfigError(refused)
    return out


def _login(text: str, *, of_worker: bool) -> dict[str, str]:
    """Return user name and password of ``sasl.jaas.config``.

    Raise JaasError, which quotes only the name of a login module.
    """
    try:
        modules = parse_modules(text)
    except JaasError:
        modules = ()
    if len(modules) != 1:
        raise JaasError(f"is not the login of one module, such as: {_LOGIN_EXAMPLE}")
    given = modules[0].class_name.rpartition(".")[2]
    if of_worker and given == "OAuthBearerLoginModule":
        return {}  # its settings are sasl.oauthbearer.*
    if given not in _PASSWORD_MODULES:
        shown = f"the login module {given}" if _MODULE_NAME.fullmatch(given) else "its login module"
        raise JaasError(f"{shown} cannot be used by connectors of this worker, which have {', '.join(_PASSWORD_MODULES)}")
    options = modules[0].options
    if not options.get("username") or "password" not in options:
        raise JaasError(f"{given} needs a username and a password: {_LOGIN_EXAMPLE}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


_MODULE_NAME = re.compile(r"[A-Za-z0-9_]{1,100}LoginModule")
_LOGIN_EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'


def connector_client(config: Mapping[str, str], prefix: str) -> dict[str, str | NamedFile]:
    """Return a connector's settings of one client, in librdkafka's names, with files as
    ``NamedFile``.

    Raise ConfigError like ``to_librdkafka``.
    """
    given = {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix)}
    settings: dict[str, str | NamedFile] = dict(to_librdkafka(given))
    for key, store in CLIENT_FILES.items():
        if (path := settings.get(key)) and path != "probe":
            settings[key] = NamedFile(
                prefix + (key if key in given else store), str(path), "a PEM or PKCS12 file with certificates or a key"
            )
    return settings


CLIENT_FILES = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.crl.location": "ssl.crl.location",
}
"""librdkafka's file settings, each with the Java clients' setting that it may come from. The value
``probe`` means the machine's own authorities.
"""


def beside(worker: Mapping[str, str], own: Mapping[str, str | NamedFile]) -> dict[str, str | NamedFile]:
    """Return the worker's settings of a client, overridden by a connector's.

    The worker's login is never sent to a server that a connector chose. If the connector names
    other brokers, or another login or encryption, it brings its own login or has none. (Kafka
    Connect merges them, and so reveals its password to users who may override bootstrap.servers.)
    """
    known = _servers(worker.get("bootstrap.servers", ""))
    elsewhere = not _servers(str(own.get("bootstrap.servers", ""))) <= known or any(_SECURITY.match(key) for key in own)
    return {**{key: text for key, text in worker.items() if not (elsewhere and _CREDENTIAL.fullmatch(key))}, **own}


def _servers(text: str) -> frozenset[str]:
    return frozenset(server.strip() for server in text.split(",") if server.strip())


_SECURITY = re.compile(r"security\.|sasl\.|ssl\.|enable\.ssl|enable\.sasl")
_CREDENTIAL = re.compile(r"sasl\.(username|password|oauthbearer\..+)|ssl\.(key|certificate|keystore)\..+")

_REFUSED = (
    "this setting of a Kafka client may not be given: the Java clients do not have it, and this worker does not hand it on to librdkafka"
)
_OF_TLS_1_3_ALONE = (
    "lists suites of TLS 1.3 alone, and librdkafka's clients cannot be kept from TLS 1.2: list suites of that too, or remove the key (with a broker that "
    "has TLS 1.3 it is spoken)"
)
_WORKERS = "this setting makes the client ask an address for its token; give it in the worker's configuration, a connector may not"


def check_connector_clients(config: Mapping[str, str], policy: OverridePolicy) -> dict[str, list[str]]:
    """Return the errors in a connector's client settings, by full key.

    ``policy`` applies only to ``*.override.*``, as in Kafka Connect.
    """
    errors: dict[str, list[str]] = {}
    for prefix in CONNECTOR_CLIENTS:
        given = {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix)}
        for key in given:
            if prefix in _OVERRIDES and not policy.allows(key):
                text = f"The '{policy.name}' policy does not allow '{key}' to be overridden in the connector configuration."
                errors.setdefault(prefix + key, []).append(text)
        try:
            to_librdkafka(given)
        except ConfigError as e:
            for key, texts in e.errors.items():
                errors.setdefault(prefix + key, []).extend(texts)
    for key in (HISTORY_SERVERS, SIGNAL_SERVERS, *(f"{prefix}bootstrap.servers" for prefix in CONNECTOR_CLIENTS)):
        if (wrong := _wrong_servers(config.get(key, ""))) is not None:
            errors.setdefault(key, []).append(wrong)
    return errors


def _wrong_servers(text: str) -> str | None:
    """Return what is wrong with a list of servers, or None.

    A client starts a thread for each server. A server that the client reads in another way would
    not be the one that ``config/hosts.py`` has checked.
    """
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if len(servers) > _SERVERS_MAX:
        return f"{len(servers)} servers are listed; name at most {_SERVERS_MAX}, the client learns the others from them"
    if not all((found := _SERVER.fullmatch(server)) and is_host(found[1].strip("[]")) for server in servers):
        return "a server is written as host:port"
    return None


_SERVERS_MAX = 20
_SERVER = re.compile(r"(?:(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(\[[^\]]*\]|[^\[\]:/\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)

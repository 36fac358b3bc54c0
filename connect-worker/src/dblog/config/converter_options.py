"""Options of the converters, below ``key.converter.`` or ``value.converter.``: Kafka's JSON and
string converters, Debezium's of bytes and of CloudEvents, and Confluent's Avro converter.

Sources: ``JsonConverterConfig``, ``StringConverterConfig`` (Kafka); ``AvroConverterConfig``,
``AvroDataConfig``, ``AbstractKafkaSchemaSerDeConfig`` and ``SchemaRegistryClientConfig`` (Schema
Registry's reference pages).
"""

from __future__ import annotations

from dblog.config.options import Importance, Kind, Option


def _low(name: str, doc: str, *, default: str | None = None, kind: Kind = Kind.STRING) -> Option:
    return Option(name=name, doc=doc, default=default, kind=kind, importance=Importance.LOW)


def _without_effect(
    name: str, doc: str, *, because: str, default: str | None = None, kind: Kind = Kind.STRING, importance: Importance = Importance.LOW
) -> Option:
    return Option(name=name, doc=doc, default=default, kind=kind, importance=importance, no_effect=because)


_STRATEGIES = "TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy, with or without its package."
_BY_TEXT = "a schema is registered or looked up by its text"
_OWN_CACHE = "schemas are kept as long as their tables have them"
_STATIC = "the token is that of bearer.auth.token"
_TLS = "TLS 1.2 or later is used"
_FILES = "certificates and keys are read from the files of schema.registry.ssl.truststore.location and keystore.location"
_OWN_LIMIT = "a request has a limit of its own, and is repeated as long as dblog.retry.timeout.ms allows"
_NO_SUCH_SCHEMAS = "no record here has a map, a union or an enum, which it is for"

JSON_OPTIONS = (
    Option(
        name="schemas.enable", doc="Writes the schema beside every value.", kind=Kind.BOOLEAN, default="true", importance=Importance.HIGH
    ),
    _without_effect(
        "schemas.cache.size", "Number of cached schemas.", default="1000", kind=Kind.INT, importance=Importance.HIGH, because=_OWN_CACHE
    ),
    _without_effect("schema.content", "Schema for values that have none.", because="it is for sinks"),
    Option(
        name="decimal.format",
        doc="Form of decimals in JSON: BASE64 (text of bytes) or NUMERIC (numbers).",
        default="BASE64",
        choices=("BASE64", "NUMERIC"),
        importance=Importance.LOW,
    ),
    _low("replace.null.with.default", "Writes a field's default instead of null.", kind=Kind.BOOLEAN, default="true"),
)
STRING_OPTIONS = (
    Option(
        name="converter.encoding",
        doc="Character set of the text, by Java's name. A character that it lacks becomes a question mark.",
        default="UTF-8",
        choices=(
            *("UTF-8", "UTF8", "US-ASCII", "ASCII", "ISO-8859-1", "LATIN1", "ISO-8859-15", "WINDOWS-1252"),
            *("UTF-16", "UTF-16BE", "UTF-16LE"),
        ),
    ),
)
BINARY_OPTIONS = (
    Option(
        name="delegate.converter.type",
        doc="Class of the converter for values that are no bytes; its settings stand below this key. Absent: such a value is an error.",
        kind=Kind.CLASS,
        importance=Importance.LOW,
    ),
)
AVRO_OPTIONS = (
    Option(
        name="schema.registry.url",
        doc="URLs of the schema registry. If absent, it is the worker's own.",
        kind=Kind.LIST,
        importance=Importance.HIGH,
    ),
    Option(
        name="auto.register.schemas",
        doc="If true, new schemas are registered; otherwise they must be registered already.",
        kind=Kind.BOOLEAN,
        default="true",
    ),
    _low(
        "use.latest.version",
        "Writes with the subject's newest schema, which must have the same fields in the same order.",
        kind=Kind.BOOLEAN,
        default="false",
    ),
    _low("normalize.schemas", "Asks the registry to normalize schemas.", kind=Kind.BOOLEAN, default="false"),
    _low("connect.meta.data", "Writes Connect's names, versions and parameters into schemas.", kind=Kind.BOOLEAN, default="true"),
    _low("key.subject.name.strategy", f"How a key's subject is named: {_STRATEGIES}", default="TopicNameStrategy"),
    _low("value.subject.name.strategy", f"How a value's subject is named: {_STRATEGIES}", default="TopicNameStrategy"),
    Option(
        name="basic.auth.credentials.source",
        doc="Origin of the login at the registry: URL (part of the registry's URL) or USER_INFO (basic.auth.user.info).",
        default="URL",
        choices=("URL", "USER_INFO"),
    ),
    Option(name="basic.auth.user.info", doc="Login at the registry, as user:password.", kind=Kind.PASSWORD),
    _low("schema.registry.basic.auth.user.info", "Older name of basic.auth.user.info.", kind=Kind.PASSWORD),
    _low("bearer.auth.token", "Bearer token that is sent with every request to the registry.", kind=Kind.PASSWORD),
    _low("proxy.host", "Host name of a proxy for requests to the registry."),
    _low("proxy.port", "Port of the proxy.", kind=Kind.INT),
    _low(
        "schema.registry.ssl.truststore.location",
        ("PEM file with the certificate authorities that are trusted for the issuer's URL. If absent, they are the machine's."),
    ),
    _low("schema.registry.ssl.truststore.type", "PEM.", default="JKS"),
    _low("schema.registry.ssl.keystore.location", "PEM with a private key and its certificate."),
    _low("schema.registry.ssl.keystore.type", "PEM.", default="JKS"),
    _low("schema.registry.ssl.key.password", "Password of the private key.", kind=Kind.PASSWORD),
    _without_effect("schema.registry.ssl.truststore.password", "Password of the certificates.", because="PEM needs none"),
    _without_effect("schema.registry.ssl.keystore.password", "Password of the key store.", because="PEM needs none"),
    _without_effect("bearer.auth.credentials.source", "Where the token comes from.", because=_STATIC),
    _without_effect("bearer.auth.issuer.endpoint.url", "Issuer of tokens.", because=_STATIC),
    _without_effect("bearer.auth.client.id", "Client id at the issuer.", because=_STATIC),
    _without_effect("bearer.auth.client.secret", "Client secret at the issuer.", kind=Kind.PASSWORD, because=_STATIC),
    _without_effect("bearer.auth.scope", "Scope that is asked for.", because=_STATIC),
    _without_effect("bearer.auth.logical.cluster", "Logical cluster, sent as a header.", because=_STATIC),
    _without_effect("bearer.auth.identity.pool.id", "Identity pool, sent as a header.", because=_STATIC),
    _without_effect("schema.registry.ssl.protocol", "Version of TLS.", because=_TLS),
    _without_effect("schema.registry.ssl.enabled.protocols", "Versions of TLS.", because=_TLS),
    _without_effect("schema.registry.ssl.truststore.certificates", "Certificates as text.", because=_FILES),
    _without_effect("schema.registry.ssl.keystore.certificate.chain", "Certificates as text.", because=_FILES),
    _without_effect("schema.registry.ssl.keystore.key", "The key as text.", kind=Kind.PASSWORD, because=_FILES),
    _without_effect("use.schema.id", "Write by the schema of this id.", default="-1", because=_BY_TEXT),
    _without_effect("latest.compatibility.strict", "Check the newest schema.", default="true", because="its layout is always checked"),
    _without_effect("id.compatibility.strict", "Check the schema of use.schema.id.", default="true", because=_BY_TEXT),
    _without_effect("latest.cache.size", "Newest schemas kept.", default="1000", because=_OWN_CACHE),
    _without_effect("latest.cache.ttl.sec", "How long they are kept.", default="-1", because=_OWN_CACHE),
    _without_effect("max.schemas.per.subject", "Schemas kept of a subject.", default="1000", because=_OWN_CACHE),
    _without_effect("schemas.cache.config", "Number of cached schemas.", default="1000", because=_OWN_CACHE),
    _without_effect("enhanced.avro.schema.support", "Keep packages, enums and unions.", default="false", because=_NO_SUCH_SCHEMAS),
    _without_effect("generalized.sum.type.support", "Keep unions.", default="false", because=_NO_SUCH_SCHEMAS),
    _without_effect("flatten.unions", "Unions in records.", default="false", because=_NO_SUCH_SCHEMAS),
    _without_effect("flatten.singleton.unions", "Unions of one.", default="false", because=_NO_SUCH_SCHEMAS),
    _without_effect("allow.optional.map.keys", "Maps with such keys.", default="false", because=_NO_SUCH_SCHEMAS),
    _without_effect(
        "scrub.invalid.names",
        "Replace what Avro allows in no name.",
        default="false",
        because="schema.name.adjustment.mode and field.name.adjustment.mode of the connector do that",
    ),
    _without_effect(
        "ignore.default.for.nullables", "Write null, not the default.", default="false", because="null is always written as null"
    ),
    _without_effect("discard.type.doc.default", "Leave docs and defaults out.", default="false", because="they are written"),
    _without_effect("http.connect.timeout.ms", "Longest wait for a connection.", default="60000", because=_OWN_LIMIT),
    _without_effect("http.read.timeout.ms", "Longest wait for an answer.", default="60000", because=_OWN_LIMIT),
    _without_effect("schema.reflection", "Schemas from Java classes.", default="false", because="there are no Java classes"),
)
CLOUD_EVENTS_OPTIONS = (
    Option(
        name="serializer.type",
        doc="Form of the event.",
        default="json",
        choices=("json", "avro"),
        importance=Importance.HIGH,
    ),
    Option(
        name="data.serializer.type",
        doc="Form of the row's images inside the event; events in Avro have avro. Settings of both stand below json. and avro.",
        default="json",
        choices=("json", "avro"),
        importance=Importance.HIGH,
    ),
    _low("extension.attributes.enable", "Adds the operation, the source block and the transaction.", kind=Kind.BOOLEAN, default="true"),
    _low("schema.cloudevents.name", "Name of the event's schema; absent: <prefix>.<database>.CloudEvents.Envelope."),
    Option(
        name="schema.name.adjustment.mode",
        doc="Replacement of characters that Avro does not allow in that name.",
        default="avro",
        choices=("none", "avro", "avro_unicode"),
        importance=Importance.LOW,
    ),
    _low(
        "metadata.source",
        "Origin of an event's parts; only the record's value, and what is generated of it.",
        kind=Kind.LIST,
        default="value,id:generate,type:generate,traceparent:header,dataSchemaName:generate",
    ),
    _low("opentelemetry.tracing.attributes.enable", "Adds traceparent; only false here.", kind=Kind.BOOLEAN, default="false"),
    _low(
        "schema.data.name.source.header.enable",
        "Takes the data's schema name from a header; only false here.",
        kind=Kind.BOOLEAN,
        default="false",
    ),
)
CONVERTER_OPTIONS = (*JSON_OPTIONS, *STRING_OPTIONS, *BINARY_OPTIONS, *CLOUD_EVENTS_OPTIONS, *AVRO_OPTIONS)

"""The options that Kafka Connect itself reads in a source connector's configuration, in Connect's
order.

Kafka's own system test asserts this set, and clients build forms from it. Names, types, defaults,
importance and groups are Connect 4.3's (``ConnectorConfig``, ``SourceConnectorConfig``); the
phrasing is ours. A value that asks for something this worker does not have is refused with the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count

from dblog.config.options import Check, Importance, Kind, Option, Value, Width, at_least, only

COMMON = "Common"
TRANSFORMS = "Transforms"
PREDICATES = "Predicates"
ERRORS = "Error Handling"
TOPIC_CREATION = "Topic Creation"
EXACTLY_ONCE = "Exactly Once Support"
OFFSETS_TOPIC = "offsets.topic"

GROUPS = (COMMON, TRANSFORMS, PREDICATES, ERRORS, TOPIC_CREATION, EXACTLY_ONCE, OFFSETS_TOPIC)

CONVERTER_CLASSES = (
    "org.apache.kafka.connect.json.JsonConverter",
    "io.confluent.connect.avro.AvroConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter",
    "org.apache.kafka.connect.converters.BooleanConverter",
    "org.apache.kafka.connect.converters.ShortConverter",
    "org.apache.kafka.connect.converters.IntegerConverter",
    "org.apache.kafka.connect.converters.LongConverter",
    "org.apache.kafka.connect.converters.FloatConverter",
    "org.apache.kafka.connect.converters.DoubleConverter",
    "io.debezium.converters.BinaryDataConverter",
    "io.debezium.converters.ByteArrayConverter",
    "io.debezium.converters.CloudEventsConverter",
)
"""Key and value converters that a task can run."""
AVRO_CONVERTER = CONVERTER_CLASSES[1]
BINARY_CONVERTER_CLASSES = ("io.debezium.converters.BinaryDataConverter", "io.debezium.converters.ByteArrayConverter")
"""Debezium's converters of bytes, with another converter for other values."""

APICURIO_AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_APICURIO = (
    "Apicurio's registry speaks Confluent's interface too; use {instead}, with schema.registry.url=http://<registry>/apis/ccompat/v7 in place of "
    "apicurio.registry.*, and let readers take Confluent's deserializer"
)
REFUSED_CONVERTERS = {
    "io.confluent.connect.json.JsonSchemaConverter": (
        "this worker writes no JSON Schema; use org.apache.kafka.connect.json.JsonConverter, whose records carry their schema, or "
        "io.confluent.connect.avro.AvroConverter with the same registry"
    ),
    "io.confluent.connect.protobuf.ProtobufConverter": (
        "this worker writes no Protobuf; use io.confluent.connect.avro.AvroConverter with the same registry"
    ),
    APICURIO_AVRO: _APICURIO.format(instead="io.confluent.connect.avro.AvroConverter"),
    "io.apicurio.registry.utils.converter.ExtJsonConverter": _APICURIO.format(
        instead="io.confluent.connect.avro.AvroConverter, or without a registry org.apache.kafka.connect.json.JsonConverter"
    ),
}
"""Converters that people use and that do not run here, with the reason and the remedy."""

CONVERTER_PREFIXES = (
    *("value.converter.avro.", "value.converter.json."),
    *("key.converter.delegate.converter.type.", "value.converter.delegate.converter.type."),
    *("key.converter.", "value.converter."),
)
"""Prefixes of converters' settings. Those of converters inside others come first."""

HEADER_CONVERTER_CLASSES = ("org.apache.kafka.connect.storage.SimpleHeaderConverter",)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NAME_BYTES_MAX = 2000
"""Up to 6000 bytes in a path, where many HTTP servers and proxies accept 8 KB. Kafka Connect
creates longer names too, and then nobody can delete them.
"""
_ONE_VERSION = "this worker has exactly one version of every plugin; remove the key"


def class_known(known: tuple[str, ...], suffix: str) -> Check:
    """Return a check for a class by full name, simple name, or simple name without its usual suffix
    (Connect's aliases).
    """
    names = {name for full in known for name in (full, full.rsplit(".", 1)[1], full.rsplit(".", 1)[1].removesuffix(suffix))}

    def check(value: Value, _all: Mapping[str, Value]) -> str | None:
        if (reason := REFUSED_CONVERTERS.get(str(value))) is not None:
            return f"Class {{value}} does not run in this worker: {reason}."
        return None if value in names else f"Class {{value}} could not be found; this worker has {', '.join(known)}."

    return check


def _connector_name(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "String may not be empty"
    if found := _CONTROL.findall(value):
        return f"String may not contain control sequences but had the following ASCII chars: {', '.join(str(ord(c)) for c in found)}"
    if value.strip() in (".", ".."):
        return "String may not be a dot or two, which clients of HTTP take out of a path"
    if len(value.encode(errors="replace")) > _NAME_BYTES_MAX:
        return f"String may not have more than {_NAME_BYTES_MAX} bytes, or no request's path could have it"
    return None


def _unique_aliases(value: Value, _all: Mapping[str, Value]) -> str | None:
    return "Duplicate alias provided." if isinstance(value, tuple) and len(set(value)) < len(value) else None


def _framework_options() -> tuple[Option, ...]:
    return (
        Option(
            name="name",
            doc="Name of this connector, unique in the cluster of workers.",
            required=True,
            importance=Importance.HIGH,
            group=COMMON,
            label="Connector name",
            check=_connector_name,
        ),
        Option(
            name="connector.class",
            doc="Class of this connector: its full name, its simple name, or the simple name without the suffix Connector.",
            required=True,
            importance=Importance.HIGH,
            group=COMMON,
            width=Width.LONG,
            label="Connector class",
        ),
        Option(
            name="connector.plugin.version",
            doc="Version range of the connector's plugin.",
            group=COMMON,
            label="Connector version",
            refused=only(because=_ONE_VERSION),
        ),
        Option(
            name="tasks.max",
            no_effect="a log is read by one task",
            doc="Maximum number of tasks of this connector.",
            kind=Kind.INT,
            default="1",
            importance=Importance.HIGH,
            group=COMMON,
            width=Width.SHORT,
            label="Tasks max",
            check=at_least(1),
        ),
        Option(
            name="tasks.max.enforce",
            no_effect="a connector never makes more than one task",
            doc="If true, a connector that creates more tasks than tasks.max fails (deprecated in Kafka Connect).",
            kind=Kind.BOOLEAN,
            default="true",
            importance=Importance.LOW,
            group=COMMON,
            width=Width.SHORT,
            label="Enforce tasks max",
        ),
        _converter("key.converter", "Converter of record keys; absent: the worker's, with its settings.", "Key converter class"),
        _version("key.converter.plugin.version", "Version range of the key converter.", "Key converter version"),
        _converter("value.converter", "Converter of record values; absent: the worker's, with its settings.", "Value converter class"),
        _version("value.converter.plugin.version", "Version range of the value converter.", "Value converter version"),
        Option(
            name="header.converter",
            doc="Converter of record headers. If absent, it is the worker's.",
            kind=Kind.CLASS,
            importance=Importance.LOW,
            group=COMMON,
            width=Width.SHORT,
            label="Header converter class",
            choices=(),
            check=class_known(HEADER_CONVERTER_CLASSES, "Converter"),
        ),
        _version("header.converter.plugin.version", "Version range of the header converter.", "Header converter version"),
        Option(
            name="transforms",
            doc="Names of the transformations that are applied to records, in this order.",
            kind=Kind.LIST,
            default="",
            importance=Importance.LOW,
            group=TRANSFORMS,
            width=Width.LONG,
            label="Transforms",
            check=_unique_aliases,
        ),
        Option(
            name="predicates",
            doc="Names of the predicates that transformations use.",
            kind=Kind.LIST,
            default="",
            importance=Importance.LOW,
            group=PREDICATES,
            width=Width.LONG,
            label="Predicates",
            check=_unique_aliases,
        ),
        Option(
            name="config.action.reload",
            no_effect="the values of config providers here do not expire",
            doc="Reaction when the value of a config provider expires: restart restarts the connector, none does nothing.",
            default="restart",
            importance=Importance.LOW,
            group=COMMON,
            label="Reload Action",
            choices=("none", "restart"),
        ),
        Option(
            name="errors.retry.timeout",
            no_effect="converters wait for the registry as long as dblog.retry.timeout.ms allows, and transformations ask nobody",
            doc="Time during which a failed operation is repeated; 0 means that it is not, -1 that there is no limit.",
            kind=Kind.LONG,
            default="0",
            unit="ms",
            group=ERRORS,
            label="Retry Timeout for Errors",
        ),
        Option(
            name="errors.retry.delay.max.ms",
            no_effect="converters wait for the registry as long as dblog.retry.timeout.ms allows, and transformations ask nobody",
            doc="Maximum pause between two attempts.",
            kind=Kind.LONG,
            default="60000",
            unit="ms",
            group=ERRORS,
            label="Maximum Delay Between Retries for Errors",
        ),
        Option(
            name="errors.tolerance",
            doc="none: a record that cannot be transformed or written fails the task. all: it is logged, counted and left out.",
            default="none",
            group=ERRORS,
            width=Width.SHORT,
            label="Error Tolerance",
            choices=("none", "all"),
        ),
        Option(
            name="errors.log.enable",
            no_effect="every error is logged in any case",
            doc="Logs every error, including tolerated ones.",
            kind=Kind.BOOLEAN,
            default="false",
            group=ERRORS,
            width=Width.SHORT,
            label="Log Errors",
        ),
        Option(
            name="errors.log.include.messages",
            no_effect="a line about a refused record has its topic and partition in any case, and never its values",
            doc="Adds topic, partition, offset and time to those log lines. Values of rows are never logged.",
            kind=Kind.BOOLEAN,
            default="false",
            group=ERRORS,
            width=Width.SHORT,
            label="Log Error Details",
        ),
        Option(
            name="topic.creation.groups",
            doc="Names of groups of topics that the worker creates with settings of their own (topic.creation.<group>.*).",
            kind=Kind.LIST,
            default="",
            importance=Importance.LOW,
            group=TOPIC_CREATION,
            width=Width.LONG,
            label="Topic Creation Groups",
            check=_unique_aliases,
        ),
        Option(
            name="exactly.once.support",
            doc=(
                "requested: records are written exactly once if the worker supports it. required: a worker that "
                "does not support it refuses the connector."
            ),
            default="requested",
            group=EXACTLY_ONCE,
            width=Width.SHORT,
            label="Exactly once support",
            choices=("requested", "required"),
            refused=only("requested", because="This worker does not have exactly-once source support enabled."),
        ),
        Option(
            name="transaction.boundary",
            doc="End of a transaction under exactly-once: with each poll, after an interval, or where the connector decides.",
            default="poll",
            group=EXACTLY_ONCE,
            width=Width.SHORT,
            label="Transaction Boundary",
            choices=("poll", "connector", "interval"),
            refused=only(
                "poll",
                "interval",
                because="The connector does not support connector-defined transaction boundaries with the provided configuration.",
            ),
        ),
        Option(
            name="transaction.boundary.interval.ms",
            no_effect="exactly-once source support is not there yet",
            doc="Duration of a transaction under transaction.boundary=interval. If absent, it is the worker's offset.flush.interval.ms.",
            kind=Kind.LONG,
            unit="ms",
            importance=Importance.LOW,
            group=EXACTLY_ONCE,
            label="Transaction boundary interval",
            check=at_least(0),
        ),
        Option(
            name="offsets.storage.topic",
            doc="Offsets topic of this connector alone.",
            importance=Importance.LOW,
            group=OFFSETS_TOPIC,
            width=Width.LONG,
            label="Offsets topic",
            refused=only(because="this worker keeps offsets in its own offset.storage.topic only; remove the key"),
        ),
    )


def _converter(name: str, doc: str, label: str) -> Option:
    return Option(
        name=name,
        doc=doc,
        kind=Kind.CLASS,
        importance=Importance.LOW,
        group=COMMON,
        width=Width.SHORT,
        label=label,
        check=class_known(CONVERTER_CLASSES, "Converter"),
    )


def _version(name: str, doc: str, label: str) -> Option:
    return Option(name=name, doc=doc, importance=Importance.LOW, group=COMMON, label=label, refused=only(because=_ONE_VERSION))


FRAMEWORK_OPTIONS = _framework_options()
"""Connect's options of a source connector, in its order."""


def orders_in_groups(options: tuple[Option, ...]) -> dict[str, int]:
    """Return each option's number within its group, from 1, as in the validate answer."""
    counters: dict[str | None, count[int]] = {}
    return {option.name: next(counters.setdefault(option.group, count(1))) for option in options}

"""Lists the transforms and predicates of this worker, and those of Connect and Debezium that it
refuses by name.
"""

from __future__ import annotations

from dblog.transforms.extract_field import EXTRACT_FIELD
from dblog.transforms.extract_new_record_state import EXTRACT_NEW_RECORD_STATE
from dblog.transforms.filter import FILTER
from dblog.transforms.parts import Part
from dblog.transforms.plugin import PredicatePlugin, TransformPlugin
from dblog.transforms.predicates import PREDICATES
from dblog.transforms.regex_router import REGEX_ROUTER
from dblog.transforms.replace_field import REPLACE_FIELD

TRANSFORM_PLUGINS: tuple[TransformPlugin, ...] = (
    EXTRACT_NEW_RECORD_STATE,
    EXTRACT_FIELD,
    FILTER,
    REGEX_ROUTER,
    REPLACE_FIELD,
)

PREDICATE_PLUGINS: tuple[PredicatePlugin, ...] = PREDICATES

_KAFKA, _DEBEZIUM = "org.apache.kafka.connect.transforms", "io.debezium.transforms"
_NOT_YET = "it is not there yet"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            f"{_KAFKA}.Cast",
            f"{_KAFKA}.DropHeaders",
            f"{_KAFKA}.Flatten",
            f"{_KAFKA}.HeaderFrom",
            f"{_KAFKA}.HoistField",
            f"{_KAFKA}.InsertField",
            f"{_KAFKA}.InsertHeader",
            f"{_KAFKA}.MaskField",
            f"{_KAFKA}.SetSchemaMetadata",
            f"{_KAFKA}.TimestampConverter",
            f"{_KAFKA}.TimestampRouter",
            f"{_KAFKA}.ValueToKey",
            f"{_DEBEZIUM}.ByLogicalTableRouter",
            f"{_DEBEZIUM}.ContentBasedRouter",
            f"{_DEBEZIUM}.EnforceRecordSize",
            f"{_DEBEZIUM}.ExtractChangedRecordState",
            f"{_DEBEZIUM}.ExtractSchemaToNewRecord",
            f"{_DEBEZIUM}.Filter",
            f"{_DEBEZIUM}.GeometryFormatTransformer",
            f"{_DEBEZIUM}.HeaderToValue",
            f"{_DEBEZIUM}.SchemaChangeEventFilter",
            f"{_DEBEZIUM}.SwapGeometryCoordinates",
            f"{_DEBEZIUM}.TimezoneConverter",
            f"{_DEBEZIUM}.ToLogicalTopicRouter",
            f"{_DEBEZIUM}.VectorToJsonConverter",
            f"{_DEBEZIUM}.outbox.EventRouter",
            f"{_DEBEZIUM}.partitions.PartitionRouting",
            "io.debezium.connector.mysql.transforms.ReadToInsertEvent",
            "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
            "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb",
        ),
        _NOT_YET,
    ),
    f"{_DEBEZIUM}.openlineage.OpenLineage": "this worker reports no lineage; remove the transform",
    f"{_DEBEZIUM}.tracing.ActivateTracingSpan": "the worker writes its spans itself (dblog.tracing.enabled, docs/tracing.md); remove the transform",
}
"""Classes of Connect and Debezium that are not here, each with the reason."""


def find_transform(name: str) -> tuple[TransformPlugin, Part] | None:
    """Return the transform that a ``type`` names, by full or simple class name, and its part."""
    wanted = name.strip()
    for plugin in TRANSFORM_PLUGINS:
        simple = plugin.class_name.rpartition(".")[2]
        for part in plugin.parts:
            if wanted in (f"{plugin.class_name}${part.value}", f"{simple}${part.value}"):
                return plugin, part
        if not plugin.parts and wanted in (plugin.class_name, simple):
            return plugin, Part.VALUE
    return None


def find_predicate(name: str) -> PredicatePlugin | None:
    """Return the predicate that a ``type`` names, by full or simple class name."""
    wanted = name.strip()
    return next((plugin for plugin in PREDICATE_PLUGINS if wanted in (plugin.class_name, plugin.class_name.rpartition(".")[2])), None)

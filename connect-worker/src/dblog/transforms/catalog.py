"""Lists the transforms and predicates of this worker, and those of Connect and Debezium that it
refuses by name.
"""

from __future__ import annotations

from dblog.transforms.cast import CAST
from dblog.transforms.changed_fields import EXTRACT_CHANGED_RECORD_STATE
from dblog.transforms.decode_message import DECODE_LOGICAL_DECODING_MESSAGE_CONTENT
from dblog.transforms.event_router import EVENT_ROUTER
from dblog.transforms.extract_field import EXTRACT_FIELD
from dblog.transforms.extract_new_record_state import EXTRACT_NEW_RECORD_STATE
from dblog.transforms.filter import FILTER
from dblog.transforms.flatten import FLATTEN
from dblog.transforms.header_to_value import HEADER_TO_VALUE
from dblog.transforms.headers import DROP_HEADERS, HEADER_FROM, INSERT_HEADER
from dblog.transforms.hoist_field import HOIST_FIELD
from dblog.transforms.insert_field import INSERT_FIELD
from dblog.transforms.logical_router import BY_LOGICAL_TABLE_ROUTER, TO_LOGICAL_TOPIC_ROUTER
from dblog.transforms.mask_field import MASK_FIELD
from dblog.transforms.partition_routing import PARTITION_ROUTING
from dblog.transforms.parts import Part
from dblog.transforms.plugin import PredicatePlugin, TransformPlugin
from dblog.transforms.predicates import PREDICATES
from dblog.transforms.read_to_insert import READ_TO_INSERT_EVENT
from dblog.transforms.regex_router import REGEX_ROUTER
from dblog.transforms.replace_field import REPLACE_FIELD
from dblog.transforms.schema_change_filter import SCHEMA_CHANGE_EVENT_FILTER
from dblog.transforms.scripting import CONTENT_BASED_ROUTER, SCRIPTED_FILTER
from dblog.transforms.set_schema_metadata import SET_SCHEMA_METADATA
from dblog.transforms.timestamp_converter import TIMESTAMP_CONVERTER
from dblog.transforms.timestamp_router import TIMESTAMP_ROUTER
from dblog.transforms.timezone_converter import TIMEZONE_CONVERTER
from dblog.transforms.value_to_key import VALUE_TO_KEY
from dblog.transforms.vector_to_json import VECTOR_TO_JSON_CONVERTER

TRANSFORM_PLUGINS: tuple[TransformPlugin, ...] = (
    READ_TO_INSERT_EVENT,
    DECODE_LOGICAL_DECODING_MESSAGE_CONTENT,
    BY_LOGICAL_TABLE_ROUTER,
    CONTENT_BASED_ROUTER,
    EXTRACT_CHANGED_RECORD_STATE,
    EXTRACT_NEW_RECORD_STATE,
    SCRIPTED_FILTER,
    HEADER_TO_VALUE,
    SCHEMA_CHANGE_EVENT_FILTER,
    TIMEZONE_CONVERTER,
    TO_LOGICAL_TOPIC_ROUTER,
    VECTOR_TO_JSON_CONVERTER,
    EVENT_ROUTER,
    PARTITION_ROUTING,
    CAST,
    DROP_HEADERS,
    EXTRACT_FIELD,
    FILTER,
    FLATTEN,
    HEADER_FROM,
    HOIST_FIELD,
    INSERT_FIELD,
    INSERT_HEADER,
    MASK_FIELD,
    REGEX_ROUTER,
    REPLACE_FIELD,
    SET_SCHEMA_METADATA,
    TIMESTAMP_CONVERTER,
    TIMESTAMP_ROUTER,
    VALUE_TO_KEY,
)
"""The transforms, in the order of their class names."""

PREDICATE_PLUGINS: tuple[PredicatePlugin, ...] = PREDICATES

_DEBEZIUM = "io.debezium.transforms"
_NOT_YET = "it is not there yet"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            f"{_DEBEZIUM}.EnforceRecordSize",
            f"{_DEBEZIUM}.ExtractSchemaToNewRecord",
            f"{_DEBEZIUM}.GeometryFormatTransformer",
            f"{_DEBEZIUM}.SwapGeometryCoordinates",
            "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb",
        ),
        _NOT_YET,
    ),
    f"{_DEBEZIUM}.openlineage.OpenLineage": "this worker reports no lineage; remove the transform",
    f"{_DEBEZIUM}.tracing.ActivateTracingSpan": "the worker writes its spans itself (dblog.tracing.enabled, docs/tracing.md); remove the transform",
}
"""Classes of Connect and Debezium that are not here, each with the reason."""


def find_transform(name: str) -> tuple[TransformPlugin, Part] | None:
    """Return the transform that a ``type`` names, by full or simple class name, and its part.

    Return None for a simple name that two classes have.
    """
    wanted = name.strip()
    found = [
        (plugin, part)
        for plugin in TRANSFORM_PLUGINS
        for part in plugin.parts or (Part.VALUE,)
        if wanted in _names_of(plugin.class_name + (f"${part.value}" if plugin.parts else ""))
    ]
    return found[0] if len(found) == 1 else None


def _names_of(class_name: str) -> tuple[str, str]:
    return class_name, class_name.rpartition(".")[2]


def find_predicate(name: str) -> PredicatePlugin | None:
    """Return the predicate that a ``type`` names, by full or simple class name."""
    wanted = name.strip()
    return next((plugin for plugin in PREDICATE_PLUGINS if wanted in (plugin.class_name, plugin.class_name.rpartition(".")[2])), None)

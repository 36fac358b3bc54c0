"""Options for how a change becomes a record, and for changes that cannot."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import EVENTS, LOW, bool_option, list_option, option
from dblog.config.options import Value, only, regexes

_PLACEHOLDER_CHARACTERS_MAX = 63


def _skipped_operations(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, tuple):
        return None
    if any(item not in ("none", "c", "u", "d", "t", "r") for item in value):
        return "Invalid operation"
    return "'none' cannot be specified with other skipped operation types" if "none" in value and len(value) > 1 else None


def _placeholder(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that the placeholder fits the shortest large object, of 255 bytes, in every character
    set.

    Debezium's hex: notation is not supported.
    """
    text = str(value)
    if not text.isascii() or not 0 < len(text) <= _PLACEHOLDER_CHARACTERS_MAX or text.startswith("hex:"):
        return f"1 to {_PLACEHOLDER_CHARACTERS_MAX} ASCII characters are expected, the first four of them not 'hex:'"
    return None


EVENT_OPTIONS = (
    option(
        name="decimal.handling.mode",
        doc="How DECIMAL and NUMERIC are written: exact bytes, text, or double.",
        default="precise",
        group=EVENTS,
        label="Decimal Handling",
        choices=("precise", "string", "double"),
    ),
    option(
        name="binary.handling.mode",
        doc="How binary columns are written.",
        default="bytes",
        importance=LOW,
        group=EVENTS,
        label="Binary Handling",
        choices=("bytes", "base64", "base64-url-safe", "hex"),
    ),
    option(
        name="schema.name.adjustment.mode",
        doc="How schema names are made fit for the converter.",
        default="none",
        group=EVENTS,
        label="Schema Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    option(
        name="field.name.adjustment.mode",
        doc="How field names are made fit for the converter.",
        default="none",
        group=EVENTS,
        label="Field Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    bool_option(
        name="tombstones.on.delete",
        doc="Whether a delete is followed by a record with the same key and no value, so that compaction can drop the key.",
        default="true",
        group=EVENTS,
        label="Emit tombstones",
    ),
    list_option(
        name="skipped.operations",
        doc="Operations that are not written: c, u, d, t, or none. While it has t, rows that a TRUNCATE or another statement takes away stay in the lake "
        "until a dump in mode repair; the status names such tables.",
        default="t",
        importance=LOW,
        group=EVENTS,
        label="Skipped operations",
        check=_skipped_operations,
        refused=lambda value: "dblog writes every row of a dump; remove r" if isinstance(value, tuple) and "r" in value else None,
    ),
    bool_option(
        name="skip.messages.without.change",
        doc="Leave out updates that change no written column.",
        default="false",
        group=EVENTS,
        label="Skip unchanged",
    ),
    bool_option(
        name="include.schema.comments",
        doc="Keep table and column comments in the schema history.",
        default="false",
        group=EVENTS,
        label="Include comments",
    ),
    bool_option(
        name="extended.headers.enabled",
        doc="Add the __debezium.context headers to every record.",
        default="true",
        importance=LOW,
        group=EVENTS,
        label="Context headers",
    ),
    option(
        name="unavailable.value.placeholder",
        doc="What stands for a value that the log does not carry: a large object that an update left alone, where the log has images without them.",
        default="__debezium_unavailable_value",
        check=_placeholder,
        group=EVENTS,
        label="Unavailable value",
    ),
    list_option(
        name="column.propagate.source.type",
        doc="Columns whose source type goes into the schema's parameters.",
        group=EVENTS,
        label="Propagate column types",
        check=regexes,
    ),
    list_option(
        name="datatype.propagate.source.type",
        doc="Types, as database.table.TYPE, whose columns have their source type in the schema's parameters.",
        group=EVENTS,
        label="Propagate types",
        check=regexes,
    ),
    list_option(
        name="converters",
        doc="Java classes that convert values.",
        group=EVENTS,
        label="Converters",
        refused=only(because="Java classes cannot run in this worker; remove the key"),
    ),
    list_option(
        name="post.processors",
        doc="Java classes that process events.",
        group=EVENTS,
        label="Post processors",
        refused=only(because="Java classes cannot run in this worker; remove the key"),
    ),
    option(
        name="sourceinfo.struct.maker",
        doc="Java class that builds the source block.",
        importance=LOW,
        group=EVENTS,
        label="Source block maker",
        refused=only(
            "io.debezium.connector.mysql.MySqlSourceInfoStructMaker",
            "io.debezium.connector.mariadb.MariaDbSourceInfoStructMaker",
            because="Java classes cannot run in this worker; remove the key",
        ),
    ),
    bool_option(
        name="provide.transaction.metadata",
        doc="Give each change its order in its transaction, and write the transactions' BEGIN and END to a topic of their own.",
        default="false",
        group=EVENTS,
        label="Transaction metadata",
    ),
    option(
        name="event.processing.failure.handling.mode",
        doc="What happens to an event that cannot be processed.",
        default="fail",
        group=EVENTS,
        label="Event failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    option(
        name="event.converting.failure.handling.mode",
        doc="What happens to one column's value that cannot be converted (a TIME beyond a day as a time of day, an empty geometry): warn and skip write null.",
        default="warn",
        group=EVENTS,
        label="Conversion failure handling",
        choices=("warn", "fail", "skip"),
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""

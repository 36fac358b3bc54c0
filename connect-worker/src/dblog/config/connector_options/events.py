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
        doc="Form of DECIMAL and NUMERIC in records: precise (exact, as bytes), string or double.",
        default="precise",
        group=EVENTS,
        label="Decimal Handling",
        choices=("precise", "string", "double"),
    ),
    option(
        name="binary.handling.mode",
        doc="Form of binary columns in records.",
        default="bytes",
        importance=LOW,
        group=EVENTS,
        label="Binary Handling",
        choices=("bytes", "base64", "base64-url-safe", "hex"),
    ),
    option(
        name="schema.name.adjustment.mode",
        doc="Replacement of characters in schema names that the converter does not allow.",
        default="none",
        group=EVENTS,
        label="Schema Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    option(
        name="field.name.adjustment.mode",
        doc="Replacement of characters in field names that the converter does not allow.",
        default="none",
        group=EVENTS,
        label="Field Name Adjustment",
        choices=("none", "avro", "avro_unicode"),
    ),
    bool_option(
        name="tombstones.on.delete",
        doc=(
            "If true, a delete is followed by a record with the same key and a null value (a tombstone), so "
            "that log compaction can remove the key."
        ),
        default="true",
        group=EVENTS,
        label="Emit tombstones",
    ),
    list_option(
        name="skipped.operations",
        doc=(
            "Operations that are not written, separated by commas: c (insert), u (update), d (delete), t "
            "(truncate), or none. With t, rows that TRUNCATE or another statement removes stay in the lake "
            "until a dump in mode repair; the status names these tables."
        ),
        default="t",
        importance=LOW,
        group=EVENTS,
        label="Skipped operations",
        check=_skipped_operations,
        refused=lambda value: "dblog writes every row of a dump; remove r" if isinstance(value, tuple) and "r" in value else None,
    ),
    bool_option(
        name="skip.messages.without.change",
        doc="Leaves out updates that change none of the written columns.",
        default="false",
        group=EVENTS,
        label="Skip unchanged",
    ),
    bool_option(
        name="include.schema.comments",
        doc="Keeps comments of tables and columns in the schema history.",
        default="false",
        group=EVENTS,
        label="Include comments",
    ),
    bool_option(
        name="extended.headers.enabled",
        doc="Adds the __debezium.context headers to every record.",
        default="true",
        importance=LOW,
        group=EVENTS,
        label="Context headers",
    ),
    option(
        name="unavailable.value.placeholder",
        doc="Placeholder for a value that the log does not contain, such as a large object that an update did not change.",
        default="__debezium_unavailable_value",
        check=_placeholder,
        group=EVENTS,
        label="Unavailable value",
    ),
    list_option(
        name="column.propagate.source.type",
        doc="Regular expressions, separated by commas, of columns whose source type is written into the schema's parameters.",
        group=EVENTS,
        label="Propagate column types",
        check=regexes,
    ),
    list_option(
        name="datatype.propagate.source.type",
        doc=(
            "Regular expressions, separated by commas, of types, as database.table.TYPE, whose columns have "
            "their source type written into the schema's parameters."
        ),
        group=EVENTS,
        label="Propagate types",
        check=regexes,
    ),
    list_option(
        name="converters",
        doc=(
            "Names of converters of columns' values. <name>.type is the class, and io.debezium.connector.binlog.converters."
            "TinyIntOneToBooleanConverter the only one here: it makes true and false of TINYINT(1). <name>.selector has regular expressions "
            "of columns, as database.table.column; <name>.length.checker=false takes every TINYINT."
        ),
        group=EVENTS,
        label="Converters",
    ),
    list_option(
        name="post.processors",
        doc="Java classes that process records after they are made.",
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
        doc="Adds to each change its order in its transaction, and writes BEGIN and END of transactions to a topic of their own.",
        default="false",
        group=EVENTS,
        label="Transaction metadata",
    ),
    option(
        name="event.processing.failure.handling.mode",
        doc="Treatment of an event that cannot be processed: fail ends the task; warn and skip leave it out, warn with a warning.",
        default="fail",
        group=EVENTS,
        label="Event failure handling",
        choices=("fail", "warn", "skip", "ignore"),
    ),
    option(
        name="event.converting.failure.handling.mode",
        doc=(
            "Treatment of a value that cannot be converted, such as a TIME of more than a day or an empty "
            "geometry: fail ends the task; warn and skip write null, warn with a warning."
        ),
        default="warn",
        group=EVENTS,
        label="Conversion failure handling",
        choices=("warn", "fail", "skip"),
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""

"""Defines the schemas of all records that are not bare rows: Debezium's envelope, source block,
transaction, heartbeat and schema change.

Field order, names, versions and optionality are a contract (Debezium 3.6: CommonConnectorConfig,
AbstractSourceInfoStructMaker, Envelope, SchemaFactory): the registry compares schema text, and
consumers pin schemas. A table's schema names derive from its topic name, so name adjustment
(``schema.name.adjustment.mode``) belongs here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache

from dblog.codecs.schema import Field, Kind, Schema

ENVELOPE_VERSION = 2
PARTIAL = (("io.dblog.partial", "true"),)
"""Parameters of the schema of a partial row, with the key and some columns only. A dump of mode
``columns`` sends such rows; their other columns are unchanged.
"""
SNAPSHOT_VALUES = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"

STRING = Schema(kind=Kind.STRING)
OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)
INT32 = Schema(kind=Kind.INT32)
OPTIONAL_INT32 = Schema(kind=Kind.INT32, optional=True)
INT64 = Schema(kind=Kind.INT64)
OPTIONAL_INT64 = Schema(kind=Kind.INT64, optional=True)
OPTIONAL_BOOLEAN = Schema(kind=Kind.BOOLEAN, optional=True)


class NameAdjustment(Enum):
    """The rule that makes names legal in Avro (``schema.name.adjustment.mode`` and
    ``field.name.adjustment.mode``).
    """

    NONE = "none"
    AVRO = "avro"
    AVRO_UNICODE = "avro_unicode"

    def schema_name(self, name: str) -> str:
        """Return a dotted schema name, adjusted. Dots stay."""
        return self._adjusted(name, dot=".")

    def field_name(self, name: str) -> str:
        """Return a field name, adjusted. A dot is as illegal as any other character."""
        return self._adjusted(name, dot="")

    def _adjusted(self, name: str, *, dot: str) -> str:
        if self is NameAdjustment.NONE or not name:
            return name
        replace = _underscore if self is NameAdjustment.AVRO else _unicode_escape
        # In unicode mode an underscore begins an escape, so it is itself escaped to keep the
        # mapping reversible.
        legal_first = _LETTERS if self is NameAdjustment.AVRO_UNICODE else _LETTERS + "_"
        legal = legal_first + _DIGITS + dot
        first = name[0]
        if first in legal_first:
            head = first
        elif self is NameAdjustment.AVRO and first in _DIGITS:
            head = "_" + first
        else:
            head = replace(first)
        return head + "".join(c if c in legal else replace(c) for c in name[1:])


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"


def _underscore(char: str) -> str:
    # Java replaces UTF-16 units, so a character beyond the basic plane becomes two underscores.
    return "_" * (len(char.encode("utf-16-be")) // 2)


def _unicode_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"_u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2))


def struct(
    name: str | None, *fields: tuple[str, Schema], optional: bool = False, version: int | None = None, doc: str | None = None
) -> Schema:
    """Return a struct schema of pairs of field name and schema, in wire order."""
    return Schema(
        kind=Kind.STRUCT,
        name=name,
        version=version,
        optional=optional,
        doc=doc,
        fields=tuple(Field(name=n, schema=s) for n, s in fields),
    )


SNAPSHOT_ENUM = Schema(
    kind=Kind.STRING,
    optional=True,
    name="io.debezium.data.Enum",
    version=1,
    parameters=(("allowed", SNAPSHOT_VALUES),),
    default="false",
)


def source_schema(connector: str, *tail: tuple[str, Schema]) -> Schema:
    """Return the schema of the source block (``io.debezium.connector.<connector>.Source``, version
    1 since Debezium 3.1): the fields that all connectors have, then the dialect's own.
    """
    return struct(
        f"io.debezium.connector.{connector}.Source",
        ("version", STRING),
        ("connector", STRING),
        ("name", STRING),
        ("ts_ms", INT64),
        ("snapshot", SNAPSHOT_ENUM),
        ("db", STRING),
        ("sequence", OPTIONAL_STRING),
        ("ts_us", OPTIONAL_INT64),
        ("ts_ns", OPTIONAL_INT64),
        *tail,
        version=1,
    )


TRANSACTION_BLOCK = struct(
    "event.block",
    ("id", STRING),
    ("total_order", INT64),
    ("data_collection_order", INT64),
    optional=True,
    version=1,
)


def row_schema(topic: str, fields: Sequence[tuple[str, Schema]], *, adjustment: NameAdjustment = NameAdjustment.NONE) -> Schema:
    """Return the schema ``<topic>.Value`` of ``before`` and ``after``: an optional struct without
    version.
    """
    return struct(adjustment.schema_name(f"{topic}.Value"), *fields, optional=True)


def key_schema(topic: str, fields: Sequence[tuple[str, Schema]], *, adjustment: NameAdjustment = NameAdjustment.NONE) -> Schema:
    """Return the schema ``<topic>.Key``: a required struct without version."""
    return struct(adjustment.schema_name(f"{topic}.Key"), *fields)


def envelope_schema(topic: str, row: Schema, source: Schema, *, adjustment: NameAdjustment = NameAdjustment.NONE) -> Schema:
    """Return the schema ``<topic>.Envelope``, version 2 (since Debezium 2.6): before, after,
    source, transaction, op, ts_ms, ts_us, ts_ns.
    """
    return struct(
        adjustment.schema_name(f"{topic}.Envelope"),
        ("before", row.as_optional()),
        ("after", row.as_optional()),
        ("source", source),
        ("transaction", TRANSACTION_BLOCK),
        ("op", STRING),
        ("ts_ms", OPTIONAL_INT64),
        ("ts_us", OPTIONAL_INT64),
        ("ts_ns", OPTIONAL_INT64),
        version=ENVELOPE_VERSION,
    )


HEARTBEAT_KEY = struct("io.debezium.connector.common.ServerNameKey", ("serverName", STRING), version=1)
HEARTBEAT_VALUE = struct("io.debezium.connector.common.Heartbeat", ("ts_ms", INT64), version=1)

TRANSACTION_KEY = struct("io.debezium.connector.common.TransactionMetadataKey", ("id", STRING), version=1)
TRANSACTION_VALUE = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    ("status", STRING),
    ("id", STRING),
    ("event_count", OPTIONAL_INT64),
    (
        "data_collections",
        Schema(
            kind=Kind.ARRAY,
            optional=True,
            items=struct("event.collection", ("data_collection", STRING), ("event_count", INT64), optional=True, version=1),
        ),
    ),
    ("ts_ms", INT64),
    version=1,
)

_STRINGS = Schema(kind=Kind.ARRAY, optional=True, items=STRING)

SCHEMA_CHANGE_COLUMN = struct(
    "io.debezium.connector.schema.Column",
    ("name", STRING),
    ("jdbcType", INT32),
    ("nativeType", OPTIONAL_INT32),
    ("typeName", STRING),
    ("typeExpression", OPTIONAL_STRING),
    ("charsetName", OPTIONAL_STRING),
    ("length", OPTIONAL_INT32),
    ("scale", OPTIONAL_INT32),
    ("position", INT32),
    ("optional", OPTIONAL_BOOLEAN),
    ("autoIncremented", OPTIONAL_BOOLEAN),
    ("generated", OPTIONAL_BOOLEAN),
    ("comment", OPTIONAL_STRING),
    ("defaultValueExpression", OPTIONAL_STRING),
    ("enumValues", _STRINGS),
    version=1,
)
SCHEMA_CHANGE_TABLE = struct(
    "io.debezium.connector.schema.Table",
    ("defaultCharsetName", OPTIONAL_STRING),
    ("primaryKeyColumnNames", _STRINGS),
    ("columns", Schema(kind=Kind.ARRAY, items=SCHEMA_CHANGE_COLUMN)),
    ("comment", OPTIONAL_STRING),
    optional=True,
    version=1,
)
SCHEMA_CHANGE_ITEM = struct(
    "io.debezium.connector.schema.Change",
    ("type", STRING),
    ("id", STRING),
    ("table", SCHEMA_CHANGE_TABLE),
    version=1,
)


@cache
def schema_change_key(connector: str) -> Schema:
    """Return the key's schema in the schema-change topic: the database's name."""
    return struct(f"io.debezium.connector.{connector}.SchemaChangeKey", ("databaseName", STRING), version=1)


def schema_change_value(connector: str, source: Schema) -> Schema:
    """Return the value's schema in the schema-change topic: the source block, the statement, and
    the tables as they are after it.

    Call this once for all records. Converters recognize a schema object by identity, and would
    write its text again for each of ten thousand tables.
    """
    return struct(
        f"io.debezium.connector.{connector}.SchemaChangeValue",
        ("source", source),
        ("ts_ms", INT64),
        ("databaseName", OPTIONAL_STRING),
        ("schemaName", OPTIONAL_STRING),
        ("ddl", OPTIONAL_STRING),
        ("tableChanges", Schema(kind=Kind.ARRAY, items=SCHEMA_CHANGE_ITEM)),
        version=1,
    )

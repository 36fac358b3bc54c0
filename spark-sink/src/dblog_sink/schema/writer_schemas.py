"""Derives from a writer schema the kind of its records, their columns, and a cheap way to read
them.

A record is always read with its own writer schema; Avro's resolution between versions would get
decimals wrong. The reader schema made here has the same types and fewer fields: neither ``before``
nor most of ``source`` is built in memory. Connect's properties are removed from both texts to keep
plans short, because a long schema text in a plan can overflow the stack when a query stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t

from dblog_sink.errors import DefiniteError, ParkError
from dblog_sink.schema import avro_rules, connect_json
from dblog_sink.schema.schema_size import fault_of
from dblog_sink.schema.types import PLAIN_TYPES, STRICT_TYPES, Conversion, TypeChoices, conversion, orderable, sql_literal, without_null

SOURCE_FIELDS = ("sequence", "file", "pos", "row", "lsn", "ts_ms")
"""Fields of the source block that decide a row's position and age."""

_LOG_FIELDS = ("server_id", "gtid", "snapshot")
"""Fields that show which log a record comes from (``source_epochs.py``)."""

JSON_START = '{"schema":'
"""Beginning of a record of Connect's JsonConverter."""

REFERENCES = "dblog.references"
"""Key of the referenced schemas in a text ``{"dblog.references": [their schemas], "schema": its
own}``.
"""

PARTIAL = "io.dblog.partial"
"""Parameter of a row's schema: the record has the key and some of the columns
(schemas/README.md).
"""

CHUNK_MARKER = "io.dblog.ChunkMarker"
"""Name of schemas/chunk_marker.avsc."""

NOT_ROWS = frozenset(
    {
        "io.debezium.connector.common.Heartbeat",
        "io.debezium.connector.common.TransactionMetadataValue",
        "io.debezium.connector.mysql.SchemaChangeValue",
        "io.debezium.connector.mariadb.SchemaChangeValue",
        "io.debezium.connector.postgresql.MessageValue",
        "io.debezium.connector.common.Notification",
        CHUNK_MARKER,
    }
)
"""Value schemas of records that are not rows. They are left out in every topic."""
TRANSACTION = "io.debezium.connector.common.TransactionMetadataValue"


TAKEN_BY_DELTA = frozenset(
    {
        "_metadata",
        "__delta_internal_is_row_deleted",
        "__delta_internal_row_index",
        *("_condition_", "_file_name_", "_input_file_name_", "_row_dropped_", "_row_id_"),
        *("_source_row_index", "_source_row_present_", "_target_row_index_", "_target_row_present_"),
    }
)
"""Lower-case names that Delta 4.4 gives to internal columns while it reads rows with their
locations, or merges. A table with such a column can be filled, but not changed.
"""


ENVELOPE, UNWRAPPED = "envelope", "unwrapped"

_ADDED = re.compile(r"__(op|deleted|table|lsn|ts_ms|ts_us|ts_ns|db|schema|(source|transaction)[._].+)")
"""Fields that ExtractNewRecordState adds and that are not columns (add.fields,
delete.tombstone.handling.mode=rewrite; the prefix __ is its default).
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the source as one schema id writes it, under its name in the target."""

    name: str
    conversion: Conversion
    source: str = ""
    """Name in the record; empty if it is the same."""
    fill: str | None = None
    """SQL of the column's default, for rows that are older than the column; None for NULL."""
    required: bool = False
    """True if the writer never writes NULL."""

    @property
    def member(self) -> str:
        """Name in the record."""
        return self.source or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The settings for reading a table's records: names of columns, types, kind of record."""

    column: Callable[[str], str | None] = lambda name: name
    """Function to the target's name of a source column; None if the column is left out."""
    types: TypeChoices = STRICT_TYPES
    records: str = "auto"
    keys: frozenset[str] = frozenset()
    """Names of the record's key fields, as far as known. A row with all of them may be
    unwrapped.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The schema of a table's values with one schema id, and how to read them."""

    schema_id: int
    fields: tuple[Field, ...]
    source_fields: frozenset[str]
    has_before: bool
    writer_text: str
    reader_text: str
    reader_text_with_before: str
    kind: str = ENVELOPE
    json_type: t.StructType | None = None
    """Type with which ``from_json`` reads the record; None for Avro."""
    added: frozenset[str] = frozenset()
    """Fields of an unwrapped row that are not columns."""
    position_text: str = ""
    """Reader schema of position and transaction alone."""
    position_json: t.StructType | None = None
    """Type with which ``from_json`` reads position and transaction; None for Avro."""
    position_fields: frozenset[str] = frozenset()
    """Fields of the source block in ``position_text``."""
    has_transaction: bool = False
    left_out: frozenset[str] = frozenset()
    """Columns that the table's settings leave out."""
    partial: bool = False
    """True if its rows have some columns only; the others are neither NULL nor dropped."""
    epoch: str = ""
    """SQL of the source epoch of a record without D7's numbers; empty for the first epoch
    (``source_epochs.py``).
    """

    @property
    def derived(self) -> bool:
        """True if a record may have no position but its file and offset."""
        return {"file", "pos"} <= self.source_fields

    @property
    def by_lsn(self) -> bool:
        """True if its records come from PostgreSQL's log."""
        return "lsn" in self.source_fields

    @property
    def may_be_numbered(self) -> bool:
        """True if a record may carry D7's numbers, as dblog writes them."""
        return "sequence" in self.source_fields and (self.derived or self.by_lsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySchema:
    """The schema of a table's keys with one schema id, and how to read them."""

    schema_id: int
    fields: tuple[Field, ...]
    writer_text: str
    reader_text: str
    json_type: t.StructType | None = None


@dataclass(frozen=True, slots=True)
class NotRows:
    """A schema of records that are left out: heartbeats, transaction metadata, schema changes,
    messages.
    """

    name: str
    history: str | None = None
    """Writer schema of schema changes, whose statements are read; else None."""
    marker: str | None = None
    """Writer schema of chunk markers, empty for JSON, whose records carry it; else None."""
    transactions: str | None = None
    """Writer schema of BEGIN and END records of transactions, empty for JSON; else None."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A schema that no table can have; its records go to quarantine with this reason."""

    reason: str


_PLAIN = Reading()


def value_schema(schema_id: int, text: str, reading: Reading = _PLAIN) -> Envelope | NotRows | Unreadable:
    """Return the meaning of records with this value schema.

    ``text`` is the registry's, or the beginning of a JSON record (``connect_json.py``). Both are
    other people's: whatever is wrong with a schema makes its records unreadable, and no error.
    """
    try:
        made = _value_schema(schema_id, text, reading)
    except ParkError:
        raise
    except DefiniteError as e:
        return Unreadable(f"schema {schema_id}: {e}")
    except _NO_SCHEMA as e:
        return Unreadable(f"schema {schema_id} is not an Avro schema that can be read ({type(e).__name__})")
    match made:
        case Envelope(json_type=None):
            fault = _avro_fault(made.writer_text, made.reader_text, made.reader_text_with_before, made.position_text)
        case NotRows():
            fault = _avro_fault(made.history, made.marker, made.transactions)
        case _:
            fault = None
    return made if fault is None else Unreadable(f"schema {schema_id} breaks a rule of Avro: {fault}")


def _avro_fault(*texts: str | None) -> str | None:
    """Return why Spark's Avro would refuse one of the texts that it reads records with, None if it
    takes them all.
    """
    try:
        faults = (avro_rules.fault_of(json.loads(text)) for text in dict.fromkeys(texts) if text)
        return next((fault for fault in faults if fault is not None), None)
    except _NO_SCHEMA as e:
        return type(e).__name__


_NO_SCHEMA = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of reading a JSON value as an Avro schema that it is not."""


def _value_schema(schema_id: int, text: str, reading: Reading) -> Envelope | NotRows | Unreadable:
    try:
        parsed = _parsed(text)
    except connect_json.Malformed:
        return Unreadable("the value is JSON whose schema is not one that Kafka Connect writes")
    if parsed is None:
        return Unreadable("the value is JSON without its schema; set schemas.enable=true in the converter, or use Avro")
    top, definitions, writer, is_json = parsed
    if not isinstance(top, dict) or top.get("type") != "record":
        return Unreadable(f"schema {schema_id} is not a record: not a Debezium envelope")
    if (fault := fault_of(top, definitions)) is not None:
        return Unreadable(f"schema {schema_id} has no columns: {fault}")
    name = _full_name(top)
    if top.get("connect.name", name) in NOT_ROWS or name in NOT_ROWS:
        statements = not is_json and {"ddl", "databaseName"} <= {field["name"] for field in top["fields"]}
        is_marker = CHUNK_MARKER in (name, top.get("connect.name"))
        is_transaction = TRANSACTION in (name, top.get("connect.name")) or name.endswith(".TransactionMetadataValue")
        text = "" if is_json else _compact(writer)
        return NotRows(
            name,
            history=text if statements else None,
            marker=text if is_marker else None,
            transactions=text if is_transaction else None,
        )
    members = {field["name"]: field["type"] for field in top["fields"]}
    if not {"op", "source", "after"} <= members.keys() or reading.records == UNWRAPPED:
        return _unwrapped(schema_id, top, definitions, writer, reading, is_json=is_json)
    if reading.records not in ("auto", ENVELOPE):
        return Unreadable(f"schema {schema_id} ({name}) is a Debezium envelope, and the table's records are set to {reading.records}")
    row = _record_of(members["after"], definitions, where=name)
    source = _record_of(members["source"], definitions, where=name)
    fields = _fields(row["fields"], definitions, reading, where=name, is_json=is_json)
    kept = [field["name"] for field in source["fields"] if field["name"] in SOURCE_FIELDS]
    _require_kinds(source, where=name)
    reader = _reader(top, row, fields, source, kept, with_before=False)
    with_before = _reader(top, row, fields, source, kept, with_before=True) if "before" in members else reader
    block = _block(members.get("transaction"), definitions)
    position_fields = [field["name"] for field in source["fields"] if field["name"] in (*SOURCE_FIELDS, *_LOG_FIELDS)]
    position_reader = _position_reader(top, source, position_fields, block)
    return Envelope(
        schema_id=schema_id,
        fields=fields,
        source_fields=frozenset(kept),
        has_before="before" in members,
        writer_text=_compact(writer),
        reader_text=_compact(reader),
        reader_text_with_before=_compact(with_before),
        json_type=_json_type(with_before, fields, row["fields"], definitions) if is_json else None,
        position_text=_compact(position_reader),
        position_json=_json_type(position_reader, fields, row["fields"], definitions) if is_json else None,
        position_fields=frozenset(position_fields),
        has_transaction=block is not None,
        left_out=frozenset(field["name"] for field in row["fields"] if reading.column(field["name"]) is None),
        partial=str(row.get("connect.parameters", {}).get(PARTIAL)).lower() == "true",
    )


def _unwrapped(
    schema_id: int, top: Mapping[str, Any], definitions: Mapping[str, Any], writer: Any, reading: Reading, *, is_json: bool
) -> Envelope | Unreadable:
    """Return the envelope of a row that ExtractNewRecordState has unwrapped."""
    name = _full_name(top)
    added = frozenset(field["name"] for field in top["fields"] if _ADDED.fullmatch(field["name"]))
    names = {field["name"] for field in top["fields"]}
    unwrapped = reading.records == UNWRAPPED or bool(added & {"__op", "__deleted"}) or bool(reading.keys and reading.keys <= names)
    if not unwrapped or reading.records == ENVELOPE:
        return Unreadable(
            f"schema {schema_id} ({name}) is not a Debezium envelope, nor a row that is known to be unwrapped; "
            "set table.<rule>.records=unwrapped if it is one, or exclude the topic with topics.exclude"
        )
    columns = [field for field in top["fields"] if field["name"] not in added]
    fields = _fields(columns, definitions, reading, where=name, is_json=is_json)
    extra = [field for field in top["fields"] if field["name"] in added & {"__op", "__deleted", "__source_ts_ms", "__ts_ms"}]
    reader = {
        "type": "record",
        "name": top["name"],
        "namespace": top.get("namespace", ""),
        "fields": [*_reader_fields(fields), *({"name": f["name"], "type": ["null", _plain_type(f["type"])]} for f in extra)],
    }
    reader_text = _compact(reader)
    return Envelope(
        schema_id=schema_id,
        fields=fields,
        source_fields=frozenset(),
        has_before=False,
        writer_text=_compact(writer),
        reader_text=reader_text,
        reader_text_with_before=reader_text,
        kind=UNWRAPPED,
        json_type=_json_row(reader, fields, columns, definitions) if is_json else None,
        added=frozenset(field["name"] for field in extra),
        left_out=frozenset(field["name"] for field in columns if reading.column(field["name"]) is None),
    )


def key_schema(schema_id: int, text: str, reading: Reading = _PLAIN) -> KeySchema | Unreadable:
    """Return the meaning of keys with this schema."""
    try:
        made = _key_schema(schema_id, text, reading)
    except ParkError:
        raise
    except DefiniteError as e:
        return Unreadable(f"key schema {schema_id}: {e}")
    except _NO_SCHEMA as e:
        return Unreadable(f"key schema {schema_id} is not an Avro schema that can be read ({type(e).__name__})")
    if not isinstance(made, KeySchema) or made.json_type is not None:
        return made
    fault = _avro_fault(made.writer_text, made.reader_text)
    return made if fault is None else Unreadable(f"key schema {schema_id} breaks a rule of Avro: {fault}")


def _key_schema(schema_id: int, text: str, reading: Reading) -> KeySchema | Unreadable:
    try:
        parsed = _parsed(text)
    except connect_json.Malformed:
        return Unreadable("the key is JSON whose schema is not one that Kafka Connect writes")
    if parsed is None:
        return Unreadable("the key is JSON without its schema")
    top, definitions, writer, is_json = parsed
    if not isinstance(top, dict) or top.get("type") != "record":
        return Unreadable(f"key schema {schema_id} is not a record: not a Debezium key")
    if (fault := fault_of(top, definitions)) is not None:
        return Unreadable(f"key schema {schema_id} has no columns: {fault}")
    everything = Reading(column=lambda name: reading.column(name) or name, types=reading.types)
    fields = _fields(top["fields"], definitions, everything, where=_full_name(top), is_json=is_json)
    if (other := next((field for field in fields if not orderable(field.conversion.type)), None)) is not None:
        return Unreadable(
            f"key schema {schema_id}: column {other.member} is a key column of type {other.conversion.type.simpleString()}, whose values cannot be "
            "compared; set hstore.handling.mode=json in the connector (table.<rule>.json.type=string for JSON), or choose other columns with "
            "message.key.columns"
        )
    reader = {"type": "record", "name": top["name"], "namespace": top.get("namespace", ""), "fields": _reader_fields(fields)}
    return KeySchema(
        schema_id=schema_id,
        fields=fields,
        writer_text=_compact(writer),
        reader_text=_compact(reader),
        json_type=_json_row(reader, fields, top["fields"], definitions) if is_json else None,
    )


def members(text: str) -> tuple[list[tuple[str, Any]], Mapping[str, Any]]:
    """Return the fields of a record's Avro schema in order, and its named types by full name.

    Raise DefiniteError if the schema is not a record.
    """
    parsed = _parsed(text)
    if parsed is None or not isinstance(parsed[0], dict) or parsed[0].get("type") != "record":
        msg = "the schema is not a record"
        raise DefiniteError(msg)
    return [(field["name"], field["type"]) for field in parsed[0]["fields"]], parsed[1]


def _json_row(reader: Mapping[str, Any], fields: tuple[Field, ...], columns: Any, definitions: Mapping[str, Any]) -> t.StructType:
    kinds = {field["name"]: field["type"] for field in columns}
    kept = {field.member for field in fields}
    members = []
    for field in reader["fields"]:
        name = field["name"]
        schema = kinds[name] if name in kept else field["type"]
        members.append(t.StructField(name, connect_json.spark_type(schema, definitions, where=name)))
    return t.StructType(members)


def _json_type(reader: Mapping[str, Any], fields: tuple[Field, ...], columns: Any, definitions: Mapping[str, Any]) -> t.StructType:
    row = _json_row({"fields": [{"name": field.member, "type": "null"} for field in fields]}, fields, columns, definitions)
    members = []
    for field in reader["fields"]:
        kind = row if field["name"] in ("before", "after") else connect_json.spark_type(field["type"], definitions, where=field["name"])
        members.append(t.StructField(field["name"], kind))
    return t.StructType(members)


def _fields(columns: Any, definitions: Mapping[str, Any], reading: Reading, *, where: str, is_json: bool) -> tuple[Field, ...]:
    fields = []
    for column in columns:
        source, schema = column["name"], column["type"]
        name = reading.column(source)
        if name is None:
            continue
        at = f"{where}, column {source}"
        made = conversion(schema, definitions, where=at, choices=reading.types)
        if is_json:
            made = connect_json.as_read(made, schema, definitions, where=at)
        fill = None if is_json else _fill(column, made, where=at)
        fields.append(Field(name, made, "" if source == name else source, fill, required=not isinstance(schema, list)))
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.member)
        if other != field.member:
            msg = (
                f"{where}: columns {other} and {field.member} would have one name in Delta, which does not distinguish upper and lower case; "
                "rename one with columns.rename, or exclude one with columns.exclude"
            )
            raise ParkError(msg)
        if not field.name:
            msg = f"{where}: a column without a name, which Delta has not; exclude it with columns.exclude"
            raise ParkError(msg)
        if field.name.lower().startswith("_dblog_"):
            msg = f"{where}: column {field.name}: names that begin with _dblog_ belong to the sink; rename it with columns.rename, or exclude it"
            raise ParkError(msg)
        if field.name.lower() in TAKEN_BY_DELTA:
            msg = f"{where}: column {field.name}: Delta takes this name for itself while it writes; rename it with columns.rename, or exclude it"
            raise ParkError(msg)
    return tuple(fields)


def _fill(column: Mapping[str, Any], made: Conversion, *, where: str) -> str | None:
    """Return SQL of a column's default in the source, or None if it has none or has no literal.

    Rows that are older than the column have that value (MySQL manual, ALTER TABLE).
    """
    default = column.get("default")
    inner = without_null(column["type"], where=where)
    if default is None and isinstance(inner, dict):
        default = inner.get("connect.default")
    if default is None:
        return None
    literal = sql_literal(default, inner, made)
    return None if literal is None else literal


def _reader(
    top: Mapping[str, Any],
    row: Mapping[str, Any],
    fields: tuple[Field, ...],
    source: Mapping[str, Any],
    kept: list[str],
    *,
    with_before: bool,
) -> dict[str, Any]:
    definition = {"type": "record", "name": row["name"], "namespace": row.get("namespace", ""), "fields": _reader_fields(fields)}
    members: list[dict[str, Any]] = []
    if with_before:
        members.append({"name": "before", "type": ["null", definition]})
        members.append({"name": "after", "type": ["null", _full_name(row)]})
    else:
        members.append({"name": "after", "type": ["null", definition]})
    return _record(top, [*members, *_source_and_op(source, kept)])


def _position_reader(top: Mapping[str, Any], source: Mapping[str, Any], kept: list[str], block: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the reader schema of a record's position and transaction alone."""
    members = _source_and_op(source, kept)
    if block is not None:
        id_and_order = [{"name": "id", "type": ["null", "string"]}, {"name": "total_order", "type": ["null", "long"]}]
        members.append({"name": "transaction", "type": ["null", _record(block, id_and_order)]})
    return _record(top, members)


def _block(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the record in which an envelope names its transaction, or None if it has none."""
    if schema is None:
        return None
    block = _record_of(schema, definitions, where="transaction")
    return block if {"id", "total_order"} <= {field["name"] for field in block["fields"]} else None


def _source_and_op(source: Mapping[str, Any], kept: list[str]) -> list[dict[str, Any]]:
    plain = {field["name"]: _plain_type(field["type"]) for field in source["fields"]}
    fields = [{"name": name, "type": ["null", plain[name]]} for name in kept]
    return [{"name": "source", "type": _record(source, fields)}, {"name": "op", "type": "string"}]


def _record(named: Mapping[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": named["name"], "namespace": named.get("namespace", ""), "fields": fields}


def _reader_fields(fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    return [{"name": field.member, "type": ["null", field.conversion.avro]} for field in fields]


_TEXT, _NUMBER = frozenset({"string"}), frozenset({"int", "long"})
_KINDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("sequence", "file", "gtid", "snapshot"), _TEXT),
    **dict.fromkeys(("pos", "row", "lsn", "ts_ms", "server_id"), _NUMBER),
}
"""Types of the source block's fields, from which positions and times are computed."""


def _require_kinds(source: Mapping[str, Any], *, where: str) -> None:
    """Raise DefiniteError if a field of the source block has another type than Debezium gives it."""
    for field in source["fields"]:
        wanted = _KINDS.get(field["name"])
        if wanted is not None and _plain_type(field["type"]) not in wanted:
            msg = f"{where}: {field['name']} of the source block is no {' or '.join(sorted(wanted))}"
            raise DefiniteError(msg)


def _plain_type(schema: Any) -> str:
    """Return the type of a field. Raise DefiniteError for a struct."""
    schema = without_null(schema, where="source")
    plain = str(schema["type"] if isinstance(schema, dict) else schema)
    if plain not in PLAIN_TYPES:
        msg = "a field of the source block, or one that a transform added, is neither a text nor a number"
        raise DefiniteError(msg)
    return plain


def _record_of(schema: Any, definitions: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    schema = without_null(schema, where=where)
    record = definitions.get(schema) if isinstance(schema, str) else schema
    if not isinstance(record, dict) or record.get("type") != "record":
        msg = f"{where}: after and source must be records"
        raise DefiniteError(msg)
    return record


def _parsed(text: str) -> tuple[Any, dict[str, Any], Any, bool] | None:
    """Parse a schema text. Return None for JSON without a schema.

    Return the schema with full names everywhere, its named types by full name, the same schema
    without Connect's properties, and True for JSON. A text that refers to other schemas contains
    them (``registry``); each of their definitions is inserted at its first use.
    """
    definitions: dict[str, Any] = {}
    if text == "{" or text.startswith(JSON_START):
        schema = connect_json.avro_schema(text)
        if schema is None:
            return None
        top = _named(schema, "", definitions, {})
        return without_null(top, where="record"), definitions, _stripped(top), True
    schema = json.loads(text)
    external: dict[str, Any] = {}
    if isinstance(schema, dict) and REFERENCES in schema:
        for other in schema[REFERENCES]:
            found: dict[str, Any] = {}
            _named(other, "", found, external)
            external |= found
        schema = schema["schema"]
    top = _named(schema, "", definitions, external)
    return top, external | definitions, _stripped(top), False


def _named(schema: Any, namespace: str, definitions: dict[str, Any], external: Mapping[str, Any]) -> Any:
    """Replace every name by its full name.

    Avro specification, Names: a name without a dot belongs to the enclosing namespace.
    """
    if isinstance(schema, list):
        return [_named(branch, namespace, definitions, external) for branch in schema]
    if isinstance(schema, str):
        return _reference(schema, namespace, definitions, external)
    result = dict(schema)
    kind = schema["type"]
    if kind in ("record", "enum", "fixed"):
        name = schema["name"]
        if "." in name:
            namespace, name = name.rsplit(".", 1)
        else:
            namespace = schema.get("namespace", namespace)
        namespace = _legal(namespace)
        result["name"], result["namespace"] = name, namespace
        definitions[_full_name(result)] = result
        if kind == "record":
            result["fields"] = [{**field, "type": _named(field["type"], namespace, definitions, external)} for field in schema["fields"]]
    elif kind == "array":
        result["items"] = _named(schema["items"], namespace, definitions, external)
    elif kind == "map":
        result["values"] = _named(schema["values"], namespace, definitions, external)
    elif not isinstance(kind, str):
        result["type"] = _named(kind, namespace, definitions, external)
    else:
        result["type"] = _reference(kind, namespace, definitions, external)
    return result


def _reference(name: str, namespace: str, definitions: Mapping[str, Any], external: Mapping[str, Any]) -> Any:
    if name in PLAIN_TYPES:
        return name
    full = f"{namespace}.{name}" if "." not in name and namespace else _legal(name)
    if full in definitions:
        return full
    return external.get(full) or external.get(name) or name


def _legal(namespace: str) -> str:
    """Return the namespace in a form that Spark's Avro 1.12 accepts.

    The older Avro of most writers allows hyphens, which come from a topic prefix. Names do not
    affect the bytes.
    """
    parts = (re.sub(r"\W", "_", part) for part in namespace.split("."))
    return ".".join(f"_{part}" if part[:1].isdigit() or not part else part for part in parts) if namespace else namespace


_KEPT = {
    "record": ("type", "name", "namespace"),
    "enum": ("type", "name", "namespace", "symbols"),
    "fixed": ("type", "name", "namespace", "size"),
}


def _stripped(schema: Any, made: dict[int, Any] | None = None) -> Any:
    """Keep only the properties that decide the layout of the bytes.

    ``made`` has what became of each named type, by its identity: one that other schemas define is
    the same object wherever it is used.
    """
    made = {} if made is None else made
    if isinstance(schema, list):
        return [_stripped(branch, made) for branch in schema]
    if isinstance(schema, str):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return _stripped(kind, made)
    if kind in _KEPT:
        if id(schema) not in made:
            result = {name: schema[name] for name in _KEPT[kind]}
            if kind == "record":
                result["fields"] = [{"name": field["name"], "type": _stripped(field["type"], made)} for field in schema["fields"]]
            made[id(schema)] = result
        return made[id(schema)]
    if kind == "array":
        return {"type": "array", "items": _stripped(schema["items"], made)}
    if kind == "map":
        return {"type": "map", "values": _stripped(schema["values"], made)}
    return kind


def _full_name(schema: Mapping[str, Any]) -> str:
    namespace = schema.get("namespace", "")
    return f"{namespace}.{schema['name']}" if namespace and "." not in schema["name"] else str(schema["name"])


def _compact(schema: Any) -> str:
    return json.dumps(_defined_once(schema, set()), separators=(",", ":"))


def _defined_once(schema: Any, seen: set[str]) -> Any:
    """Replace repeated definitions of a named type by its name.

    Avro allows one definition, but two columns may share a type such as geometry.
    """
    if isinstance(schema, list):
        return [_defined_once(branch, seen) for branch in schema]
    if isinstance(schema, str):
        return schema
    result = dict(schema)
    if schema["type"] in _KEPT:
        name = _full_name(schema)
        if name in seen:
            return name
        seen.add(name)
        if "fields" in schema:
            result["fields"] = [{**field, "type": _defined_once(field["type"], seen)} for field in schema["fields"]]
    elif schema["type"] == "array":
        result["items"] = _defined_once(schema["items"], seen)
    elif schema["type"] == "map":
        result["values"] = _defined_once(schema["values"], seen)
    return result

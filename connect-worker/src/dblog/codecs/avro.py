"""Writes Connect schemas and values as Avro: the exact schema text that Confluent's AvroConverter
registers, and a plain writer of values.

A registry matches schemas by text. So field order, property order and name handling follow
Confluent's AvroData (7.x) and Avro 1.11's ``Schema.toString()``; reusing ids beside an existing
Debezium deployment depends on it. The writer here is the slow, obvious one, against which the
compiled row plans are checked.

One difference from AvroData is deliberate: a null for an optional field with a default is written
as null. AvroData goes through ``Struct.get``, which puts the default back and so turns a stored
NULL into another value. A field *absent* from the value gets its default, as an unset field of a
Connect Struct does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from struct import pack
from typing import Any

from dblog.codecs.javatext import as_float32, double_text, float_text, quoted
from dblog.codecs.schema import Kind, Schema
from dblog.errors import DefiniteError

DECIMAL = "org.apache.kafka.connect.data.Decimal"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
DATE = "org.apache.kafka.connect.data.Date"
PRECISION_PARAMETER = "connect.decimal.precision"
NAMESPACE = "io.confluent.connect.avro"
_PRECISION_DEFAULT = 64
_LOGICAL_TYPES = {DECIMAL: "decimal", TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}
_PRIMITIVES = {
    Kind.INT8: "int",
    Kind.INT16: "int",
    Kind.INT32: "int",
    Kind.INT64: "long",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
    Kind.BOOLEAN: "boolean",
    Kind.STRING: "string",
    Kind.BYTES: "bytes",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# --- schema text ------------------------------


def avro_text(schema: Schema, *, subject: str = "", connect_meta_data: bool = True) -> str:
    """Return the Avro schema as the JSON text that AvroConverter would register.

    ``subject`` names the table or topic in error messages. Raise DefiniteError for names that Avro
    does not allow.
    """
    return _Text(subject, meta_data=connect_meta_data).schema(schema, namespace=None)


class _Text:
    """Writer of one schema. It remembers the records already written, because Avro defines a named
    type once and refers to it afterwards.
    """

    def __init__(self, subject: str, *, meta_data: bool) -> None:
        self._subject = subject
        self._meta_data = meta_data
        self._defined: dict[str, Schema] = {}

    def schema(self, schema: Schema, *, namespace: str | None) -> str:
        base = self._base(schema, namespace)
        if not schema.optional:
            return base
        if schema.default is not None and schema.kind is not Kind.STRUCT:
            return f'[{base},"null"]'
        return f'["null",{base}]'

    def _base(self, schema: Schema, namespace: str | None) -> str:
        match schema.kind:
            case Kind.STRUCT:
                return self._record(schema, namespace)
            case Kind.ARRAY:
                assert schema.items is not None
                items = self.schema(schema.items, namespace=namespace)
                return _object(('"type":"array"', f'"items":{items}', *self._properties(schema)))
            case Kind.MAP:
                return self._map(schema, namespace)
            case _:
                decimal: tuple[str, ...] = ()
                if schema.name == DECIMAL:
                    decimal = (f'"scale":{_scale(schema)}', f'"precision":{_precision(schema)}')
                properties = (*decimal, *self._properties(schema))
                primitive = quoted(_PRIMITIVES[schema.kind])
                return _object((f'"type":{primitive}', *properties)) if properties else primitive

    def _record(self, schema: Schema, namespace: str | None) -> str:
        full = schema.name if schema.name is not None else f"{NAMESPACE}.ConnectDefault"
        space, name = self._legal_name(full)
        known = self._defined.get(full)
        if known is not None:
            if known.fields != schema.fields:
                raise DefiniteError(f"{self._where()}two different structs share the Avro name {full}; rename one of the columns or tables")
            return quoted(name if space == namespace else full)
        self._defined[full] = schema
        fields = ",".join(self._field(f.name, f.schema, space) for f in schema.fields)
        named = [f'"type":"record","name":{quoted(name)}']
        if space != namespace:
            named.append(f'"namespace":{quoted(space or "")}')
        return _object((*named, f'"fields":[{fields}]', *self._properties(schema)))

    def _map(self, schema: Schema, namespace: str | None) -> str:
        assert schema.keys is not None
        assert schema.items is not None
        if schema.keys.kind is Kind.STRING and not schema.keys.optional:
            values = self.schema(schema.items, namespace=namespace)
            return _object(('"type":"map"', f'"values":{values}', *self._properties(schema)))
        entry_space, entry_name = (NAMESPACE, "MapEntry") if schema.name is None else self._legal_name(schema.name)
        fields = f"{self._field('key', schema.keys, entry_space)},{self._field('value', schema.items, entry_space)}"
        parts = [f'"type":"record","name":{quoted(entry_name)}']
        if entry_space != namespace:
            parts.append(f'"namespace":{quoted(entry_space or "")}')
        parts.append(f'"fields":[{fields}]')
        if schema.name is not None:
            parts.append('"connect.internal.type":"MapEntry"')
        return _object(('"type":"array"', f'"items":{_object(parts)}', *self._properties(schema)))

    def _field(self, name: str, schema: Schema, namespace: str | None) -> str:
        if not _NAME.fullmatch(name):
            raise DefiniteError(
                f"{self._where()}the column name {name!r} is not legal in Avro; set field.name.adjustment.mode=avro (or avro_unicode) "
                "in the connector's configuration, or use the JSON converter"
            )
        parts = [f'"name":{quoted(name)}', f'"type":{self.schema(schema, namespace=namespace)}']
        if schema.default is not None:
            parts.append(f'"default":{_default(schema, schema.default, widened=True)}')
        elif schema.optional:
            parts.append('"default":null')
        return _object(parts)

    def _properties(self, schema: Schema) -> list[str]:
        """Return the ``connect.*`` properties in AvroData's order, then the Avro logical type. The
        logical type stays even without connect.meta.data.
        """
        out: list[str] = []
        if self._meta_data:
            if schema.doc is not None:
                out.append(f'"connect.doc":{quoted(schema.doc)}')
            if schema.version is not None:
                out.append(f'"connect.version":{schema.version}')
            if schema.parameters:
                members = ",".join(f"{quoted(k)}:{quoted(v)}" for k, v in schema.parameters)
                out.append(f'"connect.parameters":{{{members}}}')
            if schema.default is not None and schema.kind is not Kind.STRUCT:
                out.append(f'"connect.default":{_default(schema, schema.default, widened=False)}')
            if schema.name is not None:
                out.append(f'"connect.name":{quoted(schema.name)}')
            if schema.kind in (Kind.INT8, Kind.INT16):
                out.append(f'"connect.type":{quoted(schema.kind.value)}')
        if schema.name in _LOGICAL_TYPES:
            out.append(f'"logicalType":{quoted(_LOGICAL_TYPES[schema.name])}')
        return out

    def _legal_name(self, full: str) -> tuple[str | None, str]:
        """Split a full name at the last dot into namespace and name. Raise DefiniteError if the
        name is not legal in Avro.

        The namespace may contain anything, such as the hyphens of a topic prefix: Avro up to 1.11,
        which Confluent's converter 7.x uses, does not check it (measured with Debezium 3.6.1).
        Readers with Avro 1.12 do check it; schema.name.adjustment.mode=avro helps them.
        """
        space, dot, name = full.rpartition(".")
        if not _NAME.fullmatch(name):
            raise DefiniteError(
                f"{self._where()}the schema name {full!r} is not legal in Avro (letters, digits and _ only after the last dot); "
                "set schema.name.adjustment.mode=avro in the connector's configuration, or use the JSON converter"
            )
        return (space if dot else None), name

    def _where(self) -> str:
        return f"{self._subject}: " if self._subject else ""


def _scale(schema: Schema) -> int:
    return int(dict(schema.parameters).get("scale", "0"))


def _precision(schema: Schema) -> int:
    return int(dict(schema.parameters).get(PRECISION_PARAMETER, str(_PRECISION_DEFAULT)))


def _object(parts: tuple[str, ...] | list[str]) -> str:
    return "{" + ",".join(parts) + "}"


def _default(schema: Schema, value: Any, *, widened: bool) -> str:
    """Return a default value as JSON. With ``widened`` a float is written as a double, as Avro's
    Field constructor does; the ``connect.default`` property keeps the float.
    """
    match schema.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.STRING:
            return quoted(value)
        case Kind.BYTES:
            return quoted(bytes(value).decode("latin-1"))
        case Kind.FLOAT64:
            return double_text(float(value))
        case Kind.FLOAT32:
            return double_text(as_float32(float(value))) if widened else float_text(float(value))
        case Kind.ARRAY:
            assert schema.items is not None
            return "[" + ",".join(_default(schema.items, item, widened=widened) for item in value) + "]"
        case Kind.STRUCT:
            return "{" + ",".join(f"{quoted(f.name)}:{_default(f.schema, value[f.name], widened=widened)}" for f in schema.fields) + "}"
        case Kind.MAP:
            assert schema.items is not None
            return "{" + ",".join(f"{quoted(k)}:{_default(schema.items, v, widened=widened)}" for k, v in value.items()) + "}"
        case _:
            return str(int(value))


# --- values ------------------------------

Write = Callable[[bytearray, Any], None]


def frame(schema_id: int) -> bytes:
    """Return Confluent's wire header: a zero byte and the schema id, big-endian."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def null_branch(schema: Schema) -> int:
    """Return the union index of null in an optional schema; the value has the other index."""
    return 1 if schema.default is not None and schema.kind is not Kind.STRUCT else 0


def encode(schema: Schema, value: Any) -> bytes:
    """Return the Avro binary form of one value, without frame. This is for single records; loops
    should keep a ``writer``.
    """
    out = bytearray()
    writer(schema)(out, value)
    return bytes(out)


def writer(schema: Schema) -> Write:
    """Return a function that appends the Avro binary form of a value to a bytearray. Build it once
    and call it for each value.
    """
    write = _plain_writer(schema)
    null = b"\x02" if null_branch(schema) else b"\x00"
    some = b"\x00" if null_branch(schema) else b"\x02"
    if schema.optional:

        def optional(out: bytearray, value: Any) -> None:
            if value is None:
                out += null
            else:
                out += some
                write(out, value)

        return optional

    default = schema.default

    def required(out: bytearray, value: Any) -> None:
        if value is None:
            if default is None:
                raise DefiniteError(f"null for a required {schema.name or schema.kind.value} without default")
            value = default
        write(out, value)

    return required


def record_writer(schema: Schema) -> Write:
    """Return a ``writer`` for whole keys and values.

    Confluent's serializer writes a required key or value of bytes without their length, and its
    deserializer takes all that follows the frame.
    """
    if schema.kind is not Kind.BYTES or schema.optional:
        return writer(schema)
    whole = writer(schema)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            whole(out, value)
        else:
            out += value

    return write


def write_long(out: bytearray, value: int) -> None:
    """Append an integer as a zigzag varint; int and long have the same form."""
    n = (value << 1) ^ (value >> 63)
    while n > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)


def write_bytes(out: bytearray, value: bytes) -> None:
    """Append the length and the bytes."""
    write_long(out, len(value))
    out += value


def _plain_writer(schema: Schema) -> Write:
    match schema.kind:
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return write_long
        case Kind.BOOLEAN:
            return lambda out, value: out.append(1 if value else 0)
        case Kind.FLOAT32:
            return lambda out, value: out.extend(pack("<f", value))
        case Kind.FLOAT64:
            return lambda out, value: out.extend(pack("<d", value))
        case Kind.STRING:
            return lambda out, value: write_bytes(out, value.encode())
        case Kind.BYTES:
            return write_bytes
        case Kind.ARRAY:
            assert schema.items is not None
            return _array_writer(writer(schema.items))
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            return _map_writer(writer(schema.keys), writer(schema.items))
        case Kind.STRUCT:
            return _struct_writer(schema)


def _array_writer(write_item: Write) -> Write:
    def write(out: bytearray, items: Any) -> None:
        if items:
            write_long(out, len(items))
            for item in items:
                write_item(out, item)
        out.append(0)

    return write


def _map_writer(write_key: Write, write_value: Write) -> Write:
    """Return a writer for a map, or for an array of {key, value} records, which has the same
    bytes.
    """

    def write(out: bytearray, entries: Any) -> None:
        if entries:
            write_long(out, len(entries))
            for key, value in entries.items():
                write_key(out, key)
                write_value(out, value)
        out.append(0)

    return write


def _struct_writer(schema: Schema) -> Write:
    members = [(f.name, f.schema.default, writer(f.schema)) for f in schema.fields]
    names = frozenset(f.name for f in schema.fields)

    def write(out: bytearray, struct: Mapping[str, Any]) -> None:
        if not struct.keys() <= names:
            raise AssertionError(f"{schema.name}: no such field {sorted(struct.keys() - names)}")
        for name, default, write_member in members:
            write_member(out, struct.get(name, default))

    return write

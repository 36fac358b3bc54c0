"""Reads the Avro bytes of the row encoders into values for transforms.

The compiled encoders write Avro whatever the converter is, so a chain takes their bytes instead of
a second form of the row. fastavro reads them by a schema without logical types: values are in
Connect's value space then. Struct names in it are numbers, since names are of no use to a reader
and Connect's may occur twice.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader

from dblog.codecs.avro import null_branch
from dblog.codecs.schema import Kind, Schema
from dblog.transforms.record import Read

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
_SNAPSHOT = "io.debezium.data.Enum"
_LOGGED = "false"


def reader(schema: Schema) -> Read:
    """Return a function that reads values of ``schema`` from ``codecs/avro.py``'s bytes."""
    parsed: Any = parse_schema(_Names().of(schema))
    restore = _restored(schema)

    def read(data: bytes) -> Any:
        return schemaless_reader(BytesIO(data), parsed, None)

    if restore is None:
        return read
    return lambda data: restore(schemaless_reader(BytesIO(data), parsed, None))


class _Names:
    """Counter of the records of one schema."""

    def __init__(self) -> None:
        self._records = 0

    def of(self, schema: Schema) -> Any:
        """Return the Avro schema as JSON values."""
        base = self._base(schema)
        if not schema.optional:
            return base
        return [base, "null"] if null_branch(schema) else ["null", base]

    def _base(self, schema: Schema) -> Any:
        match schema.kind:
            case Kind.STRUCT:
                self._records += 1
                name = f"R{self._records}"
                return {"type": "record", "name": name, "fields": [{"name": f.name, "type": self.of(f.schema)} for f in schema.fields]}
            case Kind.ARRAY:
                assert schema.items is not None
                return {"type": "array", "items": self.of(schema.items)}
            case Kind.MAP:
                assert schema.keys is not None
                assert schema.items is not None
                if _is_map_of_text(schema):
                    return {"type": "map", "values": self.of(schema.items)}
                self._records += 1
                fields = [{"name": "key", "type": self.of(schema.keys)}, {"name": "value", "type": self.of(schema.items)}]
                return {"type": "array", "items": {"type": "record", "name": f"R{self._records}", "fields": fields}}
            case _:
                return _PRIMITIVES[schema.kind]


Restore = Callable[[Any], Any]
"""Function that makes the value of what fastavro reads; it may change what it is given."""


def _restored(schema: Schema) -> Restore | None:
    """Return a function that restores values of a schema; None if fastavro reads them as they are.

    It makes maps of the pairs as which Avro has maps whose keys are no texts, and takes back what
    the encoders add to an envelope: Debezium leaves ``source.snapshot`` of a logged row unset, and
    converters write the field's default. A transform that asks for the value without its default
    gets null there.
    """
    match schema.kind:
        case Kind.STRUCT:
            return _restored_struct(schema)
        case Kind.ARRAY:
            assert schema.items is not None
            item = _restored(schema.items)
            return None if item is None else lambda items: [None if one is None else item(one) for one in items]
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            inside = _restored(schema.items)
            if _is_map_of_text(schema):
                return None if inside is None else lambda pairs: {k: None if v is None else inside(v) for k, v in pairs.items()}
            return lambda pairs: {
                pair["key"]: pair["value"] if inside is None or pair["value"] is None else inside(pair["value"]) for pair in pairs
            }
        case _:
            return None


def _restored_struct(schema: Schema) -> Restore | None:
    members = [(field.name, member) for field in schema.fields if (member := _restored(field.schema)) is not None]
    is_source = any(
        field.name == "snapshot" and field.schema.name == _SNAPSHOT and field.schema.default == _LOGGED for field in schema.fields
    )
    if not members and not is_source:
        return None

    def restore(value: dict[str, Any]) -> dict[str, Any]:
        if is_source and value["snapshot"] == _LOGGED:
            del value["snapshot"]
        for name, restored in members:
            if value[name] is not None:
                value[name] = restored(value[name])
        return value

    return restore


def _is_map_of_text(schema: Schema) -> bool:
    """Return True if Avro has the map as a map, and not as pairs."""
    return schema.keys is not None and schema.keys.kind is Kind.STRING and not schema.keys.optional

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
                assert schema.keys.kind is Kind.STRING
                assert not schema.keys.optional, "maps of columns have text as keys"
                return {"type": "map", "values": self.of(schema.items)}
            case _:
                return _PRIMITIVES[schema.kind]


def _restored(schema: Schema) -> Callable[[Any], Any] | None:
    """Return a function that takes back what the encoders add to an envelope; None for other
    schemas.

    Debezium leaves ``source.snapshot`` of a logged row unset, and converters write the field's
    default. A transform that asks for the value without its default gets null there.
    """
    source = next((field.schema for field in schema.fields if field.name == "source"), None)
    snapshot = None if source is None else next((field.schema for field in source.fields if field.name == "snapshot"), None)
    if snapshot is None or snapshot.name != _SNAPSHOT or snapshot.default != _LOGGED:
        return None

    def restore(value: dict[str, Any]) -> dict[str, Any]:
        block = value["source"]
        if block is not None and block["snapshot"] == _LOGGED:
            del block["snapshot"]
        return value

    return restore

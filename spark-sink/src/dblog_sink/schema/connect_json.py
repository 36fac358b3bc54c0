"""Reads the schema in JSON records of Kafka Connect's JsonConverter as an Avro schema. Pure.

A record is ``{"schema": {...}, "payload": {...}}`` (org.apache.kafka.connect.json.JsonConverter,
schemas.enable=true; the schema comes first). Its schema is turned into the Avro schema that
Confluent's converter would have written, so that the rest of the sink deals with one kind of
schema. Values differ only where JSON has no type: bytes, and the unscaled value of a Decimal, are
base64 (decimal.format=BASE64, the default).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as t

from dblog_sink.errors import ParkError
from dblog_sink.schema.types import DECIMAL_DIGITS_MAX, Conversion, Sql, decimal_digits, decimal_sql, quote, text_sql, without_null

_KINDS: Mapping[str, Any] = {
    "boolean": "boolean",
    "int8": {"type": "int", "connect.type": "int8"},
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_RAW: Mapping[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "enum": t.StringType(),
    "bytes": t.StringType(),
}


def avro_schema(part: str) -> Any | None:
    """Return the Avro schema of a JSON record, or None if it is not JSON with schema.

    ``part`` is the record's text before the payload. Anyone who can write to the topic can write a
    schema. Raise Malformed for one that Connect would not write, and ParkError for one of a type
    that the sink does not support.
    """
    try:
        schema = json.loads(part + "}")["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(schema, dict):
        return None
    try:
        return _avro(schema, "Record")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Malformed from e


class Malformed(Exception):  # noqa: N818
    """Raised for a schema in JSON that Connect's converter does not write."""


def _avro(schema: Mapping[str, Any], name: str) -> Any:
    kind = schema["type"]
    connect_name = schema.get("name")
    if not isinstance(connect_name, str | None):
        raise Malformed
    made: Any
    if kind == "struct":
        full = connect_name or name
        space, _, short = full.rpartition(".")
        fields = []
        for field in schema["fields"]:
            if not isinstance(field["field"], str):
                raise Malformed
            entry = {"name": field["field"], "type": _avro(field, f"{full}.{field['field']}")}
            if "default" in field:
                entry["default"] = field["default"]
            fields.append(entry)
        made = {"type": "record", "name": short, "namespace": space, "fields": fields}
    elif kind == "array":
        made = {"type": "array", "items": _avro(schema["items"], f"{name}.item")}
    elif kind == "map" and schema["keys"]["type"] != "string":
        msg = f"{name}: a map whose keys are not texts, which JSON writes as pairs; use Avro, or leave the column out in the connector"
        raise ParkError(msg)
    elif kind == "map":
        made = {"type": "map", "values": _avro(schema["values"], f"{name}.value")}
    elif kind in _KINDS:
        made = _KINDS[kind]
    else:
        raise Malformed
    if connect_name is not None:
        made = {**made} if isinstance(made, dict) else {"type": made}
        made["connect.name"] = connect_name
        if "parameters" in schema:
            made["connect.parameters"] = schema["parameters"]
        if connect_name == _DECIMAL:
            parameters = schema.get("parameters", {})
            precision = int(parameters.get("connect.decimal.precision", 64))
            made |= {"logicalType": "decimal", "scale": int(parameters.get("scale", 0)), "precision": precision}
    return ["null", made] if schema.get("optional") else made


def spark_type(schema: Any, definitions: Mapping[str, Any], *, where: str) -> t.DataType:
    """Return the type with which ``from_json`` reads a value."""
    schema = _resolved(schema, definitions, where=where)
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "record":
            return t.StructType([t.StructField(f["name"], spark_type(f["type"], definitions, where=where)) for f in schema["fields"]])
        case "array":
            return t.ArrayType(spark_type(schema["items"], definitions, where=where))
        case "map":
            return t.MapType(t.StringType(), spark_type(schema["values"], definitions, where=where))
        case _:
            return _RAW[kind]


def as_read(conversion: Conversion, schema: Any, definitions: Mapping[str, Any], *, where: str) -> Conversion:
    """Return the conversion adapted to a value that ``from_json`` has read."""
    lift = _lift(schema, definitions, where=where, depth=0)
    if lift is None:
        return conversion

    def sql(path: str) -> str:
        return conversion.convert(lift(path))

    bounded = None if conversion.bounded is None else as_read(conversion.bounded, schema, definitions, where=where)
    failed = lambda path: f"({path} IS NOT NULL AND {sql(path)} IS NULL)"  # noqa: E731
    return Conversion(conversion.type, conversion.avro, sql, failed, bounded, in_json=True)


def _lift(schema: Any, definitions: Mapping[str, Any], *, where: str, depth: int) -> Sql | None:
    """Return a function from SQL of a ``from_json`` value to SQL of the ``from_avro`` value.

    Return None if the two are equal.
    """
    schema = _resolved(schema, definitions, where=where)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "bytes":
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            digits, scale = decimal_digits(schema), int(schema.get("scale", 0))
            # The conversion of a wider decimal begins with its bytes.
            if digits <= DECIMAL_DIGITS_MAX:
                return lambda path: decimal_sql(f"unbase64({path})", digits, scale)
        return lambda path: f"unbase64({path})"
    if kind == "record":
        members = [(f["name"], _lift(f["type"], definitions, where=where, depth=depth)) for f in schema["fields"]]
        if all(lift is None for _, lift in members):
            return None

        def rebuild(path: str) -> str:
            each = ((name, f"{path}.{quote(name)}", lift) for name, lift in members)
            parts = ", ".join(f"{text_sql(name)}, {member if lift is None else lift(member)}" for name, member, lift in each)
            return f"IF({path} IS NULL, NULL, named_struct({parts}))"

        return rebuild
    if kind == "array":
        item = _lift(schema["items"], definitions, where=where, depth=depth + 1)
        return None if item is None else (lambda path: f"transform({path}, j{depth} -> {item(f'j{depth}')})")
    if kind == "map":
        value = _lift(schema["values"], definitions, where=where, depth=depth + 1)
        return None if value is None else (lambda path: f"transform_values({path}, (n{depth}, j{depth}) -> {value(f'j{depth}')})")
    return None


def _resolved(schema: Any, definitions: Mapping[str, Any], *, where: str) -> Any:
    schema = without_null(schema, where=where)
    if isinstance(schema, str) and schema not in _RAW:
        schema = definitions[schema]
    if isinstance(schema, dict) and not isinstance(schema["type"], str):
        return _resolved(schema["type"], definitions, where=where)
    return schema

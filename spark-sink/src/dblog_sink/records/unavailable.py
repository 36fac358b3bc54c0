"""Makes SQL that recognizes values that a record lacks. Pure.

PostgreSQL omits unchanged values that are stored apart (TOAST) from its log. The connector writes
``unavailable.value.placeholder`` instead, in the form of the column (Debezium's
PostgresValueConverter, UnavailableValue; its manual, "PostgreSQL connector", Toasted values
unchanged). A text is the placeholder. Bytes have its UTF-8 bytes (or those in base64 or hex, by
``binary.handling.mode``). An array of texts has it as the only element, an array of numbers has the
values of its bytes, an array of UUIDs the name-based UUID of its bytes, and hstore a pair of it
with itself. Rows of a dump or of a table with REPLICA IDENTITY FULL always have all values. MySQL's
and MariaDB's log has whole rows.

If Debezium has no form for a type, it writes NULL, which cannot be told from a NULL of the source.
dblog has a form for these types too (``values/unavailable.py`` of the worker): the bytes of a
geometry or of a decimal, the bits of the placeholder for booleans, its bytes as numbers for other
items of an array.

``tables/modes/missing_values.py`` decides where the value comes from instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

from dblog_sink.schema.types import Conversion, text_sql

_HEX = "hex:"
_NUMBERS = {"int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}


def is_unavailable(conversion: Conversion, path: str, placeholder: str) -> str | None:
    """Return SQL that is true if the value at ``path`` is the placeholder.

    The value is as the record has it, before conversion. Return None if its type has no
    placeholder.
    """
    return _is(conversion.avro, path, _bytes(placeholder), in_json=conversion.in_json)


def _is(avro: Any, path: str, data: bytes, *, in_json: bool) -> str | None:
    text = data.decode("utf-8", errors="replace")
    match avro:
        case "string":
            pair = json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False)
            forms = (text, base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex(), pair)
            return f"{path} IN ({', '.join(dict.fromkeys(map(text_sql, forms)))})"
        case "bytes":
            return f"{path} = {_binary(data, in_json=in_json)}"
        case {"type": "array", "items": ["null", items]}:
            return _is_array(items, path, data, in_json=in_json)
        case {"type": "map", "values": ["null", "string"]}:
            return f"(size({path}) = 1 AND {path}[{text_sql(text)}] = {text_sql(text)})"
        case {"type": "record", "fields": fields}:
            return _is_record({field["name"]: field["type"] for field in fields}, path, data, in_json=in_json)
    return None


def _is_array(items: Any, path: str, data: bytes, *, in_json: bool) -> str | None:
    match items:
        case "string":
            named = uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)  # java.util.UUID.nameUUIDFromBytes
            return f"(size({path}) = 1 AND ({_is('string', f'{path}[0]', data, in_json=in_json)} OR {path}[0] = '{named}'))"
        case "int" | "long" | "float" | "double":
            return f"{path} = array({', '.join(f'CAST({number} AS {_NUMBERS[items]})' for number in _signed(data))})"
        case "boolean":
            return f"{path} = array({', '.join(str(bool(byte >> bit & 1)) for byte in data for bit in range(7, -1, -1))})"
        case {"logicalType": "decimal", "precision": digits, "scale": scale} if not in_json:
            numbers = (f"CAST('{number}E-{scale}' AS DECIMAL({digits},{scale}))" for number in _signed(data))
            return f"{path} = array({', '.join(numbers)})"
        case "bytes" | {"logicalType": "decimal"}:
            # Decimals with more digits than Spark's are kept as bytes.
            numbers = (_binary(bytes([byte]), in_json=in_json) for byte in data)
            return f"({path} = array({_binary(data, in_json=in_json)}) OR {path} = array({', '.join(numbers)}))"
    one = _is(items, f"{path}[0]", data, in_json=in_json)
    return None if one is None else f"(size({path}) = 1 AND {one})"


def _is_record(members: dict[str, Any], path: str, data: bytes, *, in_json: bool) -> str | None:
    # This is a sparse vector; the order of its pairs is not fixed.
    if members.keys() == {"dimensions", "vector"}:
        numbers = f"array({', '.join(f'CAST({number} AS DOUBLE)' for number in _signed(data))})"
        return (
            f"({path}.dimensions = {len(data)} AND size({path}.vector) = {len(data)}"
            f" AND forall({path}.vector, p -> coalesce(get({numbers}, p.key - 1) = p.value, false)))"
        )
    # ``wkb`` belongs to a geometry, ``value`` to a decimal.
    for name in ("wkb", "value"):
        if members.get(name) == ["null", "bytes"]:
            return f"{path}.{name} = {_binary(data, in_json=in_json)}"
    return None


def _signed(data: bytes) -> list[int]:
    """Return bytes as signed numbers, as Java has them."""
    return list(memoryview(data).cast("b"))


def _binary(data: bytes, *, in_json: bool) -> str:
    return text_sql(base64.b64encode(data).decode()) if in_json else f"X'{data.hex()}'"


def _bytes(placeholder: str) -> bytes:
    if placeholder.startswith(_HEX):
        return bytes.fromhex(placeholder[len(_HEX) :])
    return placeholder.encode()

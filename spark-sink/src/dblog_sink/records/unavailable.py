"""How a record shows that it does not have a value: PostgreSQL leaves unchanged values that are stored apart (TOAST) out of its log.

Debezium then writes ``unavailable.value.placeholder`` instead, in the form of the column (PostgresValueConverter, UnavailableValue; Debezium's
manual, "PostgreSQL connector", Toasted values unchanged): a text as it is, bytes as its UTF-8 bytes (or those in base64 or hex, by
``binary.handling.mode``), an array of texts as one element, an array of numbers as the values of the bytes, an array of UUIDs as the name-based UUID of
the bytes, hstore as a pair of it with itself. What a row of a dump or of a table with REPLICA IDENTITY FULL has is always a value. MySQL's and MariaDB's
log has whole rows.

Pure: SQL by type. Where the value comes from instead is decided by ``tables/modes/kept.py``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid

from pyspark.sql import types as t

from dblog_sink.schema.types import Conversion

_HEX = "hex:"


def is_unavailable(conversion: Conversion, path: str, placeholder: str) -> str | None:
    """SQL that is true where the value at ``path``, as the record has it, is the placeholder; None for a type that has none."""
    data = _bytes(placeholder)
    text = data.decode("utf-8", errors="replace")
    if conversion.avro == "string":
        forms = (
            text,
            base64.b64encode(data).decode(),
            base64.urlsafe_b64encode(data).decode(),
            data.hex(),
            json.dumps({text: text}, separators=(",", ":")),
        )
        return f"{path} IN ({', '.join(dict.fromkeys(map(_text, forms)))})"
    value = conversion.convert(path)
    match conversion.type:
        case t.BinaryType():
            return f"{value} = X'{data.hex()}'"
        case t.ArrayType(elementType=t.StringType()):
            named = uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)  # java.util.UUID.nameUUIDFromBytes
            return f"({value} = array({_text(text)}) OR {value} = array('{named}'))"
        case t.ArrayType(elementType=(t.NumericType()) as kind) if not isinstance(kind, t.DecimalType):
            numbers = ", ".join(f"CAST({byte} AS {kind.simpleString()})" for byte in data)
            return f"{value} = array({numbers})"
        case t.MapType(valueType=t.StringType()):
            return f"(size({value}) = 1 AND {value}[{_text(text)}] = {_text(text)})"
    return None


def _bytes(placeholder: str) -> bytes:
    if placeholder.startswith(_HEX):
        return bytes.fromhex(placeholder[len(_HEX) :])
    return placeholder.encode()


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

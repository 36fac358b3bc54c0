"""Reads and writes Connect's Decimal: the unscaled value in big-endian two's complement, with the
scale in the schema's parameters.
"""

from __future__ import annotations

from decimal import Context, Decimal

from dblog.codecs.avro import DECIMAL
from dblog.codecs.schema import Kind, Schema

_EXACT = Context(prec=2000)


def is_decimal(schema: Schema | None) -> bool:
    """Return True for the schema of a Decimal."""
    return schema is not None and schema.kind is Kind.BYTES and schema.name == DECIMAL


def scale_of(schema: Schema) -> int:
    """Return the number of digits after the point."""
    return int(dict(schema.parameters).get("scale", "0"))


def decimal_of(schema: Schema, value: bytes) -> Decimal:
    """Return a value as a number."""
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale_of(schema), _EXACT)


def unscaled_of(schema: Schema, number: Decimal) -> bytes:
    """Return a number as the schema's bytes. Raise ValueError if it has more digits after the
    point.
    """
    scaled = number.scaleb(scale_of(schema), _EXACT)
    whole = int(scaled)
    if scaled != whole:
        raise ValueError("more digits after the point than the field has")
    return whole.to_bytes((whole + (whole < 0)).bit_length() // 8 + 1, "big", signed=True)

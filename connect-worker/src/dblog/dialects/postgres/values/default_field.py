"""Converts a column's DEFAULT into the default of its schema.

Source of the rules: Debezium 3.6.1 (PostgresDefaultValueConverter). Literals of some types become
defaults. A function or the clock gives the type's zero, whatever the column allows. Other
expressions give no default, nor do columns of a domain, nor structs.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal
from typing import Any

from dblog.codecs.plan import Form
from dblog.codecs.schema import Kind
from dblog.dialects.postgres.values import numbers
from dblog.dialects.postgres.values.declared import declared_type
from dblog.dialects.postgres.values.fields import value_reader
from dblog.dialects.postgres.values.inexpressible import InexpressibleError
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.values.schemas import Typed, decimal_scale
from dblog.model import Column

_CALL = re.compile(r"\(?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)
_CLOCK = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})
_BIT_STRING = re.compile(r"[Bb]'([01]*)'")

_GENERATED = {
    "bit": "0",
    "varbit": "0",
    "bool": "false",
    "bpchar": "",
    "varchar": "",
    "text": "",
    "numeric": "0.0",
    "float4": "0.0",
    "float8": "0.0",
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "json": "{}",
    "jsonb": "{}",
    "xml": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "interval": "00:00:00",
}
"""Types that have defaults, with the text that replaces the result of a function."""

_TRIMMED = frozenset(_GENERATED) - {"bpchar", "varchar", "text", "json", "jsonb", "xml"}
_EXACT = Context(prec=2000)


def schema_default(column: Column, known: Typed, modes: TypeModes) -> Any:
    """Return the default in Connect's value space, or None if the schema has none."""
    text = column.default
    if not column.has_default or text is None or column.generated or known.schema.kind is Kind.STRUCT:
        return None
    if column.type == "enum":
        return None if column.default_is_expression else text
    if declared_type(column) != column.type or column.type not in _GENERATED:
        return None
    if column.default_is_expression:
        if not _CALL.match(text) and text.lower() not in _CLOCK:
            return None
        text = _GENERATED[column.type]
    elif column.type in _TRIMMED:
        text = text.strip()
    try:
        return _converted(text, column, known, modes)
    except (ValueError, ArithmeticError, LookupError, InexpressibleError):
        return None


def _converted(text: str, column: Column, known: Typed, modes: TypeModes) -> Any:
    match column.type:
        case "bool":
            text = "t" if text.lower() in ("true", "t") else "f"
        case "bit" | "varbit":
            found = _BIT_STRING.fullmatch(text)
            text = found[1] if found else text
        case "numeric":
            return _numeric(text, column, known)
        case "uuid":
            text = text.lower()
        case "float4" | "float8":
            value = value_reader(known, column, modes)(text.encode())
            return value if math.isfinite(value) else None
    return value_reader(known, column, modes)(text.encode())


def _numeric(text: str, column: Column, known: Typed) -> Any:
    """Return the default at the column's scale. A literal with more digits raises ValueError and
    gives no default, since it is not what the server would store.
    """
    number = Decimal(text)
    if not number.is_finite():
        return None
    plain = f"{number:f}"
    if column.length is not None:
        scale = decimal_scale(column)
        units = numbers.unscaled(plain.encode(), scale)
        if known.form is Form.DECIMAL:
            return numbers.unscaled_bytes(units)
        plain = f"{Decimal(units).scaleb(-scale, _EXACT):f}"
    return float(plain) if known.form is Form.DECIMAL_DOUBLE else plain

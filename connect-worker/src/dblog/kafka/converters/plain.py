"""Kafka Connect's converters of one value without a schema: text, bytes, numbers, true and false.

Source of the rules: StringConverter, ByteArrayConverter, NumberConverter and BooleanConverter of
Kafka 4.3, and the serializers that they use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from dblog.codecs.avro import DATE, DECIMAL, TIME, TIMESTAMP
from dblog.codecs.schema import Kind, Schema
from dblog.codecs.text import schemaless_text, string_text
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters.contract import NO_SCHEMAS, WithoutRegistry

ENCODINGS = {
    "UTF-8": ("utf-8", b""),
    "UTF8": ("utf-8", b""),
    "US-ASCII": ("ascii", b""),
    "ASCII": ("ascii", b""),
    "ISO-8859-1": ("latin-1", b""),
    "LATIN1": ("latin-1", b""),
    "ISO-8859-15": ("iso8859-15", b""),
    "WINDOWS-1252": ("cp1252", b""),
    "UTF-16": ("utf-16-be", b"\xfe\xff"),
    "UTF-16BE": ("utf-16-be", b""),
    "UTF-16LE": ("utf-16-le", b""),
}
"""Java's names of character sets, with Python's name and the mark before each text."""
_JAVA_OBJECTS = frozenset({DATE, TIME, TIMESTAMP, DECIMAL})
"""Schemas whose values Connect holds as a java.util.Date or a BigDecimal, which are no numbers or
bytes to a converter.
"""
_NUMBERS = {
    "Short": (Kind.INT16, ">h"),
    "Integer": (Kind.INT32, ">i"),
    "Long": (Kind.INT64, ">q"),
    "Float": (Kind.FLOAT32, ">f"),
    "Double": (Kind.FLOAT64, ">d"),
}
_SCHEMALESS = {Kind.INT64: int, Kind.FLOAT64: float}
"""Types of numbers without a schema, which are Longs and Doubles in Connect."""


class StringConverter(WithoutRegistry):
    """Kafka's StringConverter: a value's text."""

    writes_structs = True

    def __init__(self, settings: Mapping[str, str], *, option_prefix: str = "") -> None:
        name = settings.get("converter.encoding", "UTF-8").strip()
        if name.upper() not in ENCODINGS:
            raise ConfigError({f"{option_prefix}converter.encoding": [f"{name} is not one of {', '.join(ENCODINGS)}"]})
        self._encoding, self._mark = ENCODINGS[name.upper()]

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of Java's ``String.valueOf``, or None for null.

        A character that the set does not have becomes a question mark, as in Java.
        """
        del topic
        if value is None:
            return None
        text = schemaless_text(value) if schema is None else string_text(schema, value)
        return (self._mark if text else b"") + text.encode(self._encoding, "replace")

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return NO_SCHEMAS


class ByteArrayConverter(WithoutRegistry):
    """Kafka's ByteArrayConverter, for values that are bytes."""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the value's bytes. Raise DefiniteError for a value of another type, a Decimal
        among them.
        """
        if schema is not None and (schema.kind is not Kind.BYTES or (schema.name == DECIMAL and value is not None)):
            what = schema.kind.value if schema.name is None else f"{schema.kind.value} ({schema.name})"
            raise DefiniteError(f"topic {topic}: ByteArrayConverter cannot write a {what}; use the Avro or JSON converter")
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise DefiniteError(f"topic {topic}: ByteArrayConverter can write bytes only; use the Avro or JSON converter")
        return bytes(value)

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return NO_SCHEMAS


class NumberConverter(WithoutRegistry):
    """Kafka's ShortConverter, IntegerConverter, LongConverter, FloatConverter or DoubleConverter:
    the bytes of a number, the highest first.
    """

    NAMES = tuple(_NUMBERS)

    def __init__(self, name: str) -> None:
        """Create the converter of a name in ``NAMES``."""
        self._name = name
        self._kind, form = _NUMBERS[name]
        self._pack = struct.Struct(form).pack

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the number's bytes, or None for null. Raise DefiniteError for another type of
        value.
        """
        if value is None:
            return None
        if not self._fits(schema, value):
            what = "value without a schema" if schema is None else schema.kind.value if schema.name is None else schema.name
            raise DefiniteError(
                f"topic {topic}: {self._name}Converter writes {self._kind.value} only, and not a {what}; make the key or value one number first "
                "(the transforms ExtractField and Cast), or use the Avro or JSON converter"
            )
        return self._pack(value)

    def _fits(self, schema: Schema | None, value: Any) -> bool:
        if schema is None:
            return type(value) is _SCHEMALESS.get(self._kind)
        return schema.kind is self._kind and schema.name not in _JAVA_OBJECTS

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return NO_SCHEMAS


class BooleanConverter(WithoutRegistry):
    """Kafka's BooleanConverter: one byte, 1 for true and 0 for false."""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the byte, or None for null. Raise DefiniteError for another type of value."""
        if (schema is not None and schema.kind is not Kind.BOOLEAN) or not (value is None or isinstance(value, bool)):
            what = "value without a schema" if schema is None else schema.kind.value
            raise DefiniteError(
                f"topic {topic}: BooleanConverter writes true and false only, and not a {what}; make the key or value one boolean first "
                "(the transforms ExtractField and Cast), or use the Avro or JSON converter"
            )
        return None if value is None else bytes((value,))

    def partial_fault(self) -> str | None:
        """Return the reason that records have no schema to mark them."""
        return NO_SCHEMAS

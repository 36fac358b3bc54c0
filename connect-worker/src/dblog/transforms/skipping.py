"""Finds a struct's place in the Avro bytes of the encoders without reading what is around it.

The bytes of an envelope's ``after`` are those of the row, so unwrapping needs no values: it skips
``before`` field by field and cuts ``after`` out. Skipping costs a fraction of reading.
"""

from __future__ import annotations

from collections.abc import Callable

from dblog.codecs.avro import null_branch
from dblog.codecs.schema import Kind, Schema

Skip = Callable[[bytes, int], int]
"""Function of the bytes and where a value begins; returns where it ends."""

_SOME = (2, 0)
"""First byte of a value that is not null, by the place of null in the union."""
_MORE = 0x80


def skipper(schema: Schema) -> Skip:
    """Return a function that skips a value of a schema, with its union index if it is optional."""
    skip = plain_skipper(schema)
    if not schema.optional:
        return skip
    some = _SOME[null_branch(schema)]

    def optional(data: bytes, at: int) -> int:
        return skip(data, at + 1) if data[at] == some else at + 1

    return optional


def is_null(schema: Schema, data: bytes, at: int) -> bool:
    """Return True if the value of an optional schema at this place is null."""
    return data[at] != _SOME[null_branch(schema)]


def plain_skipper(schema: Schema) -> Skip:
    """Return a function that skips a value of a schema that is not null, without a union index."""
    match schema.kind:
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return _skip_number
        case Kind.BOOLEAN:
            return _skip_one
        case Kind.FLOAT32:
            return _skip_four
        case Kind.FLOAT64:
            return _skip_eight
        case Kind.STRING | Kind.BYTES:
            return _skip_text
        case Kind.STRUCT:
            return _struct_skipper(schema)
        case Kind.ARRAY:
            assert schema.items is not None
            return _block_skipper((skipper(schema.items),))
        case Kind.MAP:
            assert schema.keys is not None
            assert schema.items is not None
            return _block_skipper((skipper(schema.keys), skipper(schema.items)))


def _struct_skipper(schema: Schema) -> Skip:
    members = [skipper(field.schema) for field in schema.fields]

    def skip(data: bytes, at: int) -> int:
        for member in members:
            at = member(data, at)
        return at

    return skip


def _block_skipper(members: tuple[Skip, ...]) -> Skip:
    """Return a function that skips the blocks of an array or map, which begin with their counts."""

    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            for _ in range(count):
                for member in members:
                    at = member(data, at)

    return skip


def _skip_number(data: bytes, at: int) -> int:
    while data[at] >= _MORE:
        at += 1
    return at + 1


def _skip_one(_data: bytes, at: int) -> int:
    return at + 1


def _skip_four(_data: bytes, at: int) -> int:
    return at + 4


def _skip_eight(_data: bytes, at: int) -> int:
    return at + 8


def _skip_text(data: bytes, at: int) -> int:
    length = data[at]
    if length < _MORE:
        return at + 1 + (length >> 1)
    length, at = _number(data, at)
    return at + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return (number >> 1) ^ -(number & 1), at
        shift += 7

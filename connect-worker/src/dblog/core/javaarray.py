"""Reads a Java-serialized array of plain values. Debezium stores the keys of an incremental
snapshot in an offset this way.

The format is the Object Serialization Stream Protocol (Java Object Serialization Specification,
chapter 6). Only what a key can hold is read: numbers, texts, decimals and bytes. For anything else
the answer is None, and the table is dumped from its beginning: better than from a guessed key.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _BLOCK, _END = 0x70, 0x71, 0x72, 0x77, 0x78
_FIRST_HANDLE = 0x7E0000
_WRITES_MORE, _SERIALIZABLE = 0x01, 0x02
_PRIMITIVES = {"B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?"}
VALUES_MAX = 64
"""Upper limit of an array's length, above the number of columns of any key."""
BYTES_MAX = 1 << 20
DEPTH_MAX = 16


class _UnknownError(Exception):
    """The stream contains something that this module does not read."""


@dataclass(slots=True)
class _Class:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    """Type code and name of each field."""
    parent: _Class | None = None


@dataclass(slots=True)
class _Instance:
    of: _Class
    values: dict[str, Any] = field(default_factory=dict)


def read_java_array(text: str) -> tuple[Any, ...] | None:
    """Return the values of an ``Object[]`` given in hexadecimal digits: int, str, Decimal, bytes,
    float or None. Return None if the text holds anything else.
    """
    try:
        data = bytes.fromhex(text)
        if not data.startswith(_MAGIC) or len(data) > BYTES_MAX:
            return None
        found = _Stream(data).content(0)
        return tuple(_plain(value) for value in found) if isinstance(found, list) else None
    except (_UnknownError, ValueError, struct.error, LookupError, TypeError, ArithmeticError):
        return None


class _Stream:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self._handles: list[Any] = []

    def content(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise _UnknownError
        match self._number(">B"):
            case 0x70:  # null; the protocol's numbers are those of its specification
                return None
            case 0x71:  # reference
                return self._handles[self._number(">i") - _FIRST_HANDLE]
            case 0x74:  # string
                text = self._text()
                self._handles.append(text)
                return text
            case 0x75:  # array
                return self._array(depth)
            case 0x73:  # object
                return self._instance(depth)
        raise _UnknownError

    def _array(self, depth: int) -> list[Any] | bytes:
        of = self._class(depth)
        place = len(self._handles)
        self._handles.append(None)
        count = self._number(">i")
        if of is None or not 0 <= count <= (BYTES_MAX if of.name == "[B" else VALUES_MAX):
            raise _UnknownError
        made: list[Any] | bytes
        if of.name == "[B":
            made = self._take(count)
        elif of.name == "[Ljava.lang.Object;":
            made = [self.content(depth + 1) for _ in range(count)]
        else:
            raise _UnknownError
        self._handles[place] = made
        return made

    def _instance(self, depth: int) -> _Instance:
        of = self._class(depth)
        if of is None:
            raise _UnknownError
        made = _Instance(of)
        self._handles.append(made)
        line: list[_Class] = []
        known: _Class | None = of
        while known is not None:
            line.insert(0, known)
            known = known.parent
        for each in line:
            if not each.flags & _SERIALIZABLE:
                raise _UnknownError
            for kind, name in each.fields:
                made.values[name] = self._number(_PRIMITIVES[kind]) if kind in _PRIMITIVES else self.content(depth + 1)
            if each.flags & _WRITES_MORE:
                self._pass_over_to_end()
        return made

    def _class(self, depth: int) -> _Class | None:
        if depth > DEPTH_MAX:
            raise _UnknownError
        kind = self._number(">B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            known = self._handles[self._number(">i") - _FIRST_HANDLE]
            if not isinstance(known, _Class):
                raise _UnknownError
            return known
        if kind != _CLASS:
            raise _UnknownError
        made = _Class(self._text())
        self._take(8)  # serialVersionUID
        self._handles.append(made)
        made.flags = self._number(">B")
        for _ in range(self._number(">H")):
            field_kind = chr(self._number(">B"))
            name = self._text()
            if field_kind not in _PRIMITIVES:
                self.content(depth + 1)  # the name of its class
            made.fields.append((field_kind, name))
        if self._number(">B") != _END:
            raise _UnknownError
        made.parent = self._class(depth + 1)
        return made

    def _pass_over_to_end(self) -> None:
        while (kind := self._number(">B")) != _END:
            if kind != _BLOCK:
                raise _UnknownError
            self._take(self._number(">B"))

    def _text(self) -> str:
        """Read a text in Java's modified UTF-8. It differs from UTF-8 for NUL, which is refused,
        and for characters beyond 16 bits, which do not decode.
        """
        text = self._take(self._number(">H"))
        if b"\xc0\x80" in text:
            raise _UnknownError
        return text.decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise _UnknownError
        self._at += count
        return taken


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bytes):
        return value
    if not isinstance(value, _Instance):
        raise _UnknownError
    match value.of.name:
        case "java.lang.Integer" | "java.lang.Long" | "java.lang.Short" | "java.lang.Byte" | "java.lang.Double" | "java.lang.Float":
            return value.values["value"]
        case "java.math.BigInteger":
            return value.values["signum"] * int.from_bytes(value.values["magnitude"], "big")
        case "java.math.BigDecimal":
            unscaled = _plain(value.values["intVal"])
            return Decimal(unscaled).scaleb(-value.values["scale"])
    raise _UnknownError

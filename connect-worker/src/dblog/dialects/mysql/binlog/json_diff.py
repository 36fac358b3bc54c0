"""The application of the server's JSON differences (binlog_row_value_options=PARTIAL_JSON) to a
binary document.

A difference is an operation, a path and a value. The result is a binary document again, which any
reader of whole documents accepts. Values that no difference touches keep their bytes. Rule sources:
MySQL sql-common/json_binary.h (format), sql-common/json_diff.cc (``Json_diff_vector::read_binary``,
``apply_json_diffs``), sql-common/json_path.cc (paths).
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TypeAlias

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_WIDTHS = {_LITERAL: 1, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8, 11: 8}
"""Bytes of the scalars of fixed width: literals, integers, doubles."""
_INLINE_SMALL = frozenset({_LITERAL, 5, 6})
_INLINE_LARGE = _INLINE_SMALL | {7, 8}
_STRING, _OPAQUE = 12, 15
_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_DEPTH_MAX = 120


@dataclass(slots=True)
class _Scalar:
    kind: int
    raw: bytes


Node: TypeAlias = "_Scalar | list[Node] | dict[bytes, Node]"
Leg: TypeAlias = bytes | int
"""A step of a path: a member's name, or an index."""


def applied(document: bytes, differences: bytes) -> bytes:
    """Return the binary document after the differences. Raise ValueError if they do not fit it, or
    if either is damaged.
    """
    try:
        root = _parsed(document, document[0], 1, 0) if document else _Scalar(_LITERAL, b"\0")
        at = 0
        while at < len(differences):
            operation = differences[at]
            length, at = _packed(differences, at + 1)
            path, at = _slice(differences, at, length), at + length
            value: Node | None = None
            if operation != _REMOVE:
                length, at = _packed(differences, at)
                raw, at = _slice(differences, at, length), at + length
                value = _parsed(raw, raw[0], 1, 0)
            root = _changed(root, operation, _legs(path), value)
    except (IndexError, KeyError, TypeError, struct.error, RecursionError) as error:
        message = "a difference of a JSON document that does not fit it"
        raise ValueError(message) from error
    kind, raw = _written(root)
    return bytes([kind]) + raw


def _changed(root: Node, operation: int, legs: list[Leg], value: Node | None) -> Node:
    if not legs:
        if operation != _REPLACE or value is None:
            raise KeyError(operation)
        return value
    parent = root
    for leg in legs[:-1]:
        parent = _child(parent, leg)
    last = legs[-1]
    if operation == _REPLACE:
        _child(parent, last)
        _put(parent, last, value)
    elif operation == _REMOVE:
        _remove(parent, last)
    elif operation == _INSERT and value is not None:
        if isinstance(parent, list) and isinstance(last, int):
            parent.insert(last, value)
        elif isinstance(parent, dict) and isinstance(last, bytes) and last not in parent:
            parent[last] = value
        else:
            raise KeyError(last)
    else:
        raise KeyError(operation)
    return root


def _child(parent: Node, leg: Leg) -> Node:
    if isinstance(parent, list) and isinstance(leg, int):
        return parent[leg]
    if isinstance(parent, dict) and isinstance(leg, bytes):
        return parent[leg]
    raise KeyError(leg)


def _put(parent: Node, leg: Leg, value: Node | None) -> None:
    assert value is not None, "only a removal has no value"
    match parent, leg:
        case list(), int():
            parent[leg] = value
        case dict(), bytes():
            parent[leg] = value


def _remove(parent: Node, leg: Leg) -> None:
    _child(parent, leg)
    match parent, leg:
        case list(), int():
            parent.pop(leg)
        case dict(), bytes():
            parent.pop(leg)


_LEG = re.compile(rb'\.("(?:[^"\\]|\\.)*"|[^.\[\]"]+)|\[(\d+)\]', re.DOTALL)


def _legs(path: bytes) -> list[Leg]:
    """Split ``$.a."b c"[3]``, a path as the server writes it: names that are not identifiers are
    JSON strings.
    """
    if path[:1] != b"$":
        raise KeyError(path)
    out: list[Leg] = []
    at = 1
    while at < len(path):
        found = _LEG.match(path, at)
        if found is None:
            raise KeyError(path)
        at = found.end()
        if found[2] is not None:
            out.append(int(found[2]))
        elif found[1][:1] == b'"':
            out.append(str(json.loads(found[1], strict=False)).encode())
        else:
            out.append(found[1])
    return out


# -- the binary format -----------------------------------------------------------------------------


def _parsed(raw: bytes, kind: int, at: int, depth: int) -> Node:
    if depth > _DEPTH_MAX:
        raise IndexError(depth)
    if kind <= _LARGE_ARRAY:
        return _container(raw, kind, at, depth + 1)
    width = _WIDTHS.get(kind)
    if width is not None:
        return _Scalar(kind, _slice(raw, at, width))
    if kind == _STRING:
        length, start = _length(raw, at)
        return _Scalar(kind, _slice(raw, at, start - at + length))
    if kind == _OPAQUE:
        length, start = _length(raw, at + 1)
        return _Scalar(kind, _slice(raw, at, start - at + length))
    raise KeyError(kind)


def _container(raw: bytes, kind: int, start: int, depth: int) -> Node:
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    width = 4 if large else 2
    inline = _INLINE_LARGE if large else _INLINE_SMALL

    def number(at: int) -> int:
        return int.from_bytes(_slice(raw, at, width), "little")

    count = number(start)
    keys = start + 2 * width
    values = keys + (width + 2) * count if is_object else keys
    if values + (width + 1) * count > len(raw):
        raise IndexError(count)
    names: list[bytes] = []
    members: list[Node] = []
    for index in range(count):
        if is_object:
            entry = keys + (width + 2) * index
            names.append(_slice(raw, start + number(entry), int.from_bytes(raw[entry + width : entry + width + 2], "little")))
        entry = values + (width + 1) * index
        member = raw[entry]
        at = entry + 1 if member in inline else start + number(entry + 1)
        if at <= start and member not in inline:
            raise IndexError(at)
        members.append(_parsed(raw, member, at, depth))
    return dict(zip(names, members, strict=True)) if is_object else members


def _written(node: Node) -> tuple[int, bytes]:
    """Return kind and bytes of a value. Containers are in the large form, which readers accept for
    any size.
    """
    if isinstance(node, _Scalar):
        return node.kind, node.raw
    is_object = isinstance(node, dict)
    names = sorted(node, key=lambda name: (len(name), name)) if isinstance(node, dict) else []
    members = [node[name] for name in names] if isinstance(node, dict) else node
    key_entries, key_bytes, value_entries, value_bytes = bytearray(), bytearray(), bytearray(), bytearray()
    keys_at = 8 + (6 * len(members) if is_object else 0) + 5 * len(members)
    for name in names:
        key_entries += struct.pack("<IH", keys_at + len(key_bytes), len(name))
        key_bytes += name
    values_at = keys_at + len(key_bytes)
    for member in members:
        kind, raw = _written(member)
        if kind in _INLINE_LARGE:
            value_entries += bytes([kind]) + raw.ljust(4, b"\0")
        else:
            value_entries += struct.pack("<BI", kind, values_at + len(value_bytes))
            value_bytes += raw
    head = struct.pack("<II", len(members), values_at + len(value_bytes))
    return (
        _LARGE_OBJECT if is_object else _LARGE_ARRAY,
        b"".join((head, key_entries, value_entries, key_bytes, value_bytes)),
    )


def string_document(text: str) -> bytes:
    """Return a binary document that consists of one string."""
    raw = text.encode()
    out, rest = bytearray(), len(raw)
    while rest >= 0x80:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes([_STRING]) + bytes(out) + raw


def _length(raw: bytes, at: int) -> tuple[int, int]:
    length = 0
    for shift in range(0, 35, 7):
        byte = raw[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the top bit states that more follow
            return length, at
    raise IndexError(at)


def _packed(raw: bytes, at: int) -> tuple[int, int]:
    first = raw[at]
    if first < 0xFB:  # noqa: PLR2004 - a number of one byte
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(_slice(raw, at + 1, size), "little"), at + 1 + size


def _slice(raw: bytes, at: int, length: int) -> bytes:
    if at + length > len(raw):
        raise IndexError(at)
    return raw[at : at + length]

"""Converts points, PostGIS geometries, vectors and the other geometric types from their text.

Sources of the rules: PostgreSQL manual, Geometric Types; PostGIS manual, EWKB; pgvector's README;
Debezium's Point, PostgisGeometry, Vectors and SparseDoubleVector.
"""

from __future__ import annotations

import re
from struct import pack, unpack, unpack_from
from typing import Any

from dblog.codecs.javatext import double_text
from dblog.dialects.postgres.values.inexpressible import InexpressibleError
from dblog.dialects.postgres.values.java_maps import in_java_order, short_hash

_LITTLE_ENDIAN_POINT = pack("<BI", 1, 1)
_EWKB_SRID = 0x20000000
_EWKB_MIN = 9
_SHORT_MAX = 32767

EMPTY_COLLECTION = bytes.fromhex("010700000000000000")
"""WKB of GEOMETRYCOLLECTION EMPTY, which Debezium writes for a missing geometry."""

_NUMBER = re.compile(r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|Infinity|NaN)")


def point(text: str) -> dict[str, Any]:
    """Return ``(x,y)`` as ``io.debezium.data.geometry.Point``, with the WKB that Debezium adds."""
    x, y = map(float, text[1:-1].split(","))
    return point_struct(x, y)


def point_struct(x: float, y: float) -> dict[str, Any]:
    """Return the struct of a point without SRID."""
    return {"x": x, "y": y, "wkb": _LITTLE_ENDIAN_POINT + pack("<dd", x, y), "srid": None}


def geometry(text: str) -> dict[str, Any]:
    """Return hexadecimal EWKB as ``io.debezium.data.geometry.Geometry`` or ``Geography``: the
    unchanged bytes, and the SRID that they name.
    """
    wkb = bytes.fromhex(text)
    if len(wkb) < _EWKB_MIN:
        raise ValueError
    order = "<" if wkb[0] else ">"
    shape: int = unpack_from(f"{order}I", wkb, 1)[0]
    srid: int | None = unpack_from(f"{order}i", wkb, 5)[0] if shape & _EWKB_SRID else None
    return {"wkb": wkb, "srid": srid}


def vector(text: str) -> list[float]:
    """Return ``[1,2.5]`` as doubles."""
    if not text.startswith("[") or not text.endswith("]"):
        raise ValueError
    return [float(part) for part in text[1:-1].split(",")]


def half_vector(text: str) -> list[float]:
    """Return ``[1,2.5]`` as 32-bit floats."""
    numbers = vector(text)
    return list(unpack(f"<{len(numbers)}f", pack(f"<{len(numbers)}f", *numbers)))


def sparse_vector(text: str) -> dict[str, Any]:
    """Return ``{1:1.5,3:2}/5`` as ``io.debezium.data.SparseDoubleVector``, whose indexes have 16
    bits.
    """
    body, _, dimensions = text.partition("/")
    if not body.startswith("{") or not body.endswith("}"):
        raise ValueError
    if int(dimensions) > _SHORT_MAX:
        raise InexpressibleError("a sparsevec of more than 32767 dimensions cannot be written; exclude the column")
    members = body[1:-1].split(",") if body != "{}" else []
    pairs = (member.split(":") for member in members)
    entries = {int(index): float(number) for index, number in pairs}
    return {"dimensions": int(dimensions), "vector": in_java_order(entries, short_hash, capacity=len(members))}


def with_java_numbers(text: str) -> str:
    """Return the text of a box, circle, line, lseg, path or polygon as PostgreSQL's JDBC driver
    prints it: with Java's doubles.
    """
    return _NUMBER.sub(lambda found: double_text(float(found[0])), text)

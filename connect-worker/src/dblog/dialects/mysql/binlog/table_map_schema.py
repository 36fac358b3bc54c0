"""The columns that a table map shows, and a check that the known schema agrees with them (D8).

Every table map has types, lengths and nullability. MINIMAL metadata adds signedness and charsets,
FULL adds names, members and the key. If schema and table map disagree on how bytes are read or what
the record shows, one of them is wrong, and the server is asked again (readers/log/schemas.py). The
log is used alone only if the server cannot help. What it cannot express (defaults, comments, a UUID
that is stored as 16 bytes) is then taken from the nearest known schema.

Collations are numbers; their names are read from the server once (``Charsets``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dblog.core.crosscheck import Seen
from dblog.dialects.mysql.binlog.events import MapColumn, TableMap, WireType
from dblog.dialects.mysql.catalog.information_schema import canonical_charset, canonical_collation
from dblog.dialects.mysql.values.charsets import decoder
from dblog.errors import DefiniteError
from dblog.model import Column, Table

COLLATIONS_SQL = "SELECT ID, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL AND CHARACTER_SET_NAME IS NOT NULL"
MARIADB_COLLATIONS_SQL = "SELECT ID, CHARACTER_SET_NAME, FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
"""The query for MariaDB since 10.10.1, where some collations serve several charsets. Only this
table has all their numbers; before that version it has none.
"""
WIDTHS_SQL = "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS"

BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Charsets:
    """The server's charsets. ``collations``: number -> (charset, collation); ``widths``: charset ->
    most bytes of a character.
    """

    collations: Mapping[int, tuple[str, str]]
    widths: Mapping[str, int]

    @classmethod
    def of(cls, collations: Iterable[Sequence[object]], widths: Iterable[Sequence[object]]) -> Charsets:
        """Return the charsets of rows of ``collations_sql`` and ``WIDTHS_SQL``, under canonical
        names: MySQL 5.7 and MariaDB before 10.6 call utf8mb3 utf8.
        """
        return cls(
            collations={
                int(str(number)): (canonical_charset(str(charset)), canonical_collation(str(name))) for number, charset, name in collations
            },
            widths={canonical_charset(str(charset)): int(str(width)) for charset, width in widths},
        )

    def charset(self, collation: int | None) -> str | None:
        """Return the charset of a collation number; None if the log or the server does not name
        it.
        """
        return None if collation is None else self.collations.get(collation, (None, None))[0]


def collations_sql(flavor: str, version: tuple[int, int, int]) -> str:
    """Return the query for the numbers of all collations of that server."""
    return MARIADB_COLLATIONS_SQL if flavor == "mariadb" and version >= (10, 10, 1) else COLLATIONS_SQL


_INTEGERS = {
    WireType.TINY: "tinyint",
    WireType.SHORT: "smallint",
    WireType.INT24: "mediumint",
    WireType.LONG: "int",
    WireType.LONGLONG: "bigint",
}
_PLAIN = {
    **_INTEGERS,
    WireType.FLOAT: "float",
    WireType.DOUBLE: "double",
    WireType.YEAR: "year",
    WireType.DATE: "date",
    WireType.NEWDATE: "date",
    WireType.JSON: "json",
    WireType.GEOMETRY: "geometry",
    WireType.VECTOR: "vector",
}
_TEMPORAL = {WireType.TIME2: "time", WireType.DATETIME2: "datetime", WireType.TIMESTAMP2: "timestamp"}
_BLOBS = {1: ("tinyblob", "tinytext"), 2: ("blob", "text"), 3: ("mediumblob", "mediumtext"), 4: ("longblob", "longtext")}
LOBS = frozenset(name for pair in _BLOBS.values() for name in pair)
_STRINGS = {
    WireType.VARCHAR: ("varbinary", "varchar"),
    WireType.VAR_STRING: ("varbinary", "varchar"),
    WireType.MARIADB_VARCHAR_COMPRESSED: ("varbinary", "varchar"),
    WireType.STRING: ("binary", "char"),
}
_LOBS = frozenset({WireType.BLOB, WireType.MARIADB_BLOB_COMPRESSED})
_COMPRESSED = frozenset({WireType.MARIADB_BLOB_COMPRESSED, WireType.MARIADB_VARCHAR_COMPRESSED})
COMPRESSED = " /*M!100301 COMPRESSED*/"
"""The attribute that MariaDB writes after a compressed type."""
_MEMBERS = frozenset({WireType.ENUM, WireType.SET})
_WITH_CHARSET = _STRINGS.keys() | _LOBS
_WITHOUT_CHARSET = _PLAIN.keys() | _TEMPORAL.keys() | {WireType.NEWDECIMAL, WireType.BIT}

GEOMETRIES = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection"}
)
STORED_AS_BINARY = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB types that the log shows as BINARY(n), with n."""
HASH_COLUMN = re.compile(r"DB_ROW_HASH_\d+")
"""The hidden column that MariaDB adds after a table's columns for each UNIQUE index on a text or
blob (MDEV-371).
"""
SEQUENCE_COLUMNS = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)
"""The columns of the one row by which MariaDB logs a sequence."""
SIGNED = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"})
SAME_WIRE = {
    "integer": "int",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "real": "double",
    "bool": "tinyint",
    "boolean": "tinyint",
}


def seen_of(table_map: TableMap, charsets: Charsets) -> Seen:
    """Return the table map's columns, as far as the log shows them."""
    columns = tuple(_column(column, charsets) for column in table_map.columns)
    key = None
    if table_map.named and table_map.key is not None:
        key = tuple(columns[index].name for index, _ in table_map.key)
    elif table_map.named:
        key = ()
    complete = table_map.named and all(
        _is_complete(in_map, column, charsets) for in_map, column in zip(table_map.columns, columns, strict=True)
    )
    is_sequence = tuple(column.name for column in columns) == SEQUENCE_COLUMNS
    return Seen(
        columns=columns, named=table_map.named, key=key or None, is_table=not is_sequence, hidden_behind=hash_columns, complete=complete
    )


def _is_complete(in_map: MapColumn, column: Column, charsets: Charsets) -> bool:
    """Return whether the log alone shows how the column's bytes are read."""
    code = in_map.type_code
    if code in _MEMBERS:
        return bool(column.members)
    if code in _WITH_CHARSET:
        return charsets.charset(in_map.collation) is not None
    return code in _WITHOUT_CHARSET and (code not in _INTEGERS or in_map.unsigned is not None)


def hash_columns(table: Table) -> int:
    """Return the number of hash columns that MariaDB keeps after a table's own: one for each UNIQUE
    index over a whole text or blob. MySQL refuses such an index.
    """
    lobs = {column.name.lower() for column in table.columns if column.type in LOBS}
    return sum(index.unique and not index.partial and any(name.lower() in lobs for name in index.columns) for index in table.indexes)


def _column(column: MapColumn, charsets: Charsets) -> Column:
    code, meta = column.type_code, column.meta
    charset = charsets.charset(column.collation)
    length: int | None = None
    scale: int | None = None
    members: tuple[str, ...] = ()
    if code in _TEMPORAL:
        type_, length = _TEMPORAL[WireType(code)], meta
        text = f"{type_}({meta})" if meta else type_
    elif code == WireType.NEWDECIMAL:
        type_, length, scale = "decimal", meta >> 8, meta & 0xFF
        text = f"decimal({length},{scale})"
    elif code == WireType.BIT:
        type_, length = "bit", (meta >> 8) * 8 + (meta & 0xFF)
        text = f"bit({length})"
    elif code in _LOBS:
        type_ = text = _BLOBS[meta][charset is not None and charset != BINARY]
    elif code in _STRINGS:
        type_ = _STRINGS[WireType(code)][charset is not None and charset != BINARY]
        # A compressed column has one byte more, for the compression method
        # (Field_varstring_compressed).
        stored = meta - 1 if code == WireType.MARIADB_VARCHAR_COMPRESSED else meta
        length = stored // charsets.widths.get(charset or BINARY, 1)
        text = f"{type_}({length})"
    elif code in _MEMBERS:
        type_ = "enum" if code == WireType.ENUM else "set"
        members = _members(column, charset)
        text = f"{type_}({','.join(_quoted(m) for m in members)})"
    else:
        type_ = text = _PLAIN.get(WireType(code), f"wire type {code}") if code in WireType._value2member_map_ else f"wire type {code}"
    unsigned = bool(column.unsigned)
    if unsigned and (code in _INTEGERS or type_ in {"decimal", "float", "double"}):
        text += " unsigned"
    if code in _COMPRESSED:
        text += COMPRESSED
    return Column(
        name=column.name or "",
        type=type_,
        type_text=text,
        nullable=column.nullable,
        unsigned=unsigned,
        length=length,
        scale=scale,
        charset=None if charset == BINARY else charset,
        members=members,
        hidden=HASH_COLUMN.fullmatch(column.name or "") is not None,
    )


def _members(column: MapColumn, charset: str | None) -> tuple[str, ...]:
    """Return an ENUM's or SET's members, which the log has in the column's charset; none if that is
    unknown.
    """
    if not column.members or charset is None:
        return ()
    try:
        decode = decoder(charset, where=f"members of {column.name}")
    except DefiniteError:
        return ()
    return tuple(decode(member) for member in column.members)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def merger(charsets: Charsets, *, signs_known: bool, nulls_known: bool = True) -> Callable[[Column, Column], Column]:
    """Return the function that merges a known column with one seen in the log (``merge`` of
    ``cross_check``).

    ``signs_known``: the table map shows which numbers are unsigned (without metadata it does not).
    ``nulls_known``: it shows which columns may be NULL. MariaDB logs all columns as nullable for a
    table on the inner side of an outer join (``Field::maybe_null`` also asks the table).
    """
    return lambda known, seen: _merged(known, seen, charsets, signs_known=signs_known, nulls_known=nulls_known)


def _merged(known: Column, seen: Column, charsets: Charsets, *, signs_known: bool, nulls_known: bool) -> Column:
    """Return ``known`` itself if it agrees, else the column to decode with."""
    signs_agree = not signs_known or known.unsigned == seen.unsigned or _family(known.type) not in SIGNED
    if not signs_agree or not _same_storage(known, seen, charsets):
        nullable = seen.nullable if nulls_known else known.nullable
        return replace(
            seen, name=known.name, comment=known.comment, invisible=known.invisible, generated=known.generated, nullable=nullable
        )
    changes: dict[str, object] = {}
    if nulls_known and known.nullable != seen.nullable:
        changes["nullable"] = seen.nullable
    if seen.members and known.members and known.members != seen.members and "\ufffd" not in "".join(seen.members):
        changes |= {"members": seen.members, "type_text": seen.type_text}
    if seen.charset is not None and known.charset is not None and known.charset != seen.charset:
        changes |= {"charset": seen.charset, "collation": None}
    return replace(known, **changes) if changes else known  # type: ignore[arg-type]  # names and types are Column's own


def _is_compressed(column: Column) -> bool:
    return column.type not in {"enum", "set"} and COMPRESSED in column.type_text


def _same_storage(known: Column, seen: Column, charsets: Charsets) -> bool:
    """Return whether the bytes of both are read alike, apart from the sign."""
    if _is_compressed(known) != _is_compressed(seen):
        return False
    known_type = SAME_WIRE.get(known.type, known.type)
    if known_type in STORED_AS_BINARY:
        return seen.type in {"binary", "char"} and seen.length is not None
    if known_type in GEOMETRIES:
        return seen.type == "geometry"
    if known_type in {"float", "double"}:
        return seen.type == known_type or (known_type == "float" and seen.type == "double")
    if known_type == "json" and seen.type in {"longtext", "longblob"}:
        return True  # MariaDB
    if _family(known_type) != _family(seen.type):
        return False
    if known_type == "decimal":
        return (known.length or 10, known.scale or 0) == (seen.length, seen.scale)
    if known_type in {"time", "datetime", "timestamp"}:
        return (known.length or 0) == (seen.length or 0)
    if known_type == "bit":
        return (known.length or 1) == seen.length
    if known_type in {"char", "varchar"} and known.length is not None and seen.length is not None:
        width = charsets.widths.get(known.charset or BINARY, 1)
        seen_width = charsets.widths.get(seen.charset or BINARY, 1)
        return known.length * width == seen.length * seen_width or known.length == seen.length
    if known_type in {"binary", "varbinary"}:
        return known.length == seen.length
    return True


_FAMILIES = {
    **dict.fromkeys(("char", "binary"), "char"),
    **dict.fromkeys(("varchar", "varbinary"), "varchar"),
    **dict.fromkeys(("tinytext", "tinyblob"), "blob1"),
    **dict.fromkeys(("text", "blob"), "blob2"),
    **dict.fromkeys(("mediumtext", "mediumblob"), "blob3"),
    **dict.fromkeys(("longtext", "longblob"), "blob4"),
}


def _family(type_: str) -> str:
    """Return the type's family. Its types differ only in a binary charset, which the log does not
    show without metadata.
    """
    return _FAMILIES.get(type_, type_)

"""TABLE_MAP events, which describe table and columns of the rows events after them, with all
optional metadata.

Also the rows of the watermark table, which need no row plan. Rule sources: MySQL
libs/mysql/binlog/event/rows_event.h (``Table_map_event::Optional_metadata_fields``),
sql/log_event.cc (the columns that each field counts).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from dblog.dialects.mysql.binlog.event_types import DELETE_TYPES, ROWS_V2_TYPES, UPDATE_TYPES, EventType
from dblog.errors import DefiniteError
from dblog.model import TableId


class WireType(IntEnum):
    """Column types of a table map (enum_field_types; MariaDB adds 140, 141)."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    MARIADB_BLOB_COMPRESSED = 140
    MARIADB_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_NUMERIC = frozenset(
    {
        WireType.DECIMAL, WireType.TINY, WireType.SHORT, WireType.LONG, WireType.FLOAT, WireType.DOUBLE, WireType.LONGLONG, WireType.INT24,
        WireType.YEAR, WireType.NEWDECIMAL,
    }
)  # fmt: skip
_CHARACTER = frozenset(
    {
        WireType.VARCHAR, WireType.VAR_STRING, WireType.STRING, WireType.BLOB, WireType.TINY_BLOB, WireType.MEDIUM_BLOB, WireType.LONG_BLOB,
        WireType.MARIADB_BLOB_COMPRESSED, WireType.MARIADB_VARCHAR_COMPRESSED, WireType.VECTOR,
    }
)  # fmt: skip
"""Types that the charset fields cover. MySQL 9 includes VECTOR (``is_character_type``)."""
_MARIADB_CHARACTER = _CHARACTER | {WireType.GEOMETRY}
"""Types that MariaDB's charset fields cover: every column stored as a string. A geometry has the
binary charset there (``Field_geom`` is a ``Field_blob``).
"""
_ENUM_SET = frozenset({WireType.ENUM, WireType.SET})


@dataclass(frozen=True, slots=True, kw_only=True)
class MapColumn:
    """A column of a table map. Fields that the optional metadata lacks are None (or empty)."""

    type_code: int
    """The real type: ENUM and SET are logged as STRING and unwrapped here."""
    meta: int
    """The type's metadata for the image reader: bytes for strings, precision and scale, fraction
    digits, or length bytes.
    """
    nullable: bool
    unsigned: bool | None = None
    name: str | None = None
    collation: int | None = None
    members: tuple[bytes, ...] | None = None
    """Members of an ENUM or SET, in the column's charset."""
    geometry: int | None = None
    visible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """A TABLE_MAP event. ``key`` has column indexes with prefix lengths (0: the whole column); None
    if the log does not name the key.
    """

    table_id: int
    flags: int
    table: TableId
    columns: tuple[MapColumn, ...]
    key: tuple[tuple[int, int], ...] | None = None

    @property
    def named(self) -> bool:
        """True if the log names columns (binlog_row_metadata=FULL)."""
        return bool(self.columns) and self.columns[0].name is not None


_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_MEMBERS, _ENUM_MEMBERS, _GEOMETRY, _KEY, _PREFIX_KEY = range(1, 10)
_ENUM_SET_DEFAULT_CHARSET, _ENUM_SET_CHARSET, _VISIBILITY, _VECTOR_DIMENSION = range(10, 14)


def read_table_name(body: bytes) -> tuple[int, TableId]:
    """Return only table number and name, which is enough to skip a table that is not captured."""
    at = 8
    n = body[at]
    database = body[at + 1 : at + 1 + n]
    at += n + 2
    n = body[at]
    name = body[at + 1 : at + 1 + n]
    return int.from_bytes(body[:6], "little"), TableId(database.decode("utf-8", "surrogateescape"), name.decode("utf-8", "surrogateescape"))


def read_table_map(body: bytes, *, mariadb: bool = False) -> TableMap:
    """Read the body of a TABLE_MAP (post-header of 8 bytes, as in every server since 5.1.4). Raise
    DefiniteError if it contradicts itself.

    ``mariadb`` is the kind of server that wrote it; they count character columns differently.
    """
    try:
        return _table_map(body, _MARIADB_CHARACTER if mariadb else _CHARACTER)
    except (IndexError, ValueError) as error:
        message = "a table map of the log contradicts itself: it is damaged, or of a server that this version of dblog does not know"
        raise DefiniteError(message) from error


def _table_map(body: bytes, characters: AbstractSet[int]) -> TableMap:
    table_id, table = read_table_name(body)
    flags = int.from_bytes(body[6:8], "little")
    at = 8
    for _ in range(2):
        at += body[at] + 2
    count, at = packed(body, at)
    types = body[at : at + count]
    at += count
    meta_bytes, at = packed(body, at)
    real = _read_metas(types, body[at : at + meta_bytes])
    at += meta_bytes
    nulls = body[at : at + (count + 7) // 8]
    at += (count + 7) // 8
    optional = _Optional.read(body[at:], [code for code, _ in real], characters=characters)
    columns = tuple(
        MapColumn(
            type_code=code,
            meta=meta,
            nullable=bool(nulls[i >> 3] >> (i & 7) & 1),
            unsigned=optional.unsigned.get(i),
            name=optional.names[i] if i < len(optional.names) else None,
            collation=optional.collations.get(i),
            members=optional.members.get(i),
            geometry=optional.geometries.get(i),
            visible=optional.visible.get(i),
        )
        for i, (code, meta) in enumerate(real)
    )
    return TableMap(table_id=table_id, flags=flags, table=table, columns=columns, key=optional.key)


_META_ONE = frozenset(
    {
        WireType.FLOAT, WireType.DOUBLE, WireType.BLOB, WireType.TINY_BLOB, WireType.MEDIUM_BLOB, WireType.LONG_BLOB, WireType.JSON,
        WireType.GEOMETRY, WireType.TIMESTAMP2, WireType.DATETIME2, WireType.TIME2, WireType.MARIADB_BLOB_COMPRESSED, WireType.VECTOR,
    }
)  # fmt: skip


def _read_metas(types: bytes, metas: bytes) -> list[tuple[int, int]]:
    """Return (real type, metadata) of every column. ENUM, SET and CHAR are unwrapped like in
    Field::unpack, with a CHAR's byte length over 255 restored.
    """
    out = []
    at = 0
    for code in types:
        if code in _META_ONE:
            out.append((code, metas[at]))
            at += 1
        elif code in (WireType.VARCHAR, WireType.BIT, WireType.VAR_STRING, WireType.MARIADB_VARCHAR_COMPRESSED):
            out.append((code, metas[at] | metas[at + 1] << 8))
            at += 2
        elif code == WireType.NEWDECIMAL:
            out.append((code, metas[at] << 8 | metas[at + 1]))  # precision, scale
            at += 2
        elif code in (WireType.STRING, WireType.ENUM, WireType.SET):
            first, second = metas[at], metas[at + 1]
            at += 2
            if first & 0x30 != 0x30:  # noqa: PLR2004 - lengths over 255 hide two bits in the type's byte
                out.append((first | 0x30, second | ((first & 0x30) ^ 0x30) << 4))
            else:
                out.append((first, second))
        elif code == WireType.TYPED_ARRAY:
            message = "a table map names a typed array as a column, which no server writes"
            raise DefiniteError(message)
        else:
            out.append((code, 0))
    return out


@dataclass(slots=True)
class _Optional:
    """Optional metadata, by column index."""

    unsigned: dict[int, bool]
    collations: dict[int, int]
    names: list[str]
    members: dict[int, tuple[bytes, ...]]
    geometries: dict[int, int]
    visible: dict[int, bool]
    key: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def read(cls, data: bytes, types: Sequence[int], *, characters: AbstractSet[int]) -> _Optional:
        """Read fields of (type, length, value) up to the end; unknown fields are skipped, as the
        format intends.

        If a field covers more or fewer columns than there are of its kind, it was counted by an
        unknown rule, and its entries may belong to other columns. Then all of the metadata is
        ignored. Types and widths, which come before it, are checked nevertheless.
        """
        try:
            return cls._read(data, types, characters)
        except _OtherCountError:
            return cls({}, {}, [], {}, {}, {})

    @classmethod
    def _read(cls, data: bytes, types: Sequence[int], characters: AbstractSet[int]) -> _Optional:
        out = cls({}, {}, [], {}, {}, {})
        # Signedness covers numeric columns, the charset fields cover character (or ENUM and SET)
        # columns, in the order among those.
        numeric = [i for i, code in enumerate(types) if code in _NUMERIC]
        character = [i for i, code in enumerate(types) if code in characters]
        enum_set = [i for i, code in enumerate(types) if code in _ENUM_SET]
        at = 0
        while at < len(data):
            field = data[at]
            length, at = packed(data, at + 1)
            value = data[at : at + length]
            at += length
            if field == _SIGNEDNESS:
                out.unsigned = _each(numeric, _bits(value, len(numeric)))
            elif field == _DEFAULT_CHARSET:
                out.collations |= _default_collations(value, character)
            elif field == _COLUMN_CHARSET:
                out.collations |= _each(character, _numbers(value))
            elif field == _NAMES:
                names = _each(range(len(types)), _texts(value))
                out.names = [text.decode("utf-8", "surrogateescape") for text in names.values()]
            elif field in (_SET_MEMBERS, _ENUM_MEMBERS):
                wanted = WireType.SET if field == _SET_MEMBERS else WireType.ENUM
                out.members |= _each([i for i in enum_set if types[i] == wanted], _member_lists(value))
            elif field == _GEOMETRY:
                out.geometries = _each([i for i, code in enumerate(types) if code == WireType.GEOMETRY], _numbers(value))
            elif field == _KEY:
                out.key = tuple((i, 0) for i in _numbers(value))
            elif field == _PREFIX_KEY:
                numbers = list(_numbers(value))
                out.key = tuple(zip(numbers[::2], numbers[1::2], strict=True))
            elif field == _ENUM_SET_DEFAULT_CHARSET:
                out.collations |= _default_collations(value, enum_set)
            elif field == _ENUM_SET_CHARSET:
                out.collations |= _each(enum_set, _numbers(value))
            elif field == _VISIBILITY:
                out.visible = dict(enumerate(_bits(value, len(types))))
        return out


class _OtherCountError(Exception):
    """An error for a metadata field whose number of entries is not that of the columns of its kind."""


_T = TypeVar("_T")


def _each(columns: Sequence[int], entries: Iterable[_T]) -> dict[int, _T]:
    listed = list(entries)
    if len(listed) != len(columns):
        raise _OtherCountError
    return dict(zip(columns, listed, strict=True))


def _bits(data: bytes, count: int) -> Iterable[bool]:
    """Return flags, the highest bit first."""
    return (bool(data[i >> 3] << (i & 7) & 0x80) for i in range(min(count, len(data) * 8)))


def _numbers(data: bytes) -> Iterable[int]:
    at = 0
    while at < len(data):
        number, at = packed(data, at)
        yield number


def _texts(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        length, at = packed(data, at)
        yield data[at : at + length]
        at += length


def _member_lists(data: bytes) -> Iterable[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed(data, at)
        members = []
        for _ in range(count):
            length, at = packed(data, at)
            members.append(data[at : at + length])
            at += length
        yield tuple(members)


def _default_collations(data: bytes, columns: Sequence[int]) -> dict[int, int]:
    """Read a default, then pairs of (index among these columns, collation) for those that differ."""
    numbers = list(_numbers(data))
    out = dict.fromkeys(columns, numbers[0])
    for index, collation in zip(numbers[1::2], numbers[2::2], strict=False):
        out[columns[index]] = collation
    return out


# -- rows of the watermark table -------------------------------------------------------------------


def watermark_rows(type_code: int, body: bytes, table_map: TableMap) -> list[tuple[str, str]]:
    """Return (name, token) of each row that a rows event leaves in the watermark table; a DELETE
    leaves none.

    The table's two columns must be VARCHAR NOT NULL (sql.create_watermark_table), or DefiniteError
    is raised.
    """
    if [column.type_code for column in table_map.columns] != [WireType.VARCHAR, WireType.VARCHAR]:
        message = (
            f"{table_map.table} has been altered and is not a watermark table any more; drop it and restart the "
            "connector, which creates it again"
        )
        raise DefiniteError(message)
    if type_code in DELETE_TYPES:
        return []
    at = 8
    if type_code in ROWS_V2_TYPES:
        at += int.from_bytes(body[8:10], "little")
    width, at = packed(body, at)
    bitmap_bytes = (width + 7) // 8
    partial = type_code == EventType.PARTIAL_UPDATE_ROWS
    images = 2 if type_code in UPDATE_TYPES else 1
    there = body[at : at + bitmap_bytes * images]
    at += bitmap_bytes * images
    out = []
    while at < len(body):
        # With binlog_row_image=MINIMAL the image before has the name, the image after the token.
        row = [b"", b""]
        for image, bits in enumerate(there):
            # The image after begins with options, and has no bits for JSON columns because there
            # are none.
            if partial and image:
                _, at = packed(body, at)
            nulls = body[at]
            at += bitmap_bytes
            bit = 0
            for i, column in enumerate(table_map.columns):
                if not bits >> i & 1:
                    continue
                bit += 1
                if nulls >> (bit - 1) & 1:
                    row[i] = b""
                    continue
                length_bytes = 1 if column.meta < 256 else 2  # noqa: PLR2004 - Field_varstring
                length = int.from_bytes(body[at : at + length_bytes], "little")
                at += length_bytes
                row[i] = body[at : at + length]
                at += length
        out.append((row[0].decode("utf-8", "replace"), row[1].decode("utf-8", "replace")))
    return out


def packed(data: bytes, at: int) -> tuple[int, int]:
    """Return the server's packed integer (net_field_length) and the offset after it."""
    first = data[at]
    if first < 251:  # noqa: PLR2004 - the format's own bounds
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width

"""The type in a column definition, and its form in information_schema: DATA_TYPE, COLUMN_TYPE,
length, charset.

A type is read in one step and finished in another, because the column may get its charset from the
table. ``TEXT(100)`` is a tinytext in latin1 and a text in utf8mb4, and every text type becomes a
binary one in the charset ``binary``. Rule sources: "Data Types" in both manuals, sql_yacc.yy for
the synonyms, Field_*::sql_type for COLUMN_TYPE, get_blob_type_from_length and prepare_blob_field
for the promotions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dblog.dialects.mysql.catalog.information_schema import (
    canonical_charset,
    canonical_collation,
    charset_of_collation,
    length_and_scale,
    members_text,
)
from dblog.dialects.mysql.ddl.flavor import Flavor
from dblog.dialects.mysql.ddl.lexer import Cursor, Kind, NotUnderstood
from dblog.dialects.mysql.values.charsets import BYTES_MAX

INTEGER_WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
"""Default display widths: (signed, unsigned)."""

INTEGERS = {
    "TINYINT": "tinyint",
    "INT1": "tinyint",
    "SMALLINT": "smallint",
    "INT2": "smallint",
    "MEDIUMINT": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT3": "mediumint",
    "INT": "int",
    "INTEGER": "int",
    "INT4": "int",
    "BIGINT": "bigint",
    "INT8": "bigint",
}
DECIMALS = ("DECIMAL", "DEC", "NUMERIC", "FIXED")
TEXTS = ("tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
LOB_BYTES = (255, 65535, 16777215, 4294967295)
VARCHAR_BYTES_MAX = 65535
GEOMETRIES = (
    "GEOMETRY",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
    "GEOMCOLLECTION",
)
WITH_CHARSET = frozenset({"char", "varchar", "enum", "set", *TEXTS})
TO_BINARY = {"char": "binary", "varchar": "varbinary", **dict(zip(TEXTS, BLOBS, strict=True))}
FLOAT_DIGITS_MAX = 24
"""The largest p for which FLOAT(p) is a float; a larger one makes a double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpec:
    """A type as written. ``type`` is DATA_TYPE before the charset is known; ``charset`` and
    ``collation`` are None unless named.
    """

    type: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    zerofill: bool = False
    members: tuple[str, ...] = ()
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    """True for the BINARY attribute: the charset's _bin collation."""
    serial: bool = False
    compressed: bool = False
    digits: int | None = None
    """The p of FLOAT(p), which only chooses between float and double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedType:
    """A column's type as information_schema.COLUMNS shows it."""

    type: str
    type_text: str
    length: int | None
    scale: int | None
    unsigned: bool
    charset: str | None
    collation: str | None
    members: tuple[str, ...]


LENGTHS_MAX: Mapping[str, int] = {
    **dict.fromkeys((*INTEGERS.values(), "year", "float", "double", "char", "binary"), 255),
    **dict.fromkeys(("time", "datetime", "timestamp"), 6),
    "decimal": 65,
    "bit": 64,
    "vector": 65_535,
}
"""The greatest length that a server takes, by type. A zero-filled number has as many digits."""
LENGTH_MAX = (1 << 32) - 1
SCALE_MAX = 38


@dataclass(frozen=True, slots=True)
class Charset:
    """A charset with its collation."""

    charset: str
    collation: str


def parse_type(cursor: Cursor, flavor: Flavor, *, real_as_float: bool = False, oracle: bool = False) -> TypeSpec:
    """Read a data type with its attributes (UNSIGNED, CHARACTER SET, ...). Raise NotUnderstood for
    an unknown type, and for a length that no server takes.
    """
    spec = _parsed_type(cursor, flavor, real_as_float=real_as_float, oracle=oracle)
    if (spec.length or 0) > LENGTHS_MAX.get(spec.type, LENGTH_MAX) or (spec.scale or 0) > SCALE_MAX:
        raise NotUnderstood(f"a smaller length expected before {cursor.location}")
    return spec


def _parsed_type(cursor: Cursor, flavor: Flavor, *, real_as_float: bool, oracle: bool) -> TypeSpec:
    if cursor.next.kind not in (Kind.WORD, Kind.QUOTED):
        raise NotUnderstood(f"a data type expected at {cursor.location}")
    word = cursor.step().text.upper()
    if oracle and (spec := _oracle_type(word, cursor)):
        return _text_attributes(cursor, spec)
    if word in INTEGERS:
        return _numeric_attributes(cursor, TypeSpec(type=INTEGERS[word], length=_one_number(cursor)))
    if word in ("BOOL", "BOOLEAN"):
        return TypeSpec(type="tinyint", length=1)
    if word == "SERIAL":
        return TypeSpec(type="bigint", unsigned=True, serial=True)
    if word in DECIMALS:
        precision, scale = _numbers(cursor)
        return _numeric_attributes(cursor, TypeSpec(type="decimal", length=precision or 10, scale=scale or 0))
    if word in ("DOUBLE", "FLOAT8", "REAL"):
        cursor.take("PRECISION")
        precision, scale = _numbers(cursor)
        type_ = "float" if word == "REAL" and real_as_float else "double"
        return _numeric_attributes(cursor, TypeSpec(type=type_, length=precision if scale is not None else None, scale=scale))
    if word in ("FLOAT", "FLOAT4"):
        precision, scale = _numbers(cursor)
        if scale is not None:
            return _numeric_attributes(cursor, TypeSpec(type="float", length=precision, scale=scale))
        type_ = "double" if (precision or 0) > FLOAT_DIGITS_MAX else "float"
        return _numeric_attributes(cursor, TypeSpec(type=type_, digits=precision))
    if word == "BIT":
        return TypeSpec(type="bit", length=_one_number(cursor) or 1)
    if word in ("DATE", "JSON", "UUID", "INET4", "INET6", "XMLTYPE"):
        if word == "JSON" and flavor.mariadb:
            return _text_attributes(cursor, TypeSpec(type="longtext", charset="utf8mb4", collation="utf8mb4_bin"))
        return TypeSpec(type=word.lower())
    if word in ("TIME", "DATETIME", "TIMESTAMP"):
        return TypeSpec(type=word.lower(), length=_one_number(cursor) or 0)
    if word == "YEAR":
        return _numeric_attributes(cursor, TypeSpec(type="year", length=_one_number(cursor)))
    if word == "VECTOR":
        return TypeSpec(type="vector", length=_one_number(cursor) or 2048)
    if word in GEOMETRIES:
        if cursor.is_op("("):
            cursor.skip_group()  # MariaDB's old spelling with a length
        return TypeSpec(type=flavor.geometry_collection if word in GEOMETRIES[-2:] else word.lower())
    if word in ("ENUM", "SET"):
        return _text_attributes(cursor, TypeSpec(type=word.lower(), members=_members(cursor)))
    return _text_type(word, cursor)


def _text_type(word: str, cursor: Cursor) -> TypeSpec:
    national = word == "NATIONAL" or word in ("NCHAR", "NVARCHAR")
    if word == "NATIONAL":
        word = cursor.step().text.upper()
    if word == "NCHAR":
        word = "VARCHAR" if cursor.take_any("VARCHAR", "VARCHARACTER", "VARYING") else "CHAR"
    if word == "LONG":
        return _long_type(cursor)
    if word in ("CHAR", "CHARACTER") and cursor.take("VARYING"):
        word = "VARCHAR"
    type_ = {"CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar", "VARCHARACTER": "varchar", "NVARCHAR": "varchar"}.get(word)
    type_ = type_ or (word.lower() if word in ("BINARY", "VARBINARY") or word.lower() in TEXTS + BLOBS else None)
    if type_ is None:
        raise NotUnderstood(f"an unknown data type before {cursor.location}")
    length = _one_number(cursor)
    if type_ in ("char", "binary") and length is None:
        length = 1
    if type_ in ("varchar", "varbinary") and length is None:
        raise NotUnderstood(f"a length expected at {cursor.location}")
    spec = TypeSpec(type=type_, length=length)
    if national:
        spec = replace(spec, charset="utf8mb3")
    return _text_attributes(cursor, spec)


def _long_type(cursor: Cursor) -> TypeSpec:
    if cursor.take("VARBINARY"):
        return TypeSpec(type="mediumblob")
    if cursor.take_any("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.take_any("VARCHAR", "VARCHARACTER")
    return _text_attributes(cursor, TypeSpec(type="mediumtext"))


def _oracle_type(word: str, cursor: Cursor) -> TypeSpec | None:
    """Read a type that exists only in MariaDB's sql_mode=ORACLE; return None for any other."""
    if word == "VARCHAR2":
        return TypeSpec(type="varchar", length=_one_number(cursor))
    if word == "RAW":
        return TypeSpec(type="varbinary", length=_one_number(cursor))
    if word == "CLOB":
        return TypeSpec(type="longtext")
    if word == "BLOB":
        return TypeSpec(type="longblob")
    if word == "DATE":
        return TypeSpec(type="datetime", length=0)
    if word == "NUMBER":
        precision, scale = _numbers(cursor)
        return TypeSpec(type="double") if precision is None else TypeSpec(type="decimal", length=precision, scale=scale or 0)
    return None


def _one_number(cursor: Cursor) -> int | None:
    if not cursor.take_op("("):
        return None
    number = cursor.number()
    cursor.expect_op(")")
    return number


def _numbers(cursor: Cursor) -> tuple[int | None, int | None]:
    if not cursor.take_op("("):
        return None, None
    first, second = cursor.number(), None
    if cursor.take_op(","):
        second = cursor.number()
    cursor.expect_op(")")
    return first, second


def _numeric_attributes(cursor: Cursor, spec: TypeSpec) -> TypeSpec:
    while word := cursor.take_any("SIGNED", "UNSIGNED", "ZEROFILL"):
        spec = replace(spec, unsigned=spec.unsigned or word != "SIGNED", zerofill=spec.zerofill or word == "ZEROFILL")
    return spec


def _members(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_op("(")
    members = []
    while True:
        if cursor.next.kind in (Kind.HEX, Kind.BITS):
            members.append(bits_text(cursor.step().text, 16 if cursor.tokens[cursor.at - 1].kind is Kind.HEX else 2))
        else:
            members.append(cursor.string().rstrip(" "))
        if not cursor.take_op(","):
            cursor.expect_op(")")
            return tuple(members)


def bits_bytes(digits: str, base: int) -> bytes:
    """Return the bytes of a hex (base 16) or bit (base 2) literal."""
    count = (len(digits) + 1) // 2 if base == 16 else (len(digits) + 7) // 8  # noqa: PLR2004 - two digits a byte, or eight
    return int(digits or "0", base).to_bytes(count, "big")


def bits_text(digits: str, base: int) -> str:
    """Return the text of a hex or bit literal: its bytes as UTF-8, or as latin1 if they are not
    UTF-8.
    """
    raw = bits_bytes(digits, base)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _text_attributes(cursor: Cursor, spec: TypeSpec) -> TypeSpec:
    """Read CHARACTER SET, COLLATE and their short forms, in any order, directly after the type."""
    while True:
        after = text_attribute(cursor, spec)
        if after is None:
            return spec
        spec = after


def text_attribute(cursor: Cursor, spec: TypeSpec) -> TypeSpec | None:
    """Read one attribute of a text column; return the new type, or None if none begins here."""
    if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET") or cursor.take("CHAR", "SET"):
        charset = charset_name(cursor)
        spec = replace(spec, charset=charset)
        return replace(spec, collation=None) if spec.collation and charset_of_collation(spec.collation) != charset else spec
    if cursor.take("COLLATE"):
        return replace(spec, collation=collation_name(cursor))
    if cursor.take("ASCII"):
        return replace(spec, charset="latin1")
    if cursor.take("UNICODE"):
        return replace(spec, charset="ucs2")
    if cursor.take("BYTE"):
        return replace(spec, charset="binary")
    if cursor.take("BINARY"):
        return replace(spec, binary=True)
    if cursor.take("COMPRESSED"):
        if cursor.take_op("="):
            cursor.step()
        return replace(spec, compressed=True)
    return None


def charset_name(cursor: Cursor) -> str:
    """Read a charset's name, in quotes of any kind or none; the keyword BINARY is one too."""
    if cursor.next.kind is Kind.STRING:
        return canonical_charset(cursor.string())
    return canonical_charset(cursor.name())


def collation_name(cursor: Cursor) -> str:
    """Read a collation's name, in quotes of any kind or none."""
    if cursor.next.kind is Kind.STRING:
        return canonical_collation(cursor.string())
    return canonical_collation(cursor.name())


def resolve_charset(charset: str | None, collation: str | None, base: Charset, flavor: Flavor, *, binary: bool = False) -> Charset:
    """Apply CHARACTER SET and COLLATE, if given, to an inherited charset. Raise NotUnderstood for a
    charset without a known collation.
    """
    if charset == "default":
        charset = base.charset
        collation = collation or base.collation
    if collation == "default":
        collation = None
        charset = charset or base.charset
    if collation is not None:
        # MariaDB: this name means the uca1400 collation of the charset in use.
        if collation.startswith("uca1400_"):
            collation = f"{charset or base.charset}_{collation}"
        return Charset(charset_of_collation(collation), collation)
    if charset is None and not binary:
        return base
    charset = charset or base.charset
    default = flavor.default_collation(charset)
    if default is None:
        raise NotUnderstood(f"charset {charset} is not known")
    return Charset(charset, "binary" if charset == "binary" else f"{charset}_bin" if binary else default)


def finish_type(spec: TypeSpec, base: Charset, flavor: Flavor) -> FinishedType:
    """Return the type as information_schema shows it. A column that names no charset gets that of
    ``base`` (the table's).
    """
    charset: Charset | None = None
    if spec.type in WITH_CHARSET:
        charset = resolve_charset(spec.charset, spec.collation, base, flavor, binary=spec.binary)
        if charset.charset == "binary" and spec.type in TO_BINARY:
            spec, charset = replace(spec, type=TO_BINARY[spec.type]), None
    spec = _promoted(spec, BYTES_MAX.get(charset.charset, 4) if charset else 1)
    text = _type_text(spec, flavor)
    characters = spec.length if spec.type in ("char", "varchar", "binary", "varbinary") else None
    fsp = spec.length if spec.type in ("time", "datetime", "timestamp") else None
    length, scale = length_and_scale(spec.type, text, characters=characters, precision=spec.length, decimals=spec.scale, fsp=fsp)
    return FinishedType(
        type=spec.type,
        type_text=text,
        length=length,
        scale=scale,
        unsigned=spec.unsigned or spec.zerofill,
        charset=charset.charset if charset else None,
        collation=charset.collation if charset else None,
        members=spec.members,
    )


def _promoted(spec: TypeSpec, character_bytes: int) -> TypeSpec:
    """Return the type that the server makes of an oversized or undersized one.

    TEXT(n) and BLOB(n) become the smallest type that holds n. A VARCHAR of more than 65535 bytes
    becomes a text, outside strict mode.
    """
    kinds = TEXTS if spec.type in (*TEXTS, "varchar") else BLOBS
    if spec.type in ("text", "blob") and spec.length:
        return replace(spec, type=kinds[lob_size(spec.length * character_bytes)], length=None)
    if spec.type in ("varchar", "varbinary") and (spec.length or 0) * character_bytes > VARCHAR_BYTES_MAX:
        return replace(spec, type=kinds[lob_size((spec.length or 0) * character_bytes)], length=None)
    if spec.type in TEXTS + BLOBS:
        return replace(spec, length=None)
    return spec


def lob_size(bytes_: int) -> int:
    """Return the index (of TEXTS, BLOBS and LOB_BYTES) of the smallest type that holds this many
    bytes.
    """
    return next((at for at, limit in enumerate(LOB_BYTES) if bytes_ <= limit), len(LOB_BYTES) - 1)


def _type_text(spec: TypeSpec, flavor: Flavor) -> str:
    signs = (" unsigned" if spec.unsigned or spec.zerofill else "") + (" zerofill" if spec.zerofill else "")
    match spec.type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint":
            signed, unsigned = INTEGER_WIDTHS[spec.type]
            width = spec.length if spec.length is not None else unsigned if signs else signed
            boolean = spec.type == "tinyint" and width == 1 and not signs
            shown = flavor.integer_width_shown or spec.zerofill or boolean
            return f"{spec.type}({width}){signs}" if shown else spec.type + signs
        case "decimal":
            return f"decimal({spec.length},{spec.scale}){signs}"
        case "float" | "double":
            return spec.type + (f"({spec.length},{spec.scale})" if spec.scale is not None else "") + signs
        case "char" | "varchar" | "binary" | "varbinary" | "bit" | "vector":
            return f"{spec.type}({spec.length})" + _compressed(spec)
        case "time" | "datetime" | "timestamp":
            return f"{spec.type}({spec.length})" if spec.length else spec.type
        case "year":
            return flavor.year_text
        case "enum" | "set":
            return f"{spec.type}({members_text(spec.members)})"
        case _:
            return spec.type + _compressed(spec)


def _compressed(spec: TypeSpec) -> str:
    return " /*M!100301 COMPRESSED*/" if spec.compressed else ""

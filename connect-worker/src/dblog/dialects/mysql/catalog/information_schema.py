"""The contents of information_schema as tables: the queries, and the meaning of their rows (MySQL
5.7 to 9.x; mariadb/catalog.py has the differences).

Pure: the caller passes ``execute``, which sends one query with its parameters and returns rows as
tuples. Queries cover one database each. That bounds an answer by one database, and MariaDB and
MySQL 5.7, which open the files of every table they are asked about, open few. Columns are read by
position, because MySQL 8 and later answer with upper-case headings, regardless of the names in the
query.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext

from dblog.dialects.mysql.catalog.keys import PRIMARY, choose_key
from dblog.dialects.mysql.catalog.sql import quote_table
from dblog.dialects.mysql.catalog.versioning import IMPLICIT, ROW_END
from dblog.dialects.mysql.values.charsets import decoder
from dblog.errors import DefiniteError
from dblog.model import Column, Index, Table, TableId, Written

Rows = Sequence[Sequence[object]]
Execute = Callable[[str, tuple[str, ...]], Rows]
"""A function that sends one query with %s parameters and returns all rows."""

SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""Databases that are never captured, because their tables belong to the server (Debezium's built-in
filter).
"""

TABLES_ASKED_ONE_BY_ONE_MAX = 16
"""The most wanted tables of a database that are queried by name. For more, one query reads the
whole database.
"""

DATABASES_SQL = (
    "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA ORDER BY SCHEMA_NAME"
)

TABLES_SQL = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES "
    "WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME"
)

COLUMNS_SQL = (
    "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_DEFAULT, IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, "
    "DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_TYPE, EXTRA, COLUMN_COMMENT, GENERATION_EXPRESSION "
    "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, ORDINAL_POSITION"
)

INDEXES_SQL = (
    "SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART "
    "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)

SHOW_INDEX_SQL = "SHOW INDEX FROM {table}"
"""The query for indexes in the server's order, which STATISTICS does not promise. Sent only if that
order decides the key.
"""

SHOW_CREATE_SQL = "SHOW CREATE TABLE {table}"
"""The query for defaults that COLUMN_DEFAULT may have spoilt. MariaDB's answer has a binary default
byte by byte, so it must be read as bytes, not as text.
"""

ONE_TABLE = " AND TABLE_NAME = %s"

SYSTEM_VERSIONED = "SYSTEM VERSIONED"

TABLE_TYPES = frozenset({"BASE TABLE", SYSTEM_VERSIONED})
"""Types of tables with rows in the log. Views, sequences and temporary tables have no rows there.
"""


@dataclass(frozen=True, slots=True)
class DatabaseDefaults:
    """The charset and collation that a CREATE TABLE without CHARSET inherits."""

    name: str
    charset: str
    collation: str


MOMENT = re.compile(r"(curdate|curtime)\s*(\(\s*\d*\s*\))?", re.IGNORECASE)
"""The only default expressions of MariaDB that Debezium repeats in the statement's spelling."""


@dataclass(frozen=True, slots=True)
class DefaultText:
    """A COLUMN_DEFAULT, interpreted; see ``model.Column``."""

    has_default: bool
    default: str | None
    is_expression: bool
    written: str | None = None
    """The word for ``model.Written``; None if the server's print serves."""


DefaultReader = Callable[[str | None, bool, str, str], DefaultText]
"""(COLUMN_DEFAULT, nullable, DATA_TYPE, EXTRA) -> the default. MariaDB has its own reader."""


def read_databases(execute: Execute) -> list[DatabaseDefaults]:
    """Return charset and collation of every database except the server's own."""
    return [
        DatabaseDefaults(_text(name), canonical_charset(_text(charset)), canonical_collation(_text(collation)))
        for name, charset, collation in execute(DATABASES_SQL, ())
        if _text(name).lower() not in SYSTEM_DATABASES
    ]


def read_tables(
    execute: Execute,
    include: Callable[[TableId], bool],
    *,
    databases: Iterable[str] | None = None,
    default_of: DefaultReader | None = None,
) -> list[Table]:
    """Return every base table that ``include`` accepts, sorted by name. ``databases`` None reads
    all except the server's own.
    """
    tables: list[Table] = []
    names = [d.name for d in read_databases(execute)] if databases is None else list(databases)
    for database in names:
        tables.extend(_read_database(execute, database, include, default_of or mysql_default))
    return tables


def read_table(execute: Execute, table: TableId) -> Table | None:
    """Return one table as it is now; None if no table has that name, or if it is a view."""
    found = read_tables(execute, lambda id_: id_ == table, databases=[table.database])
    return found[0] if found else None


def _read_database(execute: Execute, database: str, include: Callable[[TableId], bool], default_of: DefaultReader) -> list[Table]:
    facts: dict[str, tuple[str | None, str | None]] = {}
    row_ends: dict[str, str | None] = {}  # of system-versioned tables
    for schema, name, kind, collation, comment in execute(TABLES_SQL, (database,)):
        if _text(kind).upper() in TABLE_TYPES and include(TableId(_text(schema), _text(name))):
            facts[_text(name)] = (_text_or_none(collation), _text_or_none(comment))
            if _text(kind).upper() == SYSTEM_VERSIONED:
                row_ends[_text(name)] = None
    if not facts:
        return []
    columns: dict[str, list[Column]] = defaultdict(list)
    parts: dict[str, list[Sequence[object]]] = defaultdict(list)
    for row in _ask(execute, COLUMNS_SQL, database, facts):
        columns[_text(row[0])].append(column_of(row, default_of))
        if _text_or_none(row[14]) == "ROW END":
            row_ends[_text(row[0])] = _text(row[1])
    for row in _ask(execute, INDEXES_SQL, database, facts):
        parts[_text(row[0])].append(row)
    tables = []
    for name, (collation, comment) in facts.items():
        if not columns[name]:  # dropped between the two queries
            continue
        id_ = TableId(database, name)
        if name in row_ends and row_ends[name] is None:
            columns[name] += IMPLICIT
            row_ends[name] = ROW_END
        columns[name] = _exact_defaults(execute, id_, columns[name])
        indexes = indexes_of(parts[name])
        if _order_decides(columns[name], indexes):
            order = [_text(row[2]) for row in execute(SHOW_INDEX_SQL.format(table=quote_table(id_)), ())]
            indexes = sorted(indexes, key=lambda index: order.index(index.name) if index.name in order else len(order))
        tables.append(make_table(id_, columns[name], indexes, collation=collation, comment=comment, row_end=row_ends.get(name)))
    return tables


def _exact_defaults(execute: Execute, id_: TableId, columns: list[Column]) -> list[Column]:
    """Return the columns, with defaults that COLUMN_DEFAULT may have spoilt taken from SHOW CREATE
    TABLE.

    COLUMN_DEFAULT is utf8mb3 text. MySQL cuts a binary default at its first NUL, MariaDB writes ?
    for bytes that are not text, and both write ? for characters beyond the basic plane (MariaDB in
    SHOW CREATE TABLE too). MySQL shows a TIMESTAMP in the time zone of the session that wrote it.
    If the account may not read the table, COLUMN_DEFAULT is kept, since the table's rows are never
    read.
    """
    if not any(_in_doubt(column) for column in columns):
        return columns
    try:
        rows = execute(SHOW_CREATE_SQL.format(table=quote_table(id_)), ())
    except DefiniteError:
        return columns
    written = dict(written_defaults(_text(rows[0][1])))
    return [
        replace(column, default=_exact(written[column.name], column)) if _in_doubt(column) and column.name in written else column
        for column in columns
    ]


def _in_doubt(column: Column) -> bool:
    if column.default is None or column.default_is_expression or column.generated:
        return False
    if column.type == "timestamp":
        return bool(column.default.strip("0-: ."))
    return column.type in BINARIES or column.type in LARGE_TEXTS or (column.charset is not None and "?" in column.default)


_WRITTEN = re.compile(
    r"^  `((?:[^`]|``)*)` (?:[^'\n]|'(?:[^'\\]|\\.)*')*? DEFAULT ('(?:[^'\\]|\\.|'')*'|0x[0-9A-Fa-f]*|[xX]'[0-9A-Fa-f]*'|[-+.\dEe]+)(?=[ ,\n])",
    re.MULTILINE | re.DOTALL,
)
"""A column of SHOW CREATE TABLE with a literal default; newlines inside quotes are escaped there.
The text before the default can match in one way only: ``''`` ends one quoted text and begins the
next. With two ways a SET of 64 members would be tried in 2^64 ways.
"""


def written_defaults(statement: str) -> Iterable[tuple[str, str]]:
    return ((name.replace("``", "`"), literal) for name, literal in _WRITTEN.findall(statement))


def _exact(literal: str, column: Column) -> str:
    """Return the canonical form of a literal from SHOW CREATE TABLE. Hex digits are in the column's
    charset.
    """
    digits = re.fullmatch(r"0x([0-9A-Fa-f]*)|[xX]'([0-9A-Fa-f]*)'", literal)
    if digits is not None:
        raw = bytes.fromhex(digits[1] or digits[2] or "")
        if column.type in BINARIES:
            return binary_default(raw, column.type)
        return decoder(column.charset, where="a default")(raw)
    text = unquote(literal) if literal.startswith("'") else number_default(literal)
    return binary_default(text.encode("utf-8", "surrogateescape"), column.type) if column.type in BINARIES else text


def unquote(literal: str) -> str:
    """Return the value of a quoted literal: ``'it''s'`` -> ``it's``. Backslash escapes are those of
    the server's append_unescaped.
    """
    body = literal[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r", "0": "\0", "Z": "\x1a"}.get(m[1], m[1]), body, flags=re.DOTALL)


def _ask(execute: Execute, sql: str, database: str, facts: dict[str, tuple[str | None, str | None]]) -> list[Sequence[object]]:
    if len(facts) <= TABLES_ASKED_ONE_BY_ONE_MAX:
        return [row for name in facts for row in execute(sql.format(one=ONE_TABLE), (database, name))]
    return [row for row in execute(sql.format(one=""), (database,)) if _text(row[0]) in facts]


def make_table(
    id_: TableId,
    columns: Iterable[Column],
    indexes: Iterable[Index],
    *,
    collation: str | None = None,
    comment: str | None = None,
    row_end: str | None = None,
) -> Table:
    """Return a table whose key is selected by ``choose_key``. In a system-versioned table
    ``row_end`` is appended to the key.
    """
    columns, indexes = tuple(columns), tuple(indexes)
    key, primary = choose_key(columns, indexes)
    if key and row_end is not None and row_end not in key:
        key = (*key, row_end)
    collation = canonical_collation(collation) if collation else None
    return Table(
        id=id_,
        columns=columns,
        key=key,
        primary_key=primary,
        charset=charset_of_collation(collation) if collation else None,
        collation=collation,
        comment=comment or None,
        indexes=indexes,
    )


def _order_decides(columns: Sequence[Column], indexes: Sequence[Index]) -> bool:
    """Return whether several unique indexes compete for the key of a table without a primary key."""
    if any(index.name == PRIMARY for index in indexes):
        return False
    return sum(bool(choose_key(columns, [index])[0]) for index in indexes) > 1


def indexes_of(rows: Iterable[Sequence[object]]) -> list[Index]:
    """Return the indexes of one table from its rows of INDEXES_SQL, in the order of the rows."""
    parts: dict[str, list[Sequence[object]]] = {}
    for row in rows:
        parts.setdefault(_text(row[1]), []).append(row)
    return [
        Index(
            name=name,
            columns=tuple(_text(row[3]) for row in sorted(rows_, key=lambda row: _int(row[2]) or 0) if row[3] is not None),
            unique=_int(rows_[0][4]) == 0,
            partial=_int(rows_[0][4]) == 0 and any(row[5] is not None for row in rows_),
            functional=any(row[3] is None for row in rows_),
        )
        for name, rows_ in parts.items()
    ]


def column_of(row: Sequence[object], default_of: DefaultReader) -> Column:
    """Return the column of one row of COLUMNS_SQL."""
    type_, type_text, extra = _text(row[4]).lower(), _text(row[11]), _text_or_none(row[12]) or ""
    nullable = _text(row[3]).upper() == "YES"
    generated = (
        bool(_text_or_none(row[14]))
        or "GENERATED" in _without_default_generated(extra).upper()
        or extra.upper() in {"VIRTUAL", "PERSISTENT"}
    )
    default = DefaultText(False, None, False) if generated else default_of(_text_or_none(row[2]), nullable, type_, extra)
    length, scale = length_and_scale(
        type_, type_text, characters=_int(row[5]), precision=_int(row[6]), decimals=_int(row[7]), fsp=_int(row[8])
    )
    charset, collation = _text_or_none(row[9]), _text_or_none(row[10])
    return Column(
        name=_text(row[1]),
        type=type_,
        type_text=type_text,
        nullable=nullable,
        unsigned=bool(re.search(r"\b(unsigned|zerofill)\b", _outside_quotes(type_text))),
        length=length,
        scale=scale,
        charset=canonical_charset(charset) if charset else None,
        collation=canonical_collation(collation) if collation else None,
        members=members_of(type_text) if type_ in {"enum", "set"} else (),
        has_default=default.has_default,
        default=_one_form(default, type_, length, scale),
        default_is_expression=default.is_expression,
        auto_increment="auto_increment" in extra.lower(),
        generated=generated,
        invisible="INVISIBLE" in extra.upper(),
        comment=_text_or_none(row[13]) or None,
        written=None if default.written is None else Written(length, default.written),
    )


def _one_form(default: DefaultText, type_: str, length: int | None, scale: int | None) -> str | None:
    if default.default is None or default.is_expression or type_ not in FLOATS:
        return default.default
    try:
        return float_default(default.default, type_, length=length, scale=scale)
    except InvalidOperation:
        return default.default


FIXED_TEXT = frozenset({"char", "varchar", "binary", "varbinary"})
TEMPORAL = frozenset({"time", "datetime", "timestamp"})
FLOATS = frozenset({"float", "double"})


def length_and_scale(
    type_: str,
    type_text: str,
    *,
    characters: int | None = None,
    precision: int | None = None,
    decimals: int | None = None,
    fsp: int | None = None,
) -> tuple[int | None, int | None]:
    """Return ``model.Column.length`` and ``scale`` as their type defines them."""
    if type_ in FIXED_TEXT:
        return characters, None
    if type_ == "decimal":
        return precision, decimals or 0
    if type_ in TEMPORAL:
        return fsp or 0, None
    given = re.match(r"[a-z0-9_ ]+\((\d+)(?:,(\d+))?\)", type_text) if type_ not in {"enum", "set"} else None
    if given is None:
        return (1 if type_ == "bit" else None), None
    if type_ in FLOATS and given[2] is None:
        return int(given[1]), None
    return int(given[1]), int(given[2]) if given[2] else None


ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "\\": "\\"}


def members_of(type_text: str) -> tuple[str, ...]:
    """Return the members of ``enum('a','it''s')``. COLUMN_TYPE doubles quotes and escapes
    backslash, newline, carriage return and NUL (append_unescaped).
    """
    found = re.findall(r"'((?:[^']|'')*)'", type_text)
    return tuple(re.sub(r"\\(.)", lambda m: ESCAPED.get(m[1], m[1]), member.replace("''", "'"), flags=re.DOTALL) for member in found)


def members_text(members: Iterable[str]) -> str:
    """Return members as COLUMN_TYPE prints them: the reverse of ``members_of``."""
    escapes = {value: "\\" + key for key, value in ESCAPED.items()} | {"'": "''"}
    return ",".join("'" + "".join(escapes.get(char, char) for char in member) + "'" for member in members)


def binary_default(raw: bytes, type_: str) -> str:
    """Return a binary default in the canonical form: hexadecimal as in MySQL 8, without the zeros
    that pad a BINARY(n).
    """
    return "0x" + (raw.rstrip(b"\0") if type_ == "binary" else raw).hex().upper()


def float_default(text: str, type_: str, *, length: int | None, scale: int | None) -> str:
    """Return a FLOAT or DOUBLE default in the canonical form. Servers differ in when they print an
    exponent.

    The server prints six digits of a FLOAT; its exact value cannot be queried. A value is capped at
    the largest that FLOAT(m, d) holds.
    """
    number = Decimal(text)
    with localcontext() as precise:
        precise.prec = 400
        if scale is not None:
            most = Decimal(10) ** ((length or scale) - scale) - Decimal(1).scaleb(-scale)
            return f"{max(-most, min(number, most)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_EVEN) + 0:f}"
    if type_ == "float":
        largest = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
        single = struct.unpack("<f", struct.pack("<f", max(-largest, min(float(number), largest))))[0]
        number = Decimal(f"{single:.6g}")
    value = float(number)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)  # noqa: PLR2004 - no long rows of zeros


def number_default(literal: str) -> str:
    """Return the text that an unquoted number becomes."""
    if "e" in literal.lower():
        return float_default(literal, "double", length=None, scale=None)
    sign, number = ("-", literal[1:]) if literal.startswith("-") else ("", literal)
    whole, point, fraction = number.partition(".")
    number = (whole.lstrip("0") or "0") + (point + fraction if fraction else "")
    return sign + number if number.strip("0.") else number


LARGE_TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
"""Text types whose defaults MariaDB prints as written; MySQL allows only expressions for them."""

BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def mysql_default(text: str | None, nullable: bool, type_: str, extra: str) -> DefaultText:  # noqa: FBT001 - a cell of a row
    """Interpret a COLUMN_DEFAULT cell of MySQL.

    MySQL writes literals without quotes and marks expressions in EXTRA (8.0+). NULL stands both for
    no default and for DEFAULT NULL. For a nullable column both mean the same: it defaults to NULL.
    """
    if text is None:
        return DefaultText(nullable, None, False)
    generated = "DEFAULT_GENERATED" in extra.upper()
    if type_ in BINARIES and not generated:
        digits = re.fullmatch(r"0x([0-9A-Fa-f]*)", text)
        return DefaultText(
            True, binary_default(bytes.fromhex(digits[1]) if digits else text.encode("utf-8", "surrogateescape"), type_), False
        )
    now = type_ in {"timestamp", "datetime"} and text.upper().startswith("CURRENT_TIMESTAMP")
    if generated and text.lower().startswith("now("):
        # The server prints DEFAULT (now()) as now(), and CURRENT_TIMESTAMP for the default without
        # parentheses.
        text = f"({text})"
    return DefaultText(True, text, generated or now)


def canonical_charset(charset: str) -> str:
    """Return the canonical name: ``utf8mb3`` for the ``utf8`` of MySQL 5.7 and old MariaDB
    versions.
    """
    lowered = charset.lower()
    return "utf8mb3" if lowered == "utf8" else lowered


def canonical_collation(collation: str) -> str:
    """Return the canonical name: ``utf8mb3_bin`` for ``utf8_bin``."""
    lowered = collation.lower()
    return "utf8mb3_" + lowered[5:] if lowered.startswith("utf8_") else lowered


def charset_of_collation(collation: str) -> str:
    """Return the charset of a collation. On every server a collation's name begins with it;
    ``binary`` is both.
    """
    return collation.split("_", 1)[0]


def _without_default_generated(extra: str) -> str:
    return extra.upper().replace("DEFAULT_GENERATED", "")


def _outside_quotes(type_text: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", type_text).lower()


def _text(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "surrogateescape")
    return str(value)


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _int(value: object) -> int | None:
    return None if value is None else int(_text(value))

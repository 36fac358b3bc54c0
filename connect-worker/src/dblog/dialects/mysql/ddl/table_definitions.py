"""The body of CREATE TABLE and the parts shared with ALTER TABLE: indexes, constraints, table
options, and the table that they make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dblog.dialects.mysql.catalog.information_schema import make_table
from dblog.dialects.mysql.catalog.keys import PRIMARY, order_rank
from dblog.dialects.mysql.catalog.versioning import IMPLICIT, ROW_END
from dblog.dialects.mysql.ddl.column_definitions import ColumnSpec, make_column, parse_column, skip_references
from dblog.dialects.mysql.ddl.column_types import Charset, charset_name, collation_name, resolve_charset
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.lexer import Cursor, NotUnderstood
from dblog.model import Column, Index, Table, TableId


@dataclass(slots=True, kw_only=True)
class IndexSpec:
    """An index as written. ``name`` None lets the server choose one. ``foreign``: the index that a
    foreign key needs if no other serves.
    """

    name: str | None
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False
    partial: bool = False
    functional: bool = False
    period: bool = False
    """MariaDB: True if the last column is a period's name (WITHOUT OVERLAPS)."""
    foreign: bool = False
    if_absent: bool = False


@dataclass(slots=True, kw_only=True)
class Options:
    """Table options that affect a row's shape or a later column."""

    charset: str | None = None
    collation: str | None = None
    comment: str | None = None
    versioned: bool = False
    """MariaDB: True for WITH SYSTEM VERSIONING."""


@dataclass(slots=True, kw_only=True)
class Definition:
    """The elements between the parentheses of CREATE TABLE."""

    columns: list[ColumnSpec] = field(default_factory=list)
    indexes: list[IndexSpec] = field(default_factory=list)
    periods: dict[str, tuple[str, str]] = field(default_factory=dict)
    """MariaDB's application-time periods: start and end column, by name in lower case."""


def parse_element(cursor: Cursor, context: Context, into: Definition) -> None:
    """Read one element of a CREATE TABLE list or of ADD (...): a column, an index or a constraint."""
    if not parse_constraint(cursor, into):
        add_column(into, parse_column(cursor, context), context)


COLUMNS_MAX = 4096
"""The most columns of a table (MAX_FIELDS in sql/unireg.h of both servers)."""

INDEXES_MAX = 2048
"""The most indexes and constraints that are read. A table has at most 255 indexes however the
server was built (MAX_INDEXES), but one of them may serve many foreign keys.
"""


def add_column(into: Definition, spec: ColumnSpec, context: Context) -> None:
    """Add a column, and the indexes that its attributes ask for.

    MariaDB makes no unique index for a column that is the primary key (SERIAL PRIMARY KEY).
    """
    if len(into.columns) >= COLUMNS_MAX:
        raise NotUnderstood(f"more than {COLUMNS_MAX} columns, which no table has")
    into.columns.append(spec)
    if spec.primary:
        into.indexes.append(IndexSpec(name=PRIMARY, columns=(spec.name,), unique=True, primary=True))
    if spec.unique and not (spec.primary and context.flavor.mariadb):
        into.indexes.append(IndexSpec(name=None, columns=(spec.name,), unique=True))
    if spec.references:
        into.indexes.append(IndexSpec(name=None, columns=(spec.name,), foreign=True))


def parse_constraint(cursor: Cursor, definition: Definition) -> bool:
    """Read an index, a key or a constraint if one begins here. Return False if a column does."""
    into, symbol = definition.indexes, None
    if len(into) >= INDEXES_MAX:
        raise NotUnderstood(f"more than {INDEXES_MAX} indexes and constraints, which no table has")
    if cursor.take("CONSTRAINT"):
        if not cursor.is_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            cursor.take("IF", "NOT", "EXISTS")  # MariaDB: ADD CONSTRAINT IF NOT EXISTS name
            symbol = cursor.name()
    elif cursor.is_word("PERIOD", "FOR"):
        cursor.at += 2
        period = cursor.name().lower()
        cursor.expect_op("(")
        start = cursor.name()
        cursor.expect_op(",")
        definition.periods[period] = (start, cursor.name())
        cursor.expect_op(")")
        return True
    if cursor.take("PRIMARY", "KEY"):
        cursor.take("IF", "NOT", "EXISTS")
        into.append(_index(cursor, IndexSpec(name=PRIMARY, columns=(), unique=True, primary=True), named=False))
    elif cursor.take("UNIQUE"):
        cursor.take_any("INDEX", "KEY")
        into.append(_index(cursor, IndexSpec(name=symbol, columns=(), unique=True)))
    elif cursor.is_any("INDEX", "KEY"):
        cursor.step()
        into.append(_index(cursor, IndexSpec(name=None, columns=())))
    elif cursor.is_any("FULLTEXT", "SPATIAL") or cursor.is_word("VECTOR", "INDEX") or cursor.is_word("VECTOR", "KEY"):
        cursor.step()
        cursor.take_any("INDEX", "KEY")
        into.append(_index(cursor, IndexSpec(name=None, columns=())))
    elif cursor.take("FOREIGN", "KEY"):
        cursor.take("IF", "NOT", "EXISTS")
        name = symbol or (cursor.name() if not cursor.is_op("(") else None)
        if not cursor.is_op("("):
            cursor.name()
        spec = IndexSpec(name=name, columns=(), foreign=True)
        _parts(cursor, spec)
        cursor.expect("REFERENCES")
        skip_references(cursor)
        into.append(spec)
    elif cursor.take("CHECK"):
        cursor.skip_group()
        if not cursor.take("NOT", "ENFORCED"):
            cursor.take("ENFORCED")
    elif symbol is not None:
        raise NotUnderstood(f"an unknown constraint at {cursor.location}")
    else:
        return False
    return True


def _index(cursor: Cursor, spec: IndexSpec, *, named: bool = True) -> IndexSpec:
    """Read the text after INDEX, KEY, UNIQUE or PRIMARY KEY."""
    spec.if_absent = cursor.take("IF", "NOT", "EXISTS")
    if not cursor.is_op("(") and not cursor.is_any("USING", "TYPE"):
        name = cursor.name()
        spec.name = name if named else spec.name
    if cursor.take_any("USING", "TYPE"):
        cursor.step()
    _parts(cursor, spec)
    skip_index_options(cursor)
    return spec


def parse_index_body(cursor: Cursor, *, name: str, unique: bool) -> IndexSpec:
    """Read the column list of CREATE INDEX."""
    spec = IndexSpec(name=name, columns=(), unique=unique)
    _parts(cursor, spec)
    return spec


def _parts(cursor: Cursor, spec: IndexSpec) -> None:
    """Read an index's list of parts in parentheses."""
    cursor.expect_op("(")
    columns: list[str] = []
    while True:
        if cursor.is_op("("):
            cursor.skip_group()
            spec.functional = True
        else:
            columns.append(cursor.name())
            if cursor.take_op("("):
                cursor.number()
                cursor.expect_op(")")
                spec.partial = spec.unique
        spec.period = cursor.take("WITHOUT", "OVERLAPS") or spec.period
        cursor.take_any("ASC", "DESC")
        if not cursor.take_op(","):
            cursor.expect_op(")")
            spec.columns = tuple(columns)
            return


def skip_index_options(cursor: Cursor) -> None:
    """Skip USING, COMMENT, KEY_BLOCK_SIZE and other options, up to the comma, parenthesis or end."""
    while not (cursor.ended or cursor.is_op(",") or cursor.is_op(")")):
        cursor.skip_one()


def parse_option(cursor: Cursor, options: Options) -> bool:
    """Read one table option that matters, if one begins here; return whether it did."""
    at = cursor.at
    cursor.take("DEFAULT")
    if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET") or cursor.take("CHAR", "SET"):
        cursor.take_op("=")
        options.charset = charset_name(cursor)
        if options.collation and not options.collation.startswith((options.charset, "uca1400")):
            options.collation = None
    elif cursor.take("COLLATE"):
        cursor.take_op("=")
        options.collation = collation_name(cursor)
    elif at == cursor.at and cursor.take("COMMENT"):
        cursor.take_op("=")
        options.comment = cursor.string()
    else:
        cursor.at = at
        return False
    return True


def base_charset(options: Options, base: Charset, context: Context) -> Charset:
    """Return a table's charset: its options applied to the inherited charset."""
    if options.charset == "default" and options.collation is None:
        return base
    return resolve_charset(options.charset, options.collation, base, context.flavor)


def make_columns(specs: Sequence[ColumnSpec], base: Charset, context: Context, *, first_timestamp: bool = True) -> list[Column]:
    """Return the columns of one statement, in its order. ``first_timestamp``: the table has no
    TIMESTAMP so far.
    """
    columns = []
    for spec in specs:
        columns.append(make_column(spec, base, context, first_timestamp=first_timestamp))
        first_timestamp = first_timestamp and spec.type.type != "timestamp"
    return columns


def make_indexes(existing: Iterable[Index], definition: Definition, columns: Sequence[Column]) -> list[Index]:
    """Name the new indexes and append them to the existing ones. Raise NotUnderstood if one names a
    missing column.

    Indexes of foreign keys come last, because the server makes them only if no other index serves.
    """
    names = {column.name.lower(): column.name for column in columns}
    indexes = list(existing)
    taken = {index.name.lower() for index in indexes}
    for spec in sorted(definition.indexes, key=lambda spec: spec.foreign):
        listed = spec.columns
        if spec.period and listed[-1].lower() in definition.periods:
            start, end = definition.periods[listed[-1].lower()]
            listed = (*listed[:-1], end, start)
        unknown = [name for name in listed if name.lower() not in names]
        if unknown:
            raise NotUnderstood(f"an index names {unknown[0]}, which is not a column of the table as we know it")
        parts = tuple(names[name.lower()] for name in listed)
        if spec.foreign and any(
            tuple(part.lower() for part in index.columns[: len(parts)]) == tuple(p.lower() for p in parts) for index in indexes
        ):
            continue
        if spec.if_absent and spec.name is not None and spec.name.lower() in taken:
            continue
        name = spec.name or _free_name(parts[0] if parts else "functional_index", taken)
        if spec.foreign and name.lower() in taken:
            continue
        taken.add(name.lower())
        indexes.append(Index(name=name, columns=parts, unique=spec.unique, partial=spec.partial, functional=spec.functional))
    return indexes


def _free_name(column: str, taken: set[str]) -> str:
    """Return the name that the server would choose: the first column's, with _2, _3, ... if that is
    taken (make_unique_key_name).
    """
    if column.lower() not in taken and column.upper() != PRIMARY:
        return column
    return next(f"{column}_{n}" for n in range(2, 100000) if f"{column}_{n}".lower() not in taken)


def assemble(
    id_: TableId,
    columns: Sequence[Column],
    indexes: Sequence[Index],
    base: Charset,
    comment: str | None,
    *,
    versioned: bool = False,
    row_end: str | None = None,
) -> Table:
    """Return the table, with NOT NULL primary key columns, indexes in the server's order, and its
    key chosen.

    ``versioned``: WITH SYSTEM VERSIONING; ``row_end``: its ROW END column, if one was declared.
    """
    if versioned and row_end is None:
        columns, row_end = (*columns, *IMPLICIT), ROW_END
    # The server shows a declared ROW END column in every unique index.
    elif versioned and row_end is not None:
        indexes = [replace(i, columns=(*i.columns, row_end)) if i.unique and row_end not in i.columns else i for i in indexes]
    primary = {name.lower() for index in indexes if index.name == PRIMARY for name in index.columns}
    finished = [_not_null(column) if column.name.lower() in primary and column.nullable else column for column in columns]
    return make_table(
        id_,
        finished,
        _ordered(columns, finished, indexes),
        collation=base.collation,
        comment=comment,
        row_end=row_end if versioned else None,
    )


def _ordered(columns: Sequence[Column], finished: Sequence[Column], indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes in the server's order. An index listed before the primary key is ranked by
    the nullability that its columns have without that key (mysql_prepare_create_table).
    """
    before = {column.name.lower() for column in columns if column.nullable}
    after = {column.name.lower() for column in finished if column.nullable}
    at = next((at for at, index in enumerate(indexes) if index.name == PRIMARY), 0)
    early = {index.name for index in indexes[:at]}
    return sorted(indexes, key=lambda index: order_rank(index, before if index.name in early else after))


def _not_null(column: Column) -> Column:
    return replace(column, nullable=False, has_default=column.has_default and column.default is not None)

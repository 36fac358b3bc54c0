"""The statements that are sent to a MySQL or MariaDB server about tables of the source, as text and
parameters.

Only the database compares bounds of a chunk: collations, PAD SPACE and ENUM order are its business
(D5). A bound on a text is the column's own bytes, because some characters of the server's charsets
do not exist in Unicode. A bound on a composite key is the expanded ladder ``a > x OR (a = x AND b >
y)``. The range optimizer turns it into index ranges on every version, unlike the row constructor
``(a, b) > (x, y)`` (MySQL manual, Range Optimization of Row Constructor Expressions; Debezium
DBZ-5071).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dblog.dialects.mysql.values import charsets
from dblog.errors import DefiniteError, UnknownKeyError
from dblog.model import Column, Table, TableId

BUILTIN_DATABASES = frozenset({"mysql", "performance_schema", "sys", "information_schema"})
"""System databases of the server."""

Statement = tuple[str, tuple[Any, ...]]
"""A statement with ``?`` placeholders, and their values."""

SESSION_SQL_MODE = "ALLOW_INVALID_DATES"
"""The sql_mode of our sessions. Dates that an older or looser session stored (zero dates,
2020-02-31) must be comparable with themselves.
"""


def quote(identifier: str) -> str:
    """Return the identifier in backticks."""
    return f"`{identifier.replace('`', '``')}`"


def quote_table(table: TableId) -> str:
    """Return ``database``.``name``, both quoted."""
    return f"{quote(table.database)}.{quote(table.name)}"


def quote_text(text: str) -> str:
    """Return a string literal, for the few statements without parameters (GRANT texts shown to a
    person).
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def select_list(table: Table) -> str:
    """Return all columns by name, in image order. ``*`` would leave out invisible columns. Columns
    that only the image has are NULL.
    """
    return ", ".join("NULL" if column.hidden else _selected(column) for column in table.columns)


def _selected(column: Column) -> str:
    """Return an expression for the column's value.

    In the server's text of a SET the comma after an empty first member is missing, so 'a' may be
    one member or two. MAKE_SET keeps the comma and so gives what the log's bits mean
    (Field_set::val_str and Item_func_make_set::val_str in sql/; both servers alike).
    """
    name = quote(column.name)
    if column.type == "set" and "" in column.members:
        return f"MAKE_SET({name}, {', '.join(quote_text(member) for member in column.members)})"
    return name


def by_place(table: Table) -> Table:
    """Return the table unchanged: a statement cannot name the physical place of a row."""
    return table


def key_indexes(table: Table) -> tuple[int, ...]:
    """Return the indexes of the key columns in the select list, in key order."""
    index_of = {column.name.lower(): i for i, column in enumerate(table.columns)}
    return tuple(index_of[name.lower()] for name in table.key)


def chunk_select(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """Select the first ``rows_max`` rows of the range (after, upto] in key order.

    None leaves the range open on that side. The table must have a key. ``where``, here and below,
    keeps only rows for which the condition holds; it must have been checked
    (``ddl/conditions.py``).
    """
    return _chunk(table, select_list(table), after, upto, rows_max, where)


def json_kinds(
    table: Table, column_paths: Sequence[tuple[int, str]], after: Sequence[Any] | None, rows_max: int, *, where: str | None = None
) -> Statement:
    """Select the kinds of JSON values in the rows of ``chunk_select``, each by a column's index and
    a path. Without a key the rows come as in ``full_scan``.
    """
    kinds = _kinds(table, column_paths)
    paths = tuple(path for _, path in column_paths)
    if not table.key:
        return f"SELECT {kinds} FROM {quote_table(table.id)}{_only(where)} LIMIT ?", (*paths, rows_max)
    text, parameters = _chunk(table, kinds, after, None, rows_max, where)
    return text, (*paths, *parameters)


def _chunk(
    table: Table, wanted: str, after: Sequence[Any] | None, upto: Sequence[Any] | None, rows_max: int, only: str | None
) -> Statement:
    key = _key_columns(table)
    conditions: list[str] = []
    parameters: list[Any] = []
    for bound, last_operator in ((after, ">"), (upto, "<=")):
        if bound is not None:
            text, values = _ladder(table.id, key, bound, last_operator)
            conditions.append(text)
            parameters += values
    if only is not None:
        conditions.append(_bracketed(only))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(_ordered(column) for column in key)
    return f"SELECT {wanted} FROM {_indexed(table)}{where} ORDER BY {order} LIMIT ?", (*parameters, rows_max)


def _only(where: str | None) -> str:
    return "" if where is None else f" WHERE {_bracketed(where)}"


def _bracketed(where: str) -> str:
    """Put the condition in parentheses on lines of its own, so that a comment at its end cannot
    hide the closing one.
    """
    return f"(\n{where}\n)"


def _kinds(table: Table, column_paths: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"JSON_TYPE(JSON_EXTRACT({quote(table.columns[column].name)}, ?))" for column, _ in column_paths)


def rows_by_key(table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
    """Select the rows of these keys in key order. The statement's text depends only on the number
    of keys and on an ENUM's members.
    """
    return _by_key(table, select_list(table), keys)


def any_by_key(table: Table, keys: Sequence[Sequence[Any]]) -> Statement:
    """Compare like ``rows_by_key``, but select no value of the rows."""
    return _by_key(table, "1", keys)


def json_kinds_by_key(table: Table, column_paths: Sequence[tuple[int, str]], keys: Sequence[Sequence[Any]]) -> Statement:
    """Select the kinds of JSON values in the rows of these keys, in the order of ``rows_by_key``."""
    text, parameters = _by_key(table, _kinds(table, column_paths), keys)
    return text, (*(path for _, path in column_paths), *parameters)


def _by_key(table: Table, wanted: str, keys: Sequence[Sequence[Any]]) -> Statement:
    columns = _key_columns(table)
    rungs: list[str] = []
    parameters: list[Any] = []
    for key in keys:
        terms = [_term(column, "=", _value(table.id, column, value)) for column, value in zip(columns, key, strict=True)]
        rungs.append("(" + " AND ".join(text for text, _ in terms) + ")")
        parameters += [value for _, added in terms for value in added]
    order = ", ".join(_ordered(column) for column in columns)
    return f"SELECT {wanted} FROM {_indexed(table)} WHERE {' OR '.join(rungs)} ORDER BY {order}", tuple(parameters)


def max_key(table: Table, *, where: str | None = None) -> Statement:
    """Select the greatest key, as a bound; no row if the table is empty."""
    order = ", ".join(f"{_ordered(column)} DESC" for column in _key_columns(table))
    return f"SELECT {_bound_list(table)} FROM {_indexed(table)}{_only(where)} ORDER BY {order} LIMIT 1", ()


def row_has_bound(table: Table) -> bool:
    """Return whether a key from a utf8mb4 result set can serve as a bound unchanged."""
    return all(column.charset in _OWN_BYTES for column in _key_columns(table))


def exact_key(table: Table, shown: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the key shown in a row of a utf8mb4 result set as a bound; None if the text may differ
    from the column's bytes.
    """
    out = []
    for column, value in zip(_key_columns(table), shown, strict=True):
        if column.charset in _OWN_BYTES:
            out.append(value)
            continue
        known = None if column.type in ("enum", "set") else charsets.certain_bytes(column.charset)
        if known is None or not isinstance(value, str) or not all(char in known for char in value):
            return None
        out.append(bytes([known[char] for char in value]))
    return tuple(out)


def last_key(
    table: Table, after: Sequence[Any] | None, upto: Sequence[Any] | None, row_count: int, *, where: str | None = None
) -> Statement:
    """Select the key of a chunk's last row as a bound, if the row itself does not show it.

    ``row_count`` is the number of the chunk's rows, all of which the server reads again.
    """
    text, parameters = _chunk(table, _bound_list(table), after, upto, 1, where)
    return f"{text} OFFSET ?", (*parameters, row_count - 1)


def key_lookup(table: Table, key: Sequence[Any], after: Sequence[Any] | None, *, where: str | None = None) -> Statement:
    """Select a row if the table has this key and it is greater than ``after``."""
    columns = _key_columns(table)
    terms = [_term(column, "=", _value(table.id, column, value)) for column, value in zip(columns, key, strict=True)]
    conditions = [text for text, _ in terms]
    parameters = [value for _, added in terms for value in added]
    if after is not None:
        text, values = _ladder(table.id, columns, after, ">")
        conditions.append(text)
        parameters += values
    if where is not None:
        conditions.append(_bracketed(where))
    return f"SELECT 1 FROM {_indexed(table)} WHERE {' AND '.join(conditions)} LIMIT 2", tuple(parameters)


def full_scan(table: Table, rows_max: int, *, where: str | None = None) -> Statement:
    """Select all of a table without a key, in storage order, for one window.

    The caller asks for one row more than the window may hold. If it comes, the table is too large
    for a dump. There is no ORDER BY: one window needs no order, and sorting by every column would
    copy the table to the server's temporary files.
    """
    return f"SELECT {select_list(table)} FROM {quote_table(table.id)}{_only(where)} LIMIT ?", (rows_max,)


def readable(table: Table) -> str:
    """Return a statement that succeeds only if every column may be read. It reads no row. The list
    lacks columns that the catalog hides, and the star lacks invisible ones, so both are in it.
    """
    return f"SELECT *, {select_list(table)} FROM {quote_table(table.id)} LIMIT 0"


# -- the watermark table ---------------------------------------------------------------------------

WATERMARK_NAME_CHARACTERS_MAX = 190
"""The longest name of a watermark row. With four bytes a character it fits the 767 bytes of an
index entry in the oldest row formats.
"""


def parse_table_name(text: str) -> TableId:
    """Parse ``database.table`` of an option. Raise DefiniteError if it is malformed."""
    database, dot, name = text.partition(".")
    if not dot or not database or not name:
        message = f"'{text}' is not a table name; write it as database.table"
        raise DefiniteError(message)
    return TableId(database, name)


def create_watermark_database(watermarks: TableId) -> str:
    """Return the first statement of the set-up."""
    return f"CREATE DATABASE IF NOT EXISTS {quote(watermarks.database)}"


def create_watermark_table(watermarks: TableId) -> str:
    """Return the second statement of the set-up. Both columns are VARCHAR, as the watermark decoder
    of the log requires (table_map.watermark_rows); InnoDB serves the snapshot.
    """
    width = WATERMARK_NAME_CHARACTERS_MAX
    return (
        f"CREATE TABLE IF NOT EXISTS {quote_table(watermarks)} (id VARCHAR({width}) NOT NULL, token VARCHAR({width}) NOT NULL, PRIMARY KEY (id))"
        " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )


def write_watermark(watermarks: TableId) -> str:
    """Return the statement that writes a watermark. Its parameters (``%s``) are name, token, token.

    A token equal to the stored one would change nothing and so leave no event in the log.
    """
    return f"INSERT INTO {_quote_for_format(watermarks)} (id, token) VALUES (%s, %s) ON DUPLICATE KEY UPDATE token = %s"


def read_watermark(watermarks: TableId) -> str:
    """Return the statement that reads a watermark. Its parameter (``%s``) is the name."""
    return f"SELECT token FROM {_quote_for_format(watermarks)} WHERE id = %s"


def _quote_for_format(table: TableId) -> str:
    """Quote a table in a statement that the driver formats: percent signs of the name are doubled."""
    return quote_table(table).replace("%", "%%")


def probe_watermarks(watermarks: TableId, *, there: bool) -> tuple[str, ...]:
    """Return statements that need the watermark table's privileges but change nothing: they write
    no row, and would copy only a table that does not exist.
    """
    name, none = quote_table(watermarks), quote_table(TableId(watermarks.database, NO_SUCH_NAME))
    create = () if there else (f"CREATE TABLE {name} LIKE {none}",)
    write = (
        f"INSERT INTO {name} (id, token) SELECT 'check', '0' FROM (SELECT 1 AS one) AS one WHERE FALSE ON DUPLICATE KEY UPDATE token = '0'"
    )
    return (*create, f"SELECT id, token FROM {name} LIMIT 0", write)


NO_SUCH_NAME = "dblog_no_such_name"


def probe(table: TableId) -> str:
    """Return a statement that fails if the table or a privilege is missing. It reads no row."""
    return f"SELECT * FROM {quote_table(table)} LIMIT 0"


# -- privileges ------------------------------------------------------------------------------------


def account(current_user: str) -> str:
    """Quote ``user@host``, as CURRENT_USER() returns it, for a GRANT."""
    user, _, host = current_user.rpartition("@")
    return f"{quote_text(user)}@{quote_text(host)}"


def grant_global(privilege: str, current_user: str) -> str:
    """Return the statement that grants a privilege on the whole server."""
    return f"GRANT {privilege} ON *.* TO {account(current_user)};"


def grant_select(table: TableId, current_user: str) -> str:
    """Return the statement that lets the account read one table."""
    return f"GRANT SELECT ON {quote_table(table)} TO {account(current_user)};"


def grant_database(database: str, current_user: str) -> str:
    """Return the statement that lets the account read all tables of a database, also future ones."""
    return f"GRANT SELECT ON {quote(database)}.* TO {account(current_user)};"


def grant_watermarks(watermarks: TableId, current_user: str) -> str:
    """Return the statement that lets the account create, read and write the watermark table."""
    return f"GRANT CREATE, SELECT, INSERT, UPDATE ON {quote(watermarks.database)}.* TO {account(current_user)};"


def setup_watermarks(watermarks: TableId, current_user: str) -> str:
    """Return the statements for an administrator if the connector's account may not create the
    table.
    """
    grant = f"GRANT SELECT, INSERT, UPDATE ON {quote_table(watermarks)} TO {account(current_user)};"
    return f"{create_watermark_database(watermarks)}; {create_watermark_table(watermarks)}; {grant}"


# -- parts of statements ---------------------------------------------------------------------------


def _key_columns(table: Table) -> tuple[Column, ...]:
    if not table.key:
        message = f"{table.id} has no key to read it by"
        raise AssertionError(message)
    return tuple(table.columns[i] for i in key_indexes(table))


_OWN_BYTES = frozenset({None, "binary", "utf8", "utf8mb3", "utf8mb4"})
"""Charsets whose values appear unchanged in a utf8mb4 result set."""


def _bound_list(table: Table) -> str:
    """Return the key columns as bounds: a text as its bytes, an ENUM or SET as its number if its
    text may be ambiguous.
    """
    return ", ".join(_bound(column) for column in _key_columns(table))


def _bound(column: Column) -> str:
    name = quote(column.name)
    if column.charset in _OWN_BYTES:
        return _selected(column)
    return f"CAST({name} AS {'UNSIGNED' if column.type in ('enum', 'set') else 'BINARY'})"


def _indexed(table: Table) -> str:
    """Return the table, with its primary key's index forced if it has one. Stale statistics would
    make the optimizer scan and sort for each chunk.
    """
    name = quote_table(table.id)
    return f"{name} FORCE INDEX (PRIMARY)" if table.primary_key else name


def _ladder(table: TableId, key: Sequence[Column], bound: Sequence[Any], last_operator: str) -> tuple[str, list[Any]]:
    """Return ``a > x OR (a = x AND b > y)`` and its parameters. The last rung has
    ``last_operator``, those before it the strict operator.
    """
    if len(bound) != len(key):
        message = f"a bound of {len(bound)} values for the {len(key)} key columns of {table}"
        raise AssertionError(message)
    values = [_value(table, column, value) for column, value in zip(key, bound, strict=True)]
    rungs: list[str] = []
    parameters: list[Any] = []
    for i, column in enumerate(key):
        operator = last_operator if i == len(key) - 1 else last_operator[0]
        terms = [_term(before, "=", value) for before, value in zip(key[:i], values, strict=False)]
        terms.append(_term(column, operator, values[i]))
        if all(text for text, _ in terms):
            rungs.append(" AND ".join(text for text, _ in terms))
            parameters += [value for _, added in terms for value in added]
    if not rungs:
        return "(1 = 0)", []
    if len(rungs) == 1:
        return f"({rungs[0]})", parameters
    return "(" + " OR ".join(f"({rung})" for rung in rungs) + ")", parameters


_TEXT_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"})

ENUM_MEMBERS_LISTED_MAX = 64
"""The longest ENUM list that is compared by its texts. A longer one is compared by number: correct,
but without the index.
"""


def _term(column: Column, operator: str, value: Any) -> tuple[str, list[Any]]:
    """Return one comparison and its parameters; an empty text if no row can match.

    An ENUM is ordered by number, but the server uses its index only for texts and only for equality
    (measured on MySQL 9.7 and MariaDB 10.11: ``e > 3`` reads the whole index; MySQL takes the index
    for the list below in some chunks, MariaDB in all). So "greater" lists the members that follow.
    Number 0, the error value, is compared by number, because no text means it alone.
    """
    name = quote(column.name)
    if column.type == "enum" and value > 0:
        members = column.members
        behind = members[value:]
        if operator == ">" and not behind:
            return "", []
        # A question mark in the catalog may stand for a character that Unicode lacks.
        if any("?" in member for member in members):
            return f"{name} {operator} ?", [value]
        if operator == "=":
            return f"{name} = {_placeholder(column)}", [members[value - 1]]
        if operator == ">" and len(behind) <= ENUM_MEMBERS_LISTED_MAX:
            return f"{name} IN ({', '.join([_placeholder(column)] * len(behind))})", list(behind)
    if column.type in ("enum", "set"):
        return f"{name} {operator} ?", [value]
    return f"{name if operator == '=' else _ordered(column)} {operator} {_placeholder(column)}", [value]


def _ordered(column: Column) -> str:
    """Return the expression by which the column is ordered and compared.

    An index orders a CHAR with its blanks, a comparison ignores them. If blanks count (NO PAD), a
    character may sort before a blank, and tis620_thai_ci moves marks to the end of a text. There
    the two orders differ, rows between them would be lost, and only a computed text is ordered as
    it is compared (measured on MariaDB 10.11 and MySQL 9.7: no other collation differs). This reads
    the whole table for each chunk.
    """
    name = quote(column.name)
    collation = column.collation or ""
    return f"CONCAT({name})" if column.type == "char" and ("nopad" in collation or collation.startswith("tis620_thai")) else name


def _placeholder(column: Column) -> str:
    """Return the placeholder for a bound's value.

    A text parameter is in utf8mb4, a bytes parameter has no charset. If it were compared with a
    column of another charset, the server would convert the column, row by row and without the
    index. So the value is converted, which leaves bytes unchanged, and gets the column's collation.
    """
    if column.type not in _TEXT_TYPES or column.charset is None or column.charset == "binary":
        return "?"
    collation = f" COLLATE {quote(_old_name(column.collation))}" if column.collation else ""
    return f"CONVERT(? USING {quote(column.charset)}){collation}"


def _old_name(collation: str) -> str:
    """Return ``utf8_bin`` for ``utf8mb3_bin``. Servers before MySQL 8.0.30 and MariaDB 10.6 know
    only the old name, later ones know both.
    """
    if collation.startswith("utf8mb3_") and "uca1400" not in collation:
        return "utf8_" + collation.removeprefix("utf8mb3_")
    return collation


def _value(table: TableId, column: Column, value: Any) -> Any:
    """Return the value in the form that the index orders by: an ENUM's number, a SET's bits,
    although a result set shows their texts.
    """
    if column.type == "enum" and isinstance(value, int) and value > len(column.members):
        raise _unknown_member(table, column)
    if type(value) is int and column.type in ("decimal", "numeric"):
        return Decimal(value)  # an integer parameter has only 64 bits
    if not isinstance(value, str) or column.type not in ("enum", "set"):
        return value
    member_index = {member: i for i, member in enumerate(column.members)}
    if value == "" and "" not in member_index:
        return 0
    members = [value] if column.type == "enum" else value.split(",")
    unknown = [member for member in members if member not in member_index]
    if unknown:
        raise _unknown_member(table, column)
    if column.type == "enum":
        return member_index[value] + 1
    return sum(1 << member_index[member] for member in set(members))


def _unknown_member(table: TableId, column: Column) -> UnknownKeyError:
    message = (
        f"{table}.{column.name} holds a member that its definition lacks: it has got one that the log does not show (an ALTER with sql_log_bin=0?); "
        "reset the connector's offsets to have the table's definition read again"
    )
    return UnknownKeyError(message)

"""Turns a configured SELECT for a table's first dump into the condition for its chunks.

A chunk is a range of the table's key, so only the condition of the statement can be used: ``SELECT
* FROM schema.table [WHERE condition] [ORDER BY ...]``. The order is always the key's. A statement
that would return other columns, other rows or only some of the rows is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dblog.config.namespaces import Namespace
from dblog.config.select_overrides import key_of, select_overrides
from dblog.dialects.postgres.catalog import conditions
from dblog.errors import ConfigError, DefiniteError
from dblog.model import TableId

_FORM = "write it as SELECT * FROM schema.table WHERE condition"
_IDENTIFIER = r'(?:"(?:[^"]|"")*"|[A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*)'
_STATEMENT = re.compile(
    rf"\s*SELECT\s+\*\s+FROM\s+(?:ONLY\s+)?({_IDENTIFIER})\s*\.\s*({_IDENTIFIER})\s*(?:;\s*)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_WHERE = re.compile(r"WHERE\b", re.IGNORECASE)
_ENDS = re.compile(r"(GROUP|HAVING|LIMIT|OFFSET|FETCH|UNION|EXCEPT|INTERSECT|FOR|WINDOW)(?![\w$])", re.IGNORECASE)
_ORDER = re.compile(r"ORDER\s+BY\b", re.IGNORECASE)


class Overrides:
    """The conditions from one connector's configuration. Raise ConfigError that names every
    statement that cannot be used.
    """

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        statements, errors = select_overrides(properties, namespace=Namespace.SCHEMA)
        self._conditions: dict[str, str] = {}
        for table, statement in statements.items():
            schema, _, name = table.partition(".")
            try:
                condition = condition_of(statement, TableId(schema, name))
            except DefiniteError as e:
                errors[key_of(table)] = [f"The '{key_of(table)}' value is invalid: {e}"]
            else:
                if condition is not None:
                    self._conditions[table] = condition
        if errors:
            raise ConfigError(errors)

    def condition(self, table: TableId) -> str | None:
        """Return the condition for the rows of a table's first dump; None for all rows."""
        return self._conditions.get(str(table))


def condition_of(statement: str, table: TableId) -> str | None:
    """Return the statement's condition, or None if it has none. Raise DefiniteError with the reason
    if the statement cannot be used.
    """
    found = _STATEMENT.fullmatch(statement)
    if found is None:
        raise _refused("it must select all columns by * of one table; columns are chosen by column.include.list and column.exclude.list")
    named = TableId(_name(found[1]), _name(found[2]))
    if named != table:
        raise _refused(f"it reads another table, {named}")
    rest = found["rest"].strip().rstrip(";").strip()
    if not rest or _ORDER.match(rest):
        return None
    if not _WHERE.match(rest):
        raise _refused("the table is followed by something other than WHERE, such as another name for it, or a JOIN")
    condition = _up_to_order(rest[len("WHERE") :]).strip()
    if (fault := conditions.fault_of(condition)) is not None:
        raise _refused(f"of its condition: {fault}")
    return condition


def _up_to_order(text: str) -> str:
    """Return the condition without an ORDER BY after it. Raise DefiniteError if something follows
    that a range of keys cannot have.
    """
    depth = 0
    for token in conditions.TOKEN.finditer(text):
        if token[0] in "()" and token[0]:
            depth += 1 if token[0] == "(" else -1
        if depth == 0 and _ORDER.match(text, token.start()):
            return text[: token.start()]
        if depth == 0 and (end := _ENDS.match(text, token.start())):
            raise _refused(f"it has {end[1].upper()}, and a dump is read in ranges of the key; choose rows by a condition")
    return text


def _name(identifier: str) -> str:
    """Return the name that an identifier stands for: without quotes it is in lower case."""
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier.lower()


def probes(overrides: Overrides, tables: Iterable[TableId]) -> list[tuple[TableId, str]]:
    """Return the statements that show if the server accepts the conditions, each with its table."""
    return [(table, conditions.probe(table, where)) for table in tables if (where := overrides.condition(table)) is not None]


def not_taken(table: TableId, reason: object) -> ConfigError:
    """Return the error for a condition that the server does not accept."""
    return ConfigError({key_of(str(table)): [f"the server does not take the condition of the SELECT for {table}: {reason}"]})


def _refused(reason: str) -> DefiniteError:
    return DefiniteError(f"this SELECT cannot be used: {reason}; {_FORM}")

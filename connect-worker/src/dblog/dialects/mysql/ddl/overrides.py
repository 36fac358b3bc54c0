"""Conditions for a table's first dump, taken from the SELECT statements of a configuration.

A chunk is a range of the table's key, so only the condition of the statement can be used: ``SELECT
* FROM database.table [WHERE condition] [ORDER BY ...]``. The order is always the key's. A statement
that would return other columns, other rows or part of them is refused, because it cannot be cut
into ranges of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dblog.config.select_overrides import key_of, select_overrides
from dblog.dialects.mysql.ddl import conditions
from dblog.dialects.mysql.ddl.lexer import Kind, LexerMode, Token, tokenize
from dblog.errors import ConfigError, DefiniteError
from dblog.model import TableId

_FORM = "write it as SELECT * FROM database.table WHERE condition"
_REFUSED = {
    "GROUP": "it groups rows",
    "HAVING": "it groups rows",
    "LIMIT": "it has a LIMIT, and a dump is read in ranges of the key; choose rows by a condition",
    "UNION": "it is a UNION",
    "EXCEPT": "it is an EXCEPT",
    "INTERSECT": "it is an INTERSECT",
    "FOR": "it locks rows, and a dump locks none",
    "LOCK": "it locks rows, and a dump locks none",
    "INTO": "it writes its rows elsewhere",
}


class Overrides:
    """The conditions of one connector. Raises ConfigError for all statements that cannot be used."""

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        statements, errors = select_overrides(properties)
        self._conditions: dict[str, str] = {}
        for table, statement in statements.items():
            database, _, name = table.partition(".")
            try:
                condition = condition_of(statement, TableId(database, name))
            except DefiniteError as e:
                errors[key_of(table)] = [f"The '{key_of(table)}' value is invalid: {e}"]
            else:
                if condition is not None:
                    self._conditions[table.lower()] = condition
        if errors:
            raise ConfigError(errors)

    def condition(self, table: TableId) -> str | None:
        """Return the condition for a table's first dump; None for all rows."""
        return self._conditions.get(str(table).lower())


def condition_of(statement: str, table: TableId) -> str | None:
    """Return the statement's condition, None without one. Raise DefiniteError with the reason if
    the statement cannot be used.
    """
    tokens = tokenize(statement, LexerMode())
    if tokens and tokens[-1].text == ";" and tokens[-1].kind is Kind.OP:
        statement, tokens = statement[: tokens[-1].start], tokens[:-1]
    behind_from = _behind_star(tokens)
    where = _behind_table(tokens, behind_from, table)
    if where == len(tokens):
        return None
    end = len(statement)
    if tokens[where].upper != "ORDER":
        if tokens[where].kind is not Kind.WORD or tokens[where].upper != "WHERE":
            reason = (
                _REFUSED.get(tokens[where].upper)
                or "the table is followed by something other than WHERE, such as another name for it, or a JOIN"
            )
            raise _refused(reason)
        begin = tokens[where].end
        end = _end_of_condition(tokens, where + 1, end)
        condition = statement[begin:end].strip()
        if (fault := conditions.fault_of(condition)) is not None:
            raise _refused(f"of its condition: {fault}")
        return condition
    _end_of_condition(tokens, where, end)
    return None


def probes(overrides: Overrides, tables: Iterable[TableId]) -> list[tuple[TableId, str]]:
    """Return the statements, by table, that show whether the server accepts the conditions."""
    return [(table, conditions.probe(table, where)) for table in tables if (where := overrides.condition(table)) is not None]


def not_taken(table: TableId, reason: object) -> ConfigError:
    """Return the error for a condition that the server rejects."""
    return ConfigError({key_of(str(table)): [f"the server does not take the condition of the SELECT for {table}: {reason}"]})


def _behind_star(tokens: Sequence[Token]) -> int:
    """Return the index of the token with the table's name, after ``SELECT * FROM``. Raise
    DefiniteError for another beginning.
    """
    words = [token.upper if token.kind is Kind.WORD else token.text for token in tokens[:3]]
    if words[:1] != ["SELECT"]:
        raise _refused("it is not a SELECT")
    if words != ["SELECT", "*", "FROM"] or tokens[1].kind is not Kind.OP:
        raise _refused("it must select all columns by * of one table; columns are chosen by column.include.list and column.exclude.list")
    return 3


def _behind_table(tokens: Sequence[Token], at: int, table: TableId) -> int:
    names: list[str] = []
    while at < len(tokens) and tokens[at].kind in (Kind.WORD, Kind.QUOTED):
        names.append(tokens[at].text)
        at += 1
        if at < len(tokens) and tokens[at].kind is Kind.OP and tokens[at].text == ".":
            at += 1
        else:
            break
    meant = [table.database, table.name][-len(names) :] if names else []
    if not names or [name.lower() for name in names] != [name.lower() for name in meant]:
        raise _refused(f"it reads from another table than {table}")
    return at


def _end_of_condition(tokens: Sequence[Token], at: int, end: int) -> int:
    """Return the offset at which the condition ends. Raise DefiniteError for a clause that is not
    allowed.
    """
    depth, ordered = 0, False
    for before, token in zip(tokens[at - 1 :], tokens[at:], strict=False):
        if token.kind is Kind.OP:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.text == ";":
                raise _refused("there is more than one statement")
        # After a dot any word is a column's name.
        if depth or token.kind is not Kind.WORD or before.text == ".":
            continue
        if token.upper in _REFUSED:
            raise _refused(_REFUSED[token.upper])
        if token.upper == "ORDER" and not ordered:
            end, ordered = token.start, True
    return end


def _refused(reason: str) -> DefiniteError:
    return DefiniteError(f"{reason}; {_FORM}")

"""A SELECT that a configuration gives for a table's first dump, as the condition that its chunks have.

A chunk is a range of the table's key, so of the statement only the condition can be used: ``SELECT * FROM database.table [WHERE condition]
[ORDER BY ...]``. The order is the key's in any case. What would give other columns, other rows or a part of them is refused: it cannot be cut into ranges
of keys.
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
    """One connector's. ConfigError with every statement that cannot be used."""

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
        """Of the rows of a table's first dump; None: all rows."""
        return self._conditions.get(str(table).lower())


def condition_of(statement: str, table: TableId) -> str | None:
    """The statement's condition, None where it has none; DefiniteError says why it cannot be used."""
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
                or "there is something else than WHERE behind the table, such as another name for it, or a JOIN"
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
    """The statements that show whether the server takes the conditions, by table."""
    return [(table, conditions.probe(table, where)) for table in tables if (where := overrides.condition(table)) is not None]


def not_taken(table: TableId, reason: object) -> ConfigError:
    """The server does not take the condition."""
    return ConfigError({key_of(str(table)): [f"the server does not take the condition of the SELECT for {table}: {reason}"]})


def _behind_star(tokens: Sequence[Token]) -> int:
    """Where the table begins."""
    words = [token.upper if token.kind is Kind.WORD else token.text for token in tokens[:3]]
    if words[:1] != ["SELECT"]:
        raise _refused("it is no SELECT")
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
    """Where the condition ends in the text; DefiniteError for what may not follow."""
    depth, ordered = 0, False
    for before, token in zip(tokens[at - 1 :], tokens[at:], strict=False):
        if token.kind is Kind.OP:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.text == ";":
                raise _refused("there is more than one statement")
        if depth or token.kind is not Kind.WORD or before.text == ".":  # behind a dot any word is a column's name
            continue
        if token.upper in _REFUSED:
            raise _refused(_REFUSED[token.upper])
        if token.upper == "ORDER" and not ordered:
            end, ordered = token.start, True
    return end


def _refused(reason: str) -> DefiniteError:
    return DefiniteError(f"{reason}; {_FORM}")

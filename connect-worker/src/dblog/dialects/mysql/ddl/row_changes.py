"""Statements in the log that change rows, though the log should contain the rows themselves: their
kind and the tables that they may change.

Rule source: the grammars of INSERT, REPLACE, UPDATE, DELETE and LOAD in the manuals of both
servers. The changed tables come before the assignments, the query or the condition, and outside
parentheses. The result may contain a column or an alias as a table; an extra name does no harm.
"""

from __future__ import annotations

import re
from itertools import islice

from dblog.dialects.mysql.ddl.lexer import TOKENS_MAX, Kind, LexerMode, Token, each_token
from dblog.model import TableId

_ROW_CHANGE = re.compile(
    r"\s*(?:/\*[^*]*\*+(?:[^*/][^*]*\*+)*/\s*)*(?:set\s+statement\b.*?\bfor\s+|with\b.*?\b(?=update\b|delete\b))?"
    r"(insert|update|delete|replace|load\s+data|load\s+xml)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that changes rows, found by its first word after comments, MariaDB's SET STATEMENT,
and WITH. The pattern gives a comment only one possible end. With ``.*?`` it could end at any later
one, and n comments would be tried in 2^n ways, while nothing else of the task runs.
"""

_BEHIND_TABLES = frozenset({"SET", "VALUES", "SELECT", "WHERE", "DUPLICATE", "RETURNING"})
_NAMES = (Kind.WORD, Kind.QUOTED)


def row_change(text: str, *, database: str, mode: LexerMode) -> tuple[str, frozenset[TableId]] | None:
    """Return the kind of a statement that changes rows, and the tables that it may mean, in lower
    case; None for any other statement. ``database`` is the session's default.
    """
    found = _ROW_CHANGE.match(text)
    if found is None:
        return None
    kind = " ".join(found[1].upper().split())
    return kind, frozenset(_tables(_before_values(text, mode, found.end(1)), database.lower()))


def _before_values(text: str, mode: LexerMode, start: int) -> list[Token]:
    """Return the tokens that name the changed tables, without the values after them, which can be
    as long as a packet.
    """
    out: list[Token] = []
    depth = 0
    for token in islice(each_token(text, mode), TOKENS_MAX):
        if token.start < start:
            continue
        out.append(token)
        if token.kind is Kind.OP:
            depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.upper in _BEHIND_TABLES:
            break
    return out


def _tables(tokens: list[Token], database: str) -> set[TableId]:
    out: set[TableId] = set()
    depth = at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind is Kind.OP:
            depth += (token.text == "(") - (token.text == ")")
        elif depth == 0 and token.kind in _NAMES:
            if token.upper in _BEHIND_TABLES:
                break
            names = [token.text.lower()]
            while at + 2 < len(tokens) and tokens[at + 1].kind is Kind.OP and tokens[at + 1].text == "." and tokens[at + 2].kind in _NAMES:
                at += 2
                names.append(tokens[at].text.lower())
            out.add(TableId(*names[:2]) if len(names) > 1 else TableId(database, names[0]))
        at += 1
    return out

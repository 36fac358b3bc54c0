"""A test that a user's text is a single SQL condition, made before the text is put between
parentheses in a SELECT.
"""

from __future__ import annotations

from dblog.dialects.mysql.catalog.sql import quote_table
from dblog.dialects.mysql.ddl.lexer import Kind, LexerMode, tokenize
from dblog.model import TableId

CHARACTERS_MAX = 10_000


def fault_of(where: str) -> str | None:
    """Return a sentence why the text cannot be one condition; None if its parentheses and quotes
    are balanced and nothing ends it early.

    The server decides whether it is valid SQL (see ``probe``). Comments are refused, since a server
    of another version may read another text. Sessions that read chunks have neither ANSI_QUOTES nor
    NO_BACKSLASH_ESCAPES, so the text is split into tokens without them.
    """
    if not where.strip():
        return "it is empty; leave it out, or name a condition such as status = 'open'"
    if len(where) > CHARACTERS_MAX:
        return f"it has {len(where)} characters; {CHARACTERS_MAX} are the most"
    if "\0" in where:
        return "it has a zero byte; write it as CHAR(0)"
    depth = 0
    end = 0
    tokens = tokenize(f"{where}\n)", LexerMode())
    if not tokens or tokens[-1].start != len(where) + 1:
        return "it has a comment, or a text whose quotes are not closed"
    for token in tokens[:-1]:
        if where[end : token.start].strip():
            return "it has a comment; leave that out"
        end = token.end
        if token.kind is not Kind.OP:
            continue
        if token.text == ";":
            return "it has a semicolon, and only one condition is allowed"
        if token.text == "?":
            return "it has a question mark outside of a text, and no value for it"
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0:
            return "it closes a bracket that it has not opened"
    if where[end:].strip():
        return "it has a comment; leave that out"
    return None if depth == 0 else "it opens a bracket that it does not close"


def probe(table: TableId, where: str) -> str:
    """Return a statement that fails if the server rejects the condition for this table. It reads no
    row.
    """
    return f"SELECT 1 FROM {quote_table(table)} WHERE (\n{where}\n) LIMIT 0"

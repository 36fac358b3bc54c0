"""Whether a text that a person gives is one condition, and nothing else, before it is put between brackets into a SELECT."""

from __future__ import annotations

import re

from dblog.dialects.postgres.catalog.sql import quote_table
from dblog.model import TableId

CHARACTERS_MAX = 10_000

QUOTED = r"""
        [eE]'(?:[^'\\]|''|\\.)*'           # a text with backslashes
      | '(?:[^']|'')*'                     # a text
      | "(?:[^"]|"")*"                     # an identifier
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # a text between dollars
"""
"""What a statement's words are not looked for in; of a verbose pattern in which the dot matches line breaks."""

_PART = re.compile(rf"{QUOTED}|.", re.DOTALL | re.VERBOSE)


def fault_of(where: str) -> str | None:
    """Why the text cannot be one condition, in a sentence; None where its brackets and quotes are closed, and it has no end in it.

    That it is valid SQL, the server decides (``probe``). Rule source: PostgreSQL manual, 4.1 "Lexical Structure".
    """
    if not where.strip():
        return "it is empty; leave it out, or name a condition such as status = 'open'"
    if len(where) > CHARACTERS_MAX:
        return f"it has {len(where)} characters; {CHARACTERS_MAX} are the most"
    depth, before = 0, ""
    for found in _PART.finditer(where):
        part = found[0]
        if len(part) > 1:
            before = ""
            continue
        if before + part in ("--", "/*"):
            return "it has a comment; leave that out"
        if part in ("'", '"'):
            return "it has quotes that are not closed"
        if part == ";":
            return "it has a semicolon, and only one condition is taken"
        if part == "\0":
            return "it has a zero byte"
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return "it closes a bracket that it has not opened"
        before = part
    return None if depth == 0 else "it opens a bracket that it does not close"


def probe(table: TableId, where: str) -> str:
    """A statement that fails where the server does not take the condition for this table; it reads no row."""
    return f"SELECT 1 FROM {quote_table(table)} WHERE (\n{where}\n) LIMIT 0"

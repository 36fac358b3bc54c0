"""Whether a text that a person gives is one condition, and nothing else, before it is put between brackets into a SELECT."""

from __future__ import annotations

import re

from dblog.dialects.postgres.catalog.sql import quote_table
from dblog.model import TableId

CHARACTERS_MAX = 10_000

WORD = r"[0-9A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*"
"""A keyword, a name or a number, up to where the server too ends it."""

TOKEN = re.compile(rf"""(?P<word>{WORD}) | '(?:[^']|'')*' | "(?:[^"]|"")*" | .""", re.DOTALL | re.VERBOSE)
"""Words whole, for a dollar or a letter in one begins no quotes; then texts, names in quotes, and single signs."""

_QUOTED = ("'", '"')


def fault_of(where: str) -> str | None:
    """Return in a sentence why the text cannot be one condition; None where it ends no bracket or quote of another, and no statement.

    Refuse what another version or setting of the server would cut in another way: texts between dollars, with escapes, or by the numbers of
    characters. The server decides whether the rest is valid SQL (``probe``). Rule source: scan.l of PostgreSQL's parser; manual, 4.1.
    """
    if not where.strip():
        return "it is empty; leave it out, or name a condition such as status = 'open'"
    if len(where) > CHARACTERS_MAX:
        return f"it has {len(where)} characters; {CHARACTERS_MAX} are the most"
    if "\0" in where:
        return "it has a zero byte"
    depth, before = 0, ""
    for found in TOKEN.finditer(where):
        part, after = found[0], where[found.end() :][:2]
        if found["word"]:
            if (fault := _fault_of_word(part, after)) is not None:
                return fault
            part = ""
        elif len(part) > 1:
            part = ""
        elif before + part in ("--", "/*"):
            return "it has a comment; leave that out"
        elif part in _QUOTED:
            return "it has quotes that are not closed"
        elif part == ";":
            return "it has a semicolon, and only one condition is taken"
        elif part == "$":
            return "it has a dollar outside of a name and of quotes; write a text as '...'"
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return "it closes a bracket that it has not opened"
        before = part
    return None if depth == 0 else "it opens a bracket that it does not close"


def _fault_of_word(word: str, after: str) -> str | None:
    """Return why a word, with the two characters after it, may make another text of these than they seem to be."""
    if word[0].isascii() and word[0].isdigit():
        if "$" in word:  # of a number; older servers let a name or a dollar follow one
            return "it has a dollar outside of a name and of quotes; write a text as '...'"
        return "it has a number before quotes; write a blank between them" if after.startswith(_QUOTED) else None
    if word in ("e", "E") and after.startswith("'"):
        return "it has an escape string (E'...'); write the text as '...', with chr(10) for a line break"
    if word in ("u", "U") and after.startswith("&") and after.endswith(_QUOTED):
        return "it has a text by the numbers of its characters (U&'...'); write the characters themselves"
    return None


def probe(table: TableId, where: str) -> str:
    """A statement that fails where the server does not take the condition for this table; it reads no row."""
    return f"SELECT 1 FROM {quote_table(table)} WHERE (\n{where}\n) LIMIT 0"

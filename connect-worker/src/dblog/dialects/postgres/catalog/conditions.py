"""Checks that a text from a person is one condition and nothing else, before it is put between
brackets into a SELECT.
"""

from __future__ import annotations

import re

from dblog.dialects.postgres.catalog.sql import quote_table
from dblog.model import TableId

CHARACTERS_MAX = 10_000

WORD = r"[0-9A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*"
"""Pattern of a keyword, a name or a number that ends where the server ends it too."""

TOKEN = re.compile(rf"""(?P<word>{WORD}) | '(?:[^']|'')*' | "(?:[^"]|"")*" | .""", re.DOTALL | re.VERBOSE)
"""Pattern of a token. Words are matched whole, because a dollar or a letter inside one begins no
quotes; then come texts, quoted names, and single characters.
"""

_QUOTED = ("'", '"')


def fault_of(where: str) -> str | None:
    """Return the reason, as a sentence, why the text cannot be one condition. Return None if it
    cannot end a bracket, a quote or the statement around it.

    Texts that another version or setting of the server might split differently are refused: dollar
    quotes, escape strings, and U& strings. The server decides if the rest is valid SQL (``probe``).
    Source of the rules: scan.l of PostgreSQL's parser; manual, 4.1.
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
            return "it has a semicolon, and only one condition is allowed"
        elif part == "$":
            return "it has a dollar outside of a name and of quotes; write a text as '...'"
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return "it closes a bracket that it has not opened"
        before = part
    return None if depth == 0 else "it opens a bracket that it does not close"


def _fault_of_word(word: str, after: str) -> str | None:
    """Return the reason why a word is refused: with the two characters after it, a server may read
    it as the beginning of another token.
    """
    if word[0].isascii() and word[0].isdigit():
        if "$" in word:  # The word is a number; older servers let a name or a dollar follow it.
            return "it has a dollar outside of a name and of quotes; write a text as '...'"
        return "it has a number before quotes; write a blank between them" if after.startswith(_QUOTED) else None
    if word in ("e", "E") and after.startswith("'"):
        return "it has an escape string (E'...'); write the text as '...', with chr(10) for a line break"
    if word in ("u", "U") and after.startswith("&") and after.endswith(_QUOTED):
        return "it has a text by the numbers of its characters (U&'...'); write the characters themselves"
    return None


def probe(table: TableId, where: str) -> str:
    """Return a statement that fails if the server does not accept the condition for this table. It
    reads no row.
    """
    return f"SELECT 1 FROM {quote_table(table)} WHERE (\n{where}\n) LIMIT 0"

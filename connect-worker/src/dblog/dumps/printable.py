"""Makes texts from other sources safe for a terminal. Pure.

Table names and messages of servers may contain characters that move the cursor, or do worse.
"""

from __future__ import annotations

import json
from typing import Any


def printable(text: str) -> str:
    """Return the text with non-printable characters escaped, line ends included.

    Letters of all languages are kept.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written_out(char) for char in text)


def printable_lines(text: str) -> str:
    """Escape each line of a text and keep the line ends."""
    return "\n".join(map(printable, text.split("\n")))


def json_of(value: Any) -> str:
    """Return the value as indented JSON with non-printable characters escaped.

    It is readable for people, and programs that parse it get the same texts.
    """
    return printable_lines(json.dumps(value, ensure_ascii=False, indent=2))


def _written_out(char: str) -> str:
    """Return the character's escape sequence in JSON."""
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"

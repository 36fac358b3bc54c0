"""What a terminal gets of texts that others chose: names of tables and sentences of servers may hold characters that move its cursor, or worse. Pure."""

from __future__ import annotations

import json
from typing import Any


def printable(text: str) -> str:
    """The text with what is not printed written out, line ends as well; the letters of all languages stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written_out(char) for char in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def json_of(value: Any) -> str:
    """The value for people and for programs: lines whose texts mean the same when they are read as JSON."""
    return printable_lines(json.dumps(value, ensure_ascii=False, indent=2))


def _written_out(char: str) -> str:
    """As JSON has it."""
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"

r"""Parses Java's ``.properties`` text, as ``java.util.Properties.load`` does.

A logical line continues after an odd number of trailing backslashes. ``#`` and ``!`` start
comments. The first unescaped ``=``, ``:`` or white space separates key and value. Escapes are
``\t``, ``\n``, ``\r``, ``\f`` and ``\uXXXX``; any other escaped character stands for itself. Files
are read as UTF-8 (like Java 9 and later for resource bundles; Kafka's files are ASCII in practice).
"""

from __future__ import annotations

import re
from pathlib import Path

from dblog.errors import DefiniteError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file. Raise DefiniteError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise DefiniteError(f"the properties file {path} cannot be read ({e}); give the path of a readable UTF-8 file") from e
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by key. The last of several values wins."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key_end = _key_end(line)
        value_start = key_end
        while value_start < len(line) and line[value_start] in _BLANKS:
            value_start += 1
        if value_start < len(line) and line[value_start] in "=:":
            value_start += 1
            while value_start < len(line) and line[value_start] in _BLANKS:
                value_start += 1
        properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = line if pending is None else pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            pending = joined[:-1]
        else:
            lines.append(joined)
            pending = None
    if pending:
        lines.append(pending)
    return lines


def _key_end(line: str) -> int:
    at = 0
    while at < len(line):
        if line[at] == "\\":
            at += 2
            continue
        if line[at] in "=:" or line[at] in _BLANKS:
            return at
        at += 1
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at >= len(text):
            out.append(char)
            continue
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise DefiniteError("malformed \\uXXXX escape in a properties file; four hexadecimal digits must follow \\u")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Java joins two escaped surrogates to one character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

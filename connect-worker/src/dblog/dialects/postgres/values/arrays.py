"""Splits an array's text into the texts of its elements.

Source of the rules: PostgreSQL manual, Array Input and Output Syntax. Elements are between braces,
separated by delimiters, and in double quotes where necessary; bounds precede the braces unless they
are the default ones.
"""

from __future__ import annotations

import re

from dblog.dialects.postgres.values.inexpressible import InexpressibleError

_QUOTED = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def elements(raw: bytes, delimiter: bytes = b",") -> list[bytes | None]:
    """Return the texts of the elements in order; None is NULL. ``delimiter`` is the element type's
    ``typdelim``.

    Raise InexpressibleError for an array of more than one dimension, which no schema of Debezium's
    describes, and ValueError for a text that is not an array.
    """
    if raw.startswith(b"["):
        raw = raw[raw.index(b"=") + 1 :]
    if not raw.startswith(b"{") or not raw.endswith(b"}"):
        raise ValueError
    body = raw[1:-1]
    if not body:
        return []
    if b'"' not in body and b"\\" not in body:
        if b"{" in body:
            raise _several_dimensions()
        return [None if part == b"NULL" else part for part in body.split(delimiter)]
    return _quoted_elements(body, delimiter)


def _quoted_elements(body: bytes, delimiter: bytes) -> list[bytes | None]:
    """Return the elements of the text between the braces. A brace outside of quotes begins another
    dimension, which is refused.
    """
    out: list[bytes | None] = []
    plain = re.compile(rb"[^%b\"\\{}]+" % re.escape(delimiter))
    at = 0
    while True:
        if body.startswith(b"{", at):
            raise _several_dimensions()
        found = _QUOTED.match(body, at) or plain.match(body, at)
        if found is None:
            raise ValueError
        if found.re is _QUOTED:
            out.append(_ESCAPED.sub(rb"\1", found[1]))
        else:
            out.append(None if found[0] == b"NULL" else found[0])
        at = found.end()
        if at == len(body):
            return out
        if not body.startswith(delimiter, at):
            raise ValueError
        at += 1


def _several_dimensions() -> InexpressibleError:
    return InexpressibleError("an array of more than one dimension cannot be written; exclude the column")

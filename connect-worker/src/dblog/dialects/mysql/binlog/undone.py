"""The rows of a transaction that its own log undoes, found before the first of them is returned.

A server may log rows that do not stay. MariaDB normally cuts rolled back rows out of its cache
before it logs a transaction. It cannot after a temporary table was created or dropped, or a
non-transactional table was written, and then logs a transaction that ends in ROLLBACK, or that
returns to a savepoint, with all its rows. Nothing at the beginning of the transaction shows it, so
the decoders look for the end before they handle the first row. Rules:

- ROLLBACK undoes every row of the transaction, ROLLBACK TO those since the savepoint was set.
- Rows of non-transactional tables are not among them: the server logs these before it, as a
  transaction of their own.
- Statements stay: DROP TABLE in a transaction that ends in ROLLBACK has dropped the table.
- A transaction without an end, cut by another file, took place nowhere: the server crashed while
  writing it.

Rule sources: MariaDB sql/log.cc (``binlog_rollback``, ``binlog_savepoint_rollback``), sql/slave.cc
("Rolling back unfinished transaction").
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

UNDONE_MAX = 100_000
"""The most open savepoints of a transaction, and the most parts that it may undo. # I6"""
_END = 1 << 62
"""A position after every other."""
_SHARP_S = "\u00df\u1e9e"
"""The letters sharp s. general_ci has one weight per letter, and gives these that of S."""


class Undone:
    """The undone parts of one transaction, which begins in its file at ``begin``."""

    def __init__(self, begin: int, parts: Sequence[tuple[int, int]] = ()) -> None:
        self._begin = begin
        self._savepoints: dict[str, int] = {}
        self.parts = list(parts)
        """Undone parts as (from, to), positions at which events begin; disjoint and ascending."""
        self._at = 0

    def statement(self, text: bytes, start: int) -> bool:
        """Apply the transaction's next statement, which begins at ``start``; return whether it ends
        the transaction.

        Raise ValueError for a savepoint that was not set, and for too many of them.
        """
        word = text[:40].upper().strip()
        if word == b"COMMIT" or word.startswith((b"XA COMMIT", b"XA ROLLBACK")):
            return True
        if word == b"ROLLBACK":
            self.parts = [(self._begin, start)]
            return True
        if word.startswith(b"SAVEPOINT "):
            self._set(_name(text.strip()[10:]), start)
        elif word.startswith(b"ROLLBACK TO "):
            name = text.strip()[12:]
            self._back_to(_name(name[10:] if name[:10].upper() == b"SAVEPOINT " else name), start)
        elif word.startswith(b"RELEASE SAVEPOINT "):
            self._release(_name(text.strip()[18:]))
        return False

    def cut(self) -> None:
        """Undo the whole transaction, since it has no end."""
        self.parts = [(self._begin, _END)]

    def covers(self, start: int) -> bool:
        """Return whether the rows event that begins at ``start`` is undone. Successive calls must
        have ascending positions.
        """
        parts, at = self.parts, self._at
        while at < len(parts) and parts[at][1] <= start:
            at += 1
        self._at = at
        return at < len(parts) and parts[at][0] <= start

    def _set(self, name: str, start: int) -> None:
        self._savepoints.pop(name, None)  # a savepoint of the same name is replaced
        if len(self._savepoints) >= UNDONE_MAX:
            message = f"more than {UNDONE_MAX} savepoints in one transaction"
            raise ValueError(message)
        self._savepoints[name] = start

    def _back_to(self, name: str, end: int) -> None:
        if name not in self._savepoints:
            if len(self._savepoints) != 1:
                message = "a ROLLBACK TO a savepoint that its transaction has not set"
                raise ValueError(message)
            # The server compares names by a rule that ``_name`` does not know; only this savepoint
            # is open.
            (name,) = self._savepoints
        begin = self._savepoints[name]
        while next(reversed(self._savepoints)) != name:
            self._savepoints.popitem()
        while self.parts and self.parts[-1][1] >= begin:
            begin = min(begin, self.parts.pop()[0])
        if len(self.parts) >= UNDONE_MAX:
            message = f"more than {UNDONE_MAX} parts that one transaction takes back"
            raise ValueError(message)
        self.parts.append((begin, end))

    def _release(self, name: str) -> None:
        while name in self._savepoints:
            self._savepoints.popitem()


def _name(text: bytes) -> str:
    """Return a savepoint's name as the server compares it: by utf8 general_ci, which ignores case
    and accents. The text may be in the quotes of the session's sql_mode.
    """
    text = text.strip()
    quote = text[:1]
    if quote in {b"`", b'"'} and len(text) > 1 and text[-1:] == quote:
        text = text[1:-1].replace(quote * 2, quote)
    return "".join(_without_accent(letter) for letter in text.decode("utf-8", "replace"))


def _without_accent(letter: str) -> str:
    if letter in _SHARP_S:
        return "S"
    upper = unicodedata.normalize("NFD", letter)[0].upper()
    return upper if len(upper) == 1 else letter

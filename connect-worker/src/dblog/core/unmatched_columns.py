"""Describes members of column lists that match no column of a captured table. They are probably
misspelt, and a column that should be hidden would be sent as it is.

Debezium accepts them silently. A column or its table may also be created later and is matched then,
so these are warnings and not errors. A member is named by its number, because the value of an
option may come from a config provider and no part of it may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dblog.config.column_rules import column_rules
from dblog.config.nearest import nearest, of_like_length
from dblog.config.regex import Pattern
from dblog.config.secret_values import shown_name
from dblog.core.selection import key_rules, split_list
from dblog.model import Table

_LISTS = ("column.include.list", "column.exclude.list", "column.propagate.source.type")
_KEYS = "message.key.columns"
NAMED_MAX = 20
_TRIED_MAX = 300_000
"""Pairs of a pattern and a name that are tried for one configuration: a fraction of a second in
all.
"""
_COMPARED_MAX = 100
"""Names that a member without a match is compared with; each comparison takes up to a tenth of a
millisecond.
"""
_PLAIN_DOT = re.compile(r"\\?\.")
_PLAIN_NAME = re.compile(r"[\w$.-]+")
_PLAIN_PART = re.compile(r"[\w-]+")
"""Part of a name that matches itself as a pattern. ``$`` is excluded: it is a letter in MySQL's
names and means the end in a pattern.
"""
_SIGN = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True)
class _Unmatched:
    what: str
    """Beginning of the sentence."""
    text: str
    """Text of the pattern."""
    alike: Iterable[str]
    """Names that may be meant."""


def describe_unmatched_columns(properties: Mapping[str, Any], tables: Sequence[Table]) -> list[str]:
    """Return a sentence for each member of a column list, and each part of ``message.key.columns``,
    that matches nothing in ``tables``.

    ``tables`` are the captured ones; without any there is nothing to compare with. The lists must
    have been checked before.
    """
    if not tables:
        return []
    known = _Known(tables)
    found = [*_of_lists(properties, known), *_of_keys(properties.get(_KEYS), known)]
    out = [f"{one.what}{_hint(one)}" for one in found[:NAMED_MAX]]
    if len(found) > NAMED_MAX:
        out.append(f"{len(found) - NAMED_MAX} more members of lists of columns match nothing in the captured tables")
    if known.given_up:
        out.append(f"{known.given_up} members of lists of columns were not compared with the captured tables, which are too many")
    return out


def _of_lists(properties: Mapping[str, Any], known: _Known) -> Iterator[_Unmatched]:
    for option, text in _lists(properties):
        for number, member in enumerate(split_list(text), 1):
            if not known.has_column(member):
                what = f"{shown_name(option)}: member {number} matches no column of a captured table"
                yield _Unmatched(what, member, known.columns_near(member))


def _lists(properties: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for option in _LISTS:
        yield option, properties.get(option)
    rules, _ = column_rules(properties)
    for rule in rules:
        yield rule.option, rule.columns


def _of_keys(text: str | None, known: _Known) -> Iterator[_Unmatched]:
    for part, rule in enumerate(key_rules(text), 1):
        meant = known.tables_of(rule.table)
        if meant is None:
            continue
        if not meant:
            yield _Unmatched(f"{_KEYS}: the tables of part {part} match no captured table", rule.table.text, known.table_names())
            continue
        for number, pattern in enumerate(rule.columns, 1):
            if not known.has_column_of(meant, pattern):
                what = f"{_KEYS}: column {number} of part {part} matches no column of its tables"
                yield _Unmatched(what, pattern.text, (column.name for table in meant for column in table.columns))


def _hint(unmatched: _Unmatched) -> str:
    name = _PLAIN_DOT.sub(".", unmatched.text)
    if _PLAIN_NAME.fullmatch(name):
        meant = nearest(name, islice((other for other in unmatched.alike if of_like_length(name, other)), _COMPARED_MAX))
        if meant is not None:
            return f" (is {_SIGN.sub(lambda sign: chr(92) + sign[0], meant)} meant?)"
    return "; one that comes later is matched"


class _Known:
    """The names in the captured tables. The number of comparisons with patterns is limited:
    thousands of patterns and the columns of 15,000 tables would take minutes.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._by_name: dict[str, list[Table]] = {}
        self._left = _TRIED_MAX
        self.given_up = 0
        """Number of patterns that were not compared with every name."""

    def has_column(self, member: str) -> bool:
        """Return True if ``database.table.column`` matches a column, or if the limit was reached
        before that was known.
        """
        named = self._named(member)
        if named is not None and any(column.name.lower() == named[1] for table in named[0] for column in table.columns):
            return True  # a dot in a pattern matches a dot too
        return self._any(Pattern(member, ignore_case=True), self._column_names())

    def columns_near(self, member: str) -> Iterator[str]:
        """Yield the columns of the table that the member names, or of all tables if it names
        none.
        """
        named = self._named(member)
        tables = named[0] if named is not None else ()
        yield from self._names_of(tables or self._tables)

    def tables_of(self, pattern: Pattern) -> list[Table] | None:
        """Return the tables that match, or None if the limit was reached before that was known."""
        found = []
        for table in self._tables:
            if not self._may_try():
                return None
            if pattern.fullmatch(_name(table)):
                found.append(table)
        return found

    def table_names(self) -> Iterator[str]:
        """Return the names of all captured tables."""
        return map(_name, self._tables)

    def has_column_of(self, tables: Sequence[Table], pattern: Pattern) -> bool:
        """Return True if the pattern matches a column of these tables, or if the limit was reached
        before that was known.
        """
        return self._any(pattern, (column.name for table in tables for column in table.columns))

    def _any(self, pattern: Pattern, names: Iterable[str]) -> bool:
        return any(not self._may_try() or pattern.fullmatch(name) for name in names)

    def _may_try(self) -> bool:
        """Count one more comparison. Return False, and count the pattern as given up, if there were
        too many.
        """
        self._left -= 1
        self.given_up += self._left < 0
        return self._left >= 0

    def _column_names(self) -> Iterator[str]:
        return self._names_of(self._tables)

    @staticmethod
    def _names_of(tables: Iterable[Table]) -> Iterator[str]:
        return (f"{_name(table)}.{column.name}" for table in tables for column in table.columns)

    def _named(self, member: str) -> tuple[list[Table], str] | None:
        """Return the tables that a plain member names, ignoring case, and the column's name in
        lower case. Return None for a pattern or a name of fewer or more parts.
        """
        parts = _PLAIN_DOT.split(member.lower())
        if len(parts) != len(("database", "table", "column")) or not all(map(_PLAIN_PART.fullmatch, parts)):
            return None
        if not self._by_name:
            for table in self._tables:
                self._by_name.setdefault(_name(table).lower(), []).append(table)
        return self._by_name.get(f"{parts[0]}.{parts[1]}", []), parts[2]


def _name(table: Table) -> str:
    return f"{table.id.database}.{table.id.name}"

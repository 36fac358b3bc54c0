"""Members of column lists that match no column of a captured table: probably misspelt, and a column that was to be hidden would go out as it is.

Debezium accepts them in silence. A column, or its table, may also come later and is matched then, so each is a warning and no error. A member is named by
its number: the value of an option may come from a config provider, and no part of it is shown.
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
"""Pairs of a pattern and a name for one configuration: a fraction of a second in all."""
_COMPARED_MAX = 100
"""Names that one that matches nothing is compared with: each takes up to a tenth of a millisecond."""
_PLAIN_DOT = re.compile(r"\\?\.")
_PLAIN_NAME = re.compile(r"[\w$.-]+")
_PLAIN_PART = re.compile(r"[\w-]+")
"""A name that a pattern of the same letters matches; ``$`` is a letter of MySQL's names and means the end in a pattern."""
_SIGN = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True)
class _Unmatched:
    what: str
    """Begins the sentence."""
    text: str
    """The pattern."""
    alike: Iterable[str]
    """Names that may be meant."""


def describe_unmatched_columns(properties: Mapping[str, Any], tables: Sequence[Table]) -> list[str]:
    """A sentence for each member of a list of columns, and each part of ``message.key.columns``, that matches nothing of ``tables``.

    ``tables`` are the captured ones; without any there is nothing to compare with. The lists have been checked before.
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
    """What the captured tables have. It is compared with patterns so many times and no more: thousands of them with the columns of 15,000 tables would
    take minutes.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._by_name: dict[str, list[Table]] = {}
        self._left = _TRIED_MAX
        self.given_up = 0
        """Patterns that were not compared with everything."""

    def has_column(self, member: str) -> bool:
        """Whether ``database.table.column`` matches one; True where that is not known."""
        named = self._named(member)
        if named is not None and any(column.name.lower() == named[1] for table in named[0] for column in table.columns):
            return True  # a dot matches itself too
        return self._any(Pattern(member, ignore_case=True), self._column_names())

    def columns_near(self, member: str) -> Iterator[str]:
        """Columns of the table that the member names, else any."""
        named = self._named(member)
        tables = named[0] if named is not None else ()
        yield from self._names_of(tables or self._tables)

    def tables_of(self, pattern: Pattern) -> list[Table] | None:
        """The tables that match; None where that is not known."""
        found = []
        for table in self._tables:
            if not self._may_try():
                return None
            if pattern.fullmatch(_name(table)):
                found.append(table)
        return found

    def table_names(self) -> Iterator[str]:
        """All of them."""
        return map(_name, self._tables)

    def has_column_of(self, tables: Sequence[Table], pattern: Pattern) -> bool:
        """Whether the pattern matches a column of one of these tables; True where that is not known."""
        return self._any(pattern, (column.name for table in tables for column in table.columns))

    def _any(self, pattern: Pattern, names: Iterable[str]) -> bool:
        return any(not self._may_try() or pattern.fullmatch(name) for name in names)

    def _may_try(self) -> bool:
        """One comparison more; the pattern is given up where there were too many."""
        self._left -= 1
        self.given_up += self._left < 0
        return self._left >= 0

    def _column_names(self) -> Iterator[str]:
        return self._names_of(self._tables)

    @staticmethod
    def _names_of(tables: Iterable[Table]) -> Iterator[str]:
        return (f"{_name(table)}.{column.name}" for table in tables for column in table.columns)

    def _named(self, member: str) -> tuple[list[Table], str] | None:
        """The tables that a member without signs names, any case, and its column in small letters; None for a pattern, or a name of other parts."""
        parts = _PLAIN_DOT.split(member.lower())
        if len(parts) != len(("database", "table", "column")) or not all(map(_PLAIN_PART.fullmatch, parts)):
            return None
        if not self._by_name:
            for table in self._tables:
                self._by_name.setdefault(_name(table).lower(), []).append(table)
        return self._by_name.get(f"{parts[0]}.{parts[1]}", []), parts[2]


def _name(table: Table) -> str:
    return f"{table.id.database}.{table.id.name}"

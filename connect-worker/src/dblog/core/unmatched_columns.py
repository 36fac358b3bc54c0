"""Members of column lists that match no column of a captured table: probably misspelt, and a column that was to be hidden would go out as it is.

Debezium accepts them in silence. A column, or its table, may also come later and is matched then, so each is a warning and no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from dblog.config.column_rules import column_rules
from dblog.config.nearest import nearest, of_like_length
from dblog.config.regex import Pattern, as_written
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
_LATER = "; one that comes later is matched"
_PLAIN_NAME = re.compile(r"[\w$.-]+")
_PLAIN_DOT = re.compile(r"\\?\.")


def describe_unmatched_columns(properties: Mapping[str, Any], tables: Sequence[Table]) -> list[str]:
    """A sentence for each member of a list of columns, and each part of ``message.key.columns``, that matches nothing of ``tables``.

    ``tables`` are the captured ones; without any there is nothing to compare with. The lists have been checked before.
    """
    if not tables:
        return []
    columns = {f"{table.id.database}.{table.id.name}.{column.name}".lower(): None for table in tables for column in table.columns}
    tries = _Tries()
    found = [
        *(_of_list(option, member, columns) for option, member in _members(properties) if not tries.any_matches(member, columns)),
        *_of_keys(properties.get(_KEYS), tables, tries),
    ]
    out = found[:NAMED_MAX]
    if len(found) > NAMED_MAX:
        out.append(f"{len(found) - NAMED_MAX} more members of lists of columns match nothing in the captured tables")
    if tries.given_up:
        out.append(f"{tries.given_up} members of lists of columns were not compared with the captured tables, which are too many")
    return out


def _members(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for option in _LISTS:
        yield from ((option, member) for member in split_list(properties.get(option)))
    rules, _ = column_rules(properties)
    for rule in rules:
        yield from ((shown_name(rule.option), member) for member in split_list(rule.columns))


def _of_list(option: str, member: str, columns: Iterable[str]) -> str:
    return f"{option}: {as_written(member)} matches no column of a captured table{_hint(member, columns)}"


def _of_keys(text: str | None, tables: Sequence[Table], tries: _Tries) -> Iterator[str]:
    names = {f"{table.id.database}.{table.id.name}".lower(): table for table in tables}
    for rule in key_rules(text):
        if tries.over:
            tries.given_up += 1
            continue
        meant = [names[name] for name in tries.matching(rule.table, names)]
        if not meant:
            yield f"{_KEYS}: {as_written(rule.table.text)} matches no captured table{_hint(rule.table.text, names)}"
            continue
        columns = {column.name.lower(): None for table in meant for column in table.columns}
        for pattern in rule.columns:
            if not tries.any_matches(pattern, columns):
                where = as_written(rule.table.text)
                yield f"{_KEYS}: {as_written(pattern.text)} matches no column of the tables that {where} matches{_hint(pattern.text, columns)}"


def _hint(member: str, known: Iterable[str]) -> str:
    """The name that is meant, where the member is one: it is looked for in the same table first."""
    name = _PLAIN_DOT.sub(".", member).lower()
    if not _PLAIN_NAME.fullmatch(name):
        return _LATER
    parent = name.rpartition(".")[0]
    alike = [other for other in known if other.rpartition(".")[0] == parent] or (other for other in known if of_like_length(name, other))
    meant = nearest(name, islice(alike, _COMPARED_MAX))
    return f" (is {meant} meant?)" if meant else _LATER


class _Tries:
    """Compares patterns with names, so many times and no more: thousands of patterns with the columns of 15,000 tables would take minutes."""

    def __init__(self) -> None:
        self._left = _TRIED_MAX
        self.given_up = 0
        """Patterns that were not compared."""

    @property
    def over(self) -> bool:
        return self._left <= 0

    def any_matches(self, pattern: str | Pattern, names: Mapping[str, Any]) -> bool:
        """Whether one of the names, in lower case, matches; True where that is not known any more."""
        text = pattern if isinstance(pattern, str) else pattern.text
        if _PLAIN_DOT.sub(".", text).lower() in names:
            return True  # a dot matches itself too
        if self.over:
            self.given_up += 1
            return True
        compiled = Pattern(pattern, ignore_case=True) if isinstance(pattern, str) else pattern
        return next(self.matching(compiled, names), None) is not None

    def matching(self, pattern: Pattern, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            self._left -= 1
            if pattern.fullmatch(name):
                yield name

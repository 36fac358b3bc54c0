r"""Decides which databases, tables and columns a connector captures, from Debezium's include and
exclude lists.

Rules (Debezium's ``Predicates`` and ``RelationalTableFilters``): a list consists of regular
expressions separated by commas; a comma inside an expression is written ``\,``. Each expression
must match the whole name and ignores case. Of an include and an exclude list only one may be given.
The server's own tables are never captured unless ``table.ignore.builtin=false``. The first part of
a name is a database or a schema (``config/namespaces.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dblog.codecs.rewrites import Hash, Mask, Rewrite, Truncate
from dblog.config.column_rules import ColumnRule, column_rules
from dblog.config.namespaces import Namespace
from dblog.config.regex import Pattern, PatternError, Room, any_of, as_written
from dblog.errors import ConfigError
from dblog.model import Table, TableId

_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def split_list(text: str | None) -> list[str]:
    r"""Return the members of a list of regular expressions, without the blanks around them. The
    list is split at commas that no backslash precedes; ``\,`` becomes a comma.
    """
    if not text:
        return []
    return [part.replace("\\,", ",").strip() for part in _UNESCAPED_COMMA.split(text) if part.strip()]


def name_matcher(text: str | None, *, option: str, room: Room | None = None) -> Callable[[str], bool] | None:
    """Return a predicate for names from a list of regular expressions, or None if the list is
    empty. Raise ConfigError if an expression does not compile. ``room`` is what several lists may
    take together.
    """
    members = split_list(text)
    if not members:
        return None
    try:
        return any_of(members, ignore_case=True, room=room)
    except PatternError as e:
        raise ConfigError({option: [str(e)]}) from e


_PLAIN_NAME = re.compile(r"[\w$-]+")
_FIRST_NAME = re.compile(r"([\w$-]+)\\?\.(.*)", re.DOTALL)


Parts = Sequence[tuple[str | None, str | None]]
"""Pairs of a database or schema and a table that the configuration names. None stands for any. A
pair with a table and no database comes from a member without a database part, which matches
nothing.
"""


def named_parts(settings: Mapping[str, Any], *, namespace: Namespace = Namespace.DATABASE) -> tuple[tuple[str | None, str | None], ...]:
    """Return (database or schema, table) for each member of the include lists. None stands for any,
    and for a part that is a pattern rather than a plain name. Without a list, return one pair of
    None.
    """
    parts: dict[tuple[str | None, str | None], None] = {}
    tables, databases = split_list(settings.get("table.include.list")), split_list(settings.get(namespace.include))
    for member in tables:
        if _PLAIN_NAME.fullmatch(member):
            parts[None, member] = None
            continue
        found = _FIRST_NAME.fullmatch(member)
        database = found[1] if found else None
        parts[database, found[2] if found and _PLAIN_NAME.fullmatch(found[2]) else None] = None
    for member in databases if not tables else ():
        parts[member if _PLAIN_NAME.fullmatch(member) else None, None] = None
    return tuple(parts) or ((None, None),)


def _everything(_name: str) -> bool:
    return True


def builtin_tables(members: Iterable[str]) -> Callable[[TableId], bool]:
    """Return a predicate that is True for the server's own tables. ``members`` are in lower case: a
    database or schema; ``pg_*`` for all databases or schemas that begin so; ``.name`` for a table
    of that name in any of them.
    """
    names = frozenset(members)
    beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
    tables = frozenset(name[1:] for name in names if name.startswith("."))

    def has(table: TableId) -> bool:
        database = table.database.lower()
        return database in names or database.startswith(beginnings) or (bool(tables) and table.name.lower() in tables)

    return has


def _nothing(_table: TableId) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The captured part of a server. Create it with ``from_settings``."""

    includes_database: Callable[[str], bool] = _everything
    """Predicate for the name of a database, or of a schema if tables are in schemas."""
    _includes_table: Callable[[str], bool] = _everything
    includes_column: Callable[[str], bool] = _everything
    """Predicate for ``db.table.column``."""
    is_builtin: Callable[[TableId], bool] = _nothing
    """Predicate for the server's own tables, which are left out."""
    never: frozenset[TableId] = field(default_factory=frozenset)
    """Tables that are never captured because they hold no data, such as our own watermark table."""
    only: frozenset[TableId] | None = None
    """The only tables that may be captured, for a connector that takes no new ones; None if there
    is no such limit.
    """

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        *,
        namespace: Namespace = Namespace.DATABASE,
        builtin: frozenset[str] = frozenset(),
        never: frozenset[TableId] = frozenset(),
    ) -> Selection:
        """Create a selection from properties by name. ``builtin`` is what
        ``readers.contract.Source`` provides. Raise ConfigError that names every wrong key.
        """
        errors: dict[str, list[str]] = {}
        for what in (namespace, "table", "column"):
            include, exclude = f"{what}.include.list", f"{what}.exclude.list"
            if settings.get(include) and settings.get(exclude):
                errors[exclude] = [f"cannot be given together with {include}; keep one of them"]
        if errors:
            raise ConfigError(errors)
        return cls(
            includes_database=_pair(settings, namespace),
            _includes_table=_pair(settings, "table"),
            includes_column=_pair(settings, "column"),
            is_builtin=_nothing if str(settings.get("table.ignore.builtin", "true")).lower() == "false" else builtin_tables(builtin),
            never=never,
        )

    def includes(self, table: TableId) -> bool:
        """Return True if rows of the table are captured."""
        if table in self.never or self.is_builtin(table):
            return False
        if self.only is not None and table not in self.only:
            return False
        return self.includes_database(table.database) and self._includes_table(f"{table.database}.{table.name}")

    def columns(self, table: Table) -> tuple[bool, ...]:
        """Return for each column of the table, in order, True if it is part of the record. Key
        columns can be excluded from the value, as in Debezium.
        """
        prefix = f"{table.id.database}.{table.id.name}."
        return tuple(self.includes_column(prefix + c.name) for c in table.columns)


def _pair(settings: Mapping[str, Any], what: str) -> Callable[[str], bool]:
    include = name_matcher(settings.get(f"{what}.include.list"), option=f"{what}.include.list")
    if include is not None:
        return lru_cache(maxsize=4096)(include)
    exclude = name_matcher(settings.get(f"{what}.exclude.list"), option=f"{what}.exclude.list")
    if exclude is not None:
        return lru_cache(maxsize=4096)(lambda name: not exclude(name))
    return _everything


def column_rewrite(properties: Mapping[str, Any]) -> Callable[[str], Rewrite | None] | None:
    """Return a function that gives the rewrite of a column's values for ``db.table.column``. Return
    None if no option for rewriting is set.
    """
    rules, errors = column_rules(properties)
    if errors:
        raise ConfigError(errors)
    room = Room()
    known = [(matches, rule) for rule in rules if (matches := name_matcher(rule.columns, option=rule.option, room=room)) is not None]
    if not known:
        return None
    return lambda name: next((_rewrite(rule) for matches, rule in known if matches(name)), None)


@lru_cache(maxsize=64)
def _rewrite(rule: ColumnRule) -> Rewrite:
    """Create the rewrite of a rule. It is done when a column needs it, not for every rule of a
    configuration that is validated.
    """
    match rule.kind:
        case "truncate":
            return Truncate(rule.length)
        case "mask":
            return Mask("*" * rule.length)
        case _:
            return Hash(rule.algorithm, rule.salt, rule.version)


@dataclass(frozen=True, slots=True)
class KeyRule:
    """A part of ``message.key.columns``: a regular expression for tables, and some for columns."""

    table: Pattern
    columns: tuple[Pattern, ...]


def key_rules(text: str | None) -> tuple[KeyRule, ...]:
    """Parse a text such as ``inventory.customers:pk1,pk2;(.*).orders:pk3``. Raise ConfigError if a
    part has another form.
    """
    rules = []
    room = Room()
    for part in (text or "").split(";"):
        if not part.strip():
            continue
        table, colon, columns = part.strip().rpartition(":")
        names = [n.strip() for n in columns.split(",") if n.strip()]
        if not colon or not table or not names:
            raise ConfigError({"message.key.columns": [f"{as_written(part.strip())} has not the form <table regex>:<column>,<column>"]})
        try:
            picked = tuple(Pattern(n, ignore_case=True, room=room) for n in names)
            rules.append(KeyRule(Pattern(table.strip(), ignore_case=True, room=room), picked))
        except PatternError as e:
            raise ConfigError(
                {"message.key.columns": [f"{as_written(part.strip())} is not a regular expression that can be used: {e}"]}
            ) from e
    return tuple(rules)


def message_key(table: Table, rules: tuple[KeyRule, ...]) -> tuple[str, ...]:
    """Return the names of the message key's columns: those that the rules select, in table order,
    or the table's own key if they select none.
    """
    name = f"{table.id.database}.{table.id.name}"
    picked = tuple(
        c.name for c in table.columns if any(r.table.fullmatch(name) and any(p.fullmatch(c.name) for p in r.columns) for r in rules)
    )
    return picked or table.key

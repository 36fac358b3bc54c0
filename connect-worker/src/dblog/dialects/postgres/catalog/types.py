"""Reads a column's type from pg_type: its name after domains are resolved, its modifier, and the
members of an enum.

Source of the rules: PostgreSQL manual, 53.64 "pg_type"; the forms of modifiers are those of the
types' ``typmodin`` functions (numeric.c, varchar.c, varbit.c, timestamp.c).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dblog.dialects.postgres.catalog.undecodable import shown
from dblog.model import Column

EXTENSIONS = frozenset(
    {
        "hstore", "citext", "ltree", "lquery", "ltxtquery", "geometry", "geography", "vector", "halfvec", "sparsevec",
        "isbn", "isbn13", "issn", "issn13", "ismn", "ismn13", "upc", "ean13",
    }
)  # fmt: skip
"""Types of extensions that are known by name, in any schema."""

TYPES_SQL = (
    "SELECT t.oid::bigint, n.nspname, t.typname, t.typtype::text, t.typelem::bigint, t.typbasetype::bigint, t.typtypmod, t.typcategory::text "
    "FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
)
"""Query for types, with the columns that ``Types.add`` takes."""

MEMBERS_SQL = "SELECT enumtypid::bigint, enumlabel FROM pg_catalog.pg_enum ORDER BY enumtypid, enumsortorder"

DOMAINS_MAX = 64
"""Depth of domains over domains; a deeper one can only be a circle."""

_HEADER = 4
"""VARHDRSZ, which some modifiers include."""
_NUMERIC_SCALE_BITS, _NUMERIC_SCALE_SIGN = 0x7FF, 0x400
_INTERVAL_FULL = 0xFFFF
_TIMES = frozenset({"time", "timetz", "timestamp", "timestamptz"})
_CHARACTERS = frozenset({"varchar", "bpchar"})
_PLAIN = frozenset({"bit", "varbit", "vector", "halfvec", "sparsevec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A row of pg_type. ``element`` is the type of an array's elements. ``base`` is the type of a
    domain, and ``modifier`` the domain's own.
    """

    number: int
    schema: str
    name: str
    kind: str
    element: int
    base: int
    modifier: int
    category: str


class Types:
    """The types of one database that were asked for so far. ``ask(numbers)`` reads unknown types
    and returns (rows of TYPES_SQL, rows of MEMBERS_SQL).
    """

    def __init__(
        self, ask: Callable[[Iterable[int]], tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]] = lambda _: ((), ())
    ) -> None:
        self._ask = ask
        self._types: dict[int, Type] = {}
        self._members: dict[int, tuple[str, ...]] = {}

    def add(self, types: Iterable[Sequence[Any]], members: Iterable[Sequence[Any]]) -> None:
        """Add rows of TYPES_SQL and MEMBERS_SQL."""
        for number, schema, name, kind, element, base, modifier, category in types:
            self._types[number] = Type(
                number=number, schema=schema, name=name, kind=kind, element=element, base=base, modifier=modifier, category=category
            )
        grouped: dict[int, list[str]] = {}
        for number, label in members:
            grouped.setdefault(number, []).append(shown(label))
        self._members.update({number: tuple(labels) for number, labels in grouped.items()})

    def column(self, column: Column, number: int, modifier: int) -> Column:
        """Return the column with the facts of its type. ``column.type_text`` stays as the server
        wrote it.
        """
        self._know(number)
        found, modifier = self._resolved(number, modifier)
        if found is None:
            return replace(column, type=f"type {number}")
        name, members = self._name(found)
        length, scale = modifier_of(name.removeprefix("_"), modifier)
        return replace(column, type=name, members=members, length=length, scale=scale)

    def _know(self, number: int) -> None:
        """Ask for the type and for the types that it consists of. A type that is known already may
        consist of types that are not.
        """
        wanted = [number]
        for _ in range(DOMAINS_MAX):
            if missing := [one for one in wanted if one not in self._types]:
                self.add(*self._ask(missing))
            known = [self._types[one] for one in wanted if one in self._types]
            wanted = [other for one in known for other in (one.element, one.base) if other]
            if not wanted:
                return

    def _resolved(self, number: int, modifier: int) -> tuple[Type | None, int]:
        """Return the type at the end of a chain of domains, and the modifier that applies."""
        found = self._types.get(number)
        for _ in range(DOMAINS_MAX):
            if found is None or found.kind != "d":
                return found, modifier
            modifier = found.modifier if modifier < 0 else modifier
            found = self._types.get(found.base)
        return None, modifier

    def _name(self, found: Type) -> tuple[str, tuple[str, ...]]:
        if found.category == "A" and found.element:
            element, _ = self._resolved(found.element, -1)
            if element is None:
                return f"{found.schema}.{found.name}", ()
            name, members = self._name(element)
            return f"_{name}", members
        if found.kind == "e":
            return "enum", self._members.get(found.number, ())
        if found.kind == "c":
            return "composite", ()
        if found.schema == "pg_catalog" or found.name in EXTENSIONS:
            return found.name, ()
        return f"{found.schema}.{found.name}", ()


def modifier_of(name: str, modifier: int) -> tuple[int | None, int | None]:
    """Return length and scale, as ``model.Column`` has them, from a type modifier (atttypmod; -1
    for none).
    """
    if modifier < 0:
        return None, None
    if name == "numeric":
        packed = modifier - _HEADER
        scale = packed & _NUMERIC_SCALE_BITS
        return packed >> 16 & 0xFFFF, (scale ^ _NUMERIC_SCALE_SIGN) - _NUMERIC_SCALE_SIGN
    if name in _CHARACTERS:
        return modifier - _HEADER, None
    if name in _TIMES or name in _PLAIN:
        return modifier, None
    if name == "interval":
        digits = modifier & 0xFFFF
        return (None if digits == _INTERVAL_FULL else digits), None
    return None, None

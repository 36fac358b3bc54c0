"""Decides which renames of the source a table has followed, and maps fields of schemas to columns.
Pure.

A statement renames several columns at once: two may swap names, and a name that one column gives up
may become another's. So renames are not a list of names but a course: the names of the table's
columns before the first statement and after each. Each schema stands at a place on the course,
after a certain number of statements. Its names show the place. If all names are the same before and
after a statement, as for two columns that swapped names, their order shows it, because a rename
does not move a column, and a new column comes last. The table moves to the latest place that a
schema shows, and never back. Fields of schemas at earlier places go to the current columns.

A misread statement, or one without effect (IF EXISTS), does no harm, since no schema shows that it
was carried out.

A new name cannot belong to another column in the source. If the table has a column of that name,
the source has dropped it, and it is renamed to ``<column>__dropped``.

MySQL manual, ALTER TABLE Statement ("Renaming, Redefining, and Reordering Columns"): all renames of
one statement refer to the names before it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Statement = Sequence[tuple[str, str]]
"""Pairs of old and new names that one statement renames."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The changes of names for a table and some schemas."""

    done: int
    """Number of statements that the table then has followed."""
    moves: Mapping[str, str]
    """Current column name to new name, for columns to be renamed."""
    names: Mapping[int, Mapping[str, str | None]]
    """Schema to its fields' columns after the renames, by lower-case field name. None means no
    column of the table; a field that is not named keeps its name.
    """
    shown: Mapping[int, int]
    """Lowest schema id from which all schemas stand at the table's new place or later, and that
    place. Empty if the table does not move.
    """


@dataclass(frozen=True, slots=True)
class Made:
    """The names with which to create a table."""

    done: int
    """Number of statements that the table then has followed."""
    shown: Mapping[int, int]
    """Schema id to the earliest place of it and all later schemas."""
    names: Mapping[int, Mapping[str, str | None]]
    """Schema to its fields' columns, as in ``Followed``."""


def followed(
    columns: Sequence[str],
    statements: Sequence[Statement],
    done: int,
    versions: Mapping[int, Sequence[str]],
    *,
    order: Sequence[str] = (),
    keys: Collection[str] = (),
    partial: Collection[int] = (),
    newest: int = -1,
    shown: Mapping[int, int] | None = None,
) -> Followed:
    """Find the place of a table and of some schemas on the course of renames.

    ``columns`` are the table's, which has followed ``done`` of the statements; ``versions`` has the
    field names of each schema. ``order`` has the columns in the source's order, as far as known.
    ``keys`` has the lower-case names of key columns, which are never renamed. Schemas in
    ``partial`` have some columns only and prove nothing.

    ``newest`` is the newest schema that the table has followed, and ``shown`` has the places that
    it moved to, by schema. Registry ids grow with time, so no later schema stands before these
    places, even if it has the names of an earlier one (a column was renamed, and a new one got its
    name). Ids up to ``newest`` may come again with their names. Negative schema numbers have no
    order.
    """
    course = _course(columns, [_without(statement, keys) for statement in statements], done)
    rank = {name.lower(): at for at, name in enumerate(order or columns)}
    ranks = [rank.get(name.lower(), len(rank)) for name in columns]
    known = shown or ({newest + 1: done} if newest >= 0 else {})
    places: dict[int, int] = {}
    passed = 0
    for number, names in sorted(versions.items()):
        if number not in partial:
            least = max((place for schema, place in known.items() if 0 <= schema <= number), default=0)
            places[number] = _place(course, ranks, names, done, max(least, passed))
            if number > newest and number >= 0:
                passed = places[number]
    last = max((done, *places.values()))
    today = _today(columns, course[last])
    moves = {name: now for name, now in zip(columns, today, strict=True) if name != now}
    named = {number: _names(course[places.get(number, last)], today) for number in versions}
    # A schema with names that came back has its former id. It limits no other schema, but every new
    # schema comes later.
    first = min((number for number, place in places.items() if place == last and number > newest), default=newest + 1)
    return Followed(last, moves, named, {first: last} if last > done and max(places) >= 0 else {})


def made(
    statements: Sequence[Statement], versions: Mapping[int, Sequence[str]], *, keys: Collection[str] = (), partial: Collection[int] = ()
) -> Made:
    """Find the place at which a table of all these schemas is created.

    The result is the same as if the table were created from the first schema and then followed the
    others. At least one of ``versions`` must not be ``partial``.
    """
    whole = sorted(number for number in versions if number not in partial)
    met = [number for number in whole if number >= 0] or whole[-1:]
    columns = list(versions[met[0]])
    done = created(statements, columns, keys=keys, last=len(met) == 1)
    order: Sequence[str] = columns
    shown = {met[0]: done} if done and met[0] >= 0 else {}
    for before, number in pairwise(met):
        found = followed(columns, statements, done, {number: versions[number]}, order=order, keys=keys, newest=before, shown=shown)
        columns = [found.moves.get(name, name) for name in columns]
        there = {name.lower() for name in columns}
        columns += [name for name in versions[number] if name.lower() not in there]
        done, order, shown = found.done, versions[number], {**shown, **found.shown}
    found = followed(columns, statements, done, versions, order=order, keys=keys, partial=partial, newest=met[-1], shown=shown)
    return Made(found.done, {**shown, **found.shown}, found.names)


def created(statements: Sequence[Statement], names: Sequence[str], *, keys: Collection[str] = (), last: bool = True) -> int:
    """Return the number of statements before the schema that a table is created from.

    That is the place from which most statements have an effect. Of several such places ``last``
    selects the last, else the first is used.
    """

    def misfits(place: int) -> int:
        course = _course(names, [_without(statement, keys) for statement in statements], place)
        return sum(before == after for before, after in pairwise(course))

    return min(range(len(statements) + 1), key=lambda place: (misfits(place), -place if last else place))


def _without(statement: Statement, keys: Collection[str]) -> Statement:
    return [(old, new) for old, new in statement if not {old.lower(), new.lower()} & set(keys)]


Names = list[str | None]
"""The name of each column of the table; None if the source has no such column at that place."""


def _course(columns: Sequence[str], statements: Sequence[Statement], done: int) -> list[Names]:
    """Return the names of the columns before the first statement and after each."""
    course: list[Names] = [list(columns)]
    for statement in statements[done:]:
        course.append(_renamed(course[-1], statement))
    for statement in reversed(statements[:done]):
        course.insert(0, _renamed(course[0], [(new, old) for old, new in statement]))
    return course


def _renamed(names: Names, statement: Statement) -> Names:
    to = {old.lower(): new for old, new in statement}
    given = {to[name.lower()].lower() for name in names if name is not None and name.lower() in to}
    if len(given) < sum(name is not None and name.lower() in to for name in names):
        return names
    return [None if name is None else to[name.lower()] if name.lower() in to else None if name.lower() in given else name for name in names]


def _place(course: Sequence[Names], ranks: Sequence[int], version: Sequence[str], done: int, least: int) -> int:
    """Return the number of statements before a schema, at least ``least``."""
    there = {name.lower(): at for at, name in enumerate(version)}
    touched = [n for n in range(len(ranks)) if len({names[n] and names[n].lower() for names in course}) > 1]  # type: ignore[union-attr]
    universe = {name.lower() for names in course for n in touched if (name := names[n]) is not None}

    def misfit(place: int) -> tuple[int, bool]:
        own = {n: name.lower() for n in touched if (name := course[place][n]) is not None}
        missing = sum(name not in there for name in own.values())
        extra = len((universe & there.keys()) - {name.lower() for name in course[place] if name is not None})
        met = [n for n in own if own[n] in there]
        return missing + extra, sorted(met, key=lambda n: there[own[n]]) != sorted(met, key=lambda n: ranks[n])

    misfits = {place: misfit(place) for place in range(least, len(course))}
    best = [place for place, one in misfits.items() if one == min(misfits.values())]
    early = {place: _early(course[place], ranks, there) for place in best} if len(best) > 1 else {}
    return min(best, key=lambda place: (early.get(place, 0), place < done, abs(place - done)))


def _early(names: Names, ranks: Sequence[int], there: Mapping[str, int]) -> int:
    """Count the pairs of columns in an unexpected order; new columns are expected last."""
    known = {name.lower(): rank for name, rank in zip(names, ranks, strict=True) if name is not None}
    met: list[int] = []
    pairs = 0
    for name in sorted(there, key=lambda name: there[name]):
        rank = known.get(name, len(ranks) + len(there))
        pairs += len(met) - bisect_right(met, rank)
        insort(met, rank)
    return pairs


def _today(columns: Sequence[str], names: Names) -> list[str]:
    """Return a name for every column.

    A column that the source has dropped is renamed if another column has its name now.
    """
    taken = {name.lower() for name in names if name is not None}
    today = []
    for column, name in zip(columns, names, strict=True):
        now = column if name is None else name
        number = 0
        while name is None and now.lower() in taken:
            number += 1
            now = f"{column}__dropped{number if number > 1 else ''}"
        taken.add(now.lower())
        today.append(now)
    return today


def _names(names: Names, today: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {now.lower(): None for now in today}
    found |= {name.lower(): now for name, now in zip(names, today, strict=True) if name is not None}
    return {name: now for name, now in found.items() if now is None or now.lower() != name}

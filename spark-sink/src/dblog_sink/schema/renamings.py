"""Which renames of the source a table has followed, and under which names each schema's fields are found in it.

A statement renames some columns of a table at once: two may change places, and a name that one column gives up may become another's. So renames are no
list of names but a course: the table's columns, each under one name after each statement. A schema stands somewhere on the course: after how many of the
statements is told by its names, and where all names are the same before and after (two columns that changed places), by their order, for a rename leaves a
column where it is, and a new one comes last. The table goes on to the last place that a schema shows, and never back. Fields of a schema from further back
go to the columns that they are today.

So a statement that was misread, or that did nothing (IF EXISTS), does no harm: no schema shows that it was carried out.

A name that a rename gives to a column cannot belong to another one in the source: if the table has such a column, the source has dropped it, and it goes
aside (``<column>__dropped``).

Pure. MySQL manual, ALTER TABLE Statement ("Renaming, Redefining, and Reordering Columns"): all renames of one statement refer to the names before it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Statement = Sequence[tuple[str, str]]
"""What one statement renames: old name and new."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What to do with a table and some schemas."""

    done: int
    """How many statements the table has followed then."""
    moves: Mapping[str, str]
    """The table's columns that get another name, and that name."""
    names: Mapping[int, Mapping[str, str | None]]
    """By schema: for a field, in lower case, the column that it is now; None: no column of today. Fields that are not named are what they are called."""
    shown: Mapping[int, int]
    """The first schema id from which on all stand at the new place or after it, and that place; empty where the table stays where it was."""


@dataclass(frozen=True, slots=True)
class Made:
    """What to make a table of."""

    done: int
    """How many statements it has followed then."""
    shown: Mapping[int, int]
    """By schema id, the place from which on it and all later ones stand."""
    names: Mapping[int, Mapping[str, str | None]]
    """As in ``Followed``."""


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
    """Find the place of a table with these ``columns``, which has followed ``done`` of the statements, and of the schemas (``versions``: their field names).

    ``order``: the columns as the source has them, as far as known. ``keys``: lower-case names of key columns, which are never renamed. ``partial``: schemas
    of records that have some columns only; they show nothing. ``newest``: the newest schema that the table has followed, and ``shown``, by schema, the places
    that it went to: ids of a registry rise with time, so no later schema stands before them, even if its names are those of long ago (a column that was
    renamed away, and whose name a new one has). An id up to ``newest`` may come again with its names. Negative numbers of schemas have no order.
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
    # A name that came back comes with its former id. That one is no bound for others, but all that are new come later.
    first = min((number for number, place in places.items() if place == last and number > newest), default=newest + 1)
    return Followed(last, moves, named, {first: last} if last > done and max(places) >= 0 else {})


def made(
    statements: Sequence[Statement], versions: Mapping[int, Sequence[str]], *, keys: Collection[str] = (), partial: Collection[int] = ()
) -> Made:
    """Find where a table stands that is made of all these schemas: as if it were made of the first one and followed the others, one after the other.

    At least one of ``versions`` is not ``partial``.
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
    """How many statements lie before the schema that a table is made of: the place from which most of them could have been carried out; ``last``: the last of
    several such places, else the first.
    """

    def misfits(place: int) -> int:
        course = _course(names, [_without(statement, keys) for statement in statements], place)
        return sum(before == after for before, after in pairwise(course))

    return min(range(len(statements) + 1), key=lambda place: (misfits(place), -place if last else place))


def _without(statement: Statement, keys: Collection[str]) -> Statement:
    return [(old, new) for old, new in statement if not {old.lower(), new.lower()} & set(keys)]


Names = list[str | None]
"""A name for each of the table's columns; None: the source has no such column there."""


def _course(columns: Sequence[str], statements: Sequence[Statement], done: int) -> list[Names]:
    """The names of the columns before the first statement and after each."""
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
    """After how many statements a schema is as it is, ``least`` of them at least."""
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
    """Count the pairs of columns in another order than expected: new columns come after those that the table has."""
    known = {name.lower(): rank for name, rank in zip(names, ranks, strict=True) if name is not None}
    met: list[int] = []
    pairs = 0
    for name in sorted(there, key=lambda name: there[name]):
        rank = known.get(name, len(ranks) + len(there))
        pairs += len(met) - bisect_right(met, rank)
        insort(met, rank)
    return pairs


def _today(columns: Sequence[str], names: Names) -> list[str]:
    """A name for every column: those that the source has no more go aside where another one has their name now."""
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

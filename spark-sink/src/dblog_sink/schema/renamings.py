"""Which renames of the source a table has followed, and under which names each schema's fields are found in it.

A statement renames some columns of a table at once: two may change places, and a name that one column gives up may become another's. So renames are no
list of names but a course: the table's columns, each under one name after each statement. A schema stands somewhere on the course: after how many of the
statements is told by its names, and where all names are the same before and after (two columns that changed places), by their order, for a rename leaves a
column where it is. The table goes on to the last place that a schema shows, and never back. Fields of a schema from further back go to the columns that
they are today.

So a statement that was misread, or that did nothing (IF EXISTS), does no harm: no schema shows that it was carried out.

A name that a rename gives to a column cannot belong to another one in the source: if the table has such a column, the source has dropped it, and it goes
aside (``<column>__dropped``).

Pure. MySQL manual, ALTER TABLE Statement ("Renaming, Redefining, and Reordering Columns"): all renames of one statement refer to the names before it.
"""

from __future__ import annotations

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


def followed(
    columns: Sequence[str],
    statements: Sequence[Statement],
    done: int,
    versions: Mapping[int, Sequence[str]],
    *,
    order: Sequence[str] = (),
    keys: Collection[str] = (),
    partial: Collection[int] = (),
) -> Followed:
    """Find the place of a table with these ``columns``, which has followed ``done`` of the statements, and of the schemas (``versions``: their field names).

    ``order``: the columns as the source has them, as far as known. ``keys``: lower-case names of key columns, which are never renamed. ``partial``: schemas
    of records that have some columns only; they show nothing.
    """
    course = _course(columns, [_without(statement, keys) for statement in statements], done)
    rank = {name.lower(): at for at, name in enumerate(order or columns)}
    ranks = [rank.get(name.lower(), len(rank)) for name in columns]
    places = {number: _place(course, ranks, names, done) for number, names in versions.items() if number not in partial}
    last = max((done, *places.values()))
    today = _today(columns, course[last])
    moves = {name: now for name, now in zip(columns, today, strict=True) if name != now}
    named = {number: _names(course[places.get(number, last)], today) for number in versions}
    return Followed(last, moves, named)


def created(statements: Sequence[Statement], newest: Sequence[str], *, keys: Collection[str] = ()) -> int:
    """How many statements lie before the schema that a table is made of: the place from which most of them could have been carried out; the last of several."""

    def misfits(place: int) -> int:
        course = _course(newest, [_without(statement, keys) for statement in statements], place)
        return sum(before == after for before, after in pairwise(course))

    return min(range(len(statements) + 1), key=lambda place: (misfits(place), -place))


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


def _place(course: Sequence[Names], ranks: Sequence[int], version: Sequence[str], done: int) -> int:
    """After how many statements a schema is as it is."""
    there = {name.lower(): at for at, name in enumerate(version)}
    touched = [n for n in range(len(ranks)) if len({names[n] and names[n].lower() for names in course}) > 1]  # type: ignore[union-attr]
    universe = {name.lower() for names in course for n in touched if (name := names[n]) is not None}

    def misfit(place: int) -> tuple[int, bool]:
        own = {n: name.lower() for n in touched if (name := course[place][n]) is not None}
        missing = sum(name not in there for name in own.values())
        extra = len((universe & there.keys()) - {name.lower() for name in course[place] if name is not None})
        met = [n for n in own if own[n] in there]
        return missing + extra, sorted(met, key=lambda n: there[own[n]]) != sorted(met, key=lambda n: ranks[n])

    misfits = [misfit(place) for place in range(len(course))]
    best = [place for place, one in enumerate(misfits) if one == min(misfits)]
    return min(best, key=lambda place: (place < done, abs(place - done)))


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

"""Random histories of a table's rows, how they may be delivered, and what each mode must make of them: the model that the job is compared with.

A Spark batch costs seconds whatever is in it, so one run carries hundreds of small universes side by side in one table, each on keys of its own.
A universe has two phases; between them the table may be truncated and may get a column, for all universes at once. Dumps read rows
at one moment and stamp them with the position of an earlier one, as the worker does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

KEYS = 3
PARTITIONS = 3
TRUNCATE_AT = 1 << 25
SECOND_PHASE_AT = 1 << 26

Key = tuple[int, int]
"""(universe, id)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record: ``at`` and ``number`` are its position, ``step`` the moment at which it was sent, ``extra`` the value of the column added later."""

    op: str
    key: Key
    value: str | None
    at: int
    number: int
    step: int
    extra: str | None = None
    altered: bool = False
    """Written with the schema of the second phase."""
    unavailable: bool = False
    """The value is the one before, and the source's log does not repeat it."""

    @property
    def partition(self) -> int:
        return (self.key[0] + self.key[1]) % PARTITIONS

    @property
    def position(self) -> tuple[int, int]:
        return self.at, self.number

    @property
    def ts_ms(self) -> int:
        return 1_700_000_000_000 + self.at


@dataclass
class Universe:
    """Writes to a few keys, dumps meanwhile, and what is left in the end."""

    number: int
    rows: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def universe(number: int, dice: random.Random, *, truncated: bool, altered: bool) -> Universe:
    """One universe's history."""
    made = Universe(number)
    for key in range(KEYS):
        if dice.random() < 0.4:
            made.rows[key] = (f"before-{key}", None)  # there before the log began: only a dump can bring it
    lows: list[int] = []
    at = 10
    for phase, begin in enumerate((10, SECOND_PHASE_AT)):
        at = begin
        late = altered and phase == 1
        if phase == 1 and truncated:
            made.rows.clear()
        for step in range(dice.randint(1, 5)):
            at += dice.choice([1, 1, 2**20])
            lows = _dump_or_wait(made, lows, at, dice, late=late)
            _write(made, at, f"p{phase}s{step}", dice, late=late)
            if dice.random() < 0.4:
                lows.append(at)  # a low watermark; its rows are selected now or some writes later
    _dump_or_wait(made, [*lows, at], at, dice, late=altered, now=True)
    return made


def _write(made: Universe, at: int, value: str, dice: random.Random, *, late: bool) -> None:
    extra = f"x-{value}" if late else None

    def log(op: str, key: int, text: str | None, number: int = 0) -> None:
        made.events.append(Event(op, (made.number, key), text, at, _number(made, number), at, None if op == "d" else extra, late))

    key = dice.randrange(KEYS)
    if key not in made.rows:
        made.rows[key] = (value, extra)
        log("c", key, value)
    elif dice.random() < 0.3:
        log("d", key, made.rows.pop(key)[0])
    elif dice.random() < 0.25 and (free := [other for other in range(KEYS) if other not in made.rows]):
        # The key changes: a delete and an insert at one position.
        log("d", key, made.rows.pop(key)[0])
        made.rows[free[0]] = (value, extra)
        log("c", free[0], value)
    else:
        made.rows[key] = (value, extra)
        # Two rows of one event: the second one wins by its number.
        if dice.random() < 0.3:
            log("u", key, f"{value}-half")
            log("u", key, value, 1)
        else:
            log("u", key, value)


def _number(made: Universe, row: int = 0) -> int:
    """A row number that makes the position of each universe's event unique, as a source's positions are."""
    return made.number * 2 + row


def _dump_or_wait(made: Universe, lows: list[int], at: int, dice: random.Random, *, late: bool, now: bool = False) -> list[int]:
    """Select the rows of some low watermarks, or of all ``now``; returns the others."""
    waiting = []
    for low in lows:
        if now or dice.random() < 0.5:
            made.events += [
                Event("r", (made.number, key), value, low, _number(made), at, extra, late) for key, (value, extra) in made.rows.items()
            ]
        else:
            waiting.append(low)
    return waiting


def windowed(made: Universe, *, truncated: bool) -> Universe:
    """The universe as a worker with windows sends it: a dump row loses to any change of its key between low watermark and selection (I2)."""
    changed: dict[Key, list[int]] = {}
    for event in made.events:
        if event.op != "r":
            changed.setdefault(event.key, []).append(event.at)

    def stays(event: Event) -> bool:
        changes = [at for at in changed.get(event.key, []) if event.at < at <= event.step]
        return event.op != "r" or not (changes or (truncated and event.at < TRUNCATE_AT <= event.step))

    return Universe(made.number, made.rows, [event for event in made.events if stays(event)])


def unchanged(made: Universe, dice: random.Random) -> Universe:
    """The universe where some updates leave the value as it was and do not contain it; an earlier event of the log does."""
    now: dict[Key, str | None] = {}
    logged: set[Key] = set()
    events = []
    for event in made.events:
        unavailable = event.op == "u" and event.key in logged and dice.random() < 0.4
        value = event.value if event.op in ("c", "u") and not unavailable else now.get(event.key, event.value)
        events.append(replace(event, value=value, unavailable=unavailable))
        now[event.key] = value
        if event.op == "d":
            del now[event.key]
            logged.discard(event.key)
        elif event.op != "r":
            logged.add(event.key)
    rows = {key: (now.get((made.number, key), value) or value, extra) for key, (value, extra) in made.rows.items()}
    return Universe(made.number, rows, events)


# -- delivery -----------------------------------------------------------------------------------------------------------------------------


def shuffled(universes: Iterable[Universe], dice: random.Random) -> list[Event]:
    """Every event, some twice, in no order at all: what no guard but the row's position survives."""
    events = [event for one in universes for event in one.events]
    events += dice.sample(events, len(events) // 8)
    dice.shuffle(events)
    return events


def resent(universes: Iterable[Universe], dice: random.Random) -> list[Event]:
    """Each partition in the order in which it was written, with stretches sent again as a connector does after a crash; partitions at random."""
    lines: list[list[Event]] = []
    for partition in range(PARTITIONS):
        line = [event for one in universes for event in one.events if event.partition == partition]
        line.sort(key=lambda event: (event.step, event.number))
        for _ in range(3):
            if line:
                end = dice.randrange(len(line))
                line[end:end] = line[max(0, end - dice.randint(1, 40)) : end]
        lines.append(line[::-1])
    events = []
    while lines := [line for line in lines if line]:
        line = dice.choice(lines)
        events += [line.pop() for _ in range(min(len(line), dice.randint(1, 30)))]
    return events


def divided(events: Sequence[Event], batches: int, dice: random.Random) -> list[list[Event]]:
    """The events in consecutive batches."""
    bounds = sorted(dice.randrange(len(events) + 1) for _ in range(batches - 1))
    return [list(events[low:high]) for low, high in zip([0, *bounds], [*bounds, len(events)], strict=True)]


# -- what must come out ------------------------------------------------------------------------------------------------------------------


def mirrored(universes: Iterable[Universe]) -> dict[Key, tuple[str, str | None]]:
    """The source's rows."""
    return {(one.number, key): row for one in universes for key, row in one.rows.items()}


def appended(delivered: Iterable[Event]) -> Counter[tuple[str, Key, str | None, int, int]]:
    """Every event of the log once, every dump row as often as it was delivered."""
    counts = Counter((event.op, event.key, event.value, event.at, event.number) for event in delivered)
    return Counter({event: n if event[0] == "r" else 1 for event, n in counts.items()})


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A row of a history."""

    key: Key
    begin: tuple[int, int]
    end: tuple[int, int] | None
    op: str
    value: str | None
    extra: str | None
    begin_ms: int
    end_ms: int | None


def versions(universes: Iterable[Universe], *, truncated: bool) -> set[Version]:
    """All versions of all rows: a fold of each key's events in order of position, dump rows that repeat what is known left out."""
    found: set[Version] = set()
    for one in universes:
        for key in range(KEYS):
            found |= _versions_of_key([event for event in one.events if event.key[1] == key], truncated=truncated)
    return found


def _versions_of_key(events: list[Event], *, truncated: bool) -> set[Version]:
    best: dict[tuple[int, int], Event] = {}
    for event in sorted(events, key=lambda event: event.op != "r"):  # a row of the log counts more than a dump row of its position
        best[event.position] = event
    if truncated and events:
        best[TRUNCATE_AT, 0] = replace(events[0], op="d", at=TRUNCATE_AT, number=0)
    line: list[Event] = []
    for event in (best[position] for position in sorted(best)):
        last = line[-1] if line else None
        if event.op == "r" and last is not None and last.op != "d" and (last.value, last.extra) == (event.value, event.extra):
            continue
        line.append(event)
    found = set()
    for event, after in zip(line, [*line[1:], None], strict=False):
        if event.op != "d":
            end = (None, None) if after is None else (after.position, after.ts_ms)
            found.add(Version(event.key, event.position, end[0], event.op, event.value, event.extra, event.ts_ms, end[1]))
    return found

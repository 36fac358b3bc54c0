"""Random histories, delivered in the worst order, through the job and through a model: no difference, also after a second time (I2, I3, I8).

A Spark batch costs seconds whatever is in it, so one run carries hundreds of small histories side by side, each on keys of its own. A failure
prints the seed and the history that came out wrong.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

HISTORIES = 300
BATCHES = 4


@dataclass
class History:
    """Writes to the keys 0..2 of one universe, the dump rows read meanwhile, and the rows that are left in the end."""

    universe: int
    rows: dict[int, str] = field(default_factory=dict)
    events: list[tuple[str, int, str, int, int]] = field(default_factory=list)
    """(operation, key, value, position, row number)"""


def history(universe: int, dice: random.Random) -> History:
    made = History(universe)
    for key in range(3):
        if dice.random() < 0.4:
            made.rows[key] = f"before-{key}"  # there before the log began: only a dump can bring it
    position, pending = 10, []
    for step in range(dice.randint(2, 9)):
        position += dice.choice([1, 1, 2**20])
        pending = _dump_or_wait(made, pending, dice)
        key, value = dice.randrange(3), f"v{step}"
        if key not in made.rows:
            made.rows[key] = value
            made.events.append(("c", key, value, position, 0))
        elif dice.random() < 0.3:
            made.events.append(("d", key, made.rows.pop(key), position, 0))
        elif dice.random() < 0.25 and (free := [other for other in range(3) if other not in made.rows]):
            # The key changes: a delete and an insert at one position.
            made.events.append(("d", key, made.rows.pop(key), position, 0))
            made.rows[free[0]] = value
            made.events.append(("c", free[0], value, position, 0))
        else:
            made.rows[key] = value
            # Two rows of one event: the second one wins by its number.
            if dice.random() < 0.3:
                made.events.append(("u", key, f"{value}-half", position, 0))
                made.events.append(("u", key, value, position, 1))
            else:
                made.events.append(("u", key, value, position, 0))
        if dice.random() < 0.4:
            pending.append(position)  # a low mark here; its rows are selected now or some writes later
    _dump_or_wait(made, [*pending, position], dice, now=True)
    return made


def _dump_or_wait(made: History, marks: list[int], dice: random.Random, *, now: bool = False) -> list[int]:
    waiting = []
    for mark in marks:
        if now or dice.random() < 0.5:
            made.events += [("r", key, value, mark, 0) for key, value in made.rows.items()]
        else:
            waiting.append(mark)
    return waiting


@pytest.mark.parametrize("seed", [1])
def test_any_order_of_arrival_ends_with_the_source_rows(sink: Sink, registry: RegistryServer, seed: int) -> None:
    dice = random.Random(seed)
    table = TableSchema(
        topic="p.shop.universes",
        columns=[("universe", "int"), ("id", "int"), ("v", ["null", "string"])],
        key=("universe", "id"),
        registry=registry,
    )
    sink.settings |= {"merge.split.rows.min": "50", "rewrite.rows.max": "150"}
    histories = [history(universe, dice) for universe in range(HISTORIES)]
    batches: list[list[Record]] = [[] for _ in range(BATCHES)]
    offset = 0
    for made in histories:
        at_least_once = made.events + dice.sample(made.events, dice.randint(0, 2) if len(made.events) > 1 else 0)
        for op, key, value, position, number in dice.sample(at_least_once, len(at_least_once)):
            row = {"universe": made.universe, "id": key, "v": value}
            record = change(table, op, row, at=position, row_number=number, sequenced=dice.random() < 0.5)
            batches[dice.randrange(BATCHES)].append(replace(record, partition=dice.randrange(3)))
    for batch in batches:
        for n, record in enumerate(batch):
            batch[n] = replace(record, offset=offset)
            offset += 1
    expected = {(made.universe, key): value for made in histories for key, value in made.rows.items()}

    def found() -> dict[tuple[int, int], str]:
        return {(one["universe"], one["id"]): one["v"] for one in sink.rows(table)}

    def explain(rows: dict[tuple[int, int], str]) -> str:
        wrong = {universe for universe, _ in {place for place, _ in rows.items() ^ expected.items()}}
        return f"seed {seed}: " + "; ".join(f"{made.rows} from {made.events}" for made in histories if made.universe in sorted(wrong)[:3])

    for n, batch in enumerate(batches):
        sink.repeat(n, batch)
        if dice.random() < 0.5:
            sink.restarted()
    once = found()
    assert once == expected, explain(once)

    sink.restarted()
    sink.generation = "second"  # the checkpoint is gone: everything again, from the beginning
    for n in range(2):
        sink.repeat(n, [record for batch in batches[n * 2 : n * 2 + 2] for record in batch])
    twice = found()
    assert twice == expected, explain(twice)
    assert sink.quarantined() == []

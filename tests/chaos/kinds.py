"""The kinds of trouble that a plan has beside its load and faults, and what each of them needs.

A kind has tables of its own, whose names begin with ``OWN``, steps that session ``KIND_SESSION`` does, a fault, settings, or several of these. All of it is
drawn with dice of its own, so that the rest of a plan is the same with and without a kind.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OWN = "y_"
"""The names of a kind's own tables begin so. No other statement is about them, and they are compared strictly."""
KIND_SESSION = 4
STEP_S = 0.4
"""The session of kinds begins something about this often for each kind that has steps."""
WAY = (
    "CREATE TABLE y_way (id INT PRIMARY KEY, paid INT, due INT, v VARCHAR(40))",
    f"INSERT INTO y_way VALUES {', '.join(f'({number}, 1, 2, {chr(39)}a{chr(39)})' for number in range(0, 100, 3))}",
)
"""The table that is handed over between Debezium and dblog."""
AT_SHARES = (0.35, 0.7)
"""A kind's fault begins within these shares of the load: rows of before and of after it count."""
REPAIRED = frozenset({"reset"})
"""Faults after which nobody remembers that a repair is due, as the pages on lost positions say."""
STARTING = frozenset({"kill_task", "kill_worker", "kill_broker", "restart_broker", "stop", "failover", "widen", "narrow", "reset"})
"""Faults after which the task starts again, with producers of its own."""
LEFT_ALONE = frozenset({"failover", "widen", "narrow", "reset"})
"""Faults that give the connector other tables, another server or other offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind: how often a seed has it, and what it cannot be together with."""

    share: float
    steps: bool = True
    fault: bool = False
    """Whether it has a fault of its own, which has its name."""
    servers: bool = False
    """Whether it needs a primary and a replica that are the run's alone."""
    alone: bool = False
    """Whether only its own tables are there, with no other kind and no other session."""
    clashes: frozenset[str] = frozenset()
    """Faults of the plan that it does not go with."""
    prevails: bool = False
    """Whether these faults give way to it, where it would seldom be drawn beside none of them."""


def drawn_kinds(dice: Mapping[str, random.Random], kinds: Mapping[str, Kind], *, faults: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of a seed: each by its share and dice, none that clashes with the plan's faults, and at most one with servers of its own."""
    present = set(faults)
    found: list[str] = []
    for name, kind in kinds.items():
        wanted = dice[name].random() < kind.share
        away = (clashing(name, kinds) & present and not kind.prevails) or (kind.servers and any(kinds[other].servers for other in found))
        if wanted and not away:
            found = [name] if kind.alone else [*found, name]
    return tuple(found)


def clashing(name: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """Return the faults that a kind does not go with."""
    return kinds[name].clashes | ({"failover"} if kinds[name].servers else frozenset())


def way(chance: random.Random, number: int) -> list[str]:
    """Return one change of the table that is handed over, or some in one transaction. Rows have numbers up to a hundred."""
    row = chance.randrange(100)
    insert = f"INSERT INTO y_way (id, paid, due, v) VALUES ({row}, {number}, {-number}, 'v{number}')"
    forms = (
        [insert],
        [f"UPDATE y_way SET v = 'u{number}', paid = {number} WHERE id % 7 = {row % 7}"],
        [f"DELETE FROM y_way WHERE id = {row}"],
        [f"DELETE FROM y_way WHERE id = {row}", insert, f"UPDATE y_way SET due = {number} WHERE id < {row}"],
        [f"UPDATE y_way SET id = id + 100 WHERE id = {row}", f"UPDATE y_way SET id = id - 100 WHERE id = {row + 100}"],
    )
    return ["BEGIN", *chance.choice(forms), "COMMIT"]


def alone(names: Iterable[str], kinds: Mapping[str, Kind]) -> bool:
    """Whether one of these kinds is to be alone."""
    return any(kinds[name].alone for name in names)

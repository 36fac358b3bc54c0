"""What the peer comparison asks, as data: each work's table, how its rows are written, how many there are, and the goals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tables import MIXED_RECORDS, Source, mixed_base


@dataclass(frozen=True, slots=True)
class Goal:
    """Times the tuned peer; None where the issue sets none."""

    wall: float | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A backlog in the binlog: both read the same events."""

    name: str
    shape: str
    """By its name among ``tables.SHAPES``."""
    units: int
    """Rows or transactions at scale 1."""
    write: Callable[[Source, str, int], None]
    goal: Goal
    records_per_unit: int = 1
    base: Callable[[int], int] = lambda units: 0
    """Rows that are in the table before, unseen by the connectors."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A table that is read by SELECT while the log is idle."""

    name: str
    shape: str
    """By its name among ``tables.SHAPES``."""
    units: int
    goal: Goal


@dataclass(frozen=True, slots=True)
class DumpBeside:
    """A table that a signal asks for, while small transactions arrive at an even pace in another one."""

    name: str
    shape: str
    """By its name among ``tables.SHAPES``."""
    units: int
    per_s: int
    goal: Goal
    goal_p99_ms: float
    """From the commit to a consumer, while the dump runs."""


@dataclass(frozen=True, slots=True)
class Latency:
    """From the commit to a consumer, at an even pace."""

    name: str
    per_s: int
    seconds: float
    goal_p50_ms: float
    goal_p99_ms: float


@dataclass(frozen=True, slots=True)
class Restart:
    """From SIGKILL to the first new record, after many DDLs."""

    name: str
    statements: int
    scaled: bool
    goal_ms: float


ON_POSTGRES = {
    "bulk": Goal(7, 12),
    "single": Goal(6, 12),
    "mixed": Goal(),
    "dump": Goal(7, 12),
    "dump_beside": Goal(),
    "narrow": Goal(),
    "latency": Goal(),
    "restart_100": Goal(),
}
"""The works that are asked of PostgreSQL, and their goals there."""

Work = CatchUp | Dump | DumpBeside | Latency | Restart


def _many(shape: str) -> Callable[[Source, str, int], None]:
    return lambda source, table, rows: source.write_many(table, source.shape(shape), rows)


PEAK_MIB_MAX: Literal[300] = 300
"""Of the task process, in every work."""

WORKS: tuple[Work, ...] = (
    CatchUp("bulk", "TEN", 2_000_000, _many("TEN"), Goal(8, 12)),
    CatchUp("single", "TEN", 1_000_000, lambda source, table, rows: source.write_single(table, source.shape("TEN"), rows), Goal(10, 14)),
    CatchUp(
        "mixed",
        "TEN",
        100_000,
        lambda source, table, rows: source.write_mixed(table, source.shape("TEN"), rows),
        Goal(7, 12),
        records_per_unit=MIXED_RECORDS,
        base=mixed_base,
    ),
    Dump("dump", "TEN", 5_000_000, Goal(6, 12)),
    DumpBeside("dump_beside", "TEN", 5_000_000, per_s=2_000, goal=Goal(10, 12), goal_p99_ms=30),
    CatchUp("wide", "WIDE", 100_000, _many("WIDE"), Goal(cpu=5)),
    CatchUp("json", "JSON", 300_000, _many("JSON"), Goal(cpu=5)),
    CatchUp("text", "TEXT", 100_000, _many("TEXT"), Goal(cpu=5)),
    CatchUp("narrow", "NARROW", 2_000_000, _many("NARROW"), Goal(cpu=5)),
    Latency("latency", per_s=3_000, seconds=30, goal_p50_ms=5, goal_p99_ms=15),
    Restart("restart_100", 100, scaled=False, goal_ms=3_000),
    Restart("restart_20000", 20_000, scaled=True, goal_ms=3_000),
)


def on_postgres(work: Work) -> Work:
    """The work with the goals that it has there."""
    return replace(work, goal=ON_POSTGRES[work.name]) if isinstance(work, CatchUp | Dump | DumpBeside) else work

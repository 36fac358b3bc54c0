"""What the comparison of the sinks asks, as data: each work's records, how they are sent, how many there are, and the goals of the issue."""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "orders"
"""Of every work but ``small_tables``: the ten columns of the reference figures, key ``id``."""


@dataclass(frozen=True, slots=True)
class Records:
    """What a topic is filled with. Row numbers below ``base`` are in the table before; ``hot``: only every so many keys are changed."""

    kind: str
    """``dump`` (op r), ``insert`` (op c), or ``change``: 80 % updates, 15 % inserts, 5 % deletes."""
    count: int
    base: int = 0
    hot: int = 1
    tables: int = 1
    first: int = 0
    """Number of the first event: positions of the log go on from there."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """A filled topic, read to its end: the mirror must then hold every change."""

    name: str
    records: Records
    goal: float
    """Times the naive sink's rows per second."""
    half_rate_p99_s: float | None = None
    """Freshness at half of the rate that was just measured, where the issue asks for it."""


@dataclass(frozen=True, slots=True)
class Paced:
    """Records that come at an even pace while the sink runs with a trigger of 2 s: from the produce call to the batch's commit."""

    name: str
    per_s: int
    seconds: float
    tables: int
    goal_p99_s: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Heap after a full collection and resident size of the driver while small batches go by."""

    name: str
    batches: int
    records_per_batch: int


Work = Throughput | Paced | Memory

M = 1_000_000
WORKS: tuple[Work, ...] = (
    Throughput("first_dump", Records("dump", 5 * M), goal=3.5),
    Throughput("inserts", Records("insert", 5 * M), goal=3),
    Throughput("updates_uniform", Records("change", 5 * M, base=10 * M), goal=5, half_rate_p99_s=60),
    Throughput("updates_hot", Records("change", 5 * M, base=10 * M, hot=20), goal=5),
    Paced("small_tables", per_s=2_000, seconds=180, tables=100, goal_p99_s=20),
    Paced("freshness", per_s=2_000, seconds=120, tables=1, goal_p99_s=10),
    Memory("memory", batches=200, records_per_batch=1_000),
)

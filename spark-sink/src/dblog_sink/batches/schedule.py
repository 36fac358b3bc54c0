"""Land or apply now, and what to merge when: the whole policy of the two tiers, as functions of known facts and of a given time.

A MERGE costs per commit and per touched file, hardly per row (``docs/decisions.md``, D12). So each table carries a model of its own cost,
learned from its own merges: a fixed part and a part per row. A batch is applied at once when it is worth a merge by itself, or when it is
cheap enough to fit between two triggers. Else it lands, and is merged when enough has come together or when it is old enough, where old
is measured in multiples of what the merge costs. A cheap table is then merged all the time, a dear one seldom, and no table takes
more than its share of the threads: one merge of ``p`` seconds each ``(1 + patience) * p``. A merge also begins when the source has been quiet for as
long as it takes: nobody knows whether more will come, and this never costs more than twice the best choice (the ski rental problem).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dblog_sink.config.policy import Policy

CHECKPOINT_EPOCH_SHIFT = 40
"""Batch ids below 2**40: one a second for 34 000 years."""
GROUP_SHIFT = 8
"""2**8 batch sequences share a partition of the landing table; what has been merged is dropped by whole partitions."""

_DECAY = 0.8
"""Weight of the past at each observation: a table that grew or was compacted is known again after a few merges."""


def sequence_of(epoch: int, batch_id: int) -> int:
    """The batch sequence: orders batches over all checkpoints, and never falls, whatever is lost."""
    assert 0 <= batch_id < 1 << CHECKPOINT_EPOCH_SHIFT
    return epoch << CHECKPOINT_EPOCH_SHIFT | batch_id


def group(sequence: int) -> int:
    """The landing table's partition of a batch sequence."""
    return sequence >> GROUP_SHIFT


@dataclass(slots=True)
class Cost:
    """Seconds of a merge by its rows: a line through what was observed, the latest weighing most."""

    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def observe(self, rows: int, seconds: float) -> None:
        """A merge of ``rows`` took ``seconds``."""
        self.n = self.n * _DECAY + 1.0
        self.x = self.x * _DECAY + rows
        self.y = self.y * _DECAY + seconds
        self.xx = self.xx * _DECAY + float(rows) * rows
        self.xy = self.xy * _DECAY + rows * seconds

    def seconds(self, rows: int) -> float:
        """What a merge of ``rows`` will take; never less than a tenth of the mean, never falling as rows rise."""
        if self.n == 0.0:
            return UNKNOWN_S
        mean_x, mean_y = self.x / self.n, self.y / self.n
        spread = self.xx / self.n - mean_x * mean_x
        slope = (self.xy / self.n - mean_x * mean_y) / spread if spread > 0.01 * mean_x * mean_x else _ROW_USUAL_S
        slope = min(max(slope, _ROW_S), mean_y / mean_x if mean_x > 0 else _ROW_S)
        return max(mean_y + slope * (rows - mean_x), 0.1 * mean_y)

    def fixed_s(self) -> float:
        """The part that does not depend on the rows; 0 as long as nothing is known."""
        return 0.0 if self.n == 0.0 else self.seconds(0)


UNKNOWN_S = 1.0
"""The cost of a table about which nothing was learned since the start: opening it takes some Spark jobs."""
_ROW_S = 4e-6
"""The least cost of a row on one core: read, decode, choose the latest, write."""
_ROW_USUAL_S = 12e-6
"""The measured cost of a row in merges of a million on two cores: assumed as long as all merges have one size, which hides their fixed part."""
LANDING_ROW_S = 8e-6
"""The extra cost of a row that lands first, measured in the same merges: it is written once more and read again. It is decoded once in any case."""


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """A table's rows of one batch in the landing table, since ``at_s``."""

    sequence: int
    rows: int
    at_s: float


@dataclass(slots=True)
class Table:
    """What the planner knows of one topic's table."""

    topic: str
    rows: int = 0
    """In the target."""
    waiting: list[LandedBatch] = field(default_factory=list)
    """Landed and not merged, in order."""
    busy: bool = False
    """Somebody writes it now."""
    parked: str | None = None
    """Why it is not written any more; its rows land and wait."""
    not_before_s: float = 0.0
    """After a failure: when to try again."""
    cost: Cost = field(default_factory=Cost)
    """Of whatever way its rows took lately."""
    merge_cost: Cost = field(default_factory=Cost)
    """Of merges alone: an append has no fixed part to speak of."""
    written: bool = False
    """Since the start of the job."""

    def learn(self, rows: int, seconds: float, *, merged: bool) -> None:
        """A write of ``rows`` took ``seconds``. The first one opens or makes the table, and much is compiled for it: it shows nothing about the next."""
        if self.written:
            self.cost.observe(rows, seconds)
            if merged:
                self.merge_cost.observe(rows, seconds)
        self.written = True

    @property
    def rows_waiting(self) -> int:
        """Rows landed and not merged."""
        return sum(one.rows for one in self.waiting)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a batch's topics."""

    apply: tuple[str, ...]
    land: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """A merge to be done: of the topic's landed rows, all up to batch sequence ``to``."""

    topic: str
    to: int
    rows: int


def worth(table: Table, policy: Policy) -> int:
    """Rows from which a merge into this table pays by itself: landing them to merge more at once would cost more than it saves."""
    return max(policy.rows_min, min(int(table.merge_cost.fixed_s() / LANDING_ROW_S), policy.rows_max))


def decide(rows: Mapping[str, int], tables: Mapping[str, Table], policy: Policy) -> Decision:
    """Which topics of a batch are applied now, and which land; ``rows`` by topic.

    A table with landed rows goes on landing until they are merged, a busy or parked one lands. Of the others the ones worth a merge are applied,
    and then the cheapest as long as their costs together fit into the trigger interval. Where not all of them fit, those that were never written
    land: making a table takes seconds while nothing is compiled, and the whole batch would wait for a few of many.
    """
    if policy.snapshots:
        return Decision((), tuple(rows))
    now, land = [], []
    candidates: list[tuple[float, str]] = []
    for topic, count in rows.items():
        table = tables.get(topic) or Table(topic)
        if table.waiting or table.busy or table.parked is not None:
            land.append(topic)
        elif count >= worth(table, policy):
            now.append(topic)
        else:
            candidates.append((table.cost.seconds(count), topic))
    left_s = policy.trigger_s
    if sum(seconds for seconds, _ in candidates) > left_s:
        new = [topic for _, topic in candidates if topic not in tables or not tables[topic].written]
        land += new
        candidates = [(seconds, topic) for seconds, topic in candidates if topic not in new]
    for seconds, topic in sorted(candidates):
        left_s -= seconds
        (now if left_s >= 0 else land).append(topic)
    return Decision(tuple(now), tuple(land))


def limit_s(table: Table, policy: Policy) -> float:
    """The age at which the table's landed rows are merged, however few they are."""
    return min(max(policy.patience * table.cost.seconds(table.rows_waiting), policy.trigger_s), policy.age_max_s)


def due(tables: Iterable[Table], policy: Policy, *, now_s: float, quiet_s: float = 0.0, everything: bool = False) -> list[Due]:
    """The merges to begin now, the most overdue first; ``quiet_s``: since the last batch ended; ``everything``: whatever waits, for a drain."""
    found: list[tuple[float, Due]] = []
    for table in () if policy.snapshots else tables:
        if not table.waiting or table.busy or table.parked is not None or now_s < table.not_before_s:
            continue
        age_s = now_s - table.waiting[0].at_s
        quiet = quiet_s / max(table.cost.seconds(table.rows_waiting), 2 * policy.trigger_s, 1e-9)
        urgency = max(table.rows_waiting / worth(table, policy), age_s / max(limit_s(table, policy), 1e-9), quiet)
        if urgency >= 1.0 or everything:
            to, rows = prefix(table.waiting, policy.rows_max)
            found.append((urgency, Due(table.topic, to, rows)))
    return [one for _, one in sorted(found, key=lambda pair: (-pair[0], pair[1].topic))]


def prefix(waiting: list[LandedBatch], rows_max: int) -> tuple[int, int]:
    """The last batch sequence, and the rows, of the longest beginning that has at most ``rows_max`` rows; one batch at least."""
    to, rows = waiting[0].sequence, waiting[0].rows
    for one in waiting[1:]:
        if rows + one.rows > rows_max:
            break
        to, rows = one.sequence, rows + one.rows
    return to, rows


def expirable(tables: Iterable[Table], *, newest: int) -> int:
    """The first landing group that must stay: that of ``newest`` (the next batch sequence), or of the oldest batch that waits."""
    return min([group(newest), *(group(table.waiting[0].sequence) for table in tables if table.waiting)])


def kept_for_parked(tables: Iterable[Table], *, newest: int) -> tuple[int, frozenset[str]]:
    """Return the first landing group that must stay whole, and the topics of which rows before it must stay: those of parked tables.

    Nothing that waits before that group is of another topic. ``newest``: the next batch sequence.
    """
    waiting = [table for table in tables if table.waiting]
    first = expirable([table for table in waiting if table.parked is None], newest=newest)
    return first, frozenset(table.topic for table in waiting if group(table.waiting[0].sequence) < first)

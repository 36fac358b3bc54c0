"""Decides whether a batch lands or is applied, and when landed records are merged. Pure.

This is the whole policy of the two tiers, as functions of known facts and a given time. A MERGE
costs per commit and per touched file, hardly per row (``docs/decisions.md``, D12). So each table
has a model of its cost, learned from its own merges: a fixed part and a part per row.

A batch is applied at once if it is worth a merge, or cheap enough to fit between two triggers. Else
it lands. It is merged when enough rows have come together, or when they are old enough, where old
is measured in multiples of the merge's cost. So a cheap table is merged all the time and an
expensive one seldom, and no table takes more than its share of the threads: one merge of ``p``
seconds in each ``(1 + patience) * p``.

A merge also begins when the source has been quiet for as long as the merge takes. Nobody knows
whether more records will come, and this costs at most twice the best choice (the ski rental
problem). And it begins when the outcome of a verify or repair dump waits for it: a person asked for
that dump and watches it, and each dump of a table brings one such merge at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dblog_sink.config.policy import Policy

CHECKPOINT_EPOCH_SHIFT = 40
"""Bits of a batch id: 2**40 batches are one a second for 34 000 years."""
GROUP_SHIFT = 8
"""Bits of a batch sequence within a partition of the landing table; merged records are deleted by
whole partitions of 2**8 batches.
"""

_DECAY = 0.8
"""Weight of earlier observations at each new one, so that a few merges suffice after a table has
grown or was compacted.
"""


def sequence_of(epoch: int, batch_id: int) -> int:
    """Return the batch sequence, which orders batches across checkpoints and never decreases."""
    assert 0 <= batch_id < 1 << CHECKPOINT_EPOCH_SHIFT
    return epoch << CHECKPOINT_EPOCH_SHIFT | batch_id


def group(sequence: int) -> int:
    """Return the landing table's partition of a batch sequence."""
    return sequence >> GROUP_SHIFT


@dataclass(slots=True)
class Cost:
    """The seconds of a merge as a linear function of its rows, with the newest observations
    weighing most.
    """

    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def observe(self, rows: int, seconds: float) -> None:
        """Add the observation that a merge of ``rows`` took ``seconds``."""
        self.n = self.n * _DECAY + 1.0
        self.x = self.x * _DECAY + rows
        self.y = self.y * _DECAY + seconds
        self.xx = self.xx * _DECAY + float(rows) * rows
        self.xy = self.xy * _DECAY + rows * seconds

    def seconds(self, rows: int) -> float:
        """Return the expected seconds of a merge of ``rows``.

        They are at least a tenth of the mean, and do not decrease as rows increase.
        """
        if self.n == 0.0:
            return UNKNOWN_S
        mean_x, mean_y = self.x / self.n, self.y / self.n
        spread = self.xx / self.n - mean_x * mean_x
        slope = (self.xy / self.n - mean_x * mean_y) / spread if spread > 0.01 * mean_x * mean_x else _ROW_USUAL_S
        slope = min(max(slope, _ROW_S), mean_y / mean_x if mean_x > 0 else _ROW_S)
        return max(mean_y + slope * (rows - mean_x), 0.1 * mean_y)

    def fixed_s(self) -> float:
        """Return the part that does not depend on the rows, 0 if nothing is known."""
        return 0.0 if self.n == 0.0 else self.seconds(0)


UNKNOWN_S = 1.0
"""Assumed seconds of a table without observations since the start; opening it takes some Spark
jobs.
"""
_ROW_S = 4e-6
"""Least seconds of a row on one core: read, decode, choose the latest, write."""
_ROW_USUAL_S = 12e-6
"""Seconds of a row, measured in merges of a million on two cores. Assumed while all observed merges
have one size, which hides their fixed part.
"""
LANDING_ROW_S = 8e-6
"""Extra seconds of a row that lands first, measured in the same merges: it is written and read a
second time. It is decoded once in any case.
"""


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """A table's rows of one batch in the landing table. ``at_s`` is when they landed."""

    sequence: int
    rows: int
    at_s: float


@dataclass(slots=True)
class Table:
    """The planner's knowledge of one topic's table."""

    topic: str
    rows: int = 0
    """Number of rows in the target."""
    waiting: list[LandedBatch] = field(default_factory=list)
    """Batches that have landed and are not merged, in order."""
    busy: bool = False
    """True while a thread writes the table."""
    parked: str | None = None
    """Reason why the table is not written any more, while its rows land and wait; None if it is."""
    not_before_s: float = 0.0
    """Time of the next attempt after a failure."""
    awaited: int = -1
    """Batch sequence for whose merge the outcome of a dump waits, -1 if none does."""
    cost: Cost = field(default_factory=Cost)
    """Cost of recent writes of any kind."""
    merge_cost: Cost = field(default_factory=Cost)
    """Cost of merges alone; an append has almost no fixed part."""
    written: bool = False
    """True once the table was written since the start of the job."""

    def learn(self, rows: int, seconds: float, *, merged: bool) -> None:
        """Learn from a write of ``rows`` that took ``seconds``.

        The first write opens or creates the table, and much is compiled for it. So it is ignored.
        """
        if self.written:
            self.cost.observe(rows, seconds)
            if merged:
                self.merge_cost.observe(rows, seconds)
        self.written = True

    @property
    def rows_waiting(self) -> int:
        """Number of rows that have landed and are not merged."""
        return sum(one.rows for one in self.waiting)


@dataclass(frozen=True, slots=True)
class Decision:
    """The topics of a batch to be applied, and those to land."""

    apply: tuple[str, ...]
    land: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """A merge to be done, of the topic's landed rows up to batch sequence ``to``."""

    topic: str
    to: int
    rows: int


def worth(table: Table, policy: Policy) -> int:
    """Return the number of rows from which a merge into this table pays.

    Landing them to merge more at once would then cost more than it saves.
    """
    return max(policy.rows_min, min(int(table.merge_cost.fixed_s() / LANDING_ROW_S), policy.rows_max))


def decide(rows: Mapping[str, int], tables: Mapping[str, Table], policy: Policy) -> Decision:
    """Decide which topics of a batch are applied now, and which are only landed.

    To land is to append raw records to the landing table, from which they are merged later.
    ``rows`` has the number of rows by topic. A table with landed rows lands again until they are
    merged, and so does a busy or parked table. Of the other tables, those with enough rows for a
    merge are applied, and then the cheapest ones while the sum of costs fits into the trigger
    interval. If some do not fit, tables that were never written land: creating a table takes
    seconds, and the whole batch would wait for it.
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
    """Return the age at which the table's landed rows are merged, however few they are."""
    return min(max(policy.patience * table.cost.seconds(table.rows_waiting), policy.trigger_s), policy.age_max_s)


def due(tables: Iterable[Table], policy: Policy, *, now_s: float, quiet_s: float = 0.0, everything: bool = False) -> list[Due]:
    """Return the merges to begin now, most overdue first.

    ``quiet_s`` is the time since the last batch ended. ``everything`` selects all that waits, for a
    drain.
    """
    found: list[tuple[float, Due]] = []
    for table in () if policy.snapshots else tables:
        if not table.waiting or table.busy or table.parked is not None or now_s < table.not_before_s:
            continue
        age_s = now_s - table.waiting[0].at_s
        quiet = quiet_s / max(table.cost.seconds(table.rows_waiting), 2 * policy.trigger_s, 1e-9)
        urgency = max(table.rows_waiting / worth(table, policy), age_s / max(limit_s(table, policy), 1e-9), quiet)
        if urgency >= 1.0 or everything or table.waiting[0].sequence <= table.awaited:
            to, rows = prefix(table.waiting, policy.rows_max)
            found.append((urgency, Due(table.topic, to, rows)))
    return [one for _, one in sorted(found, key=lambda pair: (-pair[0], pair[1].topic))]


def prefix(waiting: list[LandedBatch], rows_max: int) -> tuple[int, int]:
    """Return the last sequence and the rows of the longest prefix within ``rows_max`` rows.

    The prefix has at least one batch.
    """
    to, rows = waiting[0].sequence, waiting[0].rows
    for one in waiting[1:]:
        if rows + one.rows > rows_max:
            break
        to, rows = one.sequence, rows + one.rows
    return to, rows


def expirable(tables: Iterable[Table], *, newest: int) -> int:
    """Return the first landing group that must stay.

    It is that of ``newest`` (the next batch sequence), or of the oldest batch that waits.
    """
    return min([group(newest), *(group(table.waiting[0].sequence) for table in tables if table.waiting)])


def kept_for_parked(tables: Iterable[Table], *, newest: int) -> tuple[int, frozenset[str]]:
    """Return the first landing group that must stay whole, and parked topics with older rows.

    Before that group only rows of these topics wait. ``newest`` is the next batch sequence.
    """
    waiting = [table for table in tables if table.waiting]
    first = expirable([table for table in waiting if table.parked is None], newest=newest)
    return first, frozenset(table.topic for table in waiting if group(table.waiting[0].sequence) < first)

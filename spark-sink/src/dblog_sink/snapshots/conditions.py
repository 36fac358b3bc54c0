"""Makes SQL conditions that select landed records by the frontier of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches.landing import SEQUENCE, looked_up
from dblog_sink.records.decode import SEQ1, SEQ2
from dblog_sink.records.log_positions import TX
from dblog_sink.state.snapshot import Frontier, LandedOffset, Snapshot


def at_or_below(frontier: Frontier) -> Column:
    """Return a condition for records at or below the frontier.

    A record without a position counts as below, since no unreadable row waits for a snapshot.
    """
    one, two = frontier.position
    below = (F.col(SEQ1) < one) | ((F.col(SEQ1) == one) & (F.col(SEQ2) <= two))
    if frontier.open:
        below &= ~F.coalesce(F.col(TX).isin(list(frontier.open)), F.lit(False))
    return F.coalesce(below, F.lit(True))


def merged(frontier: Frontier, topic: str) -> Column:
    """Return a condition for the topic's records merged for this frontier or an earlier one."""
    return (F.col(SEQUENCE) <= frontier.sequences.get(topic, -1)) & at_or_below(frontier)


def merged_before(snapshot: Snapshot) -> Column:
    """Return a condition for records of any topic that were merged before this snapshot."""
    sequences = {topic: sequence for topic, sequence in snapshot.before.sequences.items() if topic not in snapshot.held}
    found = F.coalesce(F.col(SEQUENCE) <= looked_up(sequences).cast("long"), F.lit(False)) & at_or_below(snapshot.before)
    # Tables parked at the same time share a frontier except for their batches. One condition for
    # each of thousands of tables would nest too deeply for Catalyst.
    held: dict[tuple[object, ...], dict[str, Frontier]] = {}
    for topic, frontier in snapshot.held.items():
        held.setdefault((frontier.position, tuple(sorted(frontier.open))), {})[topic] = frontier
    for topics in held.values():
        sequences = {topic: frontier.sequences.get(topic, -1) for topic, frontier in topics.items()}
        read = F.coalesce(F.col(SEQUENCE) <= looked_up(sequences).cast("long"), F.lit(False))
        found |= read & at_or_below(next(iter(topics.values())))
    return found


def landed_after(offset: LandedOffset) -> Column:
    """Return a condition for records of the transaction topic that landed after this offset."""
    return (F.col(SEQUENCE) > offset[0]) | ((F.col(SEQUENCE) == offset[0]) & (F.col("offset") > offset[1]))


def at_or_before(at: Column, offset: LandedOffset | Sequence[Column]) -> Column:
    """Return a condition that ``at``, a struct of sequence and offset, is not after the offset."""
    return (at[SEQUENCE] < offset[0]) | ((at[SEQUENCE] == offset[0]) & (at["offset"] <= offset[1]))


def before(at: Column, offset: LandedOffset) -> Column:
    """Return a condition that ``at``, a struct of sequence and offset, is before the offset."""
    return (at[SEQUENCE] < offset[0]) | ((at[SEQUENCE] == offset[0]) & (at["offset"] < offset[1]))

"""The frontier of a snapshot as conditions on landed records, in Spark's SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches.landing import SEQUENCE, looked_up
from dblog_sink.records.decode import SEQ1, SEQ2
from dblog_sink.records.log_positions import TX
from dblog_sink.state.snapshot import Frontier, LandedOffset, Snapshot


def at_or_below(frontier: Frontier) -> Column:
    """The record lies at or below the frontier. One that has no position is no readable row: it waits for nothing."""
    one, two = frontier.position
    below = (F.col(SEQ1) < one) | ((F.col(SEQ1) == one) & (F.col(SEQ2) <= two))
    if frontier.open:
        below &= ~F.coalesce(F.col(TX).isin(list(frontier.open)), F.lit(False))
    return F.coalesce(below, F.lit(True))


def merged(frontier: Frontier, topic: str) -> Column:
    """The topic's record was merged for the snapshot of this frontier, or one before it."""
    return (F.col(SEQUENCE) <= frontier.sequences.get(topic, -1)) & at_or_below(frontier)


def merged_before(snapshot: Snapshot) -> Column:
    """The record, of whatever topic, was merged before this snapshot."""
    sequences = {topic: sequence for topic, sequence in snapshot.before.sequences.items() if topic not in snapshot.held}
    found = F.coalesce(F.col(SEQUENCE) <= looked_up(sequences).cast("long"), F.lit(False)) & at_or_below(snapshot.before)
    # Tables that were parked at one time share a frontier, but for their own batches: a condition for each of thousands would be too deep for Catalyst.
    held: dict[tuple[object, ...], dict[str, Frontier]] = {}
    for topic, frontier in snapshot.held.items():
        held.setdefault((frontier.position, tuple(sorted(frontier.open))), {})[topic] = frontier
    for topics in held.values():
        sequences = {topic: frontier.sequences.get(topic, -1) for topic, frontier in topics.items()}
        read = F.coalesce(F.col(SEQUENCE) <= looked_up(sequences).cast("long"), F.lit(False))
        found |= read & at_or_below(next(iter(topics.values())))
    return found


def landed_after(offset: LandedOffset) -> Column:
    """The record of the transaction topic landed after this one."""
    return (F.col(SEQUENCE) > offset[0]) | ((F.col(SEQUENCE) == offset[0]) & (F.col("offset") > offset[1]))


def at_or_before(at: Column, offset: LandedOffset | Sequence[Column]) -> Column:
    """``at``, a struct of sequence and offset, is not after the offset."""
    return (at[SEQUENCE] < offset[0]) | ((at[SEQUENCE] == offset[0]) & (at["offset"] <= offset[1]))


def before(at: Column, offset: LandedOffset) -> Column:
    """``at``, a struct of sequence and offset, is before the offset."""
    return (at[SEQUENCE] < offset[0]) | ((at[SEQUENCE] == offset[0]) & (at["offset"] < offset[1]))

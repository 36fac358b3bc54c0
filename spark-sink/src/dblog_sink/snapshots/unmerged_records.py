"""Finds landed records that no snapshot has merged, after the manifest was switched off."""

from __future__ import annotations

from pyspark.sql import DataFrame

from dblog_sink.batches.landing import SEQUENCE
from dblog_sink.records.log_positions import with_positions
from dblog_sink.schema.wire_format import WITH_SCHEMA_IDS
from dblog_sink.snapshots.conditions import merged
from dblog_sink.state.notes import State
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import profile


class OutsideSnapshots:
    """A function from a topic and its landed records to those that no snapshot has merged."""

    def __init__(self, applier: Applier, state: State) -> None:
        self._applier = applier
        self._state = state

    def __call__(self, topic: str, raw: DataFrame) -> DataFrame:
        """Return the records that are to be merged by batches."""
        last = self._state.snapshot
        if last is None:
            return raw
        stats = {one.topic: one for one in profile(raw)}.get(topic)
        if stats is None:
            return raw
        frontier = self._state.held.get(topic, last.frontier)
        found = with_positions(raw, self._applier.position_schemas(stats), (SEQUENCE, *WITH_SCHEMA_IDS))
        return found.where(~merged(frontier, topic)).select(SEQUENCE, *WITH_SCHEMA_IDS)

"""Rows of a first dump that land while a snapshot is carried out are not in it, whatever their positions are: its table is not complete."""

from __future__ import annotations

import random
from typing import Any

import pytest
from dblog_sink.reconcile.chunk_ledger import NOT_YET
from dblog_sink.snapshots.manifest import as_of
from sink.harness import Record, Sink
from sink.snapshots.test_manifest import Kill, killing, state_path
from sink.transfers import Source
from support.chunk_markers import chunk_marker, in_avro
from support.registry_server import RegistryServer


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_table_is_not_complete_whose_last_chunk_landed_behind_the_choice(sink: Sink, registry: RegistryServer, killed: bool) -> None:
    source = Source(registry)
    source.opened()
    sink.settings |= source.settings | {"control.interval.s": "0"}

    def marker(chunk_id: str, at: int, **facts: Any) -> Record:
        made = chunk_marker(source.left.topic, chunk_id=chunk_id, low=(1, at << 23), read=1, **facts)
        return Record(topic=f"__dblog-chunks.{source.prefix}", key=None, value=in_avro(registry, made))

    source.dumped(source.left, {90: 1}, at=500)
    source.moved(random.Random(1))  # a transaction inside the window of the last chunk, in front of which no snapshot can end
    first = len(source.records)
    source.dumped(source.left, {91: 2}, at=1500)
    early = [*source.records[:first], marker("a", 500, begins=True, upto="[90]")]
    later = [*source.records[first:], marker("b", 1500, after="[90]", upto="[91]", final=True)]

    landed: list[str] = []
    if killed:
        sink.reached = killing({"snapshot_chosen"}, landed)
        sink.land(*early)
        with pytest.raises(Kill):
            sink.publish()
        sink.killed()
        sink.land(*later)
    else:

        def reached(step: str) -> None:
            if step == "snapshot_chosen" and not landed:
                landed.append(step)
                sink.land(*later)

        sink.reached = reached
        sink.land(*early)
    assert sink.publish()

    entry = as_of(sink.spark, state_path(sink)).tables["bank.left"]
    assert (entry.complete, entry.reason) == (False, NOT_YET)

    behind = len(source.records)
    source.moved(random.Random(2))
    sink.land(*source.records[behind:])
    assert sink.publish()
    newest = as_of(sink.spark, state_path(sink))
    assert newest.tables["bank.left"].complete
    assert {90, 91} <= {row["id"] for row in newest.frame("bank.left").collect()}

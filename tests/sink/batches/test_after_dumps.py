"""The outcome of a dump waits for a merge of what landed before it, and hurries that merge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dblog_sink.batches import schedule
from dblog_sink.batches.after_dumps import AfterDumps
from dblog_sink.batches.schedule import LandedBatch, Table
from dblog_sink.config.policy import Policy
from dblog_sink.reconcile.dump_chains import REPAIR, VERIFY, Dump

POLICY = Policy(trigger_s=2.0, rows_min=100, rows_max=500, age_max_s=60.0, patience=3.0)


class Merges:
    """The strategy that merges, as far as it decides what is due."""

    def __init__(self, tables: dict[str, Table]) -> None:
        self.tables = tables

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[Any]:
        return schedule.due(self.tables.values(), POLICY, now_s=now_s, everything=everything)[:slots]


def dump(topic: str, *, mode: str) -> Dump:
    return Dump(topic=topic, dump="d1", table=topic, low=(1, 0), ts_ms=0, upto=(9, 0), mode=mode)


def test_a_whole_dump_makes_the_merge_due_for_which_it_waits_and_no_later_one() -> None:
    for mode in (VERIFY, REPAIR):
        dear = Table("dear", rows=1000, waiting=[LandedBatch(7, 5, 100.0)], written=True)
        dear.cost.observe(10, 20.0)
        other = Table("other", rows=1000, waiting=[LandedBatch(7, 5, 100.0)], written=True)
        other.cost.observe(10, 20.0)
        tables = {"dear": dear, "other": other}
        whole = {("dear", "d1"): dump("dear", mode=mode)}
        arrivals = SimpleNamespace(
            whole=whole if mode == REPAIR else {}, verifications=SimpleNamespace(whole=whole if mode == VERIFY else {})
        )
        parts = SimpleNamespace(book=SimpleNamespace(table=tables.__getitem__))
        after = AfterDumps(Merges(tables), parts, arrivals)  # type: ignore[arg-type]  what of them it needs

        def due() -> list[Any]:
            return after.due(slots=2, now_s=100.0, everything=False)  # noqa: B023  called in this round

        assert due() == [schedule.Due("dear", 7, 5)]

        dear.waiting = [LandedBatch(8, 5, 100.0)]
        (job,) = due()
        assert job is not None
        assert dear.busy, "what came after the dump's end is not waited for: its outcome is decided"
        assert not isinstance(job, schedule.Due)

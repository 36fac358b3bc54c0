"""What the sink reports of itself: shape, bounds, and that nothing waits for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from dblog_sink.errors import TransientError
from dblog_sink.job.reporting import Reporting
from dblog_sink.observe.report import Record, Report, TableNow

SCHEMAS = {
    name: fastavro.parse_schema(json.loads((Path(__file__).parents[3] / "schemas" / f"{name}.avsc").read_text()))
    for name in ("sink_key", "sink", "sink_table")
}
WRITTEN = {
    "records": 3,
    "upserts": 2,
    "deletes": 1,
    "bad": 1,
    "path": "merge",
    "rows": 40,
    "changes": [],
    "source_ts_ms": 5,
    "source_lag_s": 1.5,
}
VERDICT = {"equal": 7, "differing": 1, "missing": 0, "invented": 0, "changed": 2}


def report(**more: Any) -> Report:
    given = {"name": "shop", "state_path": "/lake/_dblog", "lake": "/lake", "topics": r"shop\..*", "program": "1", "interval_s": 10.0}
    return Report(**given | {"began_s": 1.0} | more)


def table(number: int = 1, **more: Any) -> TableNow:
    return TableNow(**{"topic": f"p.shop.t{number}", "name": f"shop.t{number}", "path": f"/lake/shop/t{number}", "mode": "auto"} | more)


def batch(made: Report, *numbers: int, now_s: float = 2.0, **more: Any) -> None:
    made.take("batch", {"batch_id": 9, "tables": {f"shop.t{one}": WRITTEN | more for one in numbers}}, now_s=now_s)


def due(made: Report, *tables: TableNow, limit: int = 200, now_s: float = 3.0) -> list[Record]:
    return made.due(tables, snapshot_before=None, now_s=now_s, limit=limit)


def values(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [json.loads(one.value) for one in records]


def test_every_record_has_exactly_the_fields_that_its_schema_declares() -> None:
    made = report()
    made.take("started", {"name": "shop", "version": "1", "checkpoint": "/c"}, now_s=2.0)
    batch(made, 1)
    made.take("verified", {"table": "shop.t1", "result": "differing", "why": "", **VERDICT}, now_s=2.5)
    made.take("snapshot", {"number": 3, "source_ts_ms": 4, "tables": 2, "incomplete": ["shop.t2"]}, now_s=2.5)
    made.take("incomplete", {"transaction": "u:1", "seconds": 2.0}, now_s=2.6)
    made.take("behind", {"records_behind": 5, "rows_waiting": 6, "lag_s": 0.5, "batch_id": 9}, now_s=2.7)

    found = due(made, table(1, merged_up_to=8, busy=True), table(2, parked="its key changed", rows_waiting=3))

    for one, schema in zip(found, ("sink", "sink_table", "sink_table"), strict=True):
        value, key = json.loads(one.value), json.loads(one.key)
        assert fastavro.validate(value, SCHEMAS[schema], strict=True)
        assert fastavro.validate(key, SCHEMAS["sink_key"], strict=True)
    job, first, second = values(found)
    assert (job["state"], job["records_behind"], job["parked"], job["work"]) == ("running", 5, 1, ["shop.t1"])
    assert (job["snapshot"]["number"], job["snapshot"]["incomplete"], job["blocked"]["since_ms"]) == (3, 1, 600)
    assert (first["rows"], first["written_ms"], first["verified"]["result"], first["verified"]["differing"]) == (40, 2000, "differing", 1)
    assert (second["parked"], second["rows"], second["rows_waiting"]) == ("its key changed", None, 3)


def test_a_table_is_written_again_only_when_something_of_it_has_changed() -> None:
    made = report()
    batch(made, 1, 2)
    first = due(made, table(1), table(2))
    made.sent(first)

    batch(made, 2)

    assert [json.loads(one.key)["topic"] for one in due(made, table(1), table(2), now_s=90.0)] == [None, "p.shop.t2"]


def test_a_table_of_which_this_run_knows_nothing_keeps_the_record_of_the_run_before() -> None:
    assert len(due(report(), table(1))) == 1


def test_a_resumed_table_is_reported_even_if_nothing_was_written_since() -> None:
    """The command may be obeyed before the first report, and the record of the run before says that it is parked."""
    made = report()
    made.take("resumed", {"table": "shop.t1", "topic": "p.shop.t1"}, now_s=2.0)

    assert values(due(made, table(1)))[1]["parked"] is None


def test_of_many_tables_those_that_have_waited_longest_come_first_and_none_is_forgotten() -> None:
    made = report()
    tables = [table(number) for number in range(1000)]
    seen: set[str] = set()

    for _ in range(6):
        # The first tables change all the time.
        batch(made, *range(1000))
        found = due(made, *tables, limit=200)
        assert len(found) == 201
        made.sent(found)
        seen |= {json.loads(one.key)["topic"] for one in found[1:]}

    assert len(seen) == 1000


def test_a_record_is_small_and_has_no_login_and_no_secret() -> None:
    made = report(lake="s3a://user:pass@lake/x", hide=lambda text: text.replace("hunter2", "[hidden]"))
    made.take("failed", {"reason": f"no access with hunter2 {'x' * 10_000}"}, now_s=2.0)

    found = due(made, table(1, parked="é" * 10_000, path="s3a://user:pass@lake/x/t"))

    assert all(len(one.value.encode()) < 4096 for one in found)
    assert "hunter2" not in found[0].value
    assert not any("pass" in one.value for one in found)


class _Topic:
    """A topic whose broker answers as the test says."""

    topic = "__dblog-sinks"

    def __init__(self, answer: Callable[[int], None] = lambda _call: None) -> None:
        self.written: list[list[tuple[str, str]]] = []
        self.calls = 0
        self._answer = answer
        self._moved = threading.Condition()

    def write(self, records: Sequence[tuple[str, str]]) -> list[bool]:
        with self._moved:
            self.calls += 1
            self._moved.notify_all()
        self._answer(self.calls)
        self.written.append(list(records))
        return [True] * len(records)

    def close(self) -> None:
        """Nothing is open."""

    def wait(self, calls: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: self.calls >= calls, 60.0)


def test_a_report_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(call: int) -> None:
        if call <= 2:
            raise TransientError("TimeoutException: Topic __dblog-sinks not present in metadata")

    topic = _Topic(refuse)
    caplog.set_level("INFO")
    reporting = Reporting(report(), lambda: topic, interval_s=0.01)
    reporting.start()

    topic.wait(4)
    reporting.close(60.0)

    said = [one.getMessage() for one in caplog.records]
    assert len([one for one in said if "cannot report to topic __dblog-sinks (TimeoutException" in one]) == 1
    assert said[-1] == "the sink reports to topic __dblog-sinks again"


def test_the_end_of_the_job_is_reported() -> None:
    topic, made = _Topic(), report()
    reporting = Reporting(made, lambda: topic, interval_s=3600.0)
    reporting.start()
    topic.wait(1)

    made.take("stopped", {"batches": 1}, now_s=5.0)
    reporting.close(60.0)

    assert json.loads(topic.written[-1][0][1])["state"] == "stopped"


def test_a_broker_that_does_not_answer_holds_up_neither_a_progress_line_nor_the_end_of_the_job() -> None:
    answers = threading.Event()
    topic, made = _Topic(lambda _call: answers.wait(60.0) and None), report()
    reporting = Reporting(made, lambda: topic, interval_s=0.01)
    reporting.start()
    topic.wait(1)

    batch(made, 1)
    reporting.close(0.01)

    assert not topic.written, "the broker had answered"
    answers.set()

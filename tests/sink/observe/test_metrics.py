"""The job's lines as numbers for Prometheus: served over HTTP, counted once, and with a name for every kind of line."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.job.start import observers_of
from dblog_sink.observe.metrics import Metrics
from dblog_sink.observe.progress import Progress
from dblog_sink.tables.modes.work import Applied
from prometheus_client.parser import text_string_to_metric_families
from stack.process import free_port

REQUIRED = {"kafka.bootstrap.servers": "b:9092", "registry.url": "http://r", "target.path": "/lake", "topics": "a.b.c"}


def metrics_of_a_run(tmp_path: Path) -> Metrics:
    """A batch of two tables, a merge, and what else a job reports while it runs."""
    metrics = Metrics(version="1", now_s=lambda: 1_700_000_010.0)
    progress = Progress(tmp_path / "p.jsonl", listener=metrics.take, now_s=lambda: 1_700_000_010.0)
    progress.emit("started", name="n", version="1", checkpoint="c")
    written = Applied(
        table="shop.a",
        topic="t.shop.a",
        records=5,
        upserts=3,
        deletes=1,
        bad=1,
        path="merge",
        rows=40,
        seconds=0.5,
        source_ts_ms=1_700_000_008_000,
    )
    landed = Applied(table="shop.b", topic="t.shop.b", records=7, path="land")
    progress.batch(0, [written, landed], seconds=1.5, records=12, resent=2, phases={"read": 0.5, "write": 1.0})
    progress.merge(Applied(table="shop.b", topic="t.shop.b", records=7, upserts=7, path="append", rows=7, seconds=0.2), sequence=0)
    progress.emit("behind", batch_id=0, records_behind=11, rows_waiting=7, lag_s=4.5)
    progress.emit("parked", table="shop.a", topic="t.shop.a", reason="r")
    progress.emit("vacuum", table="shop.a", seconds=0.1, files=3)
    progress.emit("data_loss", topic="t.shop.c", reason="r")
    progress.emit("chunks", table="shop.a", topic="t.shop.a", complete=4, rows=400)
    for result in ("short", "late", "unproven"):
        progress.emit("chunk", table="shop.a", topic="t.shop.a", result=result, missing=3)
    for result, rows in (("waits", 0), ("removed", 7), ("kept", 0)):
        progress.emit("ghosts", table="shop.a", topic="t.shop.a", result=result, rows=rows)
    counts = {"equal": 5, "differing": 1, "missing": 2, "invented": 3, "changed": 4}
    progress.count("verified_before", table="shop.b", at_s=1_700_000_001.0, **dict.fromkeys(counts, 0) | {"equal": 9})
    for result in ("waits", "differing", "unknown"):
        progress.emit("verified", table="shop.a", result=result, **(counts if result == "differing" else dict.fromkeys(counts, 0)))
    progress.emit("snapshot", number=4, source_ts_ms=1_700_000_007_000, seconds=2.5)
    progress.emit("incomplete", transaction="0-1-5", seconds=300.0)
    progress.emit("restarting", reason="r", attempt=1, pause_s=1)
    progress.count("batch_failed")
    progress.count("batch_ended")
    progress.count("batch_failed")
    for _ in range(2):
        progress.count("error", of="kafka")
    progress.count("registry", result="away")
    progress.count("conflict", table="shop.a")
    return metrics


def numbers(text: str) -> dict[tuple[str, str], float]:
    """Samples by name and label values, in the order of the labels' names."""
    return {
        (sample.name.removeprefix("dblog_sink_"), ",".join(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_line_becomes_a_number_and_is_served(tmp_path: Path) -> None:
    metrics = metrics_of_a_run(tmp_path)
    port = metrics.serve("127.0.0.1:0")

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found = numbers(answer.read().decode())

    expected = {
        ("build_info", "1"): 1,
        ("running", ""): 1,
        ("ends_by_itself", ""): 0,
        ("snapshot_number", ""): 4,
        ("snapshot_timestamp_seconds", ""): 1_700_000_007,
        ("snapshot_duration_seconds_sum", ""): 2.5,
        ("transaction_incomplete_seconds", ""): 300,
        ("restarts_total", ""): 1,
        ("batches_total", "committed"): 1,
        ("batches_total", "failed"): 2,
        ("batch_failures_in_a_row", ""): 1,
        ("last_batch_timestamp_seconds", ""): 1_700_000_010,
        ("batch_phase_duration_seconds_sum", "read"): 0.5,
        ("batch_phase_duration_seconds_sum", "write"): 1.0,
        ("errors_total", "kafka"): 2,
        ("errors_total", "other"): 0,
        ("registry_requests_total", "away"): 1,
        ("registry_requests_total", "ok"): 0,
        ("commit_conflicts_total", "shop.a"): 1,
        ("commit_conflicts_total", "shop.b"): 0,
        ("lag_seconds", ""): 4.5,
        ("batch_duration_seconds_sum", ""): 1.5,
        ("records_total", "shop.a"): 5,
        ("records_total", "shop.b"): 7,
        ("duplicates_dropped_total", ""): 2,
        ("records_landed_total", "shop.b"): 7,
        ("rows_total", "upsert,shop.a"): 3,
        ("rows_total", "delete,shop.a"): 1,
        ("rows_total", "upsert,shop.b"): 7,
        ("quarantined_total", "shop.a"): 1,
        ("writes_total", "merge,shop.a"): 1,
        ("writes_total", "append,shop.b"): 1,
        ("write_duration_seconds_count", "shop.b"): 1,
        ("table_rows", "shop.a"): 40,
        ("table_files", "shop.a"): 3,
        ("visible_timestamp_seconds", "shop.a"): 1_700_000_008,
        ("source_lag_seconds", "shop.a"): 2,
        ("records_behind", ""): 11,
        ("rows_waiting", ""): 7,
        ("table_parked", "shop.a"): 1,
        ("data_losses_total", "t.shop.c"): 1,
        ("chunks_total", "complete,shop.a"): 4,
        ("chunks_total", "short,shop.a"): 1,
        ("chunks_total", "unproven,shop.a"): 1,
        ("chunks_total", "short,shop.b"): 0,
        ("chunk_rows_missing_total", "shop.a"): 3,
        ("ghosts_removed_total", "shop.a"): 7,
        ("verify_dumps_total", "differing,shop.a"): 1,
        ("verify_dumps_total", "unknown,shop.a"): 1,
        ("verify_dumps_total", "equal,shop.a"): 0,
        ("verified_rows", "invented,shop.a"): 3,
        ("verified_rows", "equal,shop.b"): 9,
        ("verified_timestamp_seconds", "shop.b"): 1_700_000_001,
        ("ghosts_removed_total", "shop.b"): 0,
        ("repair_dumps_total", "removed,shop.a"): 1,
        ("repair_dumps_total", "kept,shop.a"): 1,
        ("repair_dumps_total", "kept,shop.b"): 0,
    }
    assert {name: found.get(name) for name in expected} == expected


def test_the_lag_goes_on_rising_when_no_report_comes() -> None:
    now_s = [1000.0]
    metrics = Metrics(version="1", now_s=lambda: now_s[0])
    progress = Progress(None, listener=metrics.take)
    lags = []
    for at_s, lag_s in ((1000.0, None), (1060.0, None), (1060.0, 2.0), (1660.0, None)):
        now_s[0] = at_s
        if lag_s is not None:
            progress.emit("behind", batch_id=0, records_behind=1, rows_waiting=0, lag_s=lag_s)
        lags.append(metrics.registry.get_sample_value("dblog_sink_lag_seconds"))

    assert lags == [0.0, 60.0, 2.0, 602.0]


@pytest.mark.parametrize("once", [False, True])
def test_a_job_that_ends_by_itself_says_so_that_its_end_is_no_alarm(once: bool) -> None:
    address = f"127.0.0.1:{free_port()}"
    observers_of(job_options.parse({**REQUIRED, "metrics.listen": address, "trigger.once": str(once)}))

    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        assert numbers(answer.read().decode())["ends_by_itself", ""] == once


def test_a_table_s_first_chunk_brings_the_results_that_it_has_not() -> None:
    metrics = Metrics(version="1")
    Progress(None, listener=metrics.take).emit("chunk", table="a", topic="a", result="short", missing=3)

    found = {
        result: metrics.registry.get_sample_value("dblog_sink_chunks_total", {"table": "a", "result": result})
        for result in ("short", "late")
    }
    assert found == {"short": 1, "late": 0}


def test_landed_rows_are_not_counted_as_written_before_they_are(tmp_path: Path) -> None:
    metrics = Metrics(version="1")
    Progress(None, listener=metrics.take).batch(
        0, [Applied(table="a", topic="a", records=7, path="land")], seconds=1.0, records=7, resent=0
    )

    assert metrics.registry.get_sample_value("dblog_sink_writes_total", {"table": "a", "path": "land"}) is None
    assert metrics.registry.get_sample_value("dblog_sink_records_landed_total", {"table": "a"}) == 7


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(DefiniteError, match=f"metrics.listen={listen} cannot be opened"):
            Metrics(version="1").serve(listen)

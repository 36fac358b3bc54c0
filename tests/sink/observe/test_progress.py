"""What a person at the screen sees of a job."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from dblog_sink.observe.progress import Progress


def test_the_log_shows_that_the_job_runs_and_does_not_repeat_itself(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [100.0]
    progress = Progress(None, now_s=lambda: now_s[0])
    caplog.set_level(logging.INFO)

    progress.emit("started", name="shop", version="1", checkpoint="/lake/c")
    for seconds in (0, 2, 29, 31):
        now_s[0] = 100.0 + seconds
        progress.emit("behind", batch_id=1, records_behind=7, rows_waiting=3)
    for seconds in (33, 90):
        now_s[0] = 100.0 + seconds
        progress.emit("idle", batch_id=2, records_behind=0, rows_waiting=0)

    assert [one.getMessage() for one in caplog.records] == [
        "shop started; checkpoint /lake/c. Waiting for records",
        "7 records wait in Kafka, 3 in the landing table",
        "7 records wait in Kafka, 3 in the landing table",
        "up to date with Kafka after batch 2; waiting for records",
    ]


def test_a_progress_file_that_has_grown_is_put_aside_and_another_one_begun(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    progress = Progress(file, bytes_max=200)

    for number in range(20):
        progress.emit("vacuum", table=f"t{number}", seconds=1)

    files = [file.with_name(f"{file.name}.1"), file]
    assert sorted(tmp_path.iterdir()) == sorted(one for one in files if one.exists())
    kept = [json.loads(line)["table"] for one in files if one.exists() for line in one.read_text().splitlines()]
    assert kept == [f"t{number}" for number in range(20 - len(kept), 20)]
    assert all(one.stat().st_size < 300 for one in files if one.exists())


def test_a_progress_file_that_cannot_be_put_aside_grows_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    in_the_way, link = tmp_path / "progress.jsonl", tmp_path / "link"
    (tmp_path / "progress.jsonl.1" / "something").mkdir(parents=True)
    link.symlink_to(tmp_path / "linked")

    for file in (in_the_way, link):
        caplog.clear()
        progress = Progress(file, bytes_max=200)
        for number in range(20):
            progress.emit("vacuum", table=f"t{number}", seconds=1)

        assert len(file.read_text().splitlines()) == 20
        (message,) = [one.getMessage() for one in caplog.records]
        assert message.startswith(f"{file} has 2")
        assert "cannot be renamed" in message

    (tmp_path / "progress.jsonl.1" / "something").rmdir()
    progress = Progress(in_the_way, bytes_max=200)
    progress.emit("idle", batch_id=1)
    (tmp_path / "progress.jsonl.1").rmdir()
    for number in range(9):
        progress.emit("vacuum", table=f"t{number}", seconds=1)
    assert in_the_way.stat().st_size < 300, "it is tried again"


def test_progress_goes_to_a_pipe() -> None:
    reading, writing = os.pipe()
    progress = Progress(Path(f"/dev/fd/{writing}"), bytes_max=10)

    for number in range(3):
        progress.emit("vacuum", table=f"t{number}", seconds=1)

    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        assert [json.loads(line)["table"] for line in lines] == ["t0", "t1", "t2"]

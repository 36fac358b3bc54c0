"""``dblog dumps``: the commands against a worker that runs."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dblog.cli import app
from support.dummy_dumps import DONE
from support.worker import Worker, until
from typer.testing import CliRunner


@pytest.fixture
def running(worker: Worker, name: str) -> str:
    """A connector whose task runs, and whose first dump has done three of its ten tables."""
    worker.create(name, dummy_initial="3").raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")
    return name


def dumps(worker, *arguments):
    return CliRunner().invoke(app, ["dumps", *arguments, "--url", worker.url])


def done(worker, *arguments):
    ended = dumps(worker, *arguments)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def detail(worker, name, dump):
    return worker.client.get(f"/connectors/{name}/dumps/{dump}").json()


def test_a_dump_is_started_listed_shown_changed_paused_resumed_and_stopped(worker, running):
    options = [
        "--where",
        "a = 1",
        "--chunk-rows",
        "100",
        "--delay-ms",
        "5",
        "--parallelism",
        "2",
        "--priority",
        "3",
        "--order",
        "size",
        "--paused",
    ]
    started = done(worker, "start", running, r"shop\.orders", r"shop\.items", *options)

    dump = started.split()[1]
    assert started == f"dump {dump} of {running}: 2 tables\n"
    assert {
        name: detail(worker, running, dump)[name]
        for name in ("tables", "predicate", "chunk_rows", "delay_ms", "parallelism", "priority", "order", "wanted", "mode")
    } == {
        "tables": [r"shop\.orders", r"shop\.items"],
        "predicate": {r"shop\.orders": "a = 1", r"shop\.items": "a = 1"},
        "chunk_rows": 100,
        "delay_ms": 5,
        "parallelism": 2,
        "priority": 3,
        "order": "size",
        "wanted": "PAUSED",
        "mode": "rows",
    }
    listed = done(worker, "list", running).splitlines()
    assert [line.split()[0] for line in listed] == ["ID", "initial", dump]
    assert [each["id"] for each in json.loads(done(worker, "list", running, "--json"))] == ["initial", dump]
    assert f"dump {dump} of {running} (rows): " in done(worker, "show", running, dump)
    assert json.loads(done(worker, "show", running, dump, "--json"))["id"] == dump
    assert "the connector's own dump" in done(worker, "show", running, "initial")
    done(worker, "set", running, dump, "--chunk-rows", "auto", "--parallelism", "4")
    assert (detail(worker, running, dump)["chunk_rows"], detail(worker, running, dump)["parallelism"]) == (None, 4)
    done(worker, "resume", running, dump)
    done(worker, "pause", running, dump, "--table", "shop.orders")
    assert (detail(worker, running, dump)["wanted"], detail(worker, running, dump)["tables_wanted"]) == (
        "RUNNING",
        {"shop.orders": "PAUSED"},
    )
    done(worker, "pause", running, dump)
    assert detail(worker, running, dump)["wanted"] == "PAUSED"
    done(worker, "stop", running, dump)
    until(lambda: detail(worker, running, dump)["status"]["state"] == "STOPPED")


def test_keys_and_columns_are_given_by_repeated_options(worker, running):
    keys = json.loads(done(worker, "start", running, r"shop\.orders", "--key", "17", "--key", "18", "--json"))
    columns = json.loads(done(worker, "start", running, r"shop\..*", "--mode", "columns", "--column", "a", "--column", "b", "--json"))
    by = done(worker, "start", running, r"shop\.orders", "--surrogate-key", "at").split()[1]
    composite = dumps(worker, "start", running, r"shop\.orders", "--key", '["a", 3]')

    assert (keys["keys"], columns["columns"]) == ([[17], [18]], ["a", "b"])
    assert "surrogate_key: at" in done(worker, "show", running, by)
    assert (composite.exit_code, "the key of shop.orders is an INT" in composite.stderr) == (1, True)


def test_what_the_worker_refuses_is_printed_and_is_an_error(worker, running):
    for arguments, code, reason in (
        (["start", running, "other.table"], 1, "no captured table matches; see table.include.list"),
        (["start", running, "shop.orders", "--chunk-rows", "0"], 1, "chunk_rows: it must be a whole number from 1"),
        (["start", running, "shop.orders", "--chunk-rows", "many"], 2, "a number of rows is expected, or auto"),
        (["start", "nobody", "shop.orders"], 1, "Connector nobody not found"),
        (["show", running, "d0"], 1, "has no dump d0"),
        (["watch", running, "d0"], 1, "has no dump d0"),
        (["set", running, "d0"], 1, "has no dump d0"),
        (["pause", running, "initial"], 1, "is the connector's own"),
    ):
        ended = dumps(worker, *arguments)
        assert (ended.exit_code, reason in " ".join(ended.stderr.split()).replace("│ ", "")) == (code, True), (arguments, ended.stderr)


def test_a_worker_that_is_not_there_and_a_connector_without_dumps_are_reported(worker, name):
    worker.create(name).raise_for_status()
    worker.wait_for(name, "RUNNING", "RUNNING")

    without = dumps(worker, "watch", name)
    away = CliRunner().invoke(app, ["dumps", "list", name, "--url", "http://127.0.0.1:9"])

    assert (without.exit_code, without.stderr) == (1, f"the connector {name} has no dump; dblog dumps start {name} TABLE requests one\n")
    assert (away.exit_code, "no worker answers at http://127.0.0.1:9" in away.stderr) == (1, True)


def watching(worker, *arguments, **streams):
    command = [sys.executable, "-m", "dblog", "dumps", *arguments, "--every", "0.05", "--url", worker.url]
    return subprocess.Popen(command, env={**os.environ, "COLUMNS": "150", "LINES": "20"}, **streams)


def test_without_a_terminal_a_dump_is_followed_line_by_line_to_its_end(worker, running, own_folder: Path):
    out = own_folder / "watched"
    with out.open("w") as file:
        process = watching(worker, "start", running, r"shop\.orders", "--watch", stdout=file)
    until(
        lambda: "RUNNING; 5 %, 1 000 of about 20 000 rows, 9.77 KiB, 0 of 1 tables, 5 000 rows/s, 4 s left" in out.read_text(),
        what=out.read_text,
    )
    dump = out.read_text().split()[1]
    with watching(worker, "watch", running, dump, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as interrupted:
        assert f"dump {dump} of {running}".encode() in interrupted.stdout.readline()
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(30) == 130
        assert interrupted.stderr.read().decode() == f"the dump goes on: dblog dumps watch {running} {dump}\n"

    worker.client.patch(f"/connectors/{running}/dumps/{dump}", json={"delay_ms": DONE}).raise_for_status()

    assert process.wait(30) == 0
    assert out.read_text().splitlines()[-1].endswith("(rows): DONE; 100 %, 2 000 rows, 19.5 KiB, 1 of 1 tables")
    assert "\x1b" not in out.read_text()


def test_on_a_terminal_the_first_dump_is_followed_with_a_bar(worker, running):
    own, terminal = pty.openpty()
    process = watching(worker, "watch", running, stdout=terminal)
    os.close(terminal)

    seen = read_until(own, b"3 of 10 tables")
    assert b"the connector's own dump of " in seen
    assert b"[#######.................] 30 %, 300 of about 1 000 rows" in seen
    read_until(own, b"\x1b[2A")
    worker.gone(running)
    read_until(own, None)
    assert process.wait(30) == 1, "nobody knows the dump any more"
    os.close(own)


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """What a program writes to its terminal until this has come; None: until it has ended."""
    deadline_s, seen = time.monotonic() + 30, b""
    while wanted is None or wanted not in seen:
        assert time.monotonic() < deadline_s, seen[-2000:]
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other end of the terminal is closed
            assert wanted is None, seen[-2000:]
            return seen
    return seen

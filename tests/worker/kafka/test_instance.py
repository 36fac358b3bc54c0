"""What a file shows of a worker's earlier runs, and what it does not: a claim of a run that may still be there is waited for. # I7"""

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from dblog.__main__ import _die_with_parent
from dblog.kafka import instance
from dblog.kafka.instance import take_instance
from structlog.testing import capture_logs

HOLDS = """
import sys
from pathlib import Path
from dblog.kafka.instance import take_instance
taken = take_instance("brokers", "group", "http://here", directory=Path(sys.argv[1]))
print(taken and f"{taken.id} {taken.run} {sorted(taken.ended)}", flush=True)
sys.stdin.read()
"""


class Run:
    """A process that holds the lock, if it gets it."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        words = self.process.stdout.readline().split()
        self.id, self.run = words[:2] if len(words) > 1 else (None, None)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def killed(tmp_path):
    """A run that has been killed."""
    run = Run(tmp_path)
    run.kill()
    return run


def take(folder):
    return take_instance("brokers", "group", "http://here", directory=folder)


def the_file(folder):
    (path,) = folder.iterdir()
    return path


def test_a_run_is_known_to_have_ended_once_its_process_has(tmp_path):
    first = Run(tmp_path)
    assert first.run is not None
    assert take(tmp_path) is None, "it runs"
    first.kill()

    second = Run(tmp_path)
    second.kill()
    third = take(tmp_path)

    assert third is not None
    assert third.ended == {first.run, second.run}
    assert third.id == first.id == second.id
    assert third.run not in third.ended


def test_a_worker_that_is_not_known_over_its_runs_says_why(tmp_path):
    run = Run(tmp_path)
    with capture_logs() as lines:
        assert take(tmp_path) is None
    run.kill()

    assert [line["reason"] for line in lines] == ["another process of the same worker holds it"]


def test_a_task_does_not_begin_where_it_could_outlive_its_worker(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(prctl=lambda *_: -1))

    with pytest.raises(SystemExit, match="prctl.*seccomp"):
        _die_with_parent()


def test_a_stopped_process_has_not_ended(tmp_path):
    first = Run(tmp_path)
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        assert take(tmp_path) is None
    finally:
        first.kill()


def test_other_names_are_another_worker(tmp_path, killed):
    other = take_instance("brokers", "group", "http://there", directory=tmp_path)

    assert other is not None
    assert (other.ended, other.id == killed.id) == (frozenset(), False)


def copied(path):
    kept = path.with_name("kept")
    shutil.copy(path, kept)
    kept.rename(path)  # another file of the same name and content


def torn(path):
    path.write_text(path.read_text()[:-5])


@pytest.mark.parametrize("happens", [copied, torn, lambda path: path.write_text('{"id": 1}'), lambda path: path.write_bytes(b"\xff\x00")])
def test_of_a_file_that_is_not_the_last_run_s_nothing_is_believed(tmp_path, killed, happens):
    happens(the_file(tmp_path))

    taken = take(tmp_path)

    assert taken is not None
    assert taken.ended == frozenset()
    assert taken.id != killed.id, "the worker that it was copied from may be a member"


def test_behind_a_boot_nothing_is_believed(tmp_path, killed, monkeypatch):
    boot = tmp_path.with_suffix(".boot")
    boot.write_text("another")
    monkeypatch.setattr(instance, "_BOOT", boot)

    taken = take(tmp_path)

    assert taken is not None
    assert (taken.ended, taken.id == killed.id) == (frozenset(), False)


def linked(path):
    os.link(path, path.with_name("second"))


def pointed(path):
    path.rename(path.with_name("first"))
    path.symlink_to(path.with_name("first"))


@pytest.mark.parametrize("happens", [linked, pointed, lambda path: (path.unlink(), path.mkdir())])
def test_a_file_that_others_may_reach_is_not_taken(tmp_path, killed, happens):
    happens(the_file(tmp_path))

    assert take(tmp_path) is None


@pytest.mark.usefixtures("killed")
def test_where_there_is_no_boot_or_no_directory_nothing_is_shown(tmp_path, monkeypatch):
    assert take(tmp_path / "missing") is None
    monkeypatch.setattr(instance, "_BOOT", tmp_path / "no boot")
    assert take(tmp_path) is None


@pytest.mark.usefixtures("killed")
def test_a_worker_that_is_started_ten_thousand_times_has_a_small_file(tmp_path):
    path = the_file(tmp_path)
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "runs": [f"{n:032x}" for n in range(1_000)]}))

    assert take(tmp_path) is not None

    assert path.stat().st_size < 2_000


def test_without_a_directory_for_temporary_files_nothing_is_shown_and_the_worker_starts(monkeypatch):
    def missing():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(instance.tempfile, "gettempdir", missing)

    assert take_instance("brokers", "group", "http://here") is None

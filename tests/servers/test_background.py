"""Servers in the background when two commands come at once: neither destroys what the other has written."""

import fcntl
import subprocess

import pytest
from stack.background import BackgroundServers
from stack.errors import StackError


@pytest.fixture
def other(tmp_path):
    """Another command's lock on these servers."""
    with (tmp_path / "servers.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def test_of_two_starts_at_once_one_is_refused_and_the_others_files_stay(tmp_path, other, monkeypatch):
    other.write("4711")
    other.flush()
    (tmp_path / "servers.json").write_text("the other's")
    monkeypatch.setattr(BackgroundServers, "running", False)  # as it was when the second one looked

    with pytest.raises(StackError, match="make servers-stop"):
        BackgroundServers(tmp_path).start(["kafka"])
    assert (tmp_path / "servers.lock").read_text() == "4711"
    assert (tmp_path / "servers.json").read_text() == "the other's"


def test_a_stop_that_meets_a_start_without_a_process_names_the_way_out(tmp_path, other):
    with pytest.raises(StackError, match=r"try again in a moment: make servers-stop"):
        BackgroundServers(tmp_path).stop()


def test_a_stop_ends_no_process_that_does_not_hold_the_lock(tmp_path, other):
    with subprocess.Popen(["sleep", "1000"]) as stranger:  # a number of before, or of another container
        other.write(str(stranger.pid))
        other.flush()

        with pytest.raises(StackError, match=f"{stranger.pid} is none of these servers"):
            BackgroundServers(tmp_path).stop()

        assert stranger.poll() is None
        stranger.kill()

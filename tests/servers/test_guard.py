"""A guarded program ends when it is asked to, and with its parent, however the parent ends; so does what the program started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import stack
from stack import GuardedProcess, StackError, process
from stack.process import wait_until
from support.worker import alive

_LONG = [sys.executable, "-c", "import signal; signal.pause()"]
_STUBBORN = [sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); signal.pause()"]
_WITH_CHILD = [
    sys.executable,
    "-c",
    "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True); print(child.pid, flush=True); child.wait()",
]
_ELSEWHERE = """\
import os, runpy, sys
del os.pidfd_open
sys.platform = "darwin"
runpy.run_path(r"{guard}", run_name="__main__")
"""
"""The guard as on a system that has neither pidfds nor signals of a parent's death."""
_PARENT = """\
import os, signal, sys
from pathlib import Path
from stack import GuardedProcess, process as module
module.GUARD = Path(sys.argv[2])
line, after = [sys.executable, "-c", "import signal; signal.pause()"], ["touch", sys.argv[1] + ".ended"]
process = GuardedProcess("sleeper", line, log=Path(sys.argv[1]), afterwards=after)
process.start()
print(process.pid, flush=True)
signal.pause()
"""


@pytest.fixture(params=["here", "elsewhere"])
def guard(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The guard, as on Linux and as it is where it has fewer means."""
    if request.param == "elsewhere":
        program = tmp_path / "guard.py"
        program.write_text(_ELSEWHERE.format(guard=process.GUARD))
        monkeypatch.setattr(process, "GUARD", program)
    return process.GUARD


def test_stop_asks_the_program_and_gives_its_status(guard: Path, tmp_path: Path):
    with GuardedProcess("long", _LONG, log=tmp_path / "log") as process:
        assert process.pid is not None
        assert alive(process.pid)

        status = process.stop()

    assert status == 128 + signal.SIGTERM
    assert not alive(process.pid)


def test_a_program_that_ignores_the_request_is_killed_after_its_grace(guard: Path, tmp_path: Path):
    log = tmp_path / "log"
    process = GuardedProcess("stubborn", _STUBBORN, log=log, grace_s=0.2, ready=lambda: log.read_text() == "on\n")
    process.start()

    assert process.stop() == 128 + signal.SIGKILL


def test_a_killed_program_can_be_started_again(guard: Path, tmp_path: Path):
    with GuardedProcess("long", _LONG, log=tmp_path / "log") as process:
        first = process.pid

        process.kill()
        assert not process.running
        process.start()

        assert process.running
        assert process.pid != first


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_parent_that_ends_takes_the_program_along(how: signal.Signals, guard: Path, tmp_path: Path):
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path / "log"), str(guard)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(stack.__file__).parents[1])},
    )
    with parent:
        assert parent.stdout is not None
        program = int(parent.stdout.readline())
        assert alive(program)

        parent.send_signal(how)

    wait_until(lambda: not alive(program), timeout_s=20, what="the program to end with its parent")
    wait_until((tmp_path / "log.ended").exists, timeout_s=20, what="the command for afterwards")


def test_a_killed_guard_takes_the_program_along(tmp_path: Path):
    with GuardedProcess("long", _LONG, log=tmp_path / "log") as process:
        program = process.pid
        assert program is not None
        guard = int(Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])

        os.kill(guard, signal.SIGKILL)

        wait_until(lambda: not alive(program), timeout_s=20, what="the program to end with its guard")


@pytest.mark.parametrize("how", ["stop", "kill", "kill of the guard"])
def test_what_a_program_leaves_elsewhere_is_removed_before_its_end_is_reported(how: str, tmp_path: Path):
    left = tmp_path / "left"
    left.touch()
    with GuardedProcess("long", _LONG, log=tmp_path / "log", afterwards=["rm", str(left)]) as guarded:
        if how == "kill of the guard":
            os.kill(int(Path(f"/proc/{guarded.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        guarded.stop() if how == "stop" else guarded.kill()

        assert not left.exists()


def test_a_kill_reaches_no_other_process_that_got_the_number_of_an_ended_program(tmp_path: Path):
    go_on = tmp_path / "go on"
    waiting = ["sh", "-c", f"until [ -e '{go_on}' ]; do sleep 0.02; done"]
    with (
        subprocess.Popen(["sleep", "1000"]) as other,
        GuardedProcess("short", ["true"], log=tmp_path / "log", afterwards=waiting) as guarded,  # its guard goes on after its end
    ):
        own = guarded.pid
        wait_until(lambda: not alive(own), timeout_s=20, what="the program's end")
        guarded.pid = other.pid

        threading.Timer(0.3, go_on.touch).start()
        guarded.kill()

        is_alive = other.poll() is None
        other.kill()
    assert is_alive


def test_a_kill_while_a_start_waits_for_the_guard_ends_the_guard_and_not_the_program_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    silent = tmp_path / "silent.py"
    silent.write_text("import signal; signal.pause()\n")
    guarded = GuardedProcess("long", _LONG, log=tmp_path / "log")
    guarded.start()
    guarded.kill()
    monkeypatch.setattr(process, "GUARD", silent)
    threading.Timer(0.5, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        guarded.start()

    assert guarded.pid is None
    guarded.kill()
    assert not guarded.running


def test_what_the_program_left_behind_is_killed(tmp_path: Path):
    log = tmp_path / "log"
    with GuardedProcess("family", _WITH_CHILD, log=log, ready=lambda: log.read_text().endswith("\n")):
        left = int(log.read_text())

    wait_until(lambda: not alive(left), timeout_s=20, what="the orphan to end")


def test_a_program_that_ends_while_starting_is_an_error_with_its_last_words(tmp_path: Path):
    process = GuardedProcess(
        "short", [sys.executable, "-c", "print('no such table'); raise SystemExit(3)"], log=tmp_path / "log", ready=lambda: False
    )

    with pytest.raises(StackError, match=r"short ended while starting \(exit status 3\)[\s\S]*no such table"):
        process.start()


def test_a_program_that_is_never_ready_is_stopped(tmp_path: Path):
    process = GuardedProcess("slow", _LONG, log=tmp_path / "log", ready=lambda: False, ready_timeout_s=0.3)

    with pytest.raises(StackError, match=r"waited 0\.3 s for slow to be ready"):
        process.start()

    assert process.pid is not None
    assert not alive(process.pid)


def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path):
    with pytest.raises(StackError, match="/no/such/program: No such file"):
        GuardedProcess("nothing", ["/no/such/program"], log=tmp_path / "log").start()

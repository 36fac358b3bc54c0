"""The task's end of the control channel: the lease that it brings ends the process, whatever the process does. # I7"""

import json
import signal
import socket
import subprocess
import sys
import time

import pytest
from dblog.clock import lease_clock_s
from dblog.runtime.control import HERDER_GONE_EXIT_CODE

START_S = 4.0
"""A process that imports our modules is there by then, also on a busy machine."""

PROGRAM = """
import os, signal, sys, time
from dblog.runtime.control import Control
control = Control(int(sys.argv[1]))
control.take(None)
control.send({"type": "started"})
if sys.argv[2] == "paused":
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(3600) if sys.argv[2] == "asleep" else sum(range(1000))
"""


@pytest.fixture
def begin():
    begun = []

    def start(what, *messages):
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), what]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        begun.append((process, ours))
        for message in messages:
            send(ours, message)
        assert json.loads(ours.recv(1000)) == {"type": "started"}
        return process, ours

    yield start
    for process, ours in begun:
        process.kill()
        process.wait()
        ours.close()


def send(ours, message):
    ours.sendall(json.dumps(message).encode() + b"\n")


@pytest.mark.parametrize("what", ["asleep", "busy", "paused"])
def test_a_task_ends_with_its_lease(begin, what):
    until_s = lease_clock_s() + START_S
    process, _ = begin(what, {"type": "start", "lease_until_s": until_s})

    assert process.wait(20) == -signal.SIGKILL
    assert -0.01 <= lease_clock_s() - until_s < 5


def test_a_lease_that_is_renewed_ends_later_and_one_that_is_taken_back_at_once(begin):
    process, ours = begin("asleep", {"type": "start", "lease_until_s": lease_clock_s() + START_S})
    send(ours, {"type": "lease", "until_s": lease_clock_s() + 600})

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(START_S + 0.5)
    send(ours, {"type": "lease", "until_s": 0.0})
    assert process.wait(20) == -signal.SIGKILL


def test_a_task_that_came_up_behind_its_first_lease_runs_on_by_the_renewals_that_wait_for_it(begin):
    # A machine so busy that importing the modules takes longer than a lease.
    renewals = [{"type": "lease", "until_s": lease_clock_s() + left_s} for left_s in (-1, 600)]
    process, _ = begin("asleep", {"type": "start", "lease_until_s": lease_clock_s() - 2, "config": "x" * 100_000}, *renewals)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)


def test_a_task_whose_herder_is_gone_ends(begin):
    process, ours = begin("asleep", {"type": "start", "lease_until_s": lease_clock_s() + 600})
    assert process.poll() is None
    began_s = time.monotonic()

    ours.close()

    assert process.wait(20) == HERDER_GONE_EXIT_CODE
    assert time.monotonic() - began_s < 5


def test_a_task_that_can_no_longer_hear_its_herder_ends_with_the_reason():
    ours, theirs = socket.socketpair()
    without_timers = "import resource; resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))\n"
    command = [sys.executable, "-c", without_timers + PROGRAM, str(theirs.fileno()), "asleep"]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True) as process:
        send(ours, {"type": "start", "lease_until_s": lease_clock_s() + 600})
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()

    assert process.returncode == -signal.SIGABRT, "a signal: the herder starts the task again"
    assert "timer_create" in errors
    assert "this process ends with it" in errors

"""The tasks of a worker, whose processes are the test's."""

from itertools import count

import pytest
from dblog.cluster.decisions import Phase
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.processes import Died, TaskMessage
from dblog.cluster.records import State, Target, TaskId
from dblog.cluster.startorder import StartOrder
from support.held_herder import CONFIG, turn


class HeldProcesses:
    """A process table that starts nothing; a test chooses what its children report."""

    def __init__(self):
        self.runs = count(1)
        self.stopped = []

    def start(self, task, message, *, hide):
        return next(self.runs)

    def send(self, run, message):
        pass

    def stop(self, run, *, limit_s):
        self.stopped.append(run)


class PlainOrders:
    def build(self, task, config, target, *, generation):
        return StartOrder({}, str)


@pytest.fixture
def processes():
    return HeldProcesses()


@pytest.fixture
def tasks(herder, clock, processes):
    """Of a worker that leads, with the tasks a-0 and b-0, whose runs are 1 and 2."""
    turn(herder)
    made = LocalTasks(
        processes=processes,
        start_orders=PlainOrders(),
        offsets=herder.offsets,
        statuses=herder.statuses,
        status_writer=herder.status_writer,
        role=herder.role,
        loop=herder.loop,
        clock=clock,
        stop_limit_s=1.0,
        restart_max=-1,
        tracks_topics=True,
        warnings=herder.warnings,
    )
    for name in ("a", "b"):
        made.start(TaskId(name, 0), CONFIG, Target.STARTED)
        assert herder.loop.run_next(timeout_s=10.0), "its offsets are read in a thread of their own"
    return made


def test_a_trace_that_is_no_unicode_is_stored_with_its_bytes_as_numbers(herder, tasks):
    tasks.take_message(TaskMessage(1, {"type": "state", "state": "FAILED", "trace": b"b\xff".decode(errors="surrogateescape")}))
    herder.statuses.log.read_back()

    assert herder.statuses.task(TaskId("a", 0)).trace == "b\\udcff"


def test_a_message_that_cannot_be_handled_fails_its_task_and_no_other(herder, tasks, processes):
    tasks.take_message(TaskMessage(1, {"type": "metrics", "values": {"lag_ms": 10**400}}))
    tasks.take_message(TaskMessage(2, {"type": "state", "state": "RUNNING"}))
    herder.statuses.log.read_back()

    failed = herder.statuses.task(TaskId("a", 0))
    assert (failed.state, "could not be handled (OverflowError)" in failed.trace) == (State.FAILED, True)
    assert herder.statuses.task(TaskId("b", 0)).state is State.RUNNING
    assert processes.stopped == [1]


def test_a_task_that_is_killed_waits_and_starts_again(herder, clock, tasks):
    tasks.take_message(TaskMessage(1, {"type": "state", "state": "RUNNING"}))
    tasks.take_death(Died(run=1, exit_code=None, signal_number=9, last_output="", forced=False))
    herder.statuses.log.read_back()
    killed = tasks.get(TaskId("a", 0))
    assert (killed.phase, herder.statuses.task(TaskId("a", 0)).state) == (Phase.WAITING, State.RESTARTING)

    clock.at_s += 120
    herder.loop.run_due()
    while killed.phase is Phase.WAITING:
        assert herder.loop.run_next(timeout_s=10.0), "its offsets are read again"

    assert (killed.phase, killed.run) == (Phase.ALIVE, 3)


def test_a_worker_that_has_lost_its_lead_ends_its_tasks_and_starts_none(herder, clock, tasks, processes):
    tasks.take_death(Died(run=1, exit_code=None, signal_number=9, last_output="", forced=False))

    tasks.abandon()
    clock.at_s += 120
    herder.loop.run_due()
    tasks.take_death(Died(run=2, exit_code=None, signal_number=9, last_output="", forced=False))

    assert (tasks.all(), processes.stopped) == ([], [2])
    assert not herder.loop.run_next(timeout_s=0.0), "no offsets are read for a start"


def test_starts_after_the_first_one_are_counted_by_their_reason(herder, clock, tasks):
    task = TaskId("a", 0)
    tasks.take_death(Died(run=1, exit_code=None, signal_number=9, last_output="", forced=False))
    tasks.restart(TaskId("b", 0))
    tasks.take_death(Died(run=2, exit_code=0, signal_number=None, last_output="", forced=False))
    tasks.start(TaskId("b", 0), CONFIG, Target.STARTED)
    tasks.stop(task)
    tasks.start(task, CONFIG, Target.STARTED)

    assert dict(tasks.restarts) == {(task, "killed"): 1, (TaskId("b", 0), "requested"): 1, (task, "config"): 1}


def test_a_task_that_fails_is_counted_and_its_numbers_have_the_time_of_their_report(clock, tasks):
    tasks.take_message(TaskMessage(1, {"type": "metrics", "values": {"lag_ms": 5.0}}))
    tasks.take_message(TaskMessage(2, {"type": "state", "state": "FAILED", "trace": "why"}))

    assert tasks.get(TaskId("a", 0)).reported_s == clock.now_us() / 1_000_000
    assert tasks.get(TaskId("b", 0)).reported_s is None
    assert dict(tasks.failures) == {TaskId("b", 0): 1}

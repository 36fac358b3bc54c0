"""What a worker does next: every difference between wanted and actual, and the policy for processes that die."""

import itertools
import signal

import pytest
from dblog.cluster.decisions import (
    ConnectorActual,
    Fail,
    Phase,
    RetargetConnector,
    RetargetTask,
    StartAgain,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    TaskActual,
    WriteTasks,
    after_death,
    decide,
    is_stray,
    plan_restart,
)
from dblog.cluster.records import State, Status, Target, TaskId
from dblog.cluster.state import ConnectorView

CONFIG = {"connector.class": "X", "name": "a"}
TASK = {**CONFIG, "task.class": "XTask"}
A0 = TaskId("a", 0)


def view(*, config=None, target=Target.STARTED, tasks=(TASK,), consistent=True):
    return ConnectorView(name="a", config=config or CONFIG, target=target, tasks=tuple(tasks), consistent=consistent)


def make_tasks(wanted):
    return [{**wanted.config, "task.class": "XTask"}]


def connector(*, config=None, target=Target.STARTED, failed=False):
    return {"a": ConnectorActual(config=config or CONFIG, target=target, failed=failed)}


def task(*, config=None, target=Target.STARTED, phase=Phase.ALIVE):
    return {A0: TaskActual(config=config or TASK, target=target, phase=phase)}


@pytest.mark.parametrize(
    ("wanted", "connectors", "tasks", "commands"),
    [
        pytest.param({}, {}, {}, [], id="nothing"),
        pytest.param({"a": view(tasks=())}, {}, {}, [StartConnector("a")], id="new connector"),
        pytest.param({"a": view(tasks=())}, connector(), {}, [WriteTasks("a", (TASK,))], id="tasks to be made"),
        pytest.param({"a": view()}, connector(), {}, [StartTask(A0)], id="task to be started"),
        pytest.param({"a": view()}, {}, {}, [StartConnector("a"), StartTask(A0)], id="worker started again"),
        pytest.param({"a": view()}, connector(), task(), [], id="all well"),
        pytest.param(
            {"a": view(target=Target.PAUSED)},
            connector(),
            task(),
            [RetargetConnector("a", Target.PAUSED), RetargetTask(A0, Target.PAUSED)],
            id="pause",
        ),
        pytest.param({"a": view(target=Target.PAUSED)}, connector(target=Target.PAUSED), task(target=Target.PAUSED), [], id="paused"),
        pytest.param(
            {"a": view(target=Target.PAUSED)},
            connector(target=Target.PAUSED),
            task(phase=Phase.FAILED),
            [],
            id="a failed task stays failed when paused",
        ),
        pytest.param({"a": view()}, connector(), task(phase=Phase.FAILED), [], id="nothing restarts a failed task"),
        pytest.param({"a": view()}, connector(), task(phase=Phase.WAITING), [], id="a killed task has its own clock"),
        pytest.param(
            {"a": view(target=Target.STOPPED, tasks=())},
            connector(),
            task(),
            [RetargetConnector("a", Target.STOPPED), StopTask(A0)],
            id="stop",
        ),
        pytest.param(
            {"a": view(target=Target.STOPPED, tasks=())},
            connector(target=Target.STOPPED),
            task(phase=Phase.STOPPING),
            [],
            id="stopping is waited for",
        ),
        pytest.param({"a": view(config={"new": "1"})}, connector(), task(), [StartConnector("a")], id="new configuration"),
        pytest.param(
            {"a": view(config={"new": "1"})},
            connector(config={"new": "1"}),
            task(),
            [WriteTasks("a", ({"new": "1", "task.class": "XTask"},))],
            id="new task configurations",
        ),
        pytest.param(
            {"a": view(config={"new": "1"}, tasks=({"new": "1", "task.class": "XTask"},))},
            connector(config={"new": "1"}),
            task(),
            [StopTask(A0)],
            id="a task with an old configuration",
        ),
        pytest.param(
            {"a": view(config={"new": "1"}, tasks=({"new": "1", "task.class": "XTask"},))},
            connector(config={"new": "1"}),
            task(phase=Phase.FAILED),
            [StopTask(A0)],
            id="a new configuration leaves FAILED",
        ),
        pytest.param({}, connector(), task(), [StopConnector("a"), StopTask(A0)], id="deleted"),
        pytest.param({"a": view(consistent=False, tasks=())}, connector(), {}, [WriteTasks("a", (TASK,))], id="inconsistent"),
        pytest.param({"a": view(consistent=False, tasks=())}, connector(failed=True), {}, [], id="a failed connector makes no tasks"),
        pytest.param({"a": view(tasks=(), target=Target.PAUSED)}, connector(target=Target.PAUSED), {}, [], id="a paused one neither"),
    ],
)
def test_commands(wanted, connectors, tasks, commands):
    assert decide(wanted, connectors, tasks, make_tasks) == commands


def test_carrying_the_commands_out_always_comes_to_rest_where_wanted_and_actual_agree():
    """Every wanted state against every actual state of one connector: a few rounds suffice, and nothing is done twice for ever."""
    targets = [Target.STARTED, Target.PAUSED, Target.STOPPED]
    phases = [None, *Phase]
    for target, has_tasks, actual_target, failed, phase, old in itertools.product(
        targets, [True, False], [None, *targets], [True, False], phases, [True, False]
    ):
        wanted = {"a": view(target=target, tasks=(TASK,) if has_tasks and target is not Target.STOPPED else ())}
        connectors = {} if actual_target is None else connector(target=actual_target, failed=failed)
        tasks = {} if phase is None else task(config={"old": "1"} if old else TASK, target=actual_target or Target.STARTED, phase=phase)
        for _ in range(10):
            # Whatever was stopping has stopped by now.
            tasks = {key: value for key, value in tasks.items() if value.phase is not Phase.STOPPING}
            commands = decide(wanted, connectors, tasks, make_tasks)
            if not commands:
                break
            for command in commands:
                wanted, connectors, tasks = carried_out(command, wanted, connectors, tasks)
        else:
            raise AssertionError((target, has_tasks, actual_target, failed, phase, old))
        assert connectors["a"].target is target
        assert (A0 in tasks) == bool(wanted["a"].tasks)


def carried_out(command, wanted, connectors, tasks):
    match command:
        case StartConnector("a"):
            connectors = connector(target=wanted["a"].target)
        case RetargetConnector("a", target):
            connectors = connector(target=target, failed=connectors["a"].failed and target is not Target.STOPPED)
        case WriteTasks("a", configs):
            wanted = {"a": view(target=wanted["a"].target, tasks=configs)}
        case StartTask():
            tasks = task(config=wanted["a"].tasks[0], target=wanted["a"].target)
        case StopTask():
            tasks = task(phase=Phase.STOPPING)
        case RetargetTask(_, target):
            tasks = task(config=tasks[A0].config, target=target, phase=tasks[A0].phase)
    return wanted, connectors, tasks


def status(state):
    return Status(state=state, worker_id="w:1", generation=1)


def test_a_restart_of_what_failed_leaves_the_healthy_alone():
    tasks = {0: status(State.RUNNING), 1: status(State.FAILED)}

    plan = plan_restart("a", connector=status(State.RUNNING), tasks=tasks, include_tasks=True, only_failed=True)

    assert (plan.connector, plan.tasks) == (False, (1,))


def test_a_restart_of_everything_names_everything():
    plan = plan_restart(
        "a", connector=None, tasks={1: status(State.RUNNING), 0: status(State.FAILED)}, include_tasks=True, only_failed=False
    )

    assert (plan.connector, plan.tasks) == (True, (0, 1))


def test_tasks_are_not_restarted_unasked():
    plan = plan_restart("a", connector=status(State.FAILED), tasks={0: status(State.FAILED)}, include_tasks=False, only_failed=True)

    assert (plan.connector, plan.tasks) == (True, ())


def died(*, exit_code=None, signal_number=None, kills=1, restart_max=-1, chance=1.0, last_output=""):
    return after_death(
        A0, exit_code=exit_code, signal_number=signal_number, kills=kills, restart_max=restart_max, chance=chance, last_output=last_output
    )


def test_a_killed_task_is_started_again_for_ever_with_growing_pauses_up_to_a_minute():
    delays = [died(signal_number=signal.SIGKILL, kills=kills).delay_s for kills in range(1, 40)]

    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(delays) == 60.0
    assert delays == sorted(delays)


def test_the_limit_of_restarts_is_kept_and_named():
    assert isinstance(died(signal_number=signal.SIGKILL, kills=2, restart_max=2), StartAgain)

    outcome = died(signal_number=signal.SIGKILL, kills=3, restart_max=2)

    assert isinstance(outcome, Fail)
    assert "SIGKILL" in outcome.trace
    assert "lease" in outcome.trace
    assert "dblog.task.restart.max=2" in outcome.trace
    assert "out of memory" in outcome.trace


def test_no_restarts_at_all():
    assert isinstance(died(signal_number=signal.SIGTERM, restart_max=0), Fail)


def test_a_crash_of_our_own_is_tried_a_few_times_only():
    outcomes = [died(signal_number=signal.SIGSEGV, kills=kills) for kills in range(1, 8)]

    assert [isinstance(outcome, StartAgain) for outcome in outcomes] == [True] * 5 + [False] * 2


def test_a_program_that_gives_up_without_a_word_fails_with_its_last_words():
    outcome = died(exit_code=3, last_output="Traceback ...\nMemoryError")

    assert isinstance(outcome, Fail)
    assert "exit code 3" in outcome.trace
    assert "MemoryError" in outcome.trace
    assert "restart" in outcome.trace


def test_the_first_sentence_has_the_last_words_and_none_of_the_code():
    output = 'Traceback (most recent call last):\n  File "/srv/numbers.py", line 1, in <module>\n    raise SystemExit\nfirst\nImportError: no Number'

    first, _, rest = died(exit_code=1, last_output=output).trace.partition(". ")

    assert first == "The process of task a-0 ended with exit code 1: first / ImportError: no Number"
    assert output in rest
    assert died(exit_code=1).trace.startswith("The process of task a-0 ended with exit code 1 without giving a reason. ")
    assert len(died(exit_code=1, last_output="x" * 5000).trace.partition(". ")[0]) < 600


def test_an_unknown_signal_has_a_number():
    assert "signal 63" in died(signal_number=63).reason


@pytest.mark.parametrize(
    ("wanted", "number", "stray"),
    [
        pytest.param(None, None, True, id="a deleted connector"),
        pytest.param(None, 0, True, id="a task of a deleted connector"),
        pytest.param(view(), None, False, id="a connector"),
        pytest.param(view(), 0, False, id="its task"),
        pytest.param(view(), 1, True, id="a task that it has no more"),
        pytest.param(view(consistent=False), 1, False, id="a task that its next commit may have"),
    ],
)
def test_a_status_is_stray_when_what_it_speaks_of_does_not_exist(wanted, number, stray):
    assert is_stray(wanted, number) is stray

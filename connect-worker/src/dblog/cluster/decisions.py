"""What a worker should do next, from what the topics hold and what runs here. Pure.

Level-triggered: every change, whoever made it, ends in the same comparison of wanted and actual, so a lost or doubled notice changes
nothing and a worker that starts resumes everything by itself. The herder carries the commands out.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dblog.cluster.records import State, Status, Target, TaskId
from dblog.cluster.state import ConnectorView
from dblog.core.backoff import Backoff

_WORDS_LINES = 3
_WORDS_CHARS_MAX = 500
"""Of an error output, in the sentence that says why a process ended."""


class Phase(Enum):
    """Where a task on this worker is."""

    ALIVE = "alive"
    """Its process exists: starting, running or paused."""
    STOPPING = "stopping"
    WAITING = "waiting"
    """It has no process yet: its offsets are being read, or it was killed and pauses before its next start."""
    FAILED = "failed"
    """Nothing but a restart, a new configuration or a stop of the connector leaves this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorActual:
    """A connector as this worker runs it."""

    config: Mapping[str, str]
    target: Target
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskActual:
    """A task as this worker runs it."""

    config: Mapping[str, str]
    target: Target
    phase: Phase


@dataclass(frozen=True, slots=True)
class StartConnector:
    """Check the configuration again and take it."""

    name: str


@dataclass(frozen=True, slots=True)
class RetargetConnector:
    """Pause, resume or stop the connector itself."""

    name: str
    target: Target


@dataclass(frozen=True, slots=True)
class StopConnector:
    """The connector is gone (or no longer ours)."""

    name: str


@dataclass(frozen=True, slots=True)
class WriteTasks:
    """The connector's tasks should be these."""

    name: str
    configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a process for the task."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop its process, or end the wait."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class RetargetTask:
    """Pause or resume the task."""

    id: TaskId
    target: Target


Command = StartConnector | RetargetConnector | StopConnector | WriteTasks | StartTask | StopTask | RetargetTask


def decide(
    wanted: Mapping[str, ConnectorView],
    connectors: Mapping[str, ConnectorActual],
    tasks: Mapping[TaskId, TaskActual],
    make_tasks: Callable[[ConnectorView], Sequence[Mapping[str, str]] | None],
) -> list[Command]:
    """The commands that bring what runs here closer to what is wanted; empty when nothing is to be done now.

    ``wanted`` holds the connectors this worker owns. ``make_tasks`` gives a connector's task configurations, or None if it cannot.
    """
    commands: list[Command] = []
    commands.extend(StopConnector(name) for name in connectors if name not in wanted)
    for name, view in wanted.items():
        actual = connectors.get(name)
        if actual is None or actual.config != view.config:
            commands.append(StartConnector(name))
        elif actual.target is not view.target:
            commands.append(RetargetConnector(name, view.target))
        elif view.target is Target.STARTED and not actual.failed:
            configs = make_tasks(view)
            if configs is not None and (not view.consistent or list(configs) != list(view.tasks)):
                commands.append(WriteTasks(name, tuple(configs)))
    commands.extend(_task_commands(wanted, tasks))
    return commands


def _task_commands(wanted: Mapping[str, ConnectorView], tasks: Mapping[TaskId, TaskActual]) -> list[Command]:
    commands: list[Command] = []
    desired: dict[TaskId, tuple[Mapping[str, str], Target]] = {}
    for name, view in wanted.items():
        # A stopped connector has no tasks; an inconsistent one none that may run.
        if view.target is not Target.STOPPED and view.consistent:
            desired |= {TaskId(name, number): (config, view.target) for number, config in enumerate(view.tasks)}
    for task, running in tasks.items():
        if running.phase is not Phase.STOPPING and (task not in desired or desired[task][0] != running.config):
            commands.append(StopTask(task))
    for task, (config, target) in desired.items():
        actual = tasks.get(task)
        if actual is None:
            commands.append(StartTask(task))
        elif actual.config == config and actual.target is not target and actual.phase in (Phase.ALIVE, Phase.WAITING):
            commands.append(RetargetTask(task, target))
    return commands


def is_stray(view: ConnectorView | None, task: int | None) -> bool:
    """Whether a status belongs to nothing that exists. ``task`` None: it is the connector's own.

    Which tasks an inconsistent connector has is not known before its next commit.
    """
    return view is None or (task is not None and view.consistent and task >= len(view.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """What a restart call restarts."""

    name: str
    connector: bool
    tasks: tuple[int, ...]


def plan_restart(
    name: str, *, connector: Status | None, tasks: Mapping[int, Status], include_tasks: bool, only_failed: bool
) -> RestartPlan:
    """KIP-745: the connector always or if failed, and the tasks likewise when asked for."""

    def chosen(status: Status | None) -> bool:
        return not only_failed or (status is not None and status.state is State.FAILED)

    numbers = tuple(sorted(number for number, status in tasks.items() if include_tasks and chosen(status)))
    return RestartPlan(name=name, connector=chosen(connector), tasks=numbers)


# What happens when a process ends that nobody stopped.

_BACKOFF = Backoff(first_s=0.5, max_s=60.0)
_OWN_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP, signal.SIGQUIT}
)
_OWN_FAULTS_MAX = 5


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start the task again after a pause."""

    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The task is FAILED with this trace."""

    trace: str


def after_death(
    task: TaskId, *, exit_code: int | None, signal_number: int | None, kills: int, restart_max: int, chance: float, last_output: str
) -> StartAgain | Fail:
    """Start again or fail.

    A signal comes from outside (the kernel short of memory, an operator): the task is sound and goes on from its offsets, with a growing
    pause. A crash of our own code (SIGSEGV and its kind) is tried a few times, since the row that caused it may come again. An exit code
    means the program ended by itself: FAILED, as for an error it reports. ``kills`` counts deaths in a row, this one included.
    """
    tail = f"\nLast lines of its error output:\n{last_output}" if last_output else ""
    if signal_number is None:
        said = _last_words(last_output)
        why = f": {said}" if said else " without giving a reason."
        return Fail(
            f"The process of task {task} ended with exit code {exit_code}{why} "
            f"Read the worker's log for this task, then restart the task (POST .../restart?includeTasks=true&onlyFailed=true).{tail}"
        )
    name = _signal_name(signal_number)
    own_fault = signal_number in _OWN_FAULTS
    limit = min(_OWN_FAULTS_MAX, restart_max) if own_fault and restart_max >= 0 else _OWN_FAULTS_MAX if own_fault else restart_max
    if 0 <= limit < kills:
        times = f"{kills} times in a row" if kills > 1 else "once"
        return Fail(
            f"The process of task {task} was ended by {name} {times}, and is not started again"
            f"{'' if own_fault else f' (dblog.task.restart.max={restart_max})'}. {_remedy(signal_number)} Then restart the task.{tail}"
        )
    delay_s = _BACKOFF.delay_s(kills, chance=chance)
    return StartAgain(
        delay_s,
        f"The process of task {task} was ended by {name}; it is started again in {delay_s:.1f} s and goes on from its stored offsets. "
        f"{_remedy(signal_number)}{tail}",
    )


def _last_words(output: str) -> str:
    """Return the end of an error output as part of a sentence: without the places in the code that a trace names."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith((" ", "Traceback "))]
    words = " / ".join(lines[-_WORDS_LINES:])[-_WORDS_CHARS_MAX:]
    return words if not words or words.endswith((".", "!", "?")) else f"{words}."


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def _remedy(number: int) -> str:
    if number == signal.SIGKILL:
        return (
            "If nobody killed it, either the machine or container ran out of memory (the kernel's log shows it; raise the limit or lower "
            "max.queue.size), or the worker could not renew the task's lease in time, for no broker answered or the machine is too busy "
            "(session.timeout.ms; the worker's log shows it)."
        )
    if number in _OWN_FAULTS:
        return "This is a fault of dblog or of a library: please report it with the worker's log."
    return "Somebody or something on this machine sent the signal."

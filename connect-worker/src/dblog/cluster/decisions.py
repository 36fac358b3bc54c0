"""Decides what a worker should do next, from the topics' contents and what runs here. Pure.

Level-triggered: every change, whatever its origin, leads to the same comparison of wanted and
actual. So a lost or doubled notice changes nothing, and a worker that starts resumes everything by
itself. The herder carries out the commands.
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
"""Characters of an error output that are quoted as the reason why a process ended."""


class Phase(Enum):
    """The phase of a task on this worker."""

    ALIVE = "alive"
    """Its process exists: starting, running or paused."""
    STOPPING = "stopping"
    WAITING = "waiting"
    """No process yet: its offsets are being read, or it was killed and waits for its next start."""
    FAILED = "failed"
    """Left only by a restart, a new configuration or a stop of the connector."""


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
    """Command to check a connector's configuration again and start it."""

    name: str


@dataclass(frozen=True, slots=True)
class RetargetConnector:
    """Command to pause, resume or stop the connector itself."""

    name: str
    target: Target


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Command to drop a connector that was deleted or is no longer ours."""

    name: str


@dataclass(frozen=True, slots=True)
class WriteTasks:
    """Command to replace the configurations of a connector's tasks."""

    name: str
    configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartTask:
    """Command to start a process for the task."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class StopTask:
    """Command to stop the task's process, or to end its wait."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class RetargetTask:
    """Command to pause or resume the task."""

    id: TaskId
    target: Target


Command = StartConnector | RetargetConnector | StopConnector | WriteTasks | StartTask | StopTask | RetargetTask


def decide(
    wanted: Mapping[str, ConnectorView],
    connectors: Mapping[str, ConnectorActual],
    tasks: Mapping[TaskId, TaskActual],
    make_tasks: Callable[[ConnectorView], Sequence[Mapping[str, str]] | None],
) -> list[Command]:
    """Return the commands that bring what runs here closer to what is wanted. Empty if nothing is
    to do.

    ``wanted`` holds the connectors that this worker owns. ``make_tasks`` returns a connector's task
    configurations, or None if it cannot.
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
        # A stopped connector has no tasks; an inconsistent one has none that may run.
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
    """Return True if a status belongs to nothing that exists. ``task`` None means the connector's
    own.

    The tasks of an inconsistent connector are unknown until its next commit.
    """
    return view is None or (task is not None and view.consistent and task >= len(view.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """The parts that a restart request restarts."""

    name: str
    connector: bool
    tasks: tuple[int, ...]


def plan_restart(
    name: str, *, connector: Status | None, tasks: Mapping[int, Status], include_tasks: bool, only_failed: bool
) -> RestartPlan:
    """Return the parts to restart (KIP-745): with ``only_failed`` those that have failed, else all.

    Tasks only if requested.
    """

    def chosen(status: Status | None) -> bool:
        return not only_failed or (status is not None and status.state is State.FAILED)

    numbers = tuple(sorted(number for number, status in tasks.items() if include_tasks and chosen(status)))
    return RestartPlan(name=name, connector=chosen(connector), tasks=numbers)


# The rules for a process that ended without being stopped.

_BACKOFF = Backoff(first_s=0.5, max_s=60.0)
_OWN_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP, signal.SIGQUIT}
)
_OWN_FAULTS_MAX = 5


@dataclass(frozen=True, slots=True)
class StartAgain:
    """The decision to start the task again after a pause."""

    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The decision that the task becomes FAILED with this trace."""

    trace: str


def after_death(
    task: TaskId, *, exit_code: int | None, signal_number: int | None, kills: int, restart_max: int, chance: float, last_output: str
) -> StartAgain | Fail:
    """Decide whether a dead task's process is started again.

    A signal comes from outside (the kernel short of memory, an operator): the task is sound and
    continues from its offsets after a growing pause. A crash of our own code (SIGSEGV and its kind)
    is retried only a few times, because the row that caused it may come again. An exit code means
    that the program ended by itself, so the task becomes FAILED, as for an error that it reports.
    ``kills`` counts consecutive deaths, including this one.
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
    """Return the end of an error output as part of a sentence, without a trace's stack frames."""
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

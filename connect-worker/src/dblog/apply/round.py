"""A round: read the files, ask the worker, decide, act. A problem of one connector stops no
other.

A configuration is validated first, and an invalid one is not applied: the connector keeps running
as it is. A round never waits for a change to take effect, so it can be repeated at any time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from dblog.apply.decide import OWNER, Action, Create, Delete, Leave, Present, Refuse, SetState, Update, decide
from dblog.apply.interface import Interface, RefusedError
from dblog.apply.restarts import Failure, Restarts
from dblog.apply.wanted import Problem, WantedState, read_wanted
from dblog.errors import DefiniteError, TransientError

_log = structlog.get_logger("dblog.apply")

_ONE_FILE = (
    "{path} is one file, so --prune would delete every other connector of the owner {owner}: name the folder of all files, or say with --prune-all that the "
    "others shall be deleted"
)
_RENAMED = (
    "connector {old} is deleted and {new} created, which has its topic.prefix: {new} has no offsets and begins with a dump as snapshot.mode says, which "
    "takes no rows away. Rows that are deleted at the source in between stay in the lake; once {new} runs, `dblog dumps start {new} TABLE --mode repair` "
    "removes them. Keep the old name in the file to go on without a dump"
)
_VERBS = {WantedState.RUNNING: "resume", WantedState.PAUSED: "pause", WantedState.STOPPED: "stop"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Files to apply, and the options for it."""

    path: Path
    owner: str
    prune: bool = False
    prune_all: bool = False
    dry_run: bool = False
    strict: bool = False
    """True to apply no configuration with doubts, and to report doubts about unchanged connectors
    as problems.
    """


@dataclass(slots=True)
class Report:
    """Findings and actions of one round."""

    wanted: int = 0
    owned: int = 0
    done: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of action and connector."""
    left: dict[str, str] = field(default_factory=dict)
    """Owned connectors that no file wants and that were not deleted, with the reason."""
    problems: list[Problem] = field(default_factory=list)
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Doubts and remarks by connector."""
    reached: bool = False
    """True if the worker has answered."""


def run_round(task: Task, interface: Interface, restarts: Restarts, *, advanced: Callable[[], None] = lambda: None) -> Report:
    """Do what is due now. ``advanced`` is called after each connector, which may take minutes.

    Raise DefiniteError for a problem that concerns all connectors and that no retry removes, such
    as a missing folder or login.
    """
    report = Report()
    if task.prune and not task.prune_all and task.path.is_file():
        raise DefiniteError(_ONE_FILE.format(path=task.path, owner=task.owner))
    files = read_wanted(task.path)
    report.wanted = len(files.wanted)
    report.problems += files.problems
    try:
        interface.require_ready()
        # Two requests: with expand=status the worker omits connectors that have no status yet.
        infos, statuses = interface.get("/connectors?expand=info"), interface.get("/connectors?expand=status")
    except (TransientError, RefusedError) as e:
        report.problems.append(Problem("worker", str(e)))
        return report
    report.reached = True
    present = {name: Present(name, dict(info["info"]["config"]), _state(statuses, name)) for name, info in infos.items()}
    ours = [name for name, one in present.items() if one.config.get(OWNER) == task.owner]
    report.owned = len(ours)
    report.warnings = {name: tuple(map(str, found)) for name in ours if (found := _status(statuses, name).get("warnings"))}
    complete = not files.problems
    for action in decide(files.wanted, present, owner=task.owner, prune=task.prune, prune_all=task.prune_all, complete=complete):
        try:
            _carry_out(action, interface, report, dry_run=task.dry_run, strict=task.strict)
        except (TransientError, RefusedError) as e:
            report.problems.append(Problem(action.name, str(e)))
        advanced()
    # The status of changed connectors was read before the change.
    changed = {name for kind, name in report.done if kind in ("delete", "update")}
    if task.strict:
        _add_standing_doubts(report, interface, [present[name] for name in ours if name in files.wanted and name not in changed])
    if not task.dry_run:
        verdict = restarts.decide(
            {name: _failures(_status(statuses, name)) for name in ours if name not in changed}, now_s=time.monotonic()
        )
        report.problems += [Problem(name, text) for name, text in {**verdict.waiting, **verdict.stuck}.items()]
        for name in verdict.restart:
            _restart(name, interface, restarts, report)
            advanced()
    return report


def _carry_out(action: Action, interface: Interface, report: Report, *, dry_run: bool, strict: bool) -> None:
    kind = type(action).__name__.lower()
    said: dict[str, object] = {}
    match action:
        case Refuse(name, reason):
            report.problems.append(Problem(name, reason))
            return
        case Leave(name, reason, doubles, problem):
            report.left[name] = reason
            if problem:
                report.problems.append(Problem(name, reason))
            if doubles:
                text = f"{reason}; {doubles} has the same, so every change may be written twice: delete one of the two, or stop it"
                report.problems.append(Problem(name, text, "topic.prefix"))
            return
        case Create(name, config) | Update(name, config) if wrong := interface.validate(config):
            report.problems += [Problem(name, text, key) for key, texts in wrong.items() for text in texts]
            return
        case Create(name, _) | Update(name, _) if _is_refused(name, interface, report, strict=strict):
            return
        case Create(_, config, state):
            do = functools.partial(interface.create, config, state)
        case Update(_, config, keys):
            do, said = functools.partial(interface.put_config, config), {"keys": list(keys)}
        case SetState(name, state):
            do, said = functools.partial(interface.put_state, name, _VERBS[state]), {"state": str(state)}
        case Delete(name, renamed):
            do = functools.partial(interface.delete, name)
            if renamed:
                _log.warning("connector gets another name", connector=name, new_name=renamed, reason=_RENAMED.format(old=name, new=renamed))
    if not dry_run:
        do()
    report.done.append((kind, action.name))
    _log.info("connector would be changed" if dry_run else "connector changed", action=kind, connector=action.name, **said)
    if kind == "delete":
        report.warnings.pop(action.name, None)
        for text in () if dry_run else interface.warnings:
            _log.warning("a deleted connector leaves something at its database", connector=action.name, reason=text)


def _is_refused(name: str, interface: Interface, report: Report, *, strict: bool) -> bool:
    """Record the warnings of a validated configuration; return True if strict mode refuses it."""
    doubts = interface.doubts
    if interface.warnings:
        report.warnings[name] = interface.warnings
    if strict:
        report.problems += [Problem(name, f"not applied, because it leaves something in doubt (--strict): {text}") for text in doubts]
    return strict and bool(doubts)


def _add_standing_doubts(report: Report, interface: Interface, kept: list[Present]) -> None:
    """Report a problem for each warning in the status of an unchanged connector.

    Ordinary remarks on its configuration are left out.
    """
    for one in kept:
        if texts := report.warnings.get(one.name):
            try:
                interface.validate(one.config)
            except (TransientError, RefusedError) as e:
                report.problems.append(Problem(one.name, str(e)))
                continue
            ordinary = interface.ordinary
            report.problems += [
                Problem(one.name, f"{text} (--strict)")
                for text in texts
                if not text.encode("ascii", "replace").decode().startswith(ordinary)
            ]


def _restart(name: str, interface: Interface, restarts: Restarts, report: Report) -> None:
    try:
        interface.restart_failed(name)
    except (TransientError, RefusedError) as e:
        report.problems.append(Problem(name, str(e)))
        return
    restarts.restarted(name, now_s=time.monotonic())
    report.done.append(("restart", name))
    _log.info("failed connector started again", connector=name)


def _status(statuses: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = statuses.get(name, {}).get("status", {})
    return found


def _state(statuses: Mapping[str, Any], name: str) -> str:
    return str(_status(statuses, name).get("connector", {}).get("state", ""))


def _failures(status: Mapping[str, Any]) -> list[Failure]:
    parts = [(None, status.get("connector", {})), *((int(task.get("id", 0)), task) for task in status.get("tasks", []))]
    return [Failure(number, str(part.get("trace", ""))) for number, part in parts if part.get("state") == "FAILED"]

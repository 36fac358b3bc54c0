"""Says what an action on a connector will do, in numbers, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dblog.page.fleet import Facts, Health
from dblog.page.formats import count, duration, rate, size

_CHANGES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The text of a confirmation."""

    title: str
    button: str
    lines: tuple[str, ...]
    is_dangerous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The numbers that the texts are made of."""

    facts: Facts
    topics: int = 0
    dumps_open: int = 0
    dumps: int = 0
    tables_left: int = 0
    stored_ago_s: float | None = None
    """Age of the stored offset."""
    slot: str = ""
    """A sentence about what stays at the database, or an empty text."""


WORDS = {
    "pause": "Pause",
    "resume": "Resume",
    "stop": "Stop",
    "restart": "Restart",
    "restart-failed": "Restart what failed",
    "delete": "Delete",
}


def effect_of(what: str, known: Known) -> Effect:
    """Return the confirmation of an action. ``what`` is a key of WORDS."""
    name = known.facts.name
    lines: list[str] = []
    match what:
        case "pause":
            lines = [
                _tasks(known, "reads nothing more, and keeps its process,", "read nothing more, and keep their processes,"),
                *_flow(known),
                *_dumps(known, "wait"),
                *_log_kept(known),
            ]
        case "stop":
            lines = [_tasks(known, "ends", "end"), *_flow(known), *_dumps(known, "wait"), *_log_kept(known)]
        case "resume":
            lines = [
                f"Reading goes on at the stored position; {size(known.facts.behind_bytes)} of the log were unread when it was asked last."
            ]
            if known.facts.behind_bytes is None:
                lines = ["Reading goes on at the stored position."]
            lines += _dumps(known, "go on")
        case "restart" | "restart-failed":
            restarted = f"{count(known.facts.tasks_failed)} of {_number(known.facts.tasks, 'task')}" if what == "restart-failed" else None
            lines = [
                f"{restarted or _number(known.facts.tasks, 'task')} and the connector: they start again, and go on at the stored position."
            ]
            if known.stored_ago_s is not None:
                lines.append(f"That was stored {duration(known.stored_ago_s)} ago: what was sent since then may be sent twice.")
            lines += _dumps(known, "go on where they are")
        case "delete":
            lines = [
                f"Its configuration, its status and {_number(known.dumps, 'dump')} with their history are removed"
                + (f"; {_number(known.facts.tasks, 'task')} {'ends' if known.facts.tasks == 1 else 'end'}." if known.facts.tasks else "."),
                f"{_number(known.topics, 'topic')} with the records stay, and so does the stored position.",
                "A connector that is created with this name goes on there.",
            ]
            if known.slot:
                lines.append(known.slot)
    return Effect(
        title=f"{WORDS[what]}: {name}" if what == "restart-failed" else f"{WORDS[what]} {name}?",
        button=WORDS[what],
        lines=tuple(lines),
        is_dangerous=what in ("delete", "stop"),
    )


def reset_effect(facts: Facts, *, topics: int, rows: int | None) -> Effect:
    """Return the confirmation of forgetting a stored position. ``rows`` of the last own dump, if known."""
    about = f", about {count(rows)} rows" if rows else ""
    lines = (
        f"The next start finds no position: by snapshot.mode it dumps its tables again, {_number(topics, 'topic')}{about}.",
        (
            "Changes between the forgotten position and that start are in no topic; the dump brings the rows as they are then. "
            "Rows that were deleted meanwhile stay with consumers until a dump of mode repair."
        ),
    )
    return Effect(title=f"Forget the position of {facts.name}?", button="Forget it", lines=lines, is_dangerous=True)


def forget_sink_effect(name: str, tables: int) -> Effect:
    """Return the confirmation of removing a sink that has ended from the list."""
    lines = (
        f"Its report and those of {_number(tables, 'table')} are removed from the sinks' topic. The lake, its checkpoint and its tables stay as they are.",
        "If it is started again, it reports and is listed again.",
    )
    return Effect(title=f"Remove the sink {name} from the list?", button="Remove it", lines=lines, is_dangerous=True)


class Changed(Protocol):
    """A key whose value differs (``page/configuration.py::Change``)."""

    @property
    def key(self) -> str:
        """The key."""
        ...

    @property
    def before(self) -> str | None:
        """The value now. None if there is no such key."""
        ...

    @property
    def after(self) -> str | None:
        """The value then. None if the key goes."""
        ...


def restore_effect(facts: Facts, changes: Sequence[Changed]) -> Effect:
    """Return the confirmation of going back to an earlier configuration."""
    lines = [
        f"{_number(len(changes), 'key')} {'changes' if len(changes) == 1 else 'change'}; the worker checks the configuration on the database first."
    ]
    for change in changes[:_CHANGES_SHOWN_MAX]:
        now, then = "not set" if change.before is None else change.before, "removed" if change.after is None else change.after
        lines.append(f"{change.key}: {now} → {'another secret' if now == then else then}")
    if len(changes) > _CHANGES_SHOWN_MAX:
        lines.append(f"and {count(len(changes) - _CHANGES_SHOWN_MAX)} more")
    if facts.tasks:
        lines.append(f"{_number(facts.tasks, 'task')} {'starts' if facts.tasks == 1 else 'start'} again with it, at the stored position.")
    return Effect(title=f"Go back to this configuration of {facts.name}?", button="Go back", lines=tuple(lines), is_dangerous=True)


def stop_dump_effect(connector: str, dump: Mapping[str, Any]) -> Effect:
    """Return the confirmation of stopping a dump, which cannot be taken back."""
    status = dump["status"]
    total, done = status.get("tables_total"), status.get("tables_done") or 0
    left = None if total is None else max(0, total - done - (status.get("tables_failed") or 0))
    lines = [
        f"{count(status.get('rows'))} rows have been sent and stay."
        + ("" if left is None else f" {_number(left, 'table')} of {count(total)} will not be read to the end."),
        "A stopped dump does not go on; a new one reads its tables from their beginning.",
    ]
    return Effect(title=f"Stop dump {dump['id']} of {connector}?", button="Stop for good", lines=tuple(lines), is_dangerous=True)


def _tasks(known: Known, one: str, many: str) -> str:
    return f"{_number(known.facts.tasks, 'task')} {one if known.facts.tasks == 1 else many} until the connector is resumed."


def _flow(known: Known) -> list[str]:
    facts = known.facts
    if facts.health > Health.IDLE or not facts.changes_per_s:
        return []
    return [f"{rate(facts.changes_per_s)} of changes flow now; they will be late by as long as nothing is read."]


def _dumps(known: Known, what: str) -> list[str]:
    if not known.dumps_open:
        return []
    left = f" with {_number(known.tables_left, 'table')} left" if known.tables_left else ""
    return [f"{_number(known.dumps_open, 'dump')} under way{left} will {what}."]


def _log_kept(known: Known) -> list[str]:
    margin = known.facts.margin_bytes
    if margin is None:
        return ["The source has to keep its log from the stored position on: if it drops it meanwhile, the tables have to be dumped again."]
    older = f"{size(margin)} of older log go first" if margin else "no older log is left to go first"
    return [
        f"The source drops its log by its own rules, and {older}. Once it drops what this connector needs, the tables have to be dumped again."
    ]


def _number(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def dumps_open(details: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the dumps that have not ended."""
    return [each for each in details if each["status"]["state"] not in ("DONE", "FAILED", "STOPPED")]

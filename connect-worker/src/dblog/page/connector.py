"""The views of one connector: how it is, its tables, its offsets, and the confirmations of
actions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dblog.cluster.dumprecords import ENDED
from dblog.cluster.records import TaskId
from dblog.cluster.requests import RequestError, not_found
from dblog.cluster.sharedids import slot_left
from dblog.config.roles import Role
from dblog.page.asked import Asked, connector_path, page_path, refused
from dblog.page.effects import WORDS, Known, dumps_open, effect_of, reset_effect, stop_dump_effect
from dblog.page.fleet import MEANINGS, Facts
from dblog.page.history import BYTES_EACH, REACHES
from dblog.page.lake import Lake, lake_of, resume_command
from dblog.page.moves import has_lsn, lsn_text, move_of, wanted_offset
from dblog.page.overview import series_of
from dblog.page.positions import in_words
from dblog.readers.run.shown_offset import without_rows
from dblog.rest.access import shown_trace

_REQUESTS = {
    "pause": ("PUT", "/pause", ""),
    "resume": ("PUT", "/resume", ""),
    "stop": ("PUT", "/stop", ""),
    "restart": ("POST", "/restart", "includeTasks=true"),
    "restart-failed": ("POST", "/restart", "includeTasks=true&onlyFailed=true"),
    "delete": ("DELETE", "", ""),
}
_DONE = {
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Stopped",
    "restart": "Restarted",
    "restart-failed": "Its failed parts were restarted",
    "delete": "Deleted",
}


def facts_of(asked: Asked) -> Facts:
    """Return the facts of the connector that the path names. Raise RequestError 404."""
    name = asked.segment("connector")
    found = asked.fleet.facts(asked.services).get(name)
    if found is None and asked.services.herder.configs.view(name) is not None:
        # It was created a moment ago. Any other name costs nothing: any reader can ask for many.
        asked.fleet.renew()
        found = asked.fleet.facts(asked.services).get(name)
    if found is None:
        raise not_found(f"There is no connector {name}. It may have been deleted; the list shows those that there are")
    return found


def common(asked: Asked, tab: str) -> dict[str, Any]:
    """Return the values that all views of a connector have."""
    found = facts_of(asked)
    return {
        "title": found.name,
        "tab": tab,
        "each": found,
        "words": WORDS,
        "meanings": MEANINGS,
        "may_operate": asked.may(Role.OPERATOR, found.name),
        "may_change": asked.may(Role.ADMIN, found.name),
        "may_view": asked.may(Role.VIEWER, found.name),
    }


def dumps_of(asked: Asked, name: str) -> list[dict[str, Any]]:
    """Return the connector's dumps in detail, its own first; none where this worker does not
    lead.
    """
    herder = asked.services.herder
    if herder.dump_view is None or not herder.role.leads:
        return []
    view = herder.dump_view
    return [view.detail(name, each["id"]) for each in view.listed(name)]


def lake_of_connector(asked: Asked, name: str) -> Lake | None:
    """Return what sinks have of a connector's tables, or None."""
    view = asked.services.sinks
    if view is None:
        return None
    found = view.of_topics(asked.services.herder.statuses.topics(name))
    return lake_of(found, view.sink, time.time(), with_reason=asked.may(Role.READER))


async def load(asked: Asked) -> Mapping[str, Any]:
    """Return the values of a connector's first view."""
    values = common(asked, "now")
    found: Facts = values["each"]
    herder = asked.services.herder
    status = herder.status_view.connector_status(found.name) or {"tasks": [], "warnings": [], "connector": {}}
    report = herder.status_view.reports().get(TaskId(found.name, 0))
    numbers = {} if report is None else report.numbers
    details = dumps_of(asked, found.name)
    return {
        **values,
        "trace": shown_trace(asked.request, found.name, found.trace),
        "tasks": status["tasks"],
        "reason_of": lambda task: shown_trace(asked.request, found.name, str(task.get("trace") or "")),
        "warnings": [shown_trace(asked.request, found.name, text) for text in status["warnings"]],
        "numbers": numbers,
        "restarts": {} if report is None else report.restarts,
        "topics": len(herder.statuses.topics(found.name)),
        "running_dumps": dumps_open(details),
        "lake": lake_of_connector(asked, found.name),
        "resume_command": resume_command,
        "reaches": REACHES,
        "history": asked.history,
        "history_bytes_each": BYTES_EACH,
    }


async def series(asked: Asked) -> Mapping[str, Any]:
    """Return the series of a connector for its charts."""
    return series_of(asked, facts_of(asked).name)


async def offsets(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the view of stored positions."""
    values = common(asked, "offsets")
    found: Facts = values["each"]
    herder = asked.services.herder
    report = herder.status_view.reports().get(TaskId(found.name, 0))
    stored: list[tuple[dict[str, Any], Mapping[str, Any]]] = [*herder.offsets.of(found.name)]
    if not asked.may(Role.OPERATOR, found.name):
        stored = [(partition, without_rows(offset)) for partition, offset in stored]
    return {
        **values,
        "stored": [(partition, offset, in_words(offset)) for partition, offset in stored],
        "numbers": {} if report is None else report.numbers,
    }


def _stored(asked: Asked, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the connector's only source partition and its offset. Raise RequestError 404."""
    stored = asked.services.herder.offsets.of(name)
    if not stored:
        raise not_found(f"Connector {name} has no stored position yet")
    return stored[0]


async def edit_offsets(asked: Asked) -> Mapping[str, Any]:
    """Return the form for another position."""
    values = common(asked, "offsets")
    _, offset = _stored(asked, values["each"].name)
    return {**values, **_offsets_form(offset, {})}


async def set_offsets(asked: Asked) -> Mapping[str, Any]:
    """Say what another position would do; with ``step`` set, store it."""
    values = common(asked, "offsets")
    found: Facts = values["each"]
    partition, offset = _stored(asked, found.name)
    fields = await asked.fields()
    form = _offsets_form(offset, fields)
    try:
        wanted = wanted_offset(offset, fields)
    except RequestError as e:
        return {**values, **form, "refusal": e.message}
    topics = len(asked.services.herder.statuses.topics(found.name))
    form |= {"move": move_of(offset, wanted, found, topics=topics)}
    if fields.get("step") != "set":
        return {**values, **form}
    answer = await asked.call("PATCH", connector_path(found.name, "/offsets"), {"offsets": [{"partition": partition, "offset": wanted}]})
    if not answer.is_good:
        return {**values, **form, "refusal": answer.message or f"The worker answered {answer.status}"}
    return {**values, **form, **done(f"The position of {found.name} was set."), "redirect": page_path(found.name, "/offsets")}


def _offsets_form(stored: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the form: what was typed, or else what is stored."""
    lsn = stored.get("lsn")
    kept = {"lsn": lsn_text(lsn) if isinstance(lsn, int) else "", **{name: str(stored.get(name, "")) for name in ("file", "pos", "gtids")}}
    typed = {name: str(fields[name]) for name in kept if name in fields}
    return {
        "position": kept | typed,
        "has_lsn": has_lsn(stored),
        "move": None,
        "refusal": "",
        "said": "",
        "redirect": "",
        "trigger": "",
    }


async def confirm_reset(asked: Asked) -> Mapping[str, Any]:
    """Return the confirmation of forgetting the position."""
    found = facts_of(asked)
    details = dumps_of(asked, found.name)
    rows = next((each["status"].get("rows_estimated") or each["status"].get("rows") for each in details), None)
    topics = len(asked.services.herder.statuses.topics(found.name))
    return {"effect": reset_effect(found, topics=topics, rows=rows), "url": page_path(found.name, "/offsets/reset")}


async def reset_offsets(asked: Asked) -> Mapping[str, Any]:
    """Forget the position."""
    name = asked.segment("connector")
    answer = await asked.call("DELETE", connector_path(name, "/offsets"))
    if not answer.is_good:
        raise refused(answer)
    return done(f"{name} has no stored position any more.")


async def confirm(asked: Asked) -> Mapping[str, Any]:
    """Return the confirmation of an action, with its effect in numbers."""
    found, what = facts_of(asked), asked.segment("what")
    if what not in WORDS:
        raise not_found(f"There is no action {what[:40]}; there are {', '.join(WORDS)}")
    herder = asked.services.herder
    report = herder.status_view.reports().get(TaskId(found.name, 0))
    stored_s = None if report is None else report.numbers.get("offset_last_commit_timestamp_seconds")
    details = dumps_of(asked, found.name)
    config = herder.configs.connector_configs().get(found.name, {})
    known = Known(
        facts=found,
        topics=len(herder.statuses.topics(found.name)),
        dumps=len(details),
        dumps_open=len(dumps_open(details)),
        tables_left=_tables_left(details),
        stored_ago_s=None if not stored_s else max(0.0, time.time() - stored_s),
        slot=slot_left(config) or "",
    )
    return {"effect": effect_of(what, known), "url": page_path(found.name, f"/do/{what}")}


def _tables_left(details: Sequence[Mapping[str, Any]]) -> int:
    return sum(
        max(0, (status.get("tables_total") or 0) - (status.get("tables_done") or 0) - (status.get("tables_failed") or 0))
        for status in (each["status"] for each in details)
        if status["state"] not in ENDED
    )


async def confirm_stop_dump(asked: Asked) -> Mapping[str, Any]:
    """Return the confirmation of stopping a dump."""
    found, dump = facts_of(asked), asked.segment("dump")
    view = asked.services.herder.dump_view
    if view is None:
        raise not_found("This worker takes no requests for dumps")
    return {
        "effect": stop_dump_effect(found.name, view.detail(found.name, dump)),
        "url": page_path(found.name, f"/dumps/{dump}/stop"),
    }


async def do(asked: Asked) -> Mapping[str, Any]:
    """Carry an action out, and say what was done and when."""
    name, what = asked.segment("connector"), asked.segment("what")
    if what not in _REQUESTS:
        raise not_found(f"There is no action {what[:40]}; there are {', '.join(_REQUESTS)}")
    method, rest, query = _REQUESTS[what]
    answer = await asked.call(method, connector_path(name, rest), query=query)
    if not answer.is_good:
        raise refused(answer)
    said = answer.headers.get("warning", "")
    values = done(f"{_DONE[what]}: {name}.{f' {said}' if said else ''}")
    return {**values, "redirect": page_path("").removesuffix("/connectors/")} if what == "delete" else values


async def restart_task(asked: Asked) -> Mapping[str, Any]:
    """Restart one task."""
    name, task = asked.segment("connector"), asked.segment("task")
    if not (task.isascii() and task.isdigit()):
        raise RequestError(404, "A task is named by its number")
    answer = await asked.call("POST", connector_path(name, f"/tasks/{task}/restart"))
    if not answer.is_good:
        raise refused(answer)
    return done(f"Task {task} of {name} was restarted.")


def done(text: str, *, redirect: str = "") -> dict[str, Any]:
    """Return the values of the message about something that was done."""
    at = time.strftime("%H:%M:%S UTC", time.gmtime())
    return {"said": f"{text} {at}", "trigger": "changed", "redirect": redirect}

"""``/connectors``: list, create, change, delete, status, restart, pause, resume, stop (Kafka's
documentation, REST API; KIP-745).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import structlog
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.answers import info_answer
from dblog.cluster.records import Target
from dblog.cluster.remarks import Remarks
from dblog.cluster.requests import (
    STALE,
    DeleteConnector,
    PutConnector,
    RequestError,
    RestartConnector,
    SetTarget,
    bad_request,
    conflict,
    not_found,
)
from dblog.cluster.sharedids import shared_prefix, shared_reader, slot_left
from dblog.cluster.state import ConnectorView
from dblog.config.options import HIDDEN, Properties
from dblog.config.roles import Role
from dblog.config.secret_values import shown_name, shown_value
from dblog.rest.access import require, shown_config, shown_trace
from dblog.rest.api import Answer, Services, ask, check, config_map, empty, flag, json_body, location, ready, segment
from dblog.rest.audit import note
from dblog.rest.identity import may

_log = structlog.get_logger("dblog.rest.connectors")

_PATCH_TRIES = 3
_WARNINGS_SENT_MAX = 10
_WARNING_CHARS_MAX = 500
_WARNING_HEADER_CHARS_MAX = 2048
"""Proxies accept a head of 4 to 8 KB and answer a longer one with an error."""
_WARNINGS_LOGGED_MAX = 20

_DOUBT, _ORDINARY = 299, 199
_CREATE_FIELDS = {"name", "config", "initial_state"}


async def list_connectors(request: HttpRequest) -> Response:
    """Answer with the names, or with ``expand`` each connector's status and info."""
    found = await ready(request)
    expands = request.query_params.getlist("expand")
    role = Role.VIEWER if "info" in expands else Role.READER
    if not expands:
        return Answer([name for name in found.herder.configs.names() if may(request, role, name)])
    answer: dict[str, dict[str, object]] = {}
    for name, view in found.herder.configs.views().items():
        if not may(request, role, name):
            continue
        parts: dict[str, object] = {}
        if "status" in expands:
            status = found.herder.status_view.connector_status(name)
            if status is None:
                _log.info("connector left out of the list", connector=name, reason="no status yet")
                continue
            parts["status"] = with_shown_traces(request, name, status)
        if "info" in expands:
            parts["info"] = await _shown(request, info_answer(view))
        answer[name] = parts
    return Answer(answer)


async def create(request: HttpRequest) -> Response:
    """Create a connector. Answer 201 with its info, or 409 if it exists."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise bad_request("The request body must be a JSON object with name and config")
    if unknown := set(body) - _CREATE_FIELDS:
        raise bad_request(f'Unrecognized field "{min(unknown)}"; a connector is created with name, config and initial_state')
    name = body.get("name") or ""
    if not isinstance(name, str):
        raise bad_request("The name of a connector must be a string")
    name = name.strip()
    config = _named(name, config_map(body.get("config") or {}, what="config"))
    target = _initial_target(body.get("initial_state"))
    require(request, Role.ADMIN, name)
    found = await ready(request)
    warned = await _valid(request, found, config)
    _, info = await ask(request, PutConnector(name=name, config=_texts(config), only_new=True, target=target))
    found.herder.warnings.accepted(name, _texts(config), warned.texts)
    return Answer(await _shown(request, info), status_code=HTTPStatus.CREATED, headers=location(request, name) | warn(name, warned))


async def get(request: HttpRequest) -> Response:
    """Answer with the connector's info."""
    return Answer(await _shown(request, info_answer(await _view(request))))


async def get_config(request: HttpRequest) -> Response:
    """Answer with the configuration as stored, with placeholders unresolved."""
    view = await _view(request)
    return Answer(await shown_config(request, view.name, view.config))


async def put_config(request: HttpRequest) -> Response:
    """Replace a configuration. Answer 200 with the connector's info, or 201 if it is new."""
    name = segment(request, "connector")
    config = _named(name, config_map(await json_body(request)))
    found = await ready(request)
    warned = await _valid(request, found, config)
    created, info = await ask(request, PutConnector(name=name, config=_texts(config)))
    found.herder.warnings.accepted(name, _texts(config), warned.texts)
    headers = warn(name, warned)
    if created:
        return Answer(await _shown(request, info), status_code=HTTPStatus.CREATED, headers=location(request, name) | headers)
    return Answer(await _shown(request, info), headers=headers)


async def patch_config(request: HttpRequest) -> Response:
    """Merge into the configuration; null removes a key."""
    name = segment(request, "connector")
    changes = config_map(await json_body(request))
    found = await ready(request)
    for _ in range(_PATCH_TRIES):
        view = await _view(request)
        merged = {**view.config, **changes}
        config = _named(name, {key: text for key, text in merged.items() if text is not None})
        warned = await _valid(request, found, config)
        try:
            # The check may have taken long, so only the configuration that was merged may be
            # replaced.
            _, info = await ask(request, PutConnector(name=name, config=_texts(config), expected=view.config))
        except RequestError as e:
            if e.status is not HTTPStatus.CONFLICT:
                raise
        else:
            found.herder.warnings.accepted(name, _texts(config), warned.texts)
            return Answer(await _shown(request, info), headers=warn(name, warned))
    raise conflict(STALE)


async def delete(request: HttpRequest) -> Response:
    """Delete a connector and answer 204. Its tasks stop afterwards; its status is removed last.

    A replication slot that stays at the database is named in the log and in a header.
    """
    found = await ready(request)
    name = segment(request, "connector")
    left = slot_left(found.herder.configs.connector_configs().get(name, {}))
    await ask(request, DeleteConnector(name))
    if left is None:
        return empty(HTTPStatus.NO_CONTENT)
    _log.warning("a deleted connector leaves something at its database", connector=name, reason=left)
    return empty(HTTPStatus.NO_CONTENT, headers=warning_header(Remarks(doubts=(left,))))


async def status(request: HttpRequest) -> Response:
    """Answer with the connector's status, from the view of the status topic."""
    found = await ready(request)
    name = segment(request, "connector")
    answer = found.herder.status_view.connector_status(name)
    if answer is None:
        raise not_found(f"No status found for connector {name}")
    return Answer(with_shown_traces(request, name, answer))


async def restart(request: HttpRequest) -> Response:
    """Restart a connector. Answer 204, or 202 with its status if tasks are included."""
    found = await ready(request)
    name = segment(request, "connector")
    if found.herder.configs.view(name) is not None and found.herder.status_view.connector_status(name) is None:
        raise not_found(f"Status for connector {name} not found")
    answer = await ask(
        request, RestartConnector(name=name, include_tasks=flag(request, "includeTasks"), only_failed=flag(request, "onlyFailed"))
    )
    return empty(HTTPStatus.NO_CONTENT) if answer is None else Answer(answer, status_code=HTTPStatus.ACCEPTED)


async def pause(request: HttpRequest) -> Response:
    """Pause a connector and answer 202."""
    return await _target(request, Target.PAUSED, HTTPStatus.ACCEPTED)


async def resume(request: HttpRequest) -> Response:
    """Resume a connector and answer 202."""
    return await _target(request, Target.STARTED, HTTPStatus.ACCEPTED)


async def stop(request: HttpRequest) -> Response:
    """Stop a connector and answer 204."""
    return await _target(request, Target.STOPPED, HTTPStatus.NO_CONTENT)


async def _target(request: HttpRequest, target: Target, code: HTTPStatus) -> Response:
    await ready(request)
    await ask(request, SetTarget(segment(request, "connector"), target))
    return empty(code)


async def _view(request: HttpRequest) -> ConnectorView:
    found = await ready(request)
    name = segment(request, "connector")
    view = found.herder.configs.view(name)
    if view is None:
        raise not_found(f"Connector {name} not found")
    return view


async def _shown(request: HttpRequest, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connector's info as the caller may see it."""
    return {**info, "config": await shown_config(request, info["name"], info["config"])}


def with_shown_traces(request: HttpRequest, name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connector's status with its warnings, as the caller may see it."""

    def shown(part: Mapping[str, Any]) -> dict[str, Any]:
        return {**part, "trace": shown_trace(request, name, part["trace"])} if "trace" in part else dict(part)

    warnings = [shown_trace(request, name, text) for text in answer["warnings"]]
    return {**answer, "connector": shown(answer["connector"]), "tasks": [shown(task) for task in answer["tasks"]], "warnings": warnings}


async def _valid(request: HttpRequest, found: Services, config: dict[str, str | None]) -> Remarks:
    """Return the remarks on a valid configuration. Note its changes for the audit."""
    name = str(config["name"])
    before = found.herder.configs.view(name)
    stored = before.config if before is not None else {}
    if stand_ins := [key for key, text in config.items() if _is_stand_in(key, text, stored.get(key))]:
        raise bad_request(
            f"{HIDDEN} in {shown_name(stand_ins[0])} stands for what is not shown; write the key and its value as they are, or change with PATCH the other "
            "keys alone"
        )
    remarks = await require_valid(request, found, config)
    note(request, name, before.config if before is not None else None, {key: text or "" for key, text in config.items()})
    return remarks


def _is_stand_in(key: str, text: str | None, stored: str | None) -> bool:
    """Return True for a key or a value as it is shown, in place of the one that is stored."""
    if text == HIDDEN or (HIDDEN in key and shown_name(key) == key):
        return True
    return text is not None and HIDDEN in text and stored not in (None, text) and text == shown_value(key, str(stored))


async def require_valid(request: HttpRequest, found: Services, config: Properties) -> Remarks:
    configs = found.herder.configs

    def work() -> Remarks:
        remarks = found.validator.require_valid(config)
        name, others = config["name"] or "", configs.connector_configs()
        prefix = shared_prefix(name, config, others, is_stopped=configs.is_stopped)
        if prefix is not None and (name not in others or others[name].get("topic.prefix") != config.get("topic.prefix")):
            # a connector that already shared it may change: its status has the warning
            raise bad_request(prefix)
        shared = shared_reader(name, config, others, is_stopped=configs.is_stopped)
        return replace(remarks, doubts=(*(text for text in (prefix, shared) if text is not None), *remarks.doubts))

    return await check(request, work)


def warn(name: str, remarks: Remarks) -> dict[str, str]:
    """Log the remarks on an accepted configuration. Return the Warning header that reports them."""
    warnings = remarks.texts
    for warning in warnings[:_WARNINGS_LOGGED_MAX]:
        _log.warning("connector accepted with a doubt", connector=name, reason=warning)
    if len(warnings) > _WARNINGS_LOGGED_MAX:
        _log.warning("connector accepted with more doubts", connector=name, more=len(warnings) - _WARNINGS_LOGGED_MAX)
    return warning_header(remarks)


def warning_header(remarks: Remarks) -> dict[str, str]:
    """Return the Warning header (RFC 7234, section 5.5). Connect's answers have no field for
    remarks.

    Code 299 marks a doubt and 199 an ordinary remark, so that a program can stop for the first and
    ignore the second.
    """
    coded = [*((_DOUBT, text) for text in remarks.doubts), *((_ORDINARY, text) for text in remarks.ordinary)]
    header = ""
    for code, text in coded[:_WARNINGS_SENT_MAX]:
        # ASCII without controls, because a configuration's keys must not add another header.
        quoted = _quoted("".join(c if c.isprintable() else "'" for c in text.encode("ascii", "replace").decode()))
        longer = f'{header}{", " if header else ""}{code} dblog "{quoted}"'
        if len(longer) > _WARNING_HEADER_CHARS_MAX:
            break
        header = longer
    return {"Warning": header} if header else {}


def _quoted(text: str) -> str:
    """Return the inside of a quoted-string (RFC 9110, section 5.6.4), cut to the limit.

    Quotes in a statement are escaped, not replaced: PostgreSQL's names need the double ones.
    """
    out = text.replace("\\", "\\\\").replace('"', '\\"')[:_WARNING_CHARS_MAX]
    escapes = len(out) - len(out.rstrip("\\"))
    return out[:-1] if escapes % 2 else out  # the cut has split an escape


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """Return the configuration with its name. Raise RequestError 400 if it has another name."""
    included = config.get("name")
    if included is not None and included.strip() != name:
        raise bad_request(f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}


def _texts(config: Properties) -> dict[str, str]:
    """Return the configuration as strings. The validation has refused nulls."""
    return {key: text for key, text in config.items() if text is not None}


def _initial_target(state: object) -> Target | None:
    if state is None:
        return None
    known = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
    target = known.get(str(state).upper())
    if target is None:
        raise bad_request(f"Invalid initial_state {state}: it must be one of RUNNING, PAUSED, STOPPED")
    return target


ROUTES = [
    Route("/connectors", list_connectors, methods=["GET"]),
    Route("/connectors", create, methods=["POST"]),
    Route("/connectors/{connector}", get, methods=["GET"]),
    Route("/connectors/{connector}", delete, methods=["DELETE"]),
    Route("/connectors/{connector}/config", get_config, methods=["GET"]),
    Route("/connectors/{connector}/config", put_config, methods=["PUT"]),
    Route("/connectors/{connector}/config", patch_config, methods=["PATCH"]),
    Route("/connectors/{connector}/status", status, methods=["GET"]),
    Route("/connectors/{connector}/restart", restart, methods=["POST"]),
    Route("/connectors/{connector}/pause", pause, methods=["PUT"]),
    Route("/connectors/{connector}/resume", resume, methods=["PUT"]),
    Route("/connectors/{connector}/stop", stop, methods=["PUT"]),
]

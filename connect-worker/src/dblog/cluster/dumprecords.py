"""Records of the topic of dump requests, to and from bytes: one for each request, with its newest
revision and in the end its outcome. Pure.

A key is the JSON array of connector and id, in the format of the offset topic. A value has the
request as the task gets it, and its end: the task's final status of it. Readers skip what they do
not understand, because the topic outlives versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dblog.cluster.records import KeyValue, compact_json
from dblog.core.dumprequests import DumpRequest, request_from_json
from dblog.errors import DefiniteError

ENDED = frozenset({"DONE", "FAILED", "STOPPED"})
_STATES = ENDED | {"WAITING", "RUNNING", "PAUSED"}
TABLES_SHOWN_MAX = 200
_DUMPS_MAX = 1000
_REASON_CHARS_MAX = 2000
_TEXTS = ("reason", "fault")
"""Fields with a task's sentences, which may quote its database."""

DumpKey = tuple[str, str]
"""Connector and dump id."""
DumpStatus = Mapping[str, Any]
"""A task's status of one dump: id, state, numbers, tables."""


@dataclass(frozen=True, slots=True)
class KnownDump:
    """A request, and its last status if it has ended."""

    request: DumpRequest
    end: DumpStatus | None = None

    @property
    def key(self) -> DumpKey:
        """The key under which the request is stored."""
        return self.request.connector, self.request.id


def dump_record(key: DumpKey, known: KnownDump | None, *, bytes_max: int | None = None) -> KeyValue:
    """Return the record of a request with its final status, or its tombstone.

    A record above ``bytes_max`` leaves out the tables of that status.
    """
    name = compact_json(list(key))
    if known is None:
        return name, None
    value = compact_json({"request": known.request.to_json(), "end": known.end})
    if bytes_max is not None and known.end is not None and len(name) + len(value) > bytes_max:
        value = compact_json({"request": known.request.to_json(), "end": {**known.end, "tables": []}})
    return name, value


def read_dump_record(key: bytes | None, value: bytes | None) -> tuple[DumpKey, KnownDump | None] | None:
    """Return the key and the request of a record, or None if it cannot be read or is of an unknown
    kind.

    The request is None for a tombstone.
    """
    match _loaded(key):
        case [str(connector), str(dump)]:
            found = connector, dump
        case _:
            return None
    if value is None:
        return found, None
    body = _loaded(value)
    if not isinstance(body, dict):
        return None
    try:
        request = request_from_json(body.get("request"))
    except DefiniteError:
        return None
    end = None if body.get("end") is None else read_status(body["end"])
    if (request.connector, request.id) != found or (body.get("end") is not None and end is None):
        return None
    return found, KnownDump(request, end)


def read_statuses(value: object, hide: Callable[[str], str] = str) -> dict[str, DumpStatus]:
    """Return the valid statuses of a task's message by id. ``hide`` replaces secrets."""
    listed = value if isinstance(value, list) else []
    found = [status for each in listed[:_DUMPS_MAX] if (status := read_status(each, hide)) is not None]
    return {status["id"]: status for status in found}


def read_requests(value: object, connector: str) -> dict[str, DumpRequest]:
    """Return the requests that signals have made, from a task's message, by id."""
    found: dict[str, DumpRequest] = {}
    for each in value[:_DUMPS_MAX] if isinstance(value, list) else ():
        if isinstance(each, dict) and each.get("request") is not None:
            with suppress(DefiniteError):
                request = request_from_json(each["request"])
                if (request.connector, request.id) == (connector, each.get("id")) and request.signal is not None:
                    found[request.id] = request
    return found


BLANK_STATUS: DumpStatus = {
    "state": "WAITING",
    "tables_total": None,
    "tables_done": 0,
    "tables_failed": 0,
    "rows": 0,
    "bytes": 0,
    "bytes_estimated": None,
    "chunks": 0,
    "rows_estimated": None,
    "rows_per_s": None,
    "eta_s": None,
    "eta_error": None,
    "revision": None,
    "ended_ms": None,
    "reason": None,
    "governor": None,
    "tables": [],
}
"""The status of a dump that no task has begun."""


def read_status(value: object, hide: Callable[[str], str] = str) -> DumpStatus | None:
    """Return a status with its texts shortened, or None if it is not valid.

    Fields that this version does not know stay.
    """
    if not isinstance(value, dict) or not isinstance(value.get("id"), str) or str(value.get("state")) not in _STATES:
        return None
    tables = value.get("tables")
    rows = [_shortened(row, hide) for row in tables[:TABLES_SHOWN_MAX] if isinstance(row, dict)] if isinstance(tables, list) else []
    return {**_shortened({name: part for name, part in value.items() if name != "request"}, hide), "tables": rows}


def _shortened(part: Mapping[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    return {
        name: (hide(text) if name in _TEXTS else text)[:_REASON_CHARS_MAX] if isinstance(text, str) else text for name, text in part.items()
    }


def _loaded(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        loaded = json.loads(data)
        # raises for half of a surrogate pair, which no answer and no record could hold
        json.dumps(loaded, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return loaded

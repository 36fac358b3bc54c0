"""The views and actions of a connector's dumps: list, progress with rate and time left, start, pause,
resume, stop, speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dblog.cluster.requests import RequestError, bad_request, not_found
from dblog.core.dumprequests import CHUNK_ROWS_MAX, DELAY_MS_MAX, PARALLELISM_MAX, PRIORITY_MAX, Mode, Order
from dblog.page.asked import Asked, connector_path, page_path, refused
from dblog.page.connector import common, done, dumps_of
from dblog.page.fleet import Facts
from dblog.rest.dumps import shown

_VERBS = {"pause": "was paused", "resume": "goes on", "stop": "is stopped"}
_SPEED = {"chunk_rows": CHUNK_ROWS_MAX, "delay_ms": DELAY_MS_MAX, "parallelism": PARALLELISM_MAX, "priority": PRIORITY_MAX}
_MODES = {
    Mode.ROWS: "send the rows again",
    Mode.REPAIR: "send the rows; the sink removes what did not come",
    Mode.VERIFY: "send nothing; the sink compares counts and fingerprints",
}


async def listed(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the list of dumps, newest first, and of the form for another one."""
    values = common(asked, "dumps")
    found: Facts = values["each"]
    herder = asked.services.herder
    return {
        **values,
        "dumps": list(reversed(dumps_of(asked, found.name))),
        "takes_dumps": herder.dump_view is not None,
        "modes": {mode.value: text for mode, text in _MODES.items()},
        "orders": [order.value for order in Order],
        "prefill": asked.query("tables"),
        "typed": {},
        "errors": [],
    }


async def one(asked: Asked) -> Mapping[str, Any]:
    """Return the values of one dump, with its tables and maps of what has been read."""
    values = common(asked, "dumps")
    found: Facts = values["each"]
    view = asked.services.herder.dump_view
    if view is None:
        raise not_found("This worker takes no requests for dumps: dblog.dumps.storage.topic is empty")
    dump = shown(asked.request, view.detail(found.name, asked.segment("dump"), maps=True))
    return {
        **values,
        "title": f"Dump {dump['id']} of {found.name}",
        "dump": dump,
        "speed": _SPEED,
        "is_own": dump["requested_by"] == "connector",
        "cells_of": _cells,
    }


def _cells(cells: Sequence[float] | None) -> list[tuple[int, float, float]]:
    """Return stretches of a map, as start, length and share read: neighbours of one share together."""
    out: list[tuple[int, float, float]] = []
    for at, share in enumerate(cells or ()):
        if out and out[-1][2] == share and out[-1][0] + out[-1][1] == at:
            out[-1] = (out[-1][0], out[-1][1] + 1, share)
        else:
            out.append((at, 1, share))
    return [each for each in out if each[2] > 0]


async def start(asked: Asked) -> Mapping[str, Any]:
    """Request a dump of what the form says."""
    name, fields = asked.segment("connector"), await asked.fields()
    body = request_of(fields)
    answer = await asked.call("POST", connector_path(name, "/dumps"), body)
    if not answer.is_good:
        raise refused(answer)
    dump = str(answer.body["id"])
    return done(f"Dump {dump} was requested.", redirect=page_path(name, f"/dumps/{quote(dump, safe='')}"))


def request_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a dump's request, from the fields of the form. Raise RequestError 400."""
    tables = [line.strip() for line in str(fields.get("tables") or "").splitlines() if line.strip()]
    if not tables:
        raise bad_request("Name the tables to read, one on each line: a pattern for the whole of database.table")
    body: dict[str, Any] = {"tables": tables, "mode": str(fields.get("mode") or Mode.ROWS.value)}
    if order := str(fields.get("order") or ""):
        body["order"] = order
    if predicate := str(fields.get("predicate") or "").strip():
        body["predicate"] = dict.fromkeys(tables, predicate)
    body |= _speed_of(fields)
    if fields.get("wanted"):
        body["wanted"] = "PAUSED"
    return body


def _speed_of(fields: Mapping[str, Any]) -> dict[str, int]:
    out: dict[str, int] = {}
    for name, most in _SPEED.items():
        text = str(fields.get(name) or "").strip()
        if not text:
            continue
        if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= len(str(most)) + 1):
            raise bad_request(f"{name} is a whole number up to {most}, not {text[:40]}")
        out[name] = int(text)
    return out


async def change(asked: Asked) -> Mapping[str, Any]:
    """Change the speed of a dump."""
    name, dump = asked.segment("connector"), asked.segment("dump")
    speed = _speed_of(await asked.fields())
    if not speed:
        raise bad_request("Give at least one number to change")
    answer = await asked.call("PATCH", connector_path(name, f"/dumps/{quote(dump, safe='')}"), speed)
    if not answer.is_good:
        raise refused(answer)
    return done(f"Dump {dump} goes on with {', '.join(f'{key} {value}' for key, value in speed.items())}.")


async def act(asked: Asked) -> Mapping[str, Any]:
    """Pause, resume or stop a dump, or one of its tables."""
    name, dump, verb = asked.segment("connector"), asked.segment("dump"), asked.segment("verb")
    if verb not in _VERBS:
        raise RequestError(404, f"A dump can be paused, resumed or stopped, not {verb[:40]}")
    rest, what = f"/dumps/{quote(dump, safe='')}", f"Dump {dump}"
    if "table" in asked.request.path_params:
        table = asked.segment("table")
        rest, what = f"{rest}/tables/{quote(table, safe='')}", f"Table {table} of dump {dump}"
    answer = await asked.call("POST", connector_path(name, f"{rest}/{verb}"))
    if not answer.is_good:
        raise refused(answer)
    return done(f"{what} {_VERBS[verb]}.")

"""``POST /connectors/{c}/signals``: Debezium's signals over REST. Not part of Connect.

``{"id": "1", "type": "execute-snapshot", "data": {"data-collections": ["shop.orders"]}}``, as on
every other channel. A requested snapshot becomes a dump request like those of ``POST .../dumps``:
checked on the database, then stored. Signals that change earlier dumps go to the task, which knows
all of them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.dumpview import fresh_status
from dblog.cluster.requests import SendSignal, StartDump, bad_request
from dblog.config.roles import Role
from dblog.core.dumprequests import DumpRequest, SignalOrigin
from dblog.core.signals import DATA_CHARS_MAX, FILTERS_OFF, Execute, Nothing, SignalError, action_of, signal_from_json
from dblog.rest.access import require
from dblog.rest.api import Answer, ask, check, location, parsed, ready, segment
from dblog.rest.audit import note_fields
from dblog.rest.dumps import ID_BYTES, checked, shown

_BODY_BYTES_MAX = 4 * DATA_CHARS_MAX


async def send(request: HttpRequest) -> Response:
    """Accept a signal and answer 202, for a snapshot with the dump's details and Location.

    400 for an invalid signal. Otherwise the answers are those to a dump request.
    """
    data = await request.body()
    if len(data) > _BODY_BYTES_MAX:
        raise bad_request(f"The signal has {len(data)} bytes, and at most {_BODY_BYTES_MAX} are allowed; use several")
    body, name = parsed(data), segment(request, "connector")
    token = secrets.token_hex(ID_BYTES)
    try:
        signal = await check(request, lambda: signal_from_json({"id": token, **body} if isinstance(body, dict) else body, f"rest:{token}"))
        action = await check(request, lambda: action_of(signal))
    except SignalError as e:
        raise bad_request(f"The signal cannot be carried out: {e}") from e
    note_fields(request, signal=signal.type)
    if not isinstance(action, Execute):
        await ready(request)
        await ask(request, SendSignal(name, signal))
        why = action.why if isinstance(action, Nothing) else None
        return Answer({"id": signal.id, "type": signal.type, "note": why}, status_code=HTTPStatus.ACCEPTED)
    if action.filters:
        # SQL that the database runs, so it needs the same role as a configuration.
        require(request, Role.ADMIN, name)
    found = await ready(request)
    view = found.herder.configs.view(name)
    if action.filters and view is not None and view.config.get("dblog.signals.filters", "").strip().lower() == "false":
        raise bad_request(f"The signal cannot be carried out: {FILTERS_OFF}")
    asked = action.request(
        SignalOrigin(signal.id, action.blocking),
        id=signal.request_id,
        connector=name,
        created_ms=int(time.time() * 1000),
        chunk_rows=_chunk_rows(view.config if view is not None else {}),
    )
    tables = await checked(request, found, asked)
    stored: DumpRequest = await ask(request, StartDump(asked))
    headers = {"Location": f"{location(request, name)['Location']}/dumps/{quote(stored.id, safe='')}"}
    detail = {**stored.to_json(), "status": fresh_status(stored, tables)}
    return Answer(shown(request, detail), status_code=HTTPStatus.ACCEPTED, headers=headers)


def _chunk_rows(config: Mapping[str, str]) -> int | None:
    text = config.get("incremental.snapshot.chunk.size", "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


ROUTES = [Route("/connectors/{connector}/signals", send, methods=["POST"])]

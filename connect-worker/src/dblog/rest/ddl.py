"""``POST /connectors/{c}/ddl/explain``: what a DDL statement would do, without running it. Ours, not Connect's.

Body ``{"statement": "ALTER TABLE ...", "database": "the default one, optional"}``.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.cluster.requests import RequestError, bad_request, not_found
from dblog.errors import DefiniteError, TransientError
from dblog.rest.api import Answer, check, json_body, ready, segment


async def explain(request: HttpRequest) -> Response:
    """200 with the effects; 400 without a statement, 404 for an unknown connector, 500 when database, broker or registry do not answer."""
    body = await json_body(request)
    statement = body.get("statement") if isinstance(body, dict) else None
    if not isinstance(statement, str) or not statement.strip():
        raise bad_request('The request body must be {"statement": "ALTER TABLE ...", "database": "optional"}')
    database = body.get("database")
    found = await ready(request)
    name = segment(request, "connector")
    view = found.herder.configs.view(name)
    if view is None:
        raise not_found(f"Connector {name} not found")
    config, worker = dict(view.config), dict(found.worker.settings.originals)

    def work() -> dict[str, Any]:
        from dblog.readers.explain import explain as effects  # noqa: PLC0415  what a worker that is never asked need not load

        resolved, hide = found.validator.resolved(config)
        try:
            return effects(resolved, worker, statement, database=str(database) if database else None)
        except (DefiniteError, TransientError) as e:
            raise RequestError(500, hide(str(e))) from None

    return Answer(await check(request, work))


ROUTES = [Route("/connectors/{connector}/ddl/explain", explain, methods=["POST"])]

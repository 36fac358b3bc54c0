"""``POST /connectors/{c}/ddl/explain``: the effects of a DDL statement, without running it. Not
part of Connect.

Body ``{"statement": "ALTER TABLE ...", "database": "the default one, optional"}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from dblog.abort import Abort
from dblog.cluster.requests import RequestError, bad_request, not_found
from dblog.cluster.validation import limit_of, within_limit
from dblog.config.named_files import hidden_from_log
from dblog.errors import DefiniteError, TransientError
from dblog.rest.api import Answer, check, json_body, ready, segment

STATEMENT_CHARACTERS_MAX = 64 * 1024
"""The parser blocks the worker's other threads, about 0.2 s for one statement of this size."""
SEMICOLONS_MAX = 100
"""Most semicolons of a text. Each statement rebuilds the table's columns, up to 4096 of them."""


async def explain(request: HttpRequest) -> Response:
    """Answer 200 with the effects.

    400 without a statement, for one that is too long, and if something must be fixed first (no
    history yet, a wrong password); 404 for an unknown connector; 503 if database, broker or
    registry do not answer. The last two give the reason.
    """
    body = await json_body(request)
    statement = body.get("statement") if isinstance(body, dict) else None
    if not isinstance(statement, str) or not statement.strip():
        raise bad_request('The request body must be {"statement": "ALTER TABLE ...", "database": "optional"}')
    if len(statement) > STATEMENT_CHARACTERS_MAX:
        raise bad_request(
            f"The statement has {len(statement)} characters, and at most {STATEMENT_CHARACTERS_MAX} are allowed; leave out the other statements"
        )
    if statement.count(";") > SEMICOLONS_MAX:
        raise bad_request(f"The text has more than {SEMICOLONS_MAX} statements; ask about each alone, or about a few together")
    database = body.get("database")
    found = await ready(request)
    name = segment(request, "connector")
    view = found.herder.configs.view(name)
    if view is None:
        raise not_found(f"Connector {name} not found")
    config, worker = dict(view.config), dict(found.worker.settings.originals)

    def work() -> dict[str, Any]:
        from dblog.dialects.explain import explain as effects  # noqa: PLC0415  what a worker that is never asked need not load

        hide: Callable[[str], str] = str

        def ask(limit_s: float, abort: Abort) -> dict[str, Any]:
            return effects(resolved, worker, statement, database=str(database) if database else None, limit_s=limit_s, abort=abort)

        try:
            resolved, hide = found.validator.resolved(config, asked=(statement, str(database or "")))
            with hidden_from_log(hide):
                return within_limit(
                    ask,
                    limit_of(resolved),
                    late="database, brokers of the schema history and schema registry did not all answer",
                    remedy="see the connector's status for what it waits for, and ask again",
                )
        except DefiniteError as e:
            raise bad_request(hide(str(e))) from None
        except TransientError as e:
            raise RequestError(503, hide(str(e))) from None

    return Answer(await check(request, work))


ROUTES = [Route("/connectors/{connector}/ddl/explain", explain, methods=["POST"])]

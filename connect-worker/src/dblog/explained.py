"""``dblog ddl explain``: asks a worker what a statement would do, and formats the answer for
people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from dblog.errors import DefiniteError
from dblog.trust import trusting, unreached

TIMEOUT_S = 120.0
LOGIN_VARIABLE = "DBLOG_REST_LOGIN"


class ExplainError(Exception):
    """The worker gave no answer; the text says why, and what to do."""


def login_of(text: str) -> tuple[str, str] | None:
    """Return user and password from the variable's text; None if it is empty.

    Raise ExplainError, which does not quote the text, if one of the two is missing.
    """
    user, colon, password = text.partition(":")
    if text and not (user and colon):
        raise ExplainError(
            f"the environment variable {LOGIN_VARIABLE} has no user name and colon before the password; write it as user:password"
        )
    return (user, password) if text else None


def ask(
    url: str,
    connector: str,
    statement: str,
    database: str | None,
    *,
    login: tuple[str, str] | None = None,
    authorities: Path | None = None,
) -> dict[str, Any]:
    """Return the worker's answer; raise ExplainError if there is none.

    ``authorities`` is a file with the CA certificates to trust; None trusts those of the machine.
    """
    address = f"{url.rstrip('/')}/connectors/{quote(connector, safe='')}/ddl/explain"
    try:
        response = httpx.post(
            address,
            json={"statement": statement, "database": database},
            auth=login,
            timeout=TIMEOUT_S,
            verify=trusting(authorities),
            trust_env=False,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise ExplainError(unreached("worker", url, e, "start one, or name its address with --url")) from e
    except DefiniteError as e:
        raise ExplainError(str(e)) from e
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise ExplainError(
            f"the worker at {url} wants a login, or another one; put user:password into the environment variable {LOGIN_VARIABLE}"
        )
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ExplainError(f"{url} does not answer like a dblog worker (HTTP {response.status_code}); name the worker with --url")
    if response.status_code == HTTPStatus.NOT_FOUND and "not found" not in str(answer.get("message", "")):
        raise ExplainError(f"the worker at {url} cannot explain DDL; it is another program or an older version")
    if not response.is_success:
        raise ExplainError(str(answer.get("message") or f"HTTP {response.status_code}"))
    return answer


def lines_of(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer as lines of text."""
    if not answer["tables"]:
        reasons = ", ".join(answer["no_effect"])
        yield f"No table of the connector changes{f' ({reasons})' if reasons else ''}."
        if not answer["understood"]:
            yield "The statement is not understood; captured tables that it names would be read from the server again."
    for number, table in enumerate(answer["tables"]):
        if number:
            yield ""
        becomes = "" if table["becomes"] in (None, table["table"]) else f", is {table['becomes']} then"
        yield f"{table['table']}: {table['what']}{becomes}" + ("" if table["captured"] else " (not captured: nothing else follows)")
        if table["captured"]:
            yield from _lines_of_table(table)


def _lines_of_table(table: Mapping[str, Any]) -> Iterator[str]:
    yield "  Columns"
    for column in table["columns"]:
        match column["change"]:
            case "added":
                yield f"    + {column['column']}: {column['after']}"
            case "dropped":
                yield f"    - {column['column']}: {column['before']}"
            case "order":
                yield f"    order: {column['after']} (was {column['before']})"
            case _:
                yield f"    ~ {column['column']}: {column['before']} -> {column['after']}"
    if not table["columns"]:
        yield "    as they are"
    if table["key"]["before"] != table["key"]["after"] and table["key"]["after"] is not None:
        yield f"    key: ({', '.join(table['key']['after'])})"
    yield "  Rows"
    yield "    logged before the statement keep the old columns, later rows have the new ones"
    if table["rows"]:
        again = "the table is dumped again" if table["dumped_again"] else "it is NOT dumped again (dblog.ddl.redump, snapshot.mode)"
        yield f"    old rows change without events: {table['rows']}; {again}"
    yield f"  Registry (topic {table['topic']})" if table["topic"] else "  Registry"
    for subject in table["registry"]:
        verdict = (
            "refuses the new schema" if subject["problems"] else "takes a new version" if subject["new_version"] else "knows it already"
        )
        yield f"    {subject['subject']} ({subject['level']}): {verdict}"
        yield from (f"      {problem}" for problem in subject["problems"])
    if not table["registry"]:
        yield "    not concerned"
    yield "  Delta table"
    yield from (f"    {change['column'] + ': ' if change['column'] else ''}{change['effect']}" for change in table["delta"])
    if not table["delta"]:
        yield "    as it is"

"""``dblog events`` and ``dblog log``: what has happened to a connector, and its log."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import typer

from dblog.dumps.printable import printable
from dblog.operate.client import (
    Authorities,
    ContextName,
    Login,
    Name,
    Output,
    Url,
    form_of,
    path_of,
    worker,
)
from dblog.operate.output import shown


def events(
    name: Name,
    kind: Annotated[str, typer.Option(help="change, state, retry, failover, ddl, dump, position or warning; empty: all.")] = "",
    output: Output = "table",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """List what has happened to a connector since the worker began, newest first."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        rows = interface.get(path_of(name, f"/events?{urlencode({'kind': kind})}"))
        if form == "table":
            rows = [{**row, "text": (row["text"].splitlines() or [""])[0]} for row in rows]
        typer.echo(shown(rows, ("at", "kind", "text"), form))


def log(
    name: Name,
    level: Annotated[str, typer.Option(help="debug, info, warning or error, and above.")] = "",
    search: Annotated[str, typer.Option(help="Only lines with this text.")] = "",
    lines: Annotated[int, typer.Option("-n", min=1, max=5000, help="How many of the newest.")] = 100,
    output: Output = "table",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Print the newest log lines of a connector, which the worker keeps in memory."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        query = urlencode({"lines": lines, **({"level": level} if level else {}), **({"q": search} if search else {})})
        found = interface.get(path_of(name, f"/log?{query}"))
        if form != "table":
            typer.echo(shown(found, (), form))
            return
        for each in found:
            typer.echo(
                f"{printable(each['at'])} {printable(each['level']).upper():7} {printable(each['text'])} [{printable(each['logger'])}]"
            )

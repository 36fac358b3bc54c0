"""``dblog signals``: send Debezium's signals to a connector."""

from __future__ import annotations

from typing import Annotated

import typer

from dblog.errors import DefiniteError
from dblog.operate.client import (
    EXIT_CODES,
    Authorities,
    ContextName,
    Login,
    Name,
    Url,
    path_of,
    worker,
)
from dblog.operate.output import one

signals_app = typer.Typer(no_args_is_help=True, help="Debezium's signals to a connector.", epilog=EXIT_CODES)


@signals_app.command("send")
def send_signal(
    name: Name,
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot, log ...")],
    data: Annotated[str, typer.Argument(help="Its data, JSON.")] = "{}",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Send a signal to a connector."""
    import json  # noqa: PLC0415

    with worker(context, url, login, ca) as interface:
        try:
            body = json.loads(data)
        except ValueError as e:
            raise DefiniteError(f"the data is no JSON: {e}") from e
        answer = interface.send("POST", path_of(name, "/signals"), {"type": kind, "data": body})
        typer.echo(one(answer, "table") if isinstance(answer, dict) else "sent")

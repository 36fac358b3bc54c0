"""``dblog loggers``: list and set the log levels of a worker."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from dblog.dumps.printable import printable
from dblog.operate.client import (
    EXIT_CODES,
    Authorities,
    ContextName,
    Login,
    Output,
    Url,
    form_of,
    worker,
)
from dblog.operate.output import shown

loggers_app = typer.Typer(no_args_is_help=True, help="Log levels of a worker.", epilog=EXIT_CODES)


@loggers_app.command("list")
def list_loggers(
    output: Output = "table", context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """List loggers with their levels."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        rows = [{"logger": name, "level": each["level"]} for name, each in interface.get("/admin/loggers").items()]
        typer.echo(shown(rows, ("logger", "level"), form))


@loggers_app.command("set")
def set_logger(
    logger: Annotated[str, typer.Argument(help="The logger, as list shows it; root for all.")],
    level: Annotated[str, typer.Argument(help="TRACE, DEBUG, INFO, WARN, ERROR or OFF.")],
    cluster: Annotated[bool, typer.Option("--cluster", help="On all workers of the group.")] = False,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Set a log level until the worker's next start."""
    with worker(context, url, login, ca) as interface:
        scope = "?scope=cluster" if cluster else ""
        changed = interface.send("PUT", f"/admin/loggers/{quote(logger, safe='')}{scope}", {"level": level})
        typer.echo("\n".join(map(printable, changed)) if isinstance(changed, list) else f"{printable(logger)} was set on all workers")

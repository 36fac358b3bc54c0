"""``dblog tasks``: list and restart the tasks of a connector."""

from __future__ import annotations

from typing import Annotated

import typer

from dblog.dumps.printable import printable
from dblog.operate.client import (
    EXIT_CODES,
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

tasks_app = typer.Typer(no_args_is_help=True, help="Tasks of connectors.", epilog=EXIT_CODES)


@tasks_app.command("list")
def list_tasks(
    name: Name, output: Output = "table", context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """List a connector's tasks."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        rows = interface.get(path_of(name, "/status"))["tasks"]
        if form == "table":
            rows = [{**row, "reason": (str(row.get("trace") or "").splitlines() or [""])[0]} for row in rows]
        typer.echo(shown(rows, ("id", "state", "worker_id", "reason"), form))


@tasks_app.command("restart")
def restart_task(
    name: Name,
    task: Annotated[int, typer.Argument(help="The task's number.")] = 0,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Restart one task, which goes on at the stored position."""
    with worker(context, url, login, ca) as interface:
        interface.send("POST", path_of(name, f"/tasks/{task}/restart"))
        typer.echo(f"task {task} of {printable(name)} was restarted")

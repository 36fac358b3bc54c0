"""``dblog context``: name workers, with their addresses and logins (``contexts.py``)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dblog.dumps.printable import printable
from dblog.errors import DblogError
from dblog.operate import contexts
from dblog.operate.client import (
    EXIT_CODES,
    REFUSED,
    Output,
    form_of,
)
from dblog.operate.output import shown

context_app = typer.Typer(no_args_is_help=True, help="Names for workers, with address and login.", epilog=EXIT_CODES)


@context_app.command("set")
def set_context(
    name: Annotated[str, typer.Argument(help="The context.")],
    url: Annotated[str, typer.Option(help="REST address of any worker of the group.")] = contexts.DEFAULT_URL,
    user: Annotated[str, typer.Option(help="The user. The password is asked for, or read from standard input.")] = "",
    ca: Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM.", show_default=False)] = None,
) -> None:
    """Make or change a context, and use it from now on."""
    import sys  # noqa: PLC0415

    password = ""
    if user:
        password = typer.prompt("Password", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    made = contexts.Context(url=url.rstrip("/"), user=user, password=password, ca="" if ca is None else str(ca.resolve()))
    _change(lambda known: contexts.Contexts({**known.known, name: made}, name))
    typer.echo(f"{printable(name)} is used from now on: {printable(made.url)}")


@context_app.command("use")
def use_context(name: Annotated[str, typer.Argument(help="The context.")]) -> None:
    """Use a context from now on."""

    def used(known: contexts.Contexts) -> contexts.Contexts:
        contexts.chosen(known, name)
        return replace(known, current=name)

    _change(used)
    typer.echo(f"{printable(name)} is used from now on")


@context_app.command("delete")
def delete_context(name: Annotated[str, typer.Argument(help="The context.")]) -> None:
    """Remove a context, with its password."""

    def removed(known: contexts.Contexts) -> contexts.Contexts:
        contexts.chosen(known, name)
        kept = {each: value for each, value in known.known.items() if each != name}
        return contexts.Contexts(kept, "" if known.current == name else known.current)

    _change(removed)
    typer.echo(f"{printable(name)} was removed")


@context_app.command("list")
def list_contexts(output: Output = "table") -> None:
    """List the contexts, without their passwords."""
    form = form_of(output)
    try:
        known = contexts.read(contexts.file_of(os.environ))
    except DblogError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(REFUSED) from None
    rows = [{"name": name, "used": name == known.current, "url": each.url, "user": each.user} for name, each in known.known.items()]
    typer.echo(shown(rows, ("name", "used", "url", "user"), form))


def _change(change: Any) -> None:
    path = contexts.file_of(os.environ)
    try:
        contexts.write(path, change(contexts.read(path)))
    except DblogError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(REFUSED) from None

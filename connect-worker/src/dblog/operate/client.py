"""Opens a worker for one command: address, login and authorities by option, context or environment."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from dblog.dumps.printable import printable_lines
from dblog.errors import DblogError, DefiniteError
from dblog.operate.contexts import NAME_VARIABLE, chosen, file_of, read
from dblog.operate.output import FORMATS

if TYPE_CHECKING:
    from dblog.apply.interface import Interface

Name = Annotated[str, typer.Argument(help="The connector.")]
Output = Annotated[str, typer.Option("-o", "--output", help="table, json or yaml.")]
Watch = Annotated[float | None, typer.Option(min=0.1, help="Print again every so many seconds, until Ctrl-C.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
ContextName = Annotated[
    str | None, typer.Option("--context", envvar=NAME_VARIABLE, help="A context, as dblog context list shows them.", show_default=False)
]
Url = Annotated[str | None, typer.Option(help="REST address of any worker of the group; without it the context's.", show_default=False)]
Login = Annotated[Path | None, typer.Option(help="Folder with username and password, or file with user:password.", show_default=False)]
Authorities = Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM.", show_default=False)]

REFUSED, WRONG, INTERRUPTED = 1, 2, 130
EXIT_CODES = "Exit status 0: done; 1: the worker refused it, did not answer, or something shown is not well; 2: wrong arguments."


@contextlib.contextmanager
def worker(context: str | None, url: str | None, login: Path | None, ca: Path | None) -> Iterator[Interface]:
    """Yield a client of the worker; if a request fails, print why and exit with status 1."""
    from dblog.apply.interface import Interface as Worker  # noqa: PLC0415
    from dblog.apply.interface import read_login  # noqa: PLC0415

    try:
        known = chosen(read(file_of(os.environ)), context) if url is None or context is not None else None
        address = url or (known.url if known is not None else "")
        # The context's password goes to the context's address alone.
        own = known is not None and address == known.url
        given = read_login(login, os.environ) or (known.login if known is not None and own else None)
        authorities = ca or (Path(known.ca) if known is not None and own and known.ca else None)
        with Worker(address, login=given, authorities=authorities) as interface:
            yield interface
    except DblogError as e:
        typer.echo(printable_lines(str(e)), err=True)
        raise typer.Exit(REFUSED) from None


def form_of(output: str) -> str:
    """Return the form of the output. Exit with status 2 for an unknown one."""
    if output not in FORMATS:
        typer.echo(f"-o is one of {', '.join(FORMATS)}, not {output}", err=True)
        raise typer.Exit(WRONG)
    return output


def repeated(show: Callable[[], str], every_s: float | None) -> None:
    """Print what ``show`` returns, once or again and again until Ctrl-C."""
    typer.echo(show())
    try:
        while every_s is not None:
            time.sleep(every_s)
            typer.echo(f"\n{show()}")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def agreed(lines: list[str], *, yes: bool) -> None:
    """Print what a command would do and ask for leave. Exit with status 2 if nobody can be asked."""
    for line in lines:
        typer.echo(printable_lines(line), err=True)
    if yes:
        return
    try:
        typer.confirm("Do it?", abort=True, err=True)
    except typer.Abort:
        typer.echo("nothing was done; --yes does it without asking", err=True)
        raise typer.Exit(WRONG) from None


def path_of(name: str, rest: str = "") -> str:
    """Return the path of a connector's resource."""
    return f"/connectors/{quote(name, safe='')}{rest}"


def read_json(path: Path) -> Any:
    """Return the JSON of a file. Raise DefiniteError."""
    import json  # noqa: PLC0415

    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise DefiniteError(f"{path} cannot be read: {e.strerror}") from e
    except ValueError as e:
        raise DefiniteError(f"{path} is no JSON: {e}") from e

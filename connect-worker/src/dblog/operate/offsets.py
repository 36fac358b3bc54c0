"""``dblog offsets``: print, set and reset the position from which a connector goes on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dblog.dumps.printable import printable
from dblog.errors import DefiniteError
from dblog.operate.client import (
    EXIT_CODES,
    Authorities,
    ContextName,
    Login,
    Name,
    Output,
    Url,
    Yes,
    agreed,
    form_of,
    path_of,
    worker,
)
from dblog.operate.output import one

offsets_app = typer.Typer(no_args_is_help=True, help="Stored positions: where a restart goes on.", epilog=EXIT_CODES)


def _stored(interface: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    stored = interface.get(path_of(name, "/offsets"))["offsets"]
    if not stored:
        raise DefiniteError(f"{name} has no stored position yet")
    return stored[0]["partition"], stored[0]["offset"]


@offsets_app.command("get")
def get_offsets(
    name: Name, output: Output = "table", context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """Print where a restart goes on."""
    from dblog.page.positions import in_words  # noqa: PLC0415

    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        partition, offset = _stored(interface, name)
        typer.echo(one(dict(in_words(offset)) if form == "table" else {"partition": partition, "offset": offset}, form))


@offsets_app.command("set")
def set_offsets(
    name: Name,
    file: Annotated[str, typer.Option(help="MySQL, MariaDB: the log file.")] = "",
    pos: Annotated[str, typer.Option(help="MySQL, MariaDB: the byte in it.")] = "",
    gtids: Annotated[str, typer.Option(help="MySQL, MariaDB: the transactions executed before it.")] = "",
    lsn: Annotated[str, typer.Option(help="PostgreSQL: the LSN, as 16/B374D848.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be read again or skipped.")] = False,
    yes: Yes = False,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Set the stored position of a stopped connector, after saying what is read again or skipped."""
    from dblog.cluster.requests import RequestError  # noqa: PLC0415
    from dblog.page.fleet import Facts, Health  # noqa: PLC0415
    from dblog.page.moves import move_of, wanted_offset  # noqa: PLC0415

    with worker(context, url, login, ca) as interface:
        partition, offset = _stored(interface, name)
        try:
            wanted = wanted_offset(offset, {"file": file, "pos": pos, "gtids": gtids, "lsn": lsn})
        except RequestError as e:
            raise DefiniteError(e.message) from e
        topics = len(interface.get(path_of(name, "/topics"))[name]["topics"])
        move = move_of(offset, wanted, Facts(name=name, system="", prefix="", health=Health.STOPPED), topics=topics)
        if dry_run:
            for line in (move.title, *move.lines):
                typer.echo(printable(line))
            return
        agreed([move.title, *move.lines], yes=yes)
        interface.send("PATCH", path_of(name, "/offsets"), {"offsets": [{"partition": partition, "offset": wanted}]})
        typer.echo(f"the position of {printable(name)} was set")


@offsets_app.command("reset")
def reset_offsets(
    name: Name, yes: Yes = False, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """Forget the stored position of a stopped connector: its next start dumps its tables again, by snapshot.mode."""
    from dblog.page.effects import reset_effect  # noqa: PLC0415
    from dblog.page.fleet import Facts, Health  # noqa: PLC0415

    with worker(context, url, login, ca) as interface:
        topics = len(interface.get(path_of(name, "/topics"))[name]["topics"])
        effect = reset_effect(Facts(name=name, system="", prefix="", health=Health.STOPPED), topics=topics, rows=None)
        agreed(list(effect.lines), yes=yes)
        interface.send("DELETE", path_of(name, "/offsets"))
        typer.echo(f"{printable(name)} has no stored position any more")

"""The commands of ``dblog dumps``: each sends a few requests to any worker of the group."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from dblog.dumps.printable import json_of, printable_lines
from dblog.errors import DblogError, DefiniteError, TransientError

if TYPE_CHECKING:
    from dblog.apply.interface import Interface

app = typer.Typer(no_args_is_help=True, help="Dumps on demand: read tables again, or parts of them, beside the log.")

Connector = Annotated[str, typer.Argument(help="The connector.")]
Dump = Annotated[str, typer.Argument(help="The dump's id, as list shows it; initial is the connector's own.")]
Requested = Annotated[str, typer.Argument(help="The dump's id, as list shows it.")]
Table = Annotated[
    str | None, typer.Option("--table", help="Only this table of the dump, as database.table (schema.table with PostgreSQL).")
]
Url = Annotated[str, typer.Option(help="REST address of any worker of the group.")]
Login = Annotated[Path | None, typer.Option(help="Folder with username and password, or file with user:password.")]
Authorities = Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM; without it the machine's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Every = Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")]
ChunkRows = Annotated[str | None, typer.Option(help="Rows of a chunk; auto: the size adapts.", show_default=False)]
DelayMs = Annotated[int | None, typer.Option(help="Pause ahead of each chunk, in milliseconds.", show_default=False)]
Parallelism = Annotated[int | None, typer.Option(help="Chunks that are read at once.", show_default=False)]
Priority = Annotated[int | None, typer.Option(help="Dumps of a higher one go first.", show_default=False)]

_URL = "http://localhost:8083"
_INTERRUPTED = 130
_PASSING = frozenset({409, 429, 500, 503})
"""Statuses that pass: another worker takes the lead, or a broker is away."""


@app.command("start")
def start(
    connector: Connector,
    tables: Annotated[
        list[str],
        typer.Argument(help="Patterns for the whole of database.table (schema.table with PostgreSQL), as in table.include.list."),
    ],
    mode: Annotated[str, typer.Option(help="rows, repair, columns or verify.")] = "rows",
    where: Annotated[str | None, typer.Option(help="Only the rows of this SQL predicate. It takes the role admin.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Only the row of this key: a value, or a JSON list of them; '\"4711\"' is a text of digits. Repeat it."),
    ] = None,
    column: Annotated[list[str] | None, typer.Option(help="With the mode columns: a column to send beside the key. Repeat it.")] = None,
    surrogate_key: Annotated[
        str | None, typer.Option(help="Read the tables by this column instead of by their keys.", show_default=False)
    ] = None,
    chunk_rows: ChunkRows = None,
    delay_ms: DelayMs = None,
    parallelism: Parallelism = None,
    priority: Priority = None,
    order: Annotated[str | None, typer.Option(help="Of tables: name, size or as_given.", show_default=False)] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not begin before it is resumed.")] = False,
    and_watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    every: Every = 1.0,
    as_json: AsJson = False,
    url: Url = _URL,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Request a dump of tables, beside the log that goes on."""
    body: dict[str, Any] = {"tables": tables, "mode": mode, **_steering(chunk_rows, delay_ms, parallelism, priority)}
    if where is not None:
        body["predicate"] = dict.fromkeys(tables, where)
    if key:
        body["keys"] = [_key(text) for text in key]
    if column:
        body["columns"] = column
    if surrogate_key is not None:
        body["surrogate_key"] = surrogate_key
    if order is not None:
        body["order"] = order
    if paused:
        body["wanted"] = "PAUSED"
    with _interface(url, login, ca) as interface:
        taken = interface.send("POST", _path(connector), body)
        if as_json:
            typer.echo(json_of(taken))
        else:
            total = taken["status"].get("tables_total")
            typer.echo(f"dump {taken['id']} of {connector}: {total} table{'' if total == 1 else 's'}")
        if and_watch:
            _follow(interface, connector, taken["id"], every)


@app.command("list")
def list_dumps(connector: Connector, as_json: AsJson = False, url: Url = _URL, login: Login = None, ca: Authorities = None) -> None:
    """List a connector's dumps, its own first one too."""
    from dblog.dumps.lines import table_of  # noqa: PLC0415

    with _interface(url, login, ca) as interface:
        dumps = interface.get(_path(connector))["dumps"]
        typer.echo(json_of(dumps) if as_json else "\n".join(table_of(dumps)))


@app.command("show")
def show(connector: Connector, dump: Dump, as_json: AsJson = False, url: Url = _URL, login: Login = None, ca: Authorities = None) -> None:
    """Print one dump: what was asked, how far it is, its tables."""
    from dblog.dumps.lines import details_of  # noqa: PLC0415

    with _interface(url, login, ca) as interface:
        found = interface.get(_path(connector, dump))
        typer.echo(json_of(found) if as_json else "\n".join(details_of(found)))


@app.command("watch")
def watch(
    connector: Connector,
    dump: Annotated[str | None, typer.Argument(help="The dump's id; without it the newest one that has not ended.")] = None,
    every: Every = 1.0,
    url: Url = _URL,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Follow a dump to its end, with a bar on a terminal; exit status 0 when it is DONE, 1 when it FAILED or was STOPPED."""
    with _interface(url, login, ca) as interface:
        _follow(interface, connector, dump or _newest(interface.get(_path(connector))["dumps"], connector), every)


@app.command("pause")
def pause(connector: Connector, dump: Requested, table: Table = None, url: Url = _URL, login: Login = None, ca: Authorities = None) -> None:
    """Pause a dump, or one table of it."""
    _steer("pause", connector, dump, table, url, login, ca)


@app.command("resume")
def resume(
    connector: Connector, dump: Requested, table: Table = None, url: Url = _URL, login: Login = None, ca: Authorities = None
) -> None:
    """Let a paused dump, or one table of it, go on."""
    _steer("resume", connector, dump, table, url, login, ca)


@app.command("stop")
def stop(connector: Connector, dump: Requested, table: Table = None, url: Url = _URL, login: Login = None, ca: Authorities = None) -> None:
    """End a dump, or one table of it, for good."""
    _steer("stop", connector, dump, table, url, login, ca)


@app.command("set")
def change(
    connector: Connector,
    dump: Requested,
    chunk_rows: ChunkRows = None,
    delay_ms: DelayMs = None,
    parallelism: Parallelism = None,
    priority: Priority = None,
    url: Url = _URL,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Change how a dump runs, while it runs."""
    from dblog.dumps.lines import headline  # noqa: PLC0415

    with _interface(url, login, ca) as interface:
        body = _steering(chunk_rows, delay_ms, parallelism, priority)
        typer.echo(headline(interface.send("PATCH", _path(connector, dump), body)))


def _steer(verb: str, connector: str, dump: str, table: str | None, url: str, login: Path | None, ca: Path | None) -> None:
    from dblog.dumps.lines import headline  # noqa: PLC0415

    part = "" if table is None else f"/tables/{quote(table, safe='')}"
    with _interface(url, login, ca) as interface:
        typer.echo(headline(interface.send("POST", f"{_path(connector, dump)}{part}/{verb}")))


def _follow(interface: Interface, connector: str, dump: str, every_s: float) -> None:
    from dblog.apply.interface import RefusedError  # noqa: PLC0415
    from dblog.dumps.watch import watch as follow  # noqa: PLC0415

    def ask() -> Any:
        try:
            return interface.get(_path(connector, dump))
        except RefusedError as e:
            if e.status in _PASSING:
                raise TransientError(str(e)) from e
            raise

    try:
        ended = follow(ask, sys.stdout, every_s=every_s, live=sys.stdout.isatty())
    except KeyboardInterrupt:
        typer.echo(f"the dump goes on: dblog dumps watch {connector} {dump}", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    raise typer.Exit(0 if ended == "DONE" else 1)


def _newest(dumps: Sequence[dict[str, Any]], connector: str) -> str:
    """Return the id of the newest dump that has not ended, or of the newest dump if all have."""
    from dblog.dumps.lines import ENDED  # noqa: PLC0415

    if not dumps:
        raise DefiniteError(f"the connector {connector} has no dump; dblog dumps start {connector} TABLE requests one")
    running = [dump for dump in dumps if dump["status"]["state"] not in ENDED]
    newest = max(running or dumps, key=lambda dump: dump.get("created_ms", 0))
    return str(newest["id"])


def _steering(chunk_rows: str | None, delay_ms: int | None, parallelism: int | None, priority: int | None) -> dict[str, Any]:
    given = {"delay_ms": delay_ms, "parallelism": parallelism, "priority": priority}
    body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if chunk_rows is not None:
        if chunk_rows != "auto" and not (chunk_rows.isascii() and chunk_rows.isdigit()):
            raise typer.BadParameter("a number of rows is expected, or auto", param_hint="--chunk-rows")
        body["chunk_rows"] = None if chunk_rows == "auto" else int(chunk_rows)
    return body


def _key(text: str) -> list[Any]:
    """Return the values of a key: a JSON list, or a single value, taken as text if it
    is not JSON.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, list) else [value]


def _path(connector: str, dump: str | None = None) -> str:
    return f"/connectors/{quote(connector, safe='')}/dumps" + ("" if dump is None else f"/{quote(dump, safe='')}")


@contextlib.contextmanager
def _interface(url: str, login: Path | None, ca: Path | None) -> Iterator[Interface]:
    """Yield a client of the worker; if a request fails, print why and exit with status 1."""
    from dblog.apply.interface import Interface as Worker  # noqa: PLC0415
    from dblog.apply.interface import read_login  # noqa: PLC0415

    try:
        with Worker(url, login=read_login(login, os.environ), authorities=ca) as interface:
            yield interface
    except DblogError as e:
        typer.echo(printable_lines(str(e)), err=True)
        raise typer.Exit(1) from None

"""``dblog tasks``, ``offsets``, ``tables``, ``sinks``, ``events``, ``log``, ``signals``, ``loggers`` and ``context``."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from dblog.dumps.printable import printable
from dblog.errors import DblogError, DefiniteError
from dblog.operate import contexts
from dblog.operate.client import (
    EXIT_CODES,
    REFUSED,
    Authorities,
    ContextName,
    Login,
    Name,
    Output,
    Url,
    Watch,
    Yes,
    agreed,
    form_of,
    path_of,
    repeated,
    worker,
)
from dblog.operate.output import one, shown

tasks_app = typer.Typer(no_args_is_help=True, help="Tasks of connectors.", epilog=EXIT_CODES)
offsets_app = typer.Typer(no_args_is_help=True, help="Stored positions: where a restart goes on.", epilog=EXIT_CODES)
sinks_app = typer.Typer(no_args_is_help=True, help="Sinks, and the tables that they write.", epilog=EXIT_CODES)
signals_app = typer.Typer(no_args_is_help=True, help="Debezium's signals to a connector.", epilog=EXIT_CODES)
loggers_app = typer.Typer(no_args_is_help=True, help="Log levels of a worker.", epilog=EXIT_CODES)
context_app = typer.Typer(no_args_is_help=True, help="Names for workers, with address and login.", epilog=EXIT_CODES)


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


def tables(
    name: Name,
    search: Annotated[str, typer.Option(help="Only tables with this text in their names.")] = "",
    output: Output = "table",
    watch: Watch = None,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """List a connector's topics, with the tables that sinks make of them."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:

        def show() -> str:
            topics = interface.get(path_of(name, "/topics"))[name]["topics"]
            lake: dict[str, list[dict[str, Any]]] = {}
            for each in interface.get(path_of(name, "/lake"))["tables"]:
                lake.setdefault(each["topic"], []).append(each)
            rows = [
                {"topic": topic, **copy, "newest": _at(copy.get("source_ts_ms"))}
                for topic in sorted(topics)
                if search.casefold() in topic.casefold()
                for copy in (lake.get(topic) or [{}])
            ]
            return shown(rows, ("topic", "sink", "rows", "rows_waiting", "newest", "parked"), form)

        repeated(show, watch)


@sinks_app.command("list")
def list_sinks(
    output: Output = "table", watch: Watch = None, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """List the sinks that report. Exit status 1 if one has failed or is gone, or has parked tables."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        bad: list[bool] = []

        def show() -> str:
            found = interface.get("/sinks")
            if found["fault"]:
                typer.echo(f"the sinks' topic cannot be read: {printable(found['fault'])}", err=True)
            rows = [{**row, "last report": _at(row["seen_ms"])} for row in found["sinks"]]
            bad.append(any(row["state"] in ("FAILED", "GONE", "UNKNOWN") or row.get("parked") for row in rows))
            return shown(rows, ("sink", "state", "lag_s", "records_behind", "rows_waiting", "tables", "parked", "last report"), form)

        repeated(show, watch)
        if bad[-1]:
            raise typer.Exit(REFUSED)


@sinks_app.command("tables")
def sink_tables(
    sink: Annotated[str, typer.Argument(help="The sink, as list shows it.")],
    output: Output = "table",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """List the tables of a sink, parked ones first."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        rows = interface.get(f"/sinks/{quote(sink, safe='')}/tables")["tables"]
        rows = [{**row, "table": row["name"], "newest": _at(row["source_ts_ms"])} for row in rows]
        rows.sort(key=lambda row: (row["parked"] is None, row["table"]))
        typer.echo(shown(rows, ("table", "rows", "rows_waiting", "newest", "quarantined", "parked"), form))


@sinks_app.command("remove")
def remove_sink(
    sink: Annotated[str, typer.Argument(help="A sink that has ended, as list shows it.")],
    state_path: Annotated[str, typer.Option(help="Its state.path, where several sinks have the name.")] = "",
    yes: Yes = False,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Remove a sink that has ended from the list. The lake stays as it is."""
    with worker(context, url, login, ca) as interface:
        agreed([f"The report of the sink {sink} is removed; the lake, its checkpoint and its tables stay as they are."], yes=yes)
        query = f"?{urlencode({'state_path': state_path})}" if state_path else ""
        interface.send("DELETE", f"/sinks/{quote(sink, safe='')}{query}")
        typer.echo(f"{printable(sink)} was removed from the list")


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


def _at(at_ms: int | None) -> str:
    return "" if not at_ms else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

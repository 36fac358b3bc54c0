"""``dblog tables`` and ``dblog sinks``: what sinks report of themselves and of the tables they write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from dblog.dumps.printable import printable
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
from dblog.operate.output import shown

sinks_app = typer.Typer(no_args_is_help=True, help="Sinks, and the tables that they write.", epilog=EXIT_CODES)


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


def _at(at_ms: int | None) -> str:
    return "" if not at_ms else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

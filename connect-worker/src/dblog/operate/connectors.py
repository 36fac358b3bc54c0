"""``dblog connectors``: list, describe, create, compare, steer and delete connectors; their history and log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from dblog.dumps.printable import printable
from dblog.errors import DefiniteError
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
    read_json,
    repeated,
    worker,
)
from dblog.operate.editor import edited
from dblog.operate.output import one, shown

app = typer.Typer(no_args_is_help=True, help="Connectors of a worker, by its REST interface.", epilog=EXIT_CODES)

_HIDDEN_KEYS = ("name",)


def _state(status: dict[str, Any]) -> str:
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return "FAILED" if "FAILED" in states else str(status["connector"]["state"])


def _reason(status: dict[str, Any]) -> str:
    texts = [str(part.get("trace") or "") for part in (status["connector"], *status["tasks"])]
    return next((text.splitlines()[0] for text in texts if text.strip()), "")


@app.command("list")
def list_connectors(
    output: Output = "table",
    unhealthy: Annotated[bool, typer.Option("--unhealthy", help="Only those that have failed or wait, or have warnings.")] = False,
    watch: Watch = None,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """List connectors, failed ones first."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:

        def show() -> str:
            rows = []
            for name, each in interface.get("/connectors?expand=status").items():
                status = each["status"]
                tasks = status["tasks"]
                failed = sum(task["state"] == "FAILED" for task in tasks)
                rows.append(
                    {
                        "name": name,
                        "state": _state(status),
                        "tasks": f"{len(tasks) - failed}/{len(tasks)}",
                        "worker": next((task["worker_id"] for task in tasks), status["connector"].get("worker_id")),
                        "warnings": len(status.get("warnings", ())),
                        "reason": _reason(status),
                    }
                )
            if unhealthy:
                rows = [row for row in rows if row["state"] == "FAILED" or row["reason"] or row["warnings"]]
            rows.sort(key=lambda row: (row["state"] != "FAILED", not row["reason"], row["name"]))
            return shown(rows, ("name", "state", "tasks", "worker", "warnings", "reason"), form)

        repeated(show, watch)


@app.command("get")
def get(
    name: Name, output: Output = "table", context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """Print a connector's configuration."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        typer.echo(one(interface.get(path_of(name, "/config")), form))


@app.command("describe")
def describe(
    name: Name,
    output: Output = "table",
    watch: Watch = None,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Print how a connector is: state, tasks, warnings, and its tables in the lake. Exit status 1 if it has failed."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        states: list[str] = []

        def show() -> str:
            status = interface.get(path_of(name, "/status"))
            lake = interface.get(path_of(name, "/lake"))["tables"]
            states.append(_state(status))
            if form != "table":
                return one({**status, "lake": lake}, form)
            lines = [one({"name": name, "state": _state(status), "type": status.get("type"), "reason": _reason(status)}, form), ""]
            lines.append(shown(status["tasks"], ("id", "state", "worker_id"), form))
            lines += [f"warning: {printable(text)}" for text in status.get("warnings", ())]
            if lake:
                rows = [{**each, "parked": each["parked"] or "", "table": each["name"]} for each in lake]
                lines += ["", shown(rows, ("table", "sink", "rows", "rows_waiting", "parked"), form)]
            return "\n".join(lines)

        repeated(show, watch)
        if states[-1] == "FAILED":
            raise typer.Exit(REFUSED)


def _wanted(path: Path, name: str | None) -> tuple[str, dict[str, str]]:
    body = read_json(path)
    config = body.get("config", body) if isinstance(body, dict) else None
    if not isinstance(config, dict):
        raise DefiniteError(f"{path} is no configuration: it has to be a JSON object, with name and config or of the keys alone")
    found = name or body.get("name") or config.get("name")
    if not found:
        raise DefiniteError(f"{path} names no connector; give the name with --name")
    return str(found), {str(key): str(value) for key, value in config.items() if value is not None and key not in _HIDDEN_KEYS}


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="The JSON that Kafka Connect takes, or the keys alone.")],
    name: Annotated[str | None, typer.Option(help="The connector's name, if the file has none.", show_default=False)] = None,
    state: Annotated[str, typer.Option(help="RUNNING, PAUSED or STOPPED.")] = "RUNNING",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Create a connector. The worker checks it first, on its database too."""
    with worker(context, url, login, ca) as interface:
        found, config = _wanted(file, name)
        interface.create({**config, "name": found}, state)
        typer.echo(f"{printable(found)} was created")
        for text in interface.warnings:
            typer.echo(f"warning: {printable(text)}", err=True)


@app.command("diff")
def diff(
    file: Annotated[Path, typer.Argument(help="The JSON that Kafka Connect takes, or the keys alone.")],
    name: Annotated[str | None, typer.Option(help="The connector's name, if the file has none.", show_default=False)] = None,
    output: Output = "table",
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Print what a file would change, and what the worker finds wrong with it. Exit status 1 if anything differs or is wrong."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        found, config = _wanted(file, name)
        stored = {key: text for key, text in interface.get(path_of(found, "/config")).items() if key not in _HIDDEN_KEYS}
        rows = _differences(stored, config)
        errors = interface.validate({**config, "name": found})
        typer.echo(shown(rows, ("key", "now", "then"), form))
        for key, texts in errors.items():
            for text in texts:
                typer.echo(f"error: {printable(key)}: {printable(text)}", err=True)
        if rows or errors:
            raise typer.Exit(REFUSED)


def _differences(stored: dict[str, str], wanted: dict[str, str]) -> list[dict[str, str | None]]:
    from dblog.rest.versions import differences  # noqa: PLC0415

    rows = differences(stored, wanted)
    return [{"key": row["key"], "now": row["before"], "then": row["after"]} for row in rows]


@app.command("edit")
def edit(name: Name, yes: Yes = False, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None) -> None:
    """Open a connector's configuration in an editor (EDITOR), and apply what was changed. Keys that stay as they are are not sent."""
    import json  # noqa: PLC0415

    with worker(context, url, login, ca) as interface:
        stored = {key: text for key, text in interface.get(path_of(name, "/config")).items() if key not in _HIDDEN_KEYS}
        try:
            wanted = json.loads(edited(json.dumps(stored, indent=2, ensure_ascii=False), os.environ))
        except ValueError as e:
            raise DefiniteError(f"the edited text is not JSON: {e}; nothing was changed") from e
        if not isinstance(wanted, dict):
            raise DefiniteError("the edited text is not a JSON object of keys and values; nothing was changed")
        changes = {key: wanted.get(key) for key in {*stored, *wanted} if stored.get(key) != wanted.get(key)}
        if not changes:
            typer.echo("nothing was changed")
            return
        rows = _differences(
            {key: stored[key] for key in changes if key in stored}, {k: str(v) for k, v in changes.items() if v is not None}
        )
        agreed(
            [*shown(rows, ("key", "now", "then"), "table").splitlines(), "The task starts again with it, at the stored position."], yes=yes
        )
        interface.send("PATCH", path_of(name, "/config"), changes)
        typer.echo(f"the configuration of {printable(name)} was changed")


@app.command("history")
def history(
    name: Name, output: Output = "table", context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None
) -> None:
    """List the configurations that a connector has had, newest first, with what each changed."""
    form = form_of(output)
    with worker(context, url, login, ca) as interface:
        rows = interface.get(path_of(name, "/config/versions"))
        if form == "table":
            for row in rows:
                row["at"] = _at(row["at_ms"])
                changed = [str(change["key"]) for change in row["changes"] or ()]
                row["changed"] = ", ".join(changed) if row["changes"] is not None else "the oldest that is known"
        typer.echo(shown(rows, ("version", "at", "current", "changed"), form))


@app.command("rollback")
def rollback(
    name: Name,
    version: Annotated[str, typer.Argument(help="The version, as history shows it.")],
    yes: Yes = False,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Go back to an earlier configuration. The worker checks it as any other; the task starts again with it."""
    with worker(context, url, login, ca) as interface:
        agreed([f"{name} gets its configuration of version {version}; its task starts again with it, at the stored position."], yes=yes)
        interface.send("POST", path_of(name, f"/config/versions/{version}/restore"))
        typer.echo(f"{printable(name)} has its configuration of version {printable(version)} again")


def _steer(verb: str, done: str, name: str, context: str | None, url: str | None, login: Path | None, ca: Path | None) -> None:
    with worker(context, url, login, ca) as interface:
        interface.put_state(name, verb)
        typer.echo(f"{printable(name)} was {done}")


@app.command("pause")
def pause(name: Name, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None) -> None:
    """Pause a connector: it reads nothing more, and keeps its process."""
    _steer("pause", "paused", name, context, url, login, ca)


@app.command("resume")
def resume(name: Name, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None) -> None:
    """Let a connector go on at its stored position."""
    _steer("resume", "resumed", name, context, url, login, ca)


@app.command("stop")
def stop(name: Name, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None) -> None:
    """Stop a connector: its task ends until it is resumed."""
    _steer("stop", "stopped", name, context, url, login, ca)


@app.command("restart")
def restart(
    name: Name,
    failed: Annotated[bool, typer.Option("--failed", help="Only what has failed.")] = False,
    context: ContextName = None,
    url: Url = None,
    login: Login = None,
    ca: Authorities = None,
) -> None:
    """Restart a connector and its tasks, which go on at the stored position."""
    with worker(context, url, login, ca) as interface:
        query = urlencode({"includeTasks": "true", "onlyFailed": "true" if failed else "false"})
        interface.send("POST", path_of(name, f"/restart?{query}"))
        typer.echo(f"{'what failed of ' if failed else ''}{printable(name)} was restarted")


@app.command("delete")
def delete(name: Name, yes: Yes = False, context: ContextName = None, url: Url = None, login: Login = None, ca: Authorities = None) -> None:
    """Delete a connector. Its topics and its stored position stay."""
    with worker(context, url, login, ca) as interface:
        topics = len(interface.get(path_of(name, "/topics"))[name]["topics"])
        agreed(
            [f"{name} is deleted with its configuration, status and dumps; {topics} topics with the records stay, and the position."],
            yes=yes,
        )
        interface.delete(name)
        typer.echo(f"{printable(name)} was deleted")


def _at(at_ms: int | None) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    return "-" if not at_ms else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

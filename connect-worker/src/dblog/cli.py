"""The command line and the composition root: parses arguments, builds every object, runs."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import threading
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dblog.bare_structlog  # noqa: F401  first, for its effect
from dblog.cores import leave_no_core
from dblog.dumps.commands import app as dumps_app
from dblog.errors import DblogError, DefiniteError
from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.logs import configure_logs, set_levels
from dblog.operate import context_commands, events, lake, loggers, offsets, signals, tasks
from dblog.operate.connectors import app as connectors_app
from dblog.task import FORMAT_VARIABLE, LEVEL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dblog.abort import Abort
    from dblog.cluster.validation import DatabaseCheck, ReachableCheck
    from dblog.config.login import Logins
    from dblog.config.options import Settings
    from dblog.config.worker import WorkerConfig
    from dblog.config.worker_file import WorkerFile
    from dblog.rest.doors import Doors

_SWITCH_S = 0.000_5
"""Seconds that a thread of the herder's process may keep the interpreter while others wait: a tenth
of Python's default.
"""

app = typer.Typer(no_args_is_help=True, help="dblog: change data capture from MySQL, MariaDB and PostgreSQL to Kafka.")

ddl_app = typer.Typer(no_args_is_help=True, help="What DDL statements do.")
app.add_typer(ddl_app, name="ddl")
users_app = typer.Typer(no_args_is_help=True, help="Users of the REST interface.")
app.add_typer(users_app, name="users")

app.add_typer(connectors_app, name="connectors")
app.add_typer(dumps_app, name="dumps")
for name_, more in (
    ("tasks", tasks.tasks_app),
    ("offsets", offsets.offsets_app),
    ("sinks", lake.sinks_app),
    ("signals", signals.signals_app),
    ("loggers", loggers.loggers_app),
    ("context", context_commands.context_app),
):
    app.add_typer(more, name=name_)
for name_, command in (("tables", lake.tables), ("events", events.events), ("log", events.log)):
    app.command(name_)(command)


def main() -> None:
    """Run the ``dblog`` command."""
    leave_no_core()
    app()


def _print_version_and_exit(asked: bool) -> None:
    if asked:
        typer.echo(own_version())
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[bool, typer.Option("--version", callback=_print_version_and_exit, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Take the options that stand before every command."""


@app.command("version")
def print_version() -> None:
    """Print the version."""
    typer.echo(own_version())


@app.command("options")
def print_options(
    of: Annotated[str, typer.Argument(help="worker, mysql, mariadb, postgres or connector (what Connect reads itself).")],
) -> None:
    """Print the reference of all keys, as a Markdown table."""
    from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS  # noqa: PLC0415
    from dblog.config.framework import FRAMEWORK_OPTIONS  # noqa: PLC0415
    from dblog.config.reference import reference_page  # noqa: PLC0415
    from dblog.config.worker_options import WORKER_OPTIONS  # noqa: PLC0415

    known = {
        "worker": WORKER_OPTIONS,
        "mysql": MYSQL_OPTIONS,
        "mariadb": MARIADB_OPTIONS,
        "postgres": POSTGRES_OPTIONS,
        "connector": FRAMEWORK_OPTIONS,
    }
    if of not in known:
        typer.echo(f"there are options of {', '.join(known)}, not of {of}", err=True)
        raise typer.Exit(2)
    typer.echo(reference_page(known[of]))


@app.command("worker")
def run_worker(
    properties: Annotated[Path, typer.Argument(help="A Kafka Connect worker properties file.")],
    check: Annotated[bool, typer.Option("--check", help="Only read the file and say what is wrong with it; nothing is opened.")] = False,
) -> None:
    """Run a worker until it gets SIGTERM or SIGINT."""
    raise typer.Exit(
        start_worker(
            properties,
            only_check=check,
            task_command=[sys.executable, "-P", "-m", "dblog", "task"],
            check_database=_check_database,
            check_reachable=_check_reachable,
        )
    )


@app.command("health")
def ask_health(
    url: Annotated[str, typer.Option(envvar="DBLOG_HEALTH_URL", help="REST address of the worker.")] = "http://127.0.0.1:8083",
    limit_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the answer.")] = 4.0,
) -> None:
    """Ask a worker whether it is healthy; exit status 0 if it is. What a container's health check runs."""
    from dblog.health import ask  # noqa: PLC0415

    healthy, said = ask(url, limit_s=limit_s)
    typer.echo(said, err=not healthy)
    raise typer.Exit(0 if healthy else 1)


@app.command("tail")
def print_records(
    topic: Annotated[str, typer.Argument(help="The topic: <topic.prefix>.<database>.<table>.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="The oldest records, not the newest.")] = False,
    count: Annotated[int, typer.Option("-n", min=0, help="How many; 0: all.")] = 10,
    bootstrap: Annotated[
        str | None, typer.Option(help="Addresses of brokers; without it those of --worker, or localhost:9092.", show_default=False)
    ] = None,
    registry: Annotated[str, typer.Option(help="The schema registry; a worker is one.")] = "http://localhost:8083",
    worker: Annotated[Path | None, typer.Option(help="The worker's file, for the brokers' addresses, login and TLS.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Authorities of the registry's certificate, PEM; without it the machine's.")] = None,
) -> None:
    """Print records of a topic, key and value decoded, as JSON lines. They hold the rows'
    values.
    """
    from dblog import tail  # noqa: PLC0415

    try:
        wanted = tail.Wanted(
            topic=topic,
            brokers=tail.brokers_of(bootstrap, worker),
            registry=registry,
            authorities=ca,
            from_beginning=from_beginning,
            count=count,
        )
        for line in tail.lines(wanted):
            typer.echo(line)
    except DefiniteError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from None


@ddl_app.command("explain")
def explain_ddl(
    statement: Annotated[str, typer.Argument(help="The statement, in quotes. It is not run.")],
    connector: Annotated[str, typer.Option(help="The connector whose tables it is about.")],
    url: Annotated[str, typer.Option(help="REST address of a worker.")] = "http://localhost:8083",
    database: Annotated[str | None, typer.Option(help="The default database of the statement.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    ca: Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM; without it the machine's.")] = None,
) -> None:
    """Print what a DDL statement would do to records, registry and Delta table, without running
    it.
    """
    from dblog.explained import LOGIN_VARIABLE, ExplainError, ask, lines_of, login_of  # noqa: PLC0415

    try:
        answer = ask(url, connector, statement, database, login=login_of(os.environ.get(LOGIN_VARIABLE, "")), authorities=ca)
    except ExplainError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else "\n".join(lines_of(answer)))


@connectors_app.command("apply")
def apply_connectors(
    path: Annotated[Path, typer.Argument(help="A file with a connector, JSON or YAML, or a folder of them.")],
    url: Annotated[str, typer.Option(help="REST address of any worker of the group.")] = "http://localhost:8083",
    owner: Annotated[str, typer.Option(help="Whose connectors they are (dblog.owner). No others are touched.")] = "apply",
    prune: Annotated[bool, typer.Option("--prune", help="Delete own connectors that no file wants. PATH has to be a folder.")] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Apply no configuration that leaves something in doubt; each doubt is a problem then, also a standing one."
        ),
    ] = False,
    prune_all: Annotated[
        bool,
        typer.Option(
            "--prune-all", help="With --prune: delete all of them too when no file is there, and all others when PATH is a single file."
        ),
    ] = False,
    every: Annotated[float | None, typer.Option(min=1, help="Seconds between two rounds, until SIGTERM. Without it: one round.")] = None,
    once: Annotated[bool, typer.Option("--once", help="One round; the default.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate, and log what would be done.")] = False,
    login: Annotated[Path | None, typer.Option(help="Folder with username and password, or file with user:password.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM; without it the machine's.")] = None,
    restart: Annotated[str, typer.Option(help="Which failed tasks are started again: retriable, all or none.")] = "retriable",
    max_restarts: Annotated[int, typer.Option(min=-1, help="How often in a row; -1: for ever.")] = 7,
    problems_file: Annotated[Path | None, typer.Option(help="File that gets a line for each problem, at each round.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics for Prometheus.")] = None,
) -> None:
    """Make the connectors of a worker equal to files: create, change, pause, resume, stop, delete,
    and start failed tasks again.
    """
    from dblog.apply import program  # noqa: PLC0415
    from dblog.apply.restarts import Policy  # noqa: PLC0415
    from dblog.apply.round import Task  # noqa: PLC0415

    if once and every is not None:
        typer.echo("--once and --every exclude each other", err=True)
        raise typer.Exit(2)
    if prune_all and not prune:
        typer.echo("--prune-all is nothing without --prune", err=True)
        raise typer.Exit(2)
    if restart not in ("retriable", "all", "none"):
        typer.echo("--restart is one of retriable, all, none", err=True)
        raise typer.Exit(2)
    configure_logs(format="json", level="INFO")
    settings = program.Settings(
        task=Task(path=path, owner=owner, prune=prune, prune_all=prune_all, dry_run=dry_run, strict=strict),
        url=url,
        policy=Policy(
            restarts_max=None if max_restarts < 0 else max_restarts, retriable_only=restart == "retriable", enabled=restart != "none"
        ),
        login=login,
        authorities=ca,
        every_s=every,
        problems_file=problems_file,
        metrics_port=metrics_port,
    )
    raise typer.Exit(program.run(settings))


@connectors_app.command("check")
def check_interface(
    url: Annotated[str, typer.Option(help="REST address of a worker.")] = "http://localhost:8083",
    login: Annotated[Path | None, typer.Option(help="Folder with username and password, or file with user:password.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Authorities of the worker's certificate, PEM; without it the machine's.")] = None,
) -> None:
    """Check that a worker leads its group, lets this login in, and validates configurations.
    Nothing is changed.
    """
    from dblog.apply.check import check  # noqa: PLC0415

    try:
        for line in check(url, login=login, authorities=ca):
            typer.echo(line)
    except DblogError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from None


@app.command("doctor")
def examine(
    connector: Annotated[
        Path, typer.Argument(help="A connector's configuration: JSON as it is posted, YAML as connectors apply takes it, or properties.")
    ],
    worker: Annotated[Path | None, typer.Option(help="The worker's file, for its config providers and allowed hosts.")] = None,
) -> None:
    """Check a connector's configuration, its database and its account without a worker: what is
    missing, and which privileges are too many.
    """
    from dblog.doctor import examined, read_connector  # noqa: PLC0415

    configure_logs(format="plain", level="ERROR")
    failed, warnings = False, []
    try:
        for is_error, text in examined(read_connector(connector), worker, _check_database):
            failed |= is_error
            if is_error:
                typer.echo(f"error: {text}")
            else:
                warnings.append(text)
    except DblogError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(2) from None
    many = f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}"
    typer.echo(f"the connector {'cannot run so' if failed else 'can run'}{f', with {many}:' if warnings else ''}")
    for text in warnings:
        typer.echo(f"warning: {text}")
    raise typer.Exit(int(failed))


@users_app.command("hash")
def hash_password(user: Annotated[str, typer.Argument(help="The user's name.")]) -> None:
    """Ask for a password, or read it from standard input, and print the line of a file of users
    (dblog.rest.users.file).
    """
    from dblog.config.passwords import hashed  # noqa: PLC0415

    if not user or any(character in "=:#!@\\" or character.isspace() for character in user):
        typer.echo("a user's name has no blanks and none of = : # ! @ \\", err=True)
        raise typer.Exit(2)
    password = (
        typer.prompt("Password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    )
    if not password:
        typer.echo("an empty password lets nobody in; give one", err=True)
        raise typer.Exit(2)
    typer.echo(f"{user}={hashed(password)}")


def start_worker(
    properties: Path,
    *,
    task_command: Sequence[str],
    check_database: DatabaseCheck | None,
    check_reachable: ReachableCheck | None = None,
    only_check: bool = False,
) -> int:
    """Read the worker's file, listen, serve until the end, and return the exit status.

    Tests pass their own ``task_command``. ``only_check`` ends after the file was read.
    """
    # Imported here so that a task process does not pay for the server.
    import structlog  # noqa: PLC0415

    from dblog.config.insecure_choices import described, insecure_worker_choices  # noqa: PLC0415
    from dblog.config.login import WITHOUT_LOGIN, asks_for_logins, read_logins  # noqa: PLC0415
    from dblog.config.properties import read_properties  # noqa: PLC0415
    from dblog.config.unknown_keys import misspelt_worker_keys, worker_keys_without_effect  # noqa: PLC0415
    from dblog.config.worker import OWN_TOKEN, OWN_URL, read_worker_config  # noqa: PLC0415
    from dblog.config.worker_file import resolve_worker_file  # noqa: PLC0415
    from dblog.rest.doors import open_doors  # noqa: PLC0415

    try:
        written = read_properties(properties)
        _configure_logs_of(written)
        # Before the check: a missing key may be a misspelt one.
        for key, nearest in misspelt_worker_keys(written).items():
            structlog.get_logger("dblog.cli").warning("unknown key in the worker's properties; it is ignored", key=key, meant=nearest)
        for key, reason in worker_keys_without_effect(written).items():
            structlog.get_logger("dblog.cli").info("a key of the worker's properties is ignored", key=key, reason=reason)
        file = resolve_worker_file(written)
        HIDDEN_IN_LOG.take(file.hidden)
        texts = file.texts
        _configure_logs_of(texts)
        if insecure := insecure_worker_choices(texts):
            structlog.get_logger("dblog.cli").warning("insecure choices in the worker's properties", choices=described(insecure))
        worker = read_worker_config(texts, shown=file.placeholders)
        logins = read_logins(worker.settings, os.environ)
        if only_check:
            typer.echo(f"{properties} can be used: a worker of group {worker.settings.text('group.id')} would start with it")
            return 0
        doors = open_doors(worker)
        if (
            doors.open_beyond_this_machine
            and not asks_for_logins(worker.settings, logins)
            and worker.settings.text(WITHOUT_LOGIN) == "refuse"
        ):
            address = doors.open_beyond_this_machine
            raise DefiniteError(
                f"anybody who reaches {address} would not be asked for a login; configure one, or set {WITHOUT_LOGIN} to read or all"
            )
        # Tasks get the addresses that were bound: a port of 0 has become a number.
        texts["listeners"] = ",".join(door.listener.url for door in doors.main)
        texts[OWN_TOKEN] = secrets.token_urlsafe(32)
        if doors.own is not None:
            texts[OWN_URL] = doors.own.listener.url
        worker = read_worker_config(texts)
    except DblogError as e:
        typer.echo(HIDDEN_IN_LOG.out_of(f"dblog cannot start with {properties}: {e}"), err=True)
        return 1
    return _serve(worker, file, doors, logins, task_command, check_database, check_reachable)


def _configure_logs_of(texts: Mapping[str, str]) -> None:
    import structlog  # noqa: PLC0415

    configure_logs(format=texts.get("dblog.log.format", "json"), level=texts.get("dblog.log.level", "INFO"))
    for name in set_levels(texts.get("dblog.log.levels", "")):
        structlog.get_logger("dblog.cli").warning("a level is set for a logger that does not exist", key="dblog.log.levels", name=name)


def _wrong_client_setting(worker: WorkerConfig, error: BaseException) -> str:
    """Return the refusal if a Kafka client rejected a setting of the worker's file; else an empty
    text.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    from dblog.config.client_files import refused_file  # noqa: PLC0415

    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError._INVALID_ARG:  # noqa: SLF001  spelled so
        refusal = error.args[0].str()
        return refused_file(worker, refusal) or f"a Kafka client cannot be made with the worker's properties: {refusal}"
    return ""


def own_version() -> str:
    """Return the version of the installed package, or a fixed text for a source tree."""
    try:
        return installed_version("dblog")
    except PackageNotFoundError:
        return "0.0.0+source"


def _check_database(flavor: str, settings: Settings, limit_s: float, abort: Abort) -> Sequence[str]:
    """Run the database's part of a validation.

    Its modules are a third of all imports of a worker and not needed to start tasks, so they are
    imported late.
    """
    from dblog.dialects.registry import kind_of  # noqa: PLC0415

    return kind_of(flavor).check(settings, limit_s=limit_s, abort=abort)


def _check_reachable(settings: Settings, worker: WorkerConfig, limit_s: float) -> None:
    """Check for a validation that brokers and registry can be reached; imported late as well."""
    from dblog.readers.run.reachable import check_reachable  # noqa: PLC0415

    check_reachable(settings, worker, limit_s=limit_s)


def _serve(
    worker: WorkerConfig,
    file: WorkerFile,
    doors: Doors,
    logins: Logins | None,
    task_command: Sequence[str],
    check_database: DatabaseCheck | None,
    check_reachable: ReachableCheck | None,
) -> int:
    """Build everything, serve until a signal or a fatal error, and return the exit status."""
    from dblog.cluster.program import TaskProgram, import_environment  # noqa: PLC0415

    settings = worker.settings
    program = TaskProgram(
        task_command,
        {
            FORMAT_VARIABLE: settings.text("dblog.log.format"),
            LEVEL_VARIABLE: settings.text("dblog.log.level"),
            **import_environment(),
        },
    )
    # Started before this process imports its own modules: both take half a second of a core.
    program.begin_ahead()

    import structlog  # noqa: PLC0415

    from dblog.assembly import assemble  # noqa: PLC0415
    from dblog.config.login import BASIC_AUTH_EXTENSION, USERS_FILE, WITHOUT_LOGIN  # noqa: PLC0415
    from dblog.config.proxies import PROXIES, Proxies  # noqa: PLC0415
    from dblog.rest.identity import Identity  # noqa: PLC0415
    from dblog.rest.server import Server, follow  # noqa: PLC0415
    from dblog.rest.serverlog import take_server_log  # noqa: PLC0415
    from dblog.rest.threads import Threads  # noqa: PLC0415
    from dblog.rest.tokens import read_tokens  # noqa: PLC0415

    try:
        identity = Identity(settings, logins=logins, tokens=read_tokens(settings))
    except DblogError as e:
        program.close()
        typer.echo(HIDDEN_IN_LOG.out_of(f"dblog cannot start: {e}"), err=True)
        return 1
    take_server_log()
    # The event loop releases the interpreter at each system call, and a thread that checks a
    # configuration keeps it for this long each time.
    sys.setswitchinterval(_SWITCH_S)
    log = structlog.get_logger("dblog.cli")
    fatal: list[BaseException] = []
    ended = threading.Event()
    loop_stop: list[asyncio.AbstractEventLoop] = []

    def on_fatal(error: BaseException) -> None:
        fatal.append(error)
        ended.set()
        for loop in loop_stop:
            loop.call_soon_threadsafe(_wake.set)

    worker_parts = assemble(
        worker,
        file,
        task_program=program,
        commit=f"dblog-{own_version()}",
        on_fatal=on_fatal,
        check_database=check_database,
        check_reachable=check_reachable,
        identity=identity,
    )

    proxies = Proxies(settings.items_of(PROXIES))
    servers = [Server(worker_parts.app, door, proxies=proxies) for door in doors.main]
    servers += [Server(worker_parts.admin_app, door, proxies=proxies) for door in doors.admin]
    servers += [Server(worker_parts.reading_app, door, proxies=proxies) for door in doors.reading]
    if doors.own is not None:
        servers.append(Server(worker_parts.own_app, doors.own))
    _wake = asyncio.Event()
    stopping = Threads("stop", limit=1, busy="")

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop_stop.append(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _wake.set)
        serving = [asyncio.create_task(server.serve()) for server in servers]
        following = [asyncio.create_task(follow((*doors.contexts, identity)))]
        if worker_parts.recorder is not None:
            following.append(asyncio.create_task(worker_parts.recorder.follow()))
        worker_parts.herder.start()
        log.info("rest interface", url=worker.advertised_url, listener=",".join(door.listener.address for door in doors.main))
        for door in doors.admin:
            log.info("rest interface of /admin", listener=door.listener.address)
        for door in doors.reading:
            log.info("read-only rest interface", listener=door.listener.address)
        if (beyond := doors.open_beyond_this_machine) and not identity.asks:
            login = f"ask for a login ({USERS_FILE}, or Kafka Connect's {BASIC_AUTH_EXTENSION})"
            if settings.text(WITHOUT_LOGIN) == "all":
                log.warning(
                    "anybody who reaches the rest interface may run connectors and read their configurations",
                    listener=beyond,
                    remedy=f"listen on 127.0.0.1, or {login}; what only reads can go to dblog.rest.readonly.listener",
                )
            else:
                log.warning(
                    "the rest interface asks for no login, so clients on other machines may only read",
                    listener=beyond,
                    remedy=f"{login}, or let everybody do everything with {WITHOUT_LOGIN}=all",
                )
        if ended.is_set():
            _wake.set()
        waking = asyncio.create_task(_wake.wait())
        await asyncio.wait({*serving, waking}, return_when=asyncio.FIRST_COMPLETED)
        log.info("worker stops")
        await stopping.call(worker_parts.stop)
        worker_parts.waiting.end()
        for each in following:
            each.cancel()
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*serving)

    asyncio.run(serve())
    if fatal:
        error = fatal[0]
        wrong = _wrong_client_setting(worker, error)
        if isinstance(error, DblogError) or wrong:
            log.error("worker ended", reason=wrong or str(error))
            typer.echo(HIDDEN_IN_LOG.out_of(f"dblog worker ended: {wrong or error}"), err=True)
        else:
            log.error("worker ended by a fault of dblog", exc_info=error)
        return 1
    return 0

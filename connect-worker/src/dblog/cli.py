"""The command line and the composition root: parse, build every object, run."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dblog.errors import DblogError, DefiniteError
from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.logs import configure_logs
from dblog.task import FORMAT_VARIABLE, LEVEL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.applications import Starlette

    from dblog.abort import Abort
    from dblog.cluster.validation import DatabaseCheck, ReachableCheck
    from dblog.config.login import Logins
    from dblog.config.options import Settings
    from dblog.config.worker import WorkerConfig
    from dblog.config.worker_file import WorkerFile

app = typer.Typer(add_completion=False, no_args_is_help=True, help="dblog: change data capture from MySQL and MariaDB to Kafka.")

ddl_app = typer.Typer(no_args_is_help=True, help="What DDL statements do.")
app.add_typer(ddl_app, name="ddl")


def main() -> None:
    """Entry point of the ``dblog`` command."""
    app()


def _print_version_and_exit(asked: bool) -> None:
    if asked:
        typer.echo(own_version())
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[bool, typer.Option("--version", callback=_print_version_and_exit, is_eager=True, help="Print the version.")] = False,
) -> None:
    """What stands in front of every command."""


@app.command("version")
def print_version() -> None:
    """Print the version."""
    typer.echo(own_version())


@app.command("options")
def print_options(of: Annotated[str, typer.Argument(help="worker, mysql, mariadb or connector (what Connect reads itself).")]) -> None:
    """Print the reference of all keys, as a Markdown table."""
    from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS  # noqa: PLC0415
    from dblog.config.framework import FRAMEWORK_OPTIONS  # noqa: PLC0415
    from dblog.config.reference import reference_page  # noqa: PLC0415
    from dblog.config.worker_options import WORKER_OPTIONS  # noqa: PLC0415

    known = {"worker": WORKER_OPTIONS, "mysql": MYSQL_OPTIONS, "mariadb": MARIADB_OPTIONS, "connector": FRAMEWORK_OPTIONS}
    if of not in known:
        typer.echo(f"there are options of {', '.join(known)}, not of {of}", err=True)
        raise typer.Exit(2)
    typer.echo(reference_page(known[of]))


@app.command("worker")
def run_worker(properties: Annotated[Path, typer.Argument(help="A Kafka Connect worker properties file.")]) -> None:
    """Run a worker until it gets SIGTERM or SIGINT."""
    raise typer.Exit(
        start_worker(
            properties,
            task_command=[sys.executable, "-m", "dblog", "task"],
            check_database=_check_database,
            check_reachable=_check_reachable,
        )
    )


@app.command("tail")
def print_records(
    topic: Annotated[str, typer.Argument(help="The topic: <topic.prefix>.<database>.<table>.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="The oldest records, not the newest.")] = False,
    count: Annotated[int, typer.Option("-n", min=0, help="How many; 0: all.")] = 10,
    bootstrap: Annotated[str, typer.Option(help="Addresses of brokers.")] = "localhost:9092",
    registry: Annotated[str, typer.Option(help="The schema registry; a worker is one.")] = "http://localhost:8083",
) -> None:
    """Print records of a topic, key and value decoded, as JSON lines. They hold the rows' values."""
    from dblog import tail  # noqa: PLC0415

    wanted = tail.Wanted(topic=topic, bootstrap=bootstrap, registry=registry, from_beginning=from_beginning, count=count)
    try:
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
) -> None:
    """Print what a DDL statement would do to records, registry and Delta table, without running it."""
    from dblog.explained import LOGIN_VARIABLE, ExplainError, ask, lines_of, login_of  # noqa: PLC0415

    try:
        answer = ask(url, connector, statement, database, login=login_of(os.environ.get(LOGIN_VARIABLE, "")))
    except ExplainError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else "\n".join(lines_of(answer)))


def start_worker(
    properties: Path, *, task_command: Sequence[str], check_database: DatabaseCheck | None, check_reachable: ReachableCheck | None = None
) -> int:
    """Read the file, listen, and serve until the end; the exit status. Tests hand in a task program of their own."""
    # Imported here so that a task process does not pay for the server.
    import structlog  # noqa: PLC0415

    from dblog.config.insecure_choices import described, insecure_worker_choices  # noqa: PLC0415
    from dblog.config.login import read_logins  # noqa: PLC0415
    from dblog.config.properties import read_properties  # noqa: PLC0415
    from dblog.config.unknown_keys import misspelt_worker_keys, worker_keys_without_effect  # noqa: PLC0415
    from dblog.config.worker import OWN_TOKEN, read_worker_config  # noqa: PLC0415
    from dblog.config.worker_file import resolve_worker_file  # noqa: PLC0415

    try:
        written = read_properties(properties)
        _configure_logs_of(written)
        # Before the check: a key that is missing may be one that is misspelt.
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
        listener = _listen(worker.listen_host, worker.listen_port, option="listeners")
        reading = None if worker.readonly_listener is None else _listen(*worker.readonly_listener, option="dblog.rest.readonly.listener")
        # What tasks get is what was bound: a port of 0 became a number.
        host = f"[{worker.listen_host}]" if ":" in worker.listen_host else worker.listen_host
        texts["listeners"] = f"http://{host}:{listener.getsockname()[1]}"
        texts[OWN_TOKEN] = secrets.token_urlsafe(32)
        worker = read_worker_config(texts)
    except DblogError as e:
        typer.echo(HIDDEN_IN_LOG.out_of(f"dblog cannot start with {properties}: {e}"), err=True)
        return 1
    return _serve(worker, file, Listeners(listener, reading, logins), task_command, check_database, check_reachable)


def _configure_logs_of(texts: Mapping[str, str]) -> None:
    configure_logs(format=texts.get("dblog.log.format", "json"), level=texts.get("dblog.log.level", "INFO"))


def _wrong_client_setting(worker: WorkerConfig, error: BaseException) -> str:
    """A setting of the worker's file that a Kafka client does not take; empty for any other error."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    from dblog.config.client_files import refused_file  # noqa: PLC0415

    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError._INVALID_ARG:  # noqa: SLF001  spelled so
        refusal = error.args[0].str()
        return refused_file(worker, refusal) or f"a Kafka client cannot be made with the worker's properties: {refusal}"
    return ""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The bound sockets, and who is let in by the first."""

    main: socket.socket
    reading: socket.socket | None
    logins: Logins | None


def own_version() -> str:
    """The installed package's version, or a text for a source tree that is not installed."""
    try:
        return installed_version("dblog")
    except PackageNotFoundError:
        return "0.0.0+source"


def _check_database(flavor: str, settings: Settings, limit_s: float, abort: Abort) -> Sequence[str]:
    """What validation asks the database. Its modules are a third of all that a worker imports, and not needed to start tasks."""
    from dblog.dialects.registry import kind_of  # noqa: PLC0415

    return kind_of(flavor).check(settings, limit_s=limit_s, abort=abort)


def _check_reachable(settings: Settings, worker: WorkerConfig, limit_s: float) -> None:
    """What validation asks brokers and registry; imported late for the same reason."""
    from dblog.readers.reachable import check_reachable  # noqa: PLC0415

    check_reachable(settings, worker, limit_s=limit_s)


def _listen(host: str, port: int, *, option: str) -> socket.socket:
    """Bind first: a port in use is reported at once, and port 0 becomes a number that others can use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) where it sees the protocol: else a body waits 40 ms for the confirmation of its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(256)
    except OSError as e:
        listener.close()
        raise DefiniteError(f"the listener {host or '*'}:{port} cannot be opened ({e.strerror}); choose another address in {option}") from e
    listener.setblocking(False)
    return listener


def _serve(
    worker: WorkerConfig,
    file: WorkerFile,
    listeners: Listeners,
    task_command: Sequence[str],
    check_database: DatabaseCheck | None,
    check_reachable: ReachableCheck | None,
) -> int:
    """Build everything and serve until a signal or a fatal error; the exit status."""
    from dblog.cluster.program import TaskProgram  # noqa: PLC0415

    settings = worker.settings
    program = TaskProgram(
        task_command,
        {
            FORMAT_VARIABLE: settings.text("dblog.log.format"),
            LEVEL_VARIABLE: settings.text("dblog.log.level"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )
    # Before this process imports its own: both take half a second of a core.
    program.begin_ahead()

    import structlog  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415

    from dblog.assembly import assemble  # noqa: PLC0415
    from dblog.config.login import BASIC_AUTH_EXTENSION, LOGIN_CONFIG  # noqa: PLC0415
    from dblog.config.worker import is_loopback  # noqa: PLC0415
    from dblog.rest.connections import BoundedProtocol  # noqa: PLC0415
    from dblog.rest.serverlog import take_server_log  # noqa: PLC0415
    from dblog.rest.threads import Threads  # noqa: PLC0415

    take_server_log()
    log = structlog.get_logger("dblog.cli")
    fatal: list[BaseException] = []
    ended = threading.Event()
    loop_stop: list[asyncio.AbstractEventLoop] = []

    class Server(uvicorn.Server):
        """uvicorn that leaves signals to us: tasks are stopped before the interface goes."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

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
        logins=listeners.logins,
    )

    def server_of(app: Starlette) -> Server:
        return Server(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=2,
                server_header=False,
            )
        )

    servers = [(server_of(worker_parts.app), listeners.main)]
    if listeners.reading is not None:
        servers.append((server_of(worker_parts.reading_app), listeners.reading))
    _wake = asyncio.Event()
    stopping = Threads("stop", limit=1, busy="")

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop_stop.append(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _wake.set)
        serving = [asyncio.create_task(server.serve(sockets=[listener])) for server, listener in servers]
        worker_parts.herder.start()
        log.info("rest interface", url=worker.advertised_url, listener=f"{worker.listen_host or '*'}:{worker.listen_port}")
        if listeners.reading is not None:
            log.info("read-only rest interface", listener="{}:{}".format(*listeners.reading.getsockname()))
        if listeners.logins is None and not is_loopback(worker.listen_host):
            log.warning(
                "whoever reaches the rest interface may run connectors and read their configurations",
                listener=f"{worker.listen_host or '*'}:{worker.listen_port}",
                remedy=f"listen on 127.0.0.1, or ask for a login (rest.extension.classes={BASIC_AUTH_EXTENSION}, {LOGIN_CONFIG}); what only reads "
                "can go to dblog.rest.readonly.listener",
            )
        if ended.is_set():
            _wake.set()
        waking = asyncio.create_task(_wake.wait())
        await asyncio.wait({*serving, waking}, return_when=asyncio.FIRST_COMPLETED)
        log.info("worker stops")
        await stopping.call(worker_parts.stop)
        worker_parts.waiting.end()
        for server, _ in servers:
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

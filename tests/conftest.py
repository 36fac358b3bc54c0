"""What all tests share: real servers, one of each per run, and hypothesis as it should be on a small machine."""

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.logs import TABLE
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from stack import BRIEF_JVM, Kafka, MariaDb, MySql, Postgres
from stack.database import Database
from support import either_server, long_of_day, skipped, slowest_files, some_cases
from support.file_order import LongFilesFirst
from support.postgres import new_database
from support.servers import started

_BUILD = Path(__file__).parents[1] / "build"

settings.register_profile(
    "dblog",
    max_examples=40,  # where a test does not say how many
    # Two busy cores and real servers beside: how long one example takes means nothing.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    database=DirectoryBasedExampleDatabase(_BUILD / "hypothesis"),
)
settings.load_profile("dblog")


os.environ.setdefault("JDK_JAVA_OPTIONS", BRIEF_JVM)  # of every JVM that tests start

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Run as a background job of a script. What is ignored stays ignored in the children, and some tests send them Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of ``make test-day``."""
    parser.addoption("--long-of-day", type=int, metavar="DAY", help="only the long trials of this day; days are counted from any beginning")
    parser.addoption("--begin-within", type=float, metavar="SECONDS", help="skip the tests that have not begun by then")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the time that tests may begin in."""
    if (limit_s := config.option.begin_within) is not None:
        config.pluginmanager.register(long_of_day.BeginWithin(limit_s))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the files that took longest, after a run of many."""
    reports = [one for all_of_one_kind in terminalreporter.stats.values() for one in all_of_one_kind if isinstance(one, pytest.TestReport)]
    if len({one.nodeid.partition("::")[0] for one in reports}) > 2 * slowest_files.SHOWN_MAX:
        terminalreporter.section("files that took longest")
        for line in slowest_files.lines_of(reports):
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last how many tests were skipped: on a machine that lacks a server the other lines look like those of a whole run."""
    if (reporter := config.pluginmanager.get_plugin("terminalreporter")) is not None and (
        line := skipped.line_of(map(skipped.reason_of, reporter.stats.get("skipped", ())))
    ):
        reporter.write_line(line, yellow=True)


def pytest_xdist_make_scheduler(config, log):
    """Files of tests in the order of ``support.file_order``."""
    return LongFilesFirst(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails is named at once, so that also a run that is ended from outside has said what failed."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        reason = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr)
        print(f"\nfailed in {report.when}: {report.nodeid}: {reason[:1000]}", file=sys.__stderr__, flush=True)


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a trial for either server, one of the two is long; of many cases, some; of the long ones, a day has a part."""
    either_server.mark(items)
    some_cases.mark(items)
    if (day := config.option.long_of_day) is not None:
        long_of_day.choose(config, items, day)


@pytest.fixture(autouse=True)
def log_of_its_own() -> Iterator[None]:
    """What a test's command sets for the process's log, its format, levels and hidden words, ends with the test."""
    configuration, levels = structlog.get_config(), TABLE.own()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    if structlog.get_config() != configuration:
        structlog.configure(**configuration)
    if TABLE.own() != levels:
        TABLE.take(levels)
    HIDDEN_IN_LOG.take({})


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Where the servers of this run keep their data."""
    parent = _BUILD / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tests-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def own_folder(servers_folder: Path) -> Path:
    """A folder for a server of one test: for tests that stop, kill or configure it."""
    return Path(tempfile.mkdtemp(prefix="own-", dir=servers_folder))


@pytest.fixture(scope="session")
def kafka(servers_folder: Path) -> Iterator[Kafka]:
    """The run's broker. Tests use topics of their own, and leave it running."""
    with started(Kafka(servers_folder / "kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(servers_folder: Path) -> Iterator[MariaDb]:
    """The run's MariaDB. Tests use databases of their own (`support.servers.new_database`), and leave it running."""
    with started(MariaDb(servers_folder / "mariadb", durable=False)) as server:
        yield server


@pytest.fixture(scope="session")
def mysql(servers_folder: Path) -> Iterator[MySql]:
    """The run's MySQL. Tests use databases of their own (`support.servers.new_database`), and leave it running."""
    with started(MySql(servers_folder / "mysql", durable=False)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(servers_folder: Path) -> Iterator[Postgres]:
    """The run's PostgreSQL. Tests use databases of their own (`postgres_database`), drop the slots that they make, and leave it running."""
    with started(Postgres(servers_folder / "postgres", durable=False)) as server:
        yield server


@pytest.fixture
def postgres_database(postgres: Postgres) -> str:
    """The name of an empty database of the run's PostgreSQL that no other test uses."""
    return new_database(postgres)


@pytest.fixture(params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest) -> Database:
    """Each of the source databases in turn: a test that takes it runs once per server."""
    server: Database = request.getfixturevalue(request.param)
    return server

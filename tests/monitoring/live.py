"""A worker with a connector, and the Prometheus that watches it by the shipped rules with shorter times."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from demo.pipeline import Connector, Worker, create_connector_user
from monitoring.rules import shortened
from stack import Kafka, Prometheus, Server
from stack.database import Database
from stack.process import wait_until
from support.servers import execute, started

FACTOR = 60.0
"""All times of the rules are divided by this."""


def address(url: str) -> str:
    """``host:port`` of a URL."""
    return url.partition("://")[2]


@contextlib.contextmanager
def watching(folder: Path, targets: dict[str, list[str]], *, factor: float = FACTOR) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``targets`` and evaluates the rules."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "alerts.yaml"
    rules.write_text(shortened(factor))
    with started(Prometheus(folder / "prometheus", rules=[rules], interval_s=0.5)) as prometheus:
        prometheus.scrape(targets)
        yield prometheus


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """The server answers nothing, and its connections stay open."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def wait_for(prometheus: Prometheus, *names: str, timeout_s: float = 180.0) -> None:
    """Wait until each of these alerts has fired, at the same time or not."""
    met: set[str] = set()

    def fired() -> bool:
        met.update(prometheus.firing())
        return set(names) <= met

    try:
        wait_until(fired, timeout_s=timeout_s, what=f"the alerts {', '.join(names)}", pause_s=0.3)
    except Exception as e:
        e.add_note(f"fired: {sorted(met)}; active: {[(one['labels']['alertname'], one['state']) for one in prometheus.alerts()]}")
        raise


def shop(kafka: Kafka, source: Database, prefix: str, **options: str) -> Connector:
    """A connector for a new database of one table with three rows."""
    execute(
        source,
        f"CREATE DATABASE {prefix}",
        f"CREATE TABLE {prefix}.orders (id INT PRIMARY KEY, note VARCHAR(200))",
        f"INSERT INTO {prefix}.orders VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    create_connector_user(source)
    named = {name.replace("__", "."): value for name, value in options.items()}
    return Connector(name=prefix, prefix=prefix, source=source, kafka=kafka, database=prefix, options=named)


def create(worker: Worker, connector: Connector) -> None:
    """Start it and wait until its dump is done."""
    worker.rest.create(connector.name, connector.config)
    wait_until(lambda: worker.rest.dump(connector.name).done, timeout_s=120, what="the end of the dump")

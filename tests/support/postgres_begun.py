"""Connectors that have dumped a PostgreSQL database, for tests of changes of its tables."""

from __future__ import annotations

import time
from typing import Any

from stack import Postgres
from support.postgres_follower import PostgresFollower
from support.task_follower import TIMEOUT_S

MARKS = "CREATE TABLE marks (id INT PRIMARY KEY)"
OFTEN = {"dblog.metrics.server.interval.ms": "100"}
SELDOM = {"dblog.metrics.server.interval.ms": "3000"}
BY_ROOT = {"publish.via.partition.root": "true"}
ROOT_ONLY = {**BY_ROOT, "table.include.list": "public.root,public.marks"}
ATTACH = "ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20)"
FILLED = ("CREATE TABLE high (LIKE root INCLUDING ALL)", "INSERT INTO high VALUES (11, 'b')", ATTACH)


class Begun:
    """A factory of connectors that have dumped the tables made by the given statements."""

    def __init__(self, server: Postgres, database: str) -> None:
        self._server, self._database = server, database
        self.followers: list[PostgresFollower] = []

    def __call__(self, *statements: str, **config: str) -> PostgresFollower:
        follower = PostgresFollower(self._server, self._database, **config)
        self.followers.append(follower)
        follower.sql(MARKS, *statements)
        follower.start().until_dumped()
        follower.until_caught_up()
        return follower


def together(*statements: str) -> str:
    """Return the statements as one transaction."""
    return f"BEGIN; {'; '.join(statements)}; COMMIT"


def renamed(*names: str) -> list[str]:
    """Return RENAME statements for pairs "old>new"."""
    return [f"ALTER TABLE {old} RENAME TO {new}" for old, new in (pair.split(">") for pair in names)]


def logged(lines: list[Any], event: str) -> list[Any]:
    """Return the captured log lines with this event."""
    return [line for line in lines if line["event"] == event]


def wait_for_line(lines: list[Any], event: str) -> None:
    """Wait until the captured log has a line with this event, without polling the task."""
    until_s = time.monotonic() + TIMEOUT_S
    while not logged(lines, event):
        assert time.monotonic() < until_s, f"the log lacks {event}"
        time.sleep(0.01)

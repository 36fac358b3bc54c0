"""Real servers in tests, and a new database for each test that needs one.

A test is skipped if the machine cannot have the server; on CI it fails.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any, TypeVar

import pymysql
import pytest
from confluent_kafka import Consumer, Producer
from pymysql.connections import Connection
from stack import Kafka, Prometheus, Unavailable
from stack.database import Database
from stack.process import wait_until

Server = TypeVar("Server", Kafka, Database, Prometheus)


@contextlib.contextmanager
def required() -> Iterator[None]:
    """Skip the test, with the reason, if this machine lacks a requirement of the block.

    With CI=true the test fails instead.
    """
    try:
        yield
    except Unavailable as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))


@contextlib.contextmanager
def started(server: Server) -> Iterator[Server]:
    """Start the server, yield it, and kill it at the end.

    Its data is no longer needed then, and an orderly stop of MySQL takes ten seconds. The test is
    skipped, with the reason, if this machine cannot have the server; with CI=true it fails.
    """
    with required():
        server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def connected(server: Database, *, database: str | None = None) -> Iterator[Connection]:
    """Yield an administrator's connection that commits every statement.

    After a minute of waiting for a lock a statement fails; the default is a year.
    """
    wait = "SET SESSION lock_wait_timeout = 60"
    opened = pymysql.connect(**server.login, database=database, autocommit=True, charset="utf8mb4", init_command=wait, read_timeout=600)
    with contextlib.closing(opened) as connection:
        yield connection


def execute(server: Database, *statements: str, database: str | None = None) -> list[tuple[object, ...]]:
    """Run statements one by one. Return the rows of the last one."""
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def new_database(server: Database, name: str = "t") -> str:
    """Create an empty database.

    Return its name, which starts with `name` and which no other test uses.
    """
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT schema_name FROM information_schema.schemata")
        taken = {row[0] for row in cursor.fetchall()}
        number = next(number for number in range(1, 10_000) if f"{name}_{number}" not in taken)
        cursor.execute(f"CREATE DATABASE `{name}_{number}`")
    return f"{name}_{number}"


def purge_log(server: Database) -> None:
    """Purge the log up to now."""
    execute(server, "FLUSH BINARY LOGS")
    newest = execute(server, "SHOW BINARY LOGS")[-1][0]

    def purged() -> bool:
        # A file that a reader still has open is not purged, and the server notices a closed
        # connection late. MariaDB keeps a file until the storage engine has made its transactions
        # durable.
        for (process,) in execute(server, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
            # The process has ended already.
            with contextlib.suppress(pymysql.err.OperationalError):
                execute(server, f"KILL {process}")
        execute(server, f"PURGE BINARY LOGS TO '{newest}'")
        return execute(server, "SHOW BINARY LOGS")[0][0] == newest

    wait_until(purged, timeout_s=60, what="the log to be purged")


def check_that_a_stop_keeps_records(kafka: Kafka) -> None:
    """Check that a restarted broker has the same address and its former records."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("a", b"kept")
    assert producer.flush(30) == 0

    kafka.stop()
    kafka.start()

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["a"])
    record = consumer.poll(30)
    consumer.close()
    assert record is not None
    assert record.value() == b"kept"


def printed_by(command: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait until `python -m stack up` has started its servers. Return the JSON that it prints."""
    assert command.stdout is not None
    printed = ""
    while not printed.endswith("\n}\n"):
        line = command.stdout.readline()
        assert line, "the command ended early"
        printed += line
    return json.loads(printed)

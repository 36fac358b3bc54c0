"""A standby is promoted under writes, and answers at the address from then on: PostgreSQL 17, whose standbys keep slots in step with their primary's."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from dblog.errors import PositionLostError, ServerChangedError
from stack import Postgres17
from stack.process import wait_until
from support.postgres import execute, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import started

ROWS = 2_000


class Address:
    """A port that leads to one server, later to another. Connections that are open are cut then."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, port: int) -> None:
        self._to = port
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.lead_to(0)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Writer(threading.Thread):
    """Small transactions at the address, whoever answers there; one that the server did not survive is forgotten."""

    def __init__(self, server: Postgres17, address: Address, database: str) -> None:
        super().__init__(daemon=True)
        self._login = {**server.login, "port": address.port, "dbname": database}
        self._ended = threading.Event()
        self._dice = random.Random(17)
        self.committed = 0

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(psycopg2.Error), contextlib.closing(psycopg2.connect(**self._login)) as connection:
                connection.autocommit = True
                with connection.cursor() as cursor:
                    while not self._ended.wait(0.002):
                        id_ = self._dice.randrange(ROWS)
                        cursor.execute(
                            self._dice.choice(
                                [
                                    f"UPDATE t SET n = n + 1 WHERE id BETWEEN {id_} AND {id_ + 2}",
                                    f"DELETE FROM t WHERE id = {id_}",
                                    f"INSERT INTO t VALUES ({id_}, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
                                    f"UPDATE t SET id = id + {10 * ROWS} WHERE id = {id_}",
                                ]
                            )
                        )
                        self.committed += 1
            self._ended.wait(0.05)

    def stop(self) -> None:
        self._ended.set()
        self.join(30)


class Ordered(PostgresFollower):
    """Watches that the positions of each key go on rising."""

    def __init__(self, *args: Any, **config: str) -> None:
        self.positions: dict[bytes, tuple[int, int]] = {}
        self.falls: list[str] = []
        super().__init__(*args, **config)

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        super()._take(table, key, value)
        if value is None or key is None:
            return
        record = json.loads(value)
        high, low = json.loads(record["source"]["sequence"])
        position = int(high), int(low)
        if position < self.positions.get(key, (0, 0)):
            self.falls.append(f"{key!r} {record['op']}: {position} behind {self.positions[key]}")
        self.positions[key] = max(position, self.positions.get(key, (0, 0)))

    def until_surely(self, condition: Any) -> None:
        """As ``until``, with a new run where another server answers, or none."""
        while True:
            try:
                self.until(condition)
            except ServerChangedError:
                self.restart()
            else:
                return


@pytest.fixture
def pair(own_folder: Path) -> Iterator[tuple[Postgres17, Postgres17]]:
    """A primary, and a standby that keeps its failover slots: no walsender shows what the standby does not have."""
    follows = {"sync_replication_slots": "on", "hot_standby_feedback": "on"}
    with (
        started(Postgres17(own_folder / "primary", durable=False)) as primary,
        started(primary.standby(own_folder / "standby", options=follows)) as standby,
    ):
        primary.restart(options={"synchronized_standby_slots": "standby"})
        yield primary, standby


def make(server: Postgres17) -> str:
    database = new_database(server)
    execute(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)",
        f"INSERT INTO t SELECT n, 0 FROM generate_series(0, {ROWS - 1}) n",
        database=database,
    )
    return database


@pytest.mark.parametrize("while_dumping", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in the log", "in the dump"])
def test_with_a_failover_slot_nothing_is_lost_and_positions_go_on_rising(pair: tuple[Postgres17, Postgres17], while_dumping: bool) -> None:
    primary, standby = pair
    database = make(primary)
    address = Address(primary.port)
    config = {"slot.failover": "true", "database.port": str(address.port), "status.update.interval.ms": "100", "dblog.chunk.rows": "100"}
    follower = Ordered(primary, database, **config)
    writer = Writer(primary, address, database)
    writer.start()
    follower.start()
    follower.until_dumped()

    def kept() -> bool:
        """A slot of the standby stays temporary until the primary's has moved beyond what the standby could reserve."""
        follower.poll()
        execute(primary, "SELECT pg_log_standby_snapshot()")
        return execute(standby, f"SELECT synced FROM pg_replication_slots WHERE slot_name = '{follower.name}' AND NOT temporary") == [
            (True,)
        ]

    wait_until(kept, timeout_s=60, what="the slot on the standby", pause_s=0.05)
    before = dict(follower.offset or {})
    request = None
    if while_dumping:
        request, dumped = follower.ask("public.t", chunk_rows=100, delay_ms=200), follower.ops("t").count("r")
        follower.until(lambda: follower.ops("t").count("r") > dumped)
    seen = writer.committed
    primary.kill()
    standby.promote()
    follower.server = standby
    address.lead_to(standby.port)
    wait_until(lambda: writer.committed > seen + 100, timeout_s=30, what="writes to the new primary")
    writer.stop()
    if request is not None:
        assert (follower.status(request.id) or {})["state"] == "RUNNING"
        follower.until_surely(lambda: (follower.status(request.id) or {}).get("state") == "DONE")
    execute(standby, "INSERT INTO t VALUES (-1, -1)", database=database)
    follower.until_surely(lambda: '{"id":-1}' in follower.rows["t"])

    follower.until_equal("t")
    follower.task.stop()
    address.close()
    assert follower.falls == []
    assert follower.offset is not None
    assert int(follower.offset["dblog_epoch"] or 0) > int(before.get("dblog_epoch") or 0)
    assert str(follower.offset["dblog_server"]).endswith("/2")
    if not while_dumping:
        assert follower.ops("t").count("r") <= ROWS, "nothing is dumped again"
    drop_slots(standby, database)


def test_without_a_failover_slot_the_position_is_lost_and_a_new_dump_is_the_way_on(pair: tuple[Postgres17, Postgres17]) -> None:
    primary, standby = pair
    database = make(primary)
    follower = Ordered(primary, database)
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    execute(primary, "DELETE FROM t WHERE id < 100", "INSERT INTO t VALUES (-1, -1)", database=database)
    ((end,),) = execute(primary, "SELECT pg_current_wal_flush_lsn()")
    wait_until(lambda: execute(standby, f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == [(True,)], timeout_s=30, what="the standby")
    primary.kill()
    standby.promote()
    follower.server = standby
    follower.config["database.port"] = str(standby.port)
    follower.task = follower.new_task()

    with pytest.raises(PositionLostError, match=rf"slot {follower.name} no longer exists.*when_needed.*slot\.failover=true"):
        follower.start()
    follower.task.stop()
    follower.rows.clear()  # what was deleted meanwhile nobody shows: a new dump is for an empty table
    follower.config["snapshot.mode"] = "when_needed"
    follower.task = follower.new_task()
    follower.start()
    follower.until(lambda: len(follower.rows.get("t", {})) == ROWS - 99)

    follower.until_equal("t")
    follower.task.stop()
    assert follower.falls == []
    drop_slots(standby, database)


def test_a_server_of_another_cluster_behind_the_address_is_refused(pair: tuple[Postgres17, Postgres17], own_folder: Path) -> None:
    primary, _ = pair
    database = make(primary)
    follower = PostgresFollower(primary, database)
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    with started(Postgres17(own_folder / "other", durable=False)) as other:
        execute(other, f"CREATE DATABASE {database}")
        execute(other, "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)", database=database)
        execute(other, f"SELECT pg_create_logical_replication_slot('{follower.name}', 'pgoutput')", database=database)
        follower.config |= {"database.port": str(other.port), "database.password": other.password}
        follower.task = follower.new_task()

        with pytest.raises(PositionLostError, match="is of another cluster than the one that wrote the stored offset"):
            follower.start()
        follower.task.stop()

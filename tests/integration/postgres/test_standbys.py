"""A standby is read: it is promoted, its upstream is, it replays again, or it has not followed yet. It goes on, or waits, and nothing is dumped for that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest
from dblog.core.dumprequests import INITIAL
from dblog.errors import PositionLostError, ServerChangedError, TransientError
from stack import Postgres17
from stack.process import wait_until
from support.postgres import connected, execute, new_database
from support.postgres_follower import PostgresFollower
from support.servers import started

PREPARES = {"max_prepared_transactions": "2"}
FOLLOWS = {"hot_standby_feedback": "on", **PREPARES}
SUBTRANSACTIONS = 70
"""More than a standby remembers of one transaction."""


class ReadStandby:
    """A primary, a standby of it, and a connector that reads the standby."""

    def __init__(self, folder: Path) -> None:
        self.primary = Postgres17(folder / "primary", durable=False, options=PREPARES)
        self.folder = folder
        self._stopped = threading.Event()
        self._noting: threading.Thread | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with started(self.primary):
            self.database = new_database(self.primary)
            execute(
                self.primary,
                "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
                "INSERT INTO t VALUES (1, 'a')",
                "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
                database=self.database,
            )
            self.standby = self.primary.standby(self.folder / "standby", options=FOLLOWS)
            with started(self.standby):
                self._noting = threading.Thread(target=self._note)
                self._noting.start()
                self.follower = PostgresFollower(
                    self.standby, self.database, **{"read.only": "true", "dblog.metrics.server.interval.ms": "1000"}
                )
                try:
                    self.follower.start()
                    self.follower.until_dumped()
                    self.follower.until(lambda: self.ids == [1])
                    yield
                finally:
                    self.let()
                    self.follower.task.stop()

    def _note(self) -> None:
        """A slot of a standby begins where its primary has noted what is under way."""
        while not self._stopped.wait(0.2):
            with contextlib.suppress(psycopg2.Error):
                execute(self.primary, "SELECT pg_log_standby_snapshot()")

    def let(self) -> None:
        """Note nothing more."""
        self._stopped.set()
        if self._noting is not None:
            self._noting.join()

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.follower.rows.get("t", {}).values())

    def insert(self, server: Postgres17, *ids: int) -> None:
        execute(server, *[f"INSERT INTO t VALUES ({id_}, 'x')" for id_ in ids], database=self.database)

    def until_surely(self, condition: Callable[[], bool]) -> None:
        """As ``until``, with a new run where the server has become another one."""
        while True:
            try:
                self.follower.until(condition)
            except ServerChangedError:
                self.restart()
            else:
                return

    def restart(self) -> None:
        """A new run that may have to wait; the time that it may take is that of ``until``."""

        def goes_on() -> bool:
            self.follower.task.stop()
            self.follower.task = self.follower.new_task()
            try:
                self.follower.start()
            except TransientError as e:
                self.waited_for = str(e)
                return False
            return True

        wait_until(goes_on, timeout_s=120, what="a start", pause_s=0.2)

    def timeline(self) -> str:
        assert self.follower.offset is not None
        return str(self.follower.offset["dblog_server"]).rpartition("/")[2]


@pytest.fixture
def read(own_folder: Path) -> Iterator[ReadStandby]:
    one = ReadStandby(own_folder)
    with one.running():
        yield one


def test_a_standby_that_is_promoted_while_it_is_read_goes_on(read: ReadStandby) -> None:
    read.let()
    read.standby.promote()
    read.insert(read.standby, 2, 3)
    read.until_surely(lambda: read.ids == [1, 2, 3])
    read.until_surely(lambda: read.timeline() == "2")

    read.restart()
    read.insert(read.standby, 4)
    read.until_surely(lambda: read.ids == [1, 2, 3, 4])
    assert read.follower.ops("t") == ["r", "c", "c", "c"]


def test_what_was_written_while_the_publication_left_it_out_comes_when_all_transactions_of_then_have_ended(read: ReadStandby) -> None:
    def reason() -> str:
        return str((read.follower.status(INITIAL) or {}).get("reason"))

    def values() -> dict[object, object]:
        return {row["id"]: row["v"] for row in read.follower.rows["t"].values()}

    execute(
        read.primary, "INSERT INTO t VALUES (2, 'a')", "ALTER PUBLICATION dbz_publication SET (publish = 'insert')", database=read.database
    )
    with connected(read.primary, database=read.database) as writes, connected(read.primary, database=read.database) as prepares:
        writes.autocommit = prepares.autocommit = False
        writing, preparing = writes.cursor(), prepares.cursor()
        for number in range(SUBTRANSACTIONS):
            writing.execute(f"SAVEPOINT s{number}; UPDATE t SET v = 'b' WHERE id = 1")
        preparing.execute("UPDATE t SET v = 'b' WHERE id = 2")
        preparing.execute("PREPARE TRANSACTION 'left'")
        execute(read.primary, "ALTER PUBLICATION dbz_publication SET (publish = 'insert, update, delete')", database=read.database)
        read.follower.until(lambda: "a standby does not know which tables" in reason())
        read.restart()
        writes.commit()
        read.insert(read.primary, 3)
        read.follower.until(lambda: 3 in values())

        read.follower.until(lambda: "a standby does not know which tables" in reason())
        execute(read.primary, "COMMIT PREPARED 'left'", database=read.database)

    read.follower.until(lambda: values() == {1: "b", 2: "b", 3: "x"})


def read_behind_a_promotion(read: ReadStandby) -> dict[str, object]:
    """The offset that a run stores that has not noticed the promotion yet: rows come by the connection that outlives it."""
    before = dict(read.follower.offset or {})
    read.let()
    read.standby.promote()
    read.insert(read.standby, 2)
    read.until_surely(lambda: read.ids == [1, 2])
    read.until_surely(lambda: read.timeline() == "2")
    read.follower.task.stop()
    kept = {name: before[name] for name in ("dblog_server", "dblog_epoch", "dblog_standby_started")}
    return {**(read.follower.offset or {}), **kept}


def test_a_start_behind_a_promotion_that_no_run_has_noticed_goes_on(read: ReadStandby) -> None:
    read.follower.offset = read_behind_a_promotion(read)  # type: ignore[assignment]

    read.restart()
    assert read.timeline() == "2"
    read.insert(read.standby, 3)
    read.until_surely(lambda: read.ids == [1, 2, 3])
    assert read.follower.ops("t") == ["r", "c", "c"]


def test_what_the_slot_has_confirmed_behind_a_promotion_shows_who_was_read(read: ReadStandby) -> None:
    """The server itself has started again since, and the offset is an older version's."""
    read.follower.offset = read_behind_a_promotion(read)  # type: ignore[assignment]
    del read.follower.offset["dblog_standby_started"]  # type: ignore[attr-defined]
    read.standby.restart()

    read.restart()
    assert read.timeline() == "2"
    read.insert(read.standby, 3)
    read.until_surely(lambda: read.ids == [1, 2, 3])
    assert read.follower.ops("t") == ["r", "c", "c"]


def test_what_nothing_shows_to_have_been_read_from_a_promoted_server_is_a_lost_position(read: ReadStandby) -> None:
    """The position is later than the promotion, on the timeline of before; so it would be of a primary whose last changes never came here."""
    read.follower.offset = read_behind_a_promotion(read)  # type: ignore[assignment]
    read.follower.offset["dblog_standby_started"] = 1  # type: ignore[index]
    execute(read.standby, f"SELECT pg_drop_replication_slot('{read.follower.name}')", database=read.database)

    with pytest.raises(PositionLostError, match="has left timeline 1 at .* changes up to .* were read on that timeline.*repair"):
        read.follower.restart()


def test_a_standby_whose_upstream_is_promoted_goes_on(read: ReadStandby) -> None:
    other = read.primary.standby(read.folder / "other", options=FOLLOWS)
    with started(other):
        read.insert(read.primary, 2)
        read.follower.until(lambda: read.ids == [1, 2])
        ((end,),) = execute(read.primary, "SELECT pg_current_wal_lsn()")
        for standby in (other, read.standby):
            ask = f"SELECT pg_last_wal_replay_lsn() >= '{end}'"
            wait_until(lambda s=standby, a=ask: execute(s, a) == [(True,)], timeout_s=60, what="the standbys")
        read.let()
        read.primary.kill()
        other.promote()
        execute(other, f"SELECT pg_create_physical_replication_slot('{read.standby.options['primary_slot_name']}')")
        login = f"host={other.host} port={other.port} user={other.user} password={other.password}"
        execute(read.standby, f"ALTER SYSTEM SET primary_conninfo = '{login}'", "SELECT pg_reload_conf()")
        read.insert(other, 3)

        read.until_surely(lambda: read.ids == [1, 2, 3])
        read.until_surely(lambda: read.timeline() == "2")
        read.restart()
        read.insert(other, 4)
        read.until_surely(lambda: read.ids == [1, 2, 3, 4])
        assert read.follower.ops("t") == ["r", "c", "c", "c"]


def test_a_standby_that_has_not_replayed_what_was_read_is_waited_for(read: ReadStandby) -> None:
    """It has crashed, and takes connections again before it has replayed all that it had shown."""
    read.follower.task.stop()
    execute(read.standby, "SELECT pg_wal_replay_pause()")
    read.insert(read.primary, 2)
    ((end,),) = execute(read.primary, "SELECT pg_current_wal_lsn() - '0/0'")
    assert read.follower.offset is not None
    read.follower.offset = {**read.follower.offset, **dict.fromkeys(("lsn", "lsn_commit"), int(str(end)))}
    read.follower.config["snapshot.mode"] = "when_needed"
    read.follower.task = read.follower.new_task()

    with pytest.raises(TransientError, match="is a standby that has replayed .* and the connector has read up to .* waiting"):
        read.follower.start()

    execute(read.standby, "SELECT pg_wal_replay_resume()")
    read.restart()
    read.insert(read.primary, 3)
    read.until_surely(lambda: read.ids == [1, 3])
    assert read.follower.ops("t") == ["r", "c"], "nothing is dumped again"


def test_a_standby_that_has_not_followed_a_promotion_yet_is_waited_for(read: ReadStandby) -> None:
    """The offset was stored on the server that was promoted; its slot and its address are the standby's now."""
    read.follower.task.stop()
    assert read.follower.offset is not None
    system = str(read.follower.offset["dblog_server"]).partition("/")[0]
    read.follower.offset = {**read.follower.offset, "dblog_server": f"{system}/2"}
    read.follower.config["snapshot.mode"] = "when_needed"
    read.follower.task = read.follower.new_task()

    with pytest.raises(TransientError, match=r"is a standby on timeline 1, and the connector has read timeline 2.*waiting"):
        read.follower.start()

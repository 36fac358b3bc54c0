"""Another server answers, or the same one put back, and lacks transactions that were read: it is waited for, or the position is lost. Never silence. # I3"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dblog.core import successor
from dblog.errors import PositionLostError, ServerChangedError, TransientError
from stack import MariaDb, MySql
from stack.database import Database
from support.follower import Follower
from support.replicas import follow_again, follow_primary, make_primary, same_password, stop_following
from support.servers import execute, new_database, started

pytestmark = pytest.mark.either_server

MADE = pytest.mark.parametrize("made", [MySql, MariaDb])


class Failover:
    """A primary whose last transactions were read and never came to its replica."""

    def __init__(self, made: type[Database], folder: Path, **config: str) -> None:
        self.primary = made(folder / "primary", durable=False)
        self.replica = made(folder / "replica", durable=False, options={"server_id": 2, "log_bin": "other-name"})
        same_password(self.replica, self.primary)
        self._config = config
        self.follower: Follower | None = None

    def lags(self) -> Follower:
        """The connector has stopped behind three changes that the replica lacks, for it does not replicate for now."""
        follow_primary(self.replica, self.primary)
        database = new_database(self.primary, "lacking")
        rows = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
        execute(self.primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", rows, database=database)
        follower = self.follower = Follower(self.primary, database, **self._config).start()
        follower.until_dumped()
        follower.source = self.replica
        follower.until(lambda: count(follower) == 3)
        follower.source = self.primary
        stop_following(self.replica)
        follower.sql("UPDATE t SET v = 100 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
        follower.until_equal("t")
        follower.task.stop()
        return follower

    def turn(self, follower: Follower) -> None:
        """The connector's configuration names the replica."""
        follower.source = self.replica
        follower.config |= {"database.hostname": self.replica.host, "database.port": str(self.replica.port)}
        follower.task = follower.new_task()


def count(follower: Follower) -> int:
    try:
        return len(follower.selected("t"))
    except Exception:  # noqa: BLE001 - the table has not come yet
        return 0


@pytest.fixture
def failover(request: pytest.FixtureRequest, own_folder: Path) -> Iterator[Failover]:
    pair = Failover(request.getfixturevalue("made"), own_folder)
    with started(pair.primary), started(pair.replica):
        yield pair
        if pair.follower is not None:
            pair.follower.task.stop()


def lacking(follower: Follower, server: Database) -> str:
    """The newest transactions that were read, as an error names them."""
    assert follower.offset is not None
    gtids = str(follower.offset["gtids"])
    if server.flavor == "mariadb":
        return re.escape(gtids)
    uuid, last = re.fullmatch(r"(.*):\d+-(\d+)", gtids).groups()  # type: ignore[union-attr]
    return rf"{uuid}:{int(last) - 2}-{last}"


@MADE
def test_a_new_primary_that_never_got_what_was_read_is_a_lost_position(made: type[Database], failover: Failover) -> None:
    follower = failover.lags()
    failover.primary.kill()
    make_primary(failover.replica)
    execute(failover.replica, "INSERT INTO t VALUES (5, 5)", database=follower.database)
    failover.turn(follower)
    sent = len(follower.values)

    with pytest.raises(PositionLostError, match=rf"lacks.* {lacking(follower, failover.primary)}.*follows no other server.*repair"):
        follower.start()
    assert len(follower.values) == sent
    if made is MariaDb:
        shows_only_to_monitors(failover, follower)

    follower.config["snapshot.mode"] = "when_needed"
    follower.restart()
    try:
        follower.until_has("t")
        dumped = [record["after"]["id"] for _, record in follower.values[sent:] if record is not None and record["op"] == "r"]
        assert sorted(dumped) == [1, 2, 3, 5]
    finally:
        follower.task.stop()


def shows_only_to_monitors(failover: Failover, follower: Follower) -> None:
    """An account without SLAVE MONITOR cannot see that the server follows nobody: the trace says what it needs."""
    privileges = "SELECT, INSERT, UPDATE, CREATE, REPLICATION SLAVE, BINLOG MONITOR"
    execute(failover.replica, f"GRANT {privileges} ON *.* TO 'limited'@'%' IDENTIFIED BY '{failover.replica.password}'")
    user = follower.config["database.user"]
    follower.config["database.user"] = "limited"
    follower.task = follower.new_task()
    with pytest.raises(TransientError, match=r"does not show whether it follows.*run there: GRANT SLAVE MONITOR ON \*\.\* TO .limited."):
        follower.start()
    follower.config["database.user"] = user
    follower.task = follower.new_task()


@MADE
def test_a_new_primary_that_has_written_more_than_it_lacks_is_a_lost_position_too(made: type[Database], failover: Failover) -> None:
    follower = failover.lags()
    failover.primary.kill()
    make_primary(failover.replica)
    execute(failover.replica, *[f"INSERT INTO t VALUES ({n}, {n})" for n in range(5, 20)], database=follower.database)
    failover.turn(follower)

    with pytest.raises(PositionLostError, match=rf"lacks.* {lacking(follower, failover.primary)}.*follows no other server"):
        follower.start()
    follower.config["snapshot.mode"] = "when_needed"
    follower.restart()
    try:
        follower.until_has("t")
    finally:
        follower.task.stop()


@MADE
def test_a_replica_that_has_not_got_yet_what_was_read_is_waited_for(made: type[Database], failover: Failover) -> None:
    follower = failover.lags()
    failover.turn(follower)

    with pytest.raises(TransientError, match=rf"lacks.* {lacking(follower, failover.primary)}.*replication is stopped"):
        follower.start()

    follow_again(failover.replica)
    started_at_s = time.monotonic()
    while True:
        follower.task = follower.new_task()
        try:
            follower.start()
        except TransientError as e:
            assert "lacks" in str(e)  # noqa: PT017 - how often it is tried is open
            assert time.monotonic() - started_at_s < 120
        else:
            break
    try:
        execute(failover.primary, "INSERT INTO t VALUES (5, 5)", database=follower.database)
        follower.until_equal("t")
        follower.until(lambda: count(follower) == 4)
        follower.until_equal("t")
        assert follower.ops("t").count("r") == 3, "nothing is dumped again"
    finally:
        follower.task.stop()


@MADE
def test_a_stopped_replica_is_waited_for_a_while_however_old_the_newest_transaction_is(
    made: type[Database], failover: Failover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database rests over night. The while counts from the moment at which the lack is seen."""
    follower = failover.lags()
    failover.turn(follower)
    assert follower.offset is not None
    follower.offset = {**follower.offset, "ts_sec": int(time.time()) - 36_000}
    lacks = rf"lacks.* {lacking(follower, failover.primary)}.*replication is stopped"
    for _ in range(2):
        with pytest.raises(TransientError, match=lacks):
            follower.start()
        follower.task = follower.new_task()

    monkeypatch.setattr(successor, "WAIT_MAX_S", 0.0)
    with pytest.raises(PositionLostError, match=f"{lacks}.*have not arrived for"):
        follower.start()


@MADE
def test_a_server_that_lacks_what_was_read_is_found_out_while_the_task_runs(made: type[Database], failover: Failover) -> None:
    """The address leads to the replica from one connection of the log to the next."""
    follower = failover.lags()
    follower.restart()
    failover.primary.kill()
    make_primary(failover.replica)
    failover.replica.stop()
    failover.replica.port = failover.primary.port
    failover.replica.start()
    follower.source = failover.replica
    with pytest.raises(ServerChangedError, match="another server answers"):
        follower.until(lambda: False)
    follower.task.stop()

    follower.task = follower.new_task()
    with pytest.raises(PositionLostError, match=rf"lacks.* {lacking(follower, failover.primary)}"):
        follower.start()


@MADE
def test_transactions_of_sources_that_are_not_wanted_may_be_lacking(made: type[Database], failover: Failover) -> None:
    """What only one server has, and nobody reads, does not matter on another one."""
    other = "0000aaaa-bbbb-cccc-dddd-eeeeffff0000" if made is MySql else "7-1"
    follower = failover.lags()
    follow_again(failover.replica)
    follower.source = failover.replica
    follower.until(lambda: {row["id"] for row in follower.selected("t")} == {1, 3, 4})
    stop_following(failover.replica)
    follower.source = failover.primary
    follower.restart()
    execute(
        failover.primary,
        f"SET {f'''gtid_next = '{other}:5' ''' if made is MySql else 'gtid_domain_id = 7'}",
        "INSERT INTO t VALUES (5, 5)",
        database=follower.database,
    )
    follower.until_equal("t")
    follower.task.stop()
    make_primary(failover.replica)
    failover.turn(follower)

    with pytest.raises(PositionLostError, match="lacks"):
        follower.start()
    follower.config["gtid.source.excludes"] = other
    follower.restart()
    try:
        follower.sql("INSERT INTO t VALUES (6, 6)")
        follower.until(lambda: "6" in str(list(follower.rows["t"])))
    finally:
        follower.task.stop()


@MADE
def test_a_server_that_was_put_back_from_an_older_copy_is_a_lost_position(made: type[Database], own_folder: Path) -> None:
    server = made(own_folder / "server", durable=False)
    with started(server):
        database = new_database(server, "restored")
        execute(server, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
        follower = Follower(server, database, **{"snapshot.mode": "no_data"}).start()
        follower.task.stop()
        server.stop()
        shutil.copytree(server.data, own_folder / "kept", symlinks=True)
        server.start()
        follower.restart()
        follower.sql("INSERT INTO t VALUES (2), (3)", "DELETE FROM t WHERE id = 1")
        follower.until(lambda: len(follower.values) == 4)
        follower.task.stop()
        server.stop()
        shutil.rmtree(server.data)
        (own_folder / "kept").rename(server.data)
        for file in (server.data, *server.data.rglob("*")):
            shutil.chown(file, server.owner)  # type: ignore[attr-defined]
        server.start()

        follower.task = follower.new_task()
        with pytest.raises(PositionLostError, match=r"has lost transactions of its own that were read before.*repair"):
            follower.start()


def test_what_a_replica_has_written_for_itself_is_named_when_the_connector_comes_to_it(own_folder: Path) -> None:
    """An old primary that comes back, or a replica that somebody has written to: its rows are sent, and may be older than those of other servers."""
    failover = Failover(MySql, own_folder)
    with started(failover.primary), started(failover.replica):
        follower = failover.lags()
        follow_again(failover.replica)
        execute(failover.replica, "INSERT INTO t VALUES (50, 50)", database=follower.database)
        own = execute(failover.replica, "SELECT @@GLOBAL.server_uuid")[0][0]
        follower.source = failover.replica
        follower.until(lambda: count(follower) == 4)
        failover.turn(follower)
        follower.start()
        try:
            follower.until_equal("t")
            (warning,) = [text for text in follower.warnings.texts() if "of its own" in text]
            assert f"{own}:1" in warning
            assert "mode=repair" in warning
        finally:
            follower.task.stop()

"""Dumps of a connector that writes nothing to its source (read.only=true): on real servers, under load, on a replica, and by a replica. # I2 I3

What the read marks stand on is asked of the servers first: which transactions a snapshot shows, whatever commits beside it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.config.plugins import CONNECTORS
from dblog.core.pressure import Limit
from dblog.dialects.mariadb.position import GtidPosition
from dblog.dialects.mysql.binlog.position import GtidSet
from dblog.dialects.mysql.wire import state_watermarks
from dblog.dialects.registry import kind_of
from dblog.errors import DefiniteError, TransientError
from stack import MariaDb, MySql
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database, started

READ_ONLY = {"read.only": "true", "dblog.chunk.rows": "50"}
ROWS = 1500
WRITERS = 4
WATERMARKS = "nowhere.watermark"
NAMED = "the north"


@contextlib.contextmanager
def writing(server: Database, database: str, *, inserts_only: bool = False, pause_s: float = 0.0) -> Iterator[None]:
    """Transactions of several connections on table t, each of its own keys, until the end."""
    stop, failures = threading.Event(), []

    def write(own: int) -> None:
        try:
            with connected(server, database=database) as connection, connection.cursor() as cursor:
                number = 0
                while not stop.is_set():
                    number += 1
                    id_ = (number * 7 % ROWS) // WRITERS * WRITERS + own
                    if inserts_only:
                        cursor.execute("INSERT INTO t (v) VALUES (%s)", (number,))
                    elif number % 5 == 0:
                        cursor.execute("DELETE FROM t WHERE id = %s", (id_,))
                    else:
                        cursor.execute("BEGIN")
                        cursor.execute("REPLACE INTO t VALUES (%s, %s)", (id_, number))
                        cursor.execute("UPDATE t SET v = v + 1 WHERE id = %s", ((id_ + 4 * WRITERS) % ROWS,))
                        cursor.execute("COMMIT")
                    stop.wait(pause_s)
        except BaseException as e:  # noqa: BLE001 - raised below
            failures.append(e)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


@pytest.fixture
def database(source: Database) -> str:
    """With a table of some chunks."""
    made = new_database(source, "readonly")
    filled(source, made)
    return made


def filled(server: Database, database: str) -> None:
    execute(server, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=database)
    for first in range(0, ROWS, 500):
        values = ", ".join(f"({id_}, 0)" for id_ in range(first, first + 500))
        execute(server, f"INSERT INTO t VALUES {values}", database=database)


@pytest.fixture
def follow(source: Database, database: str) -> Iterator[Follower]:
    follower = Follower(source, database, **READ_ONLY, **{"dblog.watermark.table": WATERMARKS})
    yield follower
    follower.task.stop()


# ---- what the servers show


def sequences(position: GtidPosition) -> int:
    """How many transactions a server without a past of other servers has made."""
    return sum(gtid.sequence for domain in position.domains() if (gtid := position.gtid(domain)) is not None)


def test_a_snapshot_shows_every_transaction_that_the_read_marks_say_it_shows(source: Database) -> None:
    """One row is one transaction, so what a snapshot shows can be counted."""
    database = new_database(source, "visible")
    execute(source, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)", database=database)
    with connected(source, database=database) as connection, connection.cursor() as cursor:

        def one(statement: str) -> object:
            cursor.execute(statement)
            return cursor.fetchall()[0][0]

        def transactions() -> int:
            """How many GTIDs the server's own transactions have, as the low mark takes them."""
            if source.flavor == "mysql":
                executed = GtidSet.parse(str(one("SELECT @@GLOBAL.gtid_executed"))).only_source(str(one("SELECT @@server_uuid")))
                return sum(last - first + 1 for _, _, first, last in executed.members())
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            found = dict(cursor.fetchall())
            position = one(f"SELECT BINLOG_GTID_POS('{found['Binlog_snapshot_file']}', {found['Binlog_snapshot_position']})")
            return sequences(GtidPosition.parse(str(position)))

        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        base = transactions()
        cursor.execute("ROLLBACK")
        seen = []
        with writing(source, database, inserts_only=True):
            deadline_s = time.monotonic() + 30
            while len(seen) < 100 or seen[-1] < 100:
                assert time.monotonic() < deadline_s
                if source.flavor == "mysql":
                    least = transactions() - base
                    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                    seen.append(int(str(one("SELECT COUNT(*) FROM t"))))
                    assert seen[-1] >= least, "gtid_executed holds what is visible, and nothing else"
                else:
                    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                    seen.append(int(str(one("SELECT COUNT(*) FROM t"))))
                    assert seen[-1] == transactions() - base, "the position is that of the very snapshot"
                cursor.execute("ROLLBACK")


def test_the_end_of_the_log_holds_every_transaction_that_a_snapshot_has_shown(source: Database) -> None:
    database = new_database(source, "ends")
    execute(source, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)", database=database)
    follower = Follower(source, database, **READ_ONLY)
    server = follower.parts().source.connect(again=False)
    chunks = server.open_chunks()  # type: ignore[union-attr]
    with connected(source, database=database) as connection, connection.cursor() as cursor:

        def logged() -> int:
            gtids = chunks.log_end().gtids
            if isinstance(gtids, GtidPosition):
                return sequences(gtids)
            cursor.execute("SELECT @@server_uuid")
            return sum(last - first + 1 for _, _, first, last in gtids.only_source(str(cursor.fetchall()[0][0])).members())

        base, seen = logged(), 0
        with writing(source, database, inserts_only=True):
            deadline_s, tries = time.monotonic() + 30, 0
            while tries < 100 or not seen:
                tries += 1
                assert time.monotonic() < deadline_s, f"{seen} rows seen in {tries} tries"
                cursor.execute("SELECT COUNT(*) FROM t")
                seen = int(str(cursor.fetchall()[0][0]))
                assert logged() - base >= seen
    chunks.close()
    server.close()


# ---- nothing is written


def executed(source: Database) -> str:
    """Every transaction that the server has made or taken."""
    variable = "gtid_executed" if source.flavor == "mysql" else "gtid_binlog_state"
    return str(execute(source, f"SELECT @@GLOBAL.{variable}")[0][0])


@pytest.fixture
def reader_account(source: Database, database: str) -> Iterator[str]:
    """An account that may read the log and the database, and write nothing."""
    name = f"u{uuid.uuid4().hex[:12]}"
    status = "BINLOG MONITOR" if source.flavor == "mariadb" else "REPLICATION CLIENT"
    execute(
        source,
        f"CREATE USER '{name}'@'{source.host}' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {status} ON *.* TO '{name}'@'{source.host}'",
        f"GRANT SELECT ON {database}.* TO '{name}'@'{source.host}'",
    )
    yield name
    execute(source, f"DROP USER '{name}'@'{source.host}'")


def test_an_account_that_may_write_nothing_dumps_an_idle_source_at_once_and_leaves_no_transaction(
    source: Database, follow: Follower, reader_account: str
) -> None:
    follow.config |= {"database.user": reader_account, "database.password": "secret"}
    follow.task = follow.new_task()
    plugin = next(c for c in CONNECTORS if c.flavor == source.flavor)
    kind_of(plugin.flavor).check(parse_connector(plugin.options, follow.config), limit_s=60.0, abort=Abort())
    before = executed(source)

    began_s = time.monotonic()
    follow.start()
    follow.until_dumped()
    took_s = time.monotonic() - began_s

    follow.until_equal("t")
    assert executed(source) == before, "the dump has made no transaction"
    assert execute(source, "SHOW DATABASES LIKE 'nowhere'") == []
    numbers = follow.task.metrics()
    assert numbers["dump_chunks_total"] >= ROWS / 50
    assert took_s < ROWS / 50 * 0.2, "an idle log closes windows at once, not where somebody waits for it"
    assert numbers["windows_closed_total"] == numbers["dump_chunks_total"]
    follow.sql("UPDATE t SET v = 7 WHERE id = 7")
    follow.until_equal("t")


def test_rows_of_a_dump_stand_behind_what_the_log_had_and_in_front_of_what_it_gets(source: Database, follow: Follower) -> None:
    follow.sql("UPDATE t SET v = 1 WHERE id = 1")
    follow.start()
    with writing(source, follow.database, pause_s=0.001):
        follow.until_dumped()
    follow.until_equal("t")

    newest: dict[int, tuple[int, ...]] = {}
    for _, record in follow.values:
        if record is None:
            continue
        high, low = (int(part) for part in record["source"]["sequence"].strip("[]").replace('"', "").split(","))
        id_ = (record["after"] or record["before"])["id"]
        assert (high, low) > newest.get(id_, (0, 0)), "no row goes back, and no two stand at one position"
        newest[id_] = high, low
    assert follow.ops("t").count("r") > ROWS // 2


def test_rows_are_refused_to_be_read_again_for_that_needs_written_watermarks(source: Database, follow: Follower) -> None:
    follow.config["dblog.row.image.missing"] = "reread"

    with pytest.raises(DefiniteError, match="need written watermarks"):
        follow.new_task()


def test_a_dump_goes_on_when_its_log_and_its_chunks_lose_their_connections(source: Database, follow: Follower) -> None:
    follow.start()
    with writing(source, follow.database, pause_s=0.002):
        follow.until(lambda: follow.ops("t").count("r") > 100)
        user = follow.config["database.user"]
        ids = execute(source, f"SELECT id FROM information_schema.processlist WHERE user = '{user}' AND id <> CONNECTION_ID()")
        for (id_,) in ids:
            named = execute(source, f"SELECT command FROM information_schema.processlist WHERE id = {id_}")
            if named and str(named[0][0]).startswith("Binlog Dump"):
                with contextlib.suppress(pymysql.err.OperationalError):
                    execute(source, f"KILL {id_}")
        follow.until_dumped()

    follow.until_equal("t")
    assert follow.task.metrics()["log_reconnects_total"] >= 1


def test_a_dump_that_is_asked_for_writes_nothing_either(source: Database) -> None:
    database = new_database(source, "asked")
    filled(source, database)
    follower = Follower(source, database, **READ_ONLY, **{"snapshot.mode": "no_data", "dblog.watermark.table": WATERMARKS})
    try:
        follower.start()
        follower.until_state(follower.ask(rf"{database}\.t"), "DONE")
        follower.until_equal("t")
    finally:
        follower.task.stop()

    assert execute(source, "SHOW DATABASES LIKE 'nowhere'") == []


# ---- replicas


def follow_primary(replica: Database, primary: Database, name: str = "") -> None:
    """By GTIDs, from where it is. ``name``: of MariaDB's connection."""
    login = f"HOST='{primary.host}', {{}}PORT={primary.port}, {{}}USER='{primary.user}', {{}}PASSWORD='{primary.password}'"
    if primary.flavor == "mysql":
        options = login.replace("HOST", "SOURCE_HOST").format(*["SOURCE_"] * 3)
        execute(replica, f"CHANGE REPLICATION SOURCE TO {options}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", "START REPLICA")
    else:
        options = login.replace("HOST", "MASTER_HOST").format(*["MASTER_"] * 3)
        execute(replica, f"CHANGE MASTER '{name}' TO {options}, MASTER_USE_GTID=slave_pos", f"START SLAVE '{name}'")


@pytest.mark.parametrize(
    ("made", "logs_replicated"),
    [
        pytest.param(MariaDb, True, id="MariaDB"),
        pytest.param(MariaDb, False, id="MariaDB that logs only its own", marks=pytest.mark.long),
        pytest.param(MySql, True, id="MySQL", marks=pytest.mark.long),
        pytest.param(MySql, False, id="MySQL that logs only its own", marks=pytest.mark.long),
    ],
)
def test_chunks_come_from_a_replica_that_lags_and_never_from_a_server_that_is_ahead(
    made: type[Database], logs_replicated: bool, own_folder: Path
) -> None:
    primary = made(own_folder / "primary", durable=False)
    name = "log_replica_updates" if made is MySql else "log_slave_updates"
    options = {"server_id": 2, name: "ON" if logs_replicated else "OFF"}
    replica = made(own_folder / "replica", durable=False, options=options)
    with started(primary), started(replica):
        follow_primary(replica, primary)
        user = f"anywhere@'{primary.host}'"
        execute(primary, f"CREATE USER {user} IDENTIFIED BY 'secret'", f"GRANT ALL ON *.* TO {user}")
        database = new_database(primary, "far")
        filled(primary, database)
        deadline_s = time.monotonic() + 60
        while not replicated(replica, database):
            assert time.monotonic() < deadline_s
            threading.Event().wait(0.05)
        execute(replica, "SET GLOBAL read_only = ON")

        read_chunks_of_the_replica(primary, replica, database)
        refuse_a_replica_that_leaves_rows_out(primary, replica, database)
        if logs_replicated:
            read_the_replica_alone(primary, replica, database)
            read_chunks_of_the_primary(primary, replica, database)
        if made is MariaDb:
            look_at_a_named_connection(primary, replica, database)


def follower_of(log: Database, chunks: Database, database: str) -> Follower:
    config = {"database.user": "anywhere", "database.password": "secret", "dblog.watermark.table": WATERMARKS}
    if chunks is not log:
        config |= {"dblog.dump.hostname": chunks.host, "dblog.dump.port": str(chunks.port), "dblog.retry.timeout.ms": "1500"}
    return Follower(log, database, **READ_ONLY, **config)


def replicated(replica: Database, database: str) -> bool:
    try:
        return execute(replica, f"SELECT COUNT(*) FROM `{database}`.t") == [(ROWS,)]
    except pymysql.err.ProgrammingError:
        return False


def apply(replica: Database, verb: str) -> None:
    """START or STOP what applies the primary's log."""
    execute(replica, f"{verb} {'REPLICA' if replica.flavor == 'mysql' else 'SLAVE'} SQL_THREAD")


def read_chunks_of_the_replica(primary: Database, replica: Database, database: str) -> None:
    follower = follower_of(primary, replica, database)
    try:
        apply(replica, "STOP")
        follower.sql("UPDATE t SET v = 5 WHERE id = 5")
        follower.start()
        follower.until(lambda: follower.task.metrics()["proof_retries_total"] > 3)
        assert follower.ops("t") == [], "no row is read before the replica has what the log has brought"
        server = follower.parts().source.connect(again=False)
        with contextlib.closing(server), contextlib.closing(server.open_load(Abort())) as load:
            stopped = load.measure([Limit.REPLICA_LAG])
            apply(replica, "START")
            started_again = load.measure([Limit.REPLICA_LAG])
            with connected(replica) as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")  # what the primary logs now waits there
                follower.sql("UPDATE t SET v = 6 WHERE id = 5")
                deadline_s = time.monotonic() + 60
                while load.measure([Limit.REPLICA_LAG]).measured.get(Limit.REPLICA_LAG, 0) < 1000:
                    assert time.monotonic() < deadline_s
                    threading.Event().wait(0.1)

        assert "replication does not run" in stopped.missing[Limit.REPLICA_LAG]
        assert Limit.REPLICA_LAG in started_again.measured
        with writing(primary, database, pause_s=0.002):
            follower.until_dumped()
        follower.until_equal("t")
        assert follower.ops("t").count("r") > ROWS // 2
        assert execute(primary, "SHOW DATABASES LIKE 'nowhere'") == []
    finally:
        follower.task.stop()


def refuse_a_replica_that_leaves_rows_out(primary: Database, replica: Database, database: str) -> None:
    apply(replica, "STOP")
    if replica.flavor == "mysql":
        change = "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ({})"
        execute(replica, change.format(f"'{database}.nothing%'"))
    else:
        change = "SET GLOBAL replicate_wild_ignore_table = '{}'"
        execute(replica, "STOP SLAVE", change.format(f"{database}.nothing%"))
    follower = follower_of(primary, replica, database)
    try:
        follower.start()
        with pytest.raises(DefiniteError, match=r"(?i)leaves out or renames part of what it replicates \(replicate_wild_ignore_table\)"):
            follower.until(lambda: False)
        assert follower.ops("t") == []
    finally:
        follower.task.stop()
        execute(replica, change.format(""))
        execute(replica, "START SLAVE") if replica.flavor == "mariadb" else apply(replica, "START")


def look_at_a_named_connection(primary: Database, replica: Database, database: str) -> None:
    """MariaDB's way to follow several sources: filters of such a connection count, and an account that may not see it reads nothing."""
    execute(replica, "STOP SLAVE", "RESET SLAVE ALL")
    follow_primary(replica, primary, NAMED)

    def refused(reason: str) -> None:
        follower = follower_of(primary, replica, database)
        try:
            follower.start()
            with pytest.raises(DefiniteError, match=reason):
                follower.until(lambda: False)
            assert follower.ops("t") == []
        finally:
            follower.task.stop()

    for variable in ("replicate_do_table", "replicate_ignore_db"):
        change = f"SET GLOBAL `{NAMED}`.{variable} = '{{}}'"
        execute(replica, f"STOP SLAVE '{NAMED}'", change.format("nothing.nothing"))
        refused(rf"leaves out or renames part of what it replicates \({variable} of its connection {NAMED}\)")
        execute(replica, change.format(""))
    execute(replica, f"CHANGE MASTER '{NAMED}' TO IGNORE_DOMAIN_IDS=(77)")
    refused(rf"\(replicate_ignore_domain_ids of its connection {NAMED}\)")
    execute(replica, f"CHANGE MASTER '{NAMED}' TO IGNORE_DOMAIN_IDS=()", f"START SLAVE '{NAMED}'")

    account = f"anywhere@'{primary.host}'"
    execute(replica, "SET SESSION sql_log_bin = 0", f"REVOKE SLAVE MONITOR, SUPER ON *.* FROM {account}")
    refused(r"run there: GRANT SLAVE MONITOR ON \*\.\* TO `?'?anywhere")
    execute(replica, "SET SESSION sql_log_bin = 0", f"GRANT SLAVE MONITOR ON *.* TO {account}")
    follower = follower_of(primary, replica, database)
    try:
        follower.start()
        with writing(primary, database, pause_s=0.002):
            follower.until_dumped()
        follower.until_equal("t")
    finally:
        follower.task.stop()


def read_the_replica_alone(primary: Database, replica: Database, database: str) -> None:
    """Log and chunks of a server that takes no writes but by replication."""
    follower = follower_of(replica, replica, database)
    try:
        follower.start()
        with writing(primary, database, pause_s=0.002):
            follower.until_dumped()
        follower.source = primary
        follower.until_equal("t")
    finally:
        follower.task.stop()


def read_chunks_of_the_primary(primary: Database, replica: Database, database: str) -> None:
    """Log and chunks the wrong way round: what the primary shows may not be in the replica's log for hours."""
    follower = follower_of(replica, primary, database)
    try:
        apply(replica, "STOP")
        execute(primary, "UPDATE t SET v = 5 WHERE id = 6", database=database)
        follower.start()
        with pytest.raises((TransientError, DefiniteError), match=r"has transactions that the one at .* lacks|nor a replica"):
            follower.until(lambda: False)
        assert follower.ops("t") == []
    finally:
        follower.task.stop()


@pytest.mark.long
def test_mysql_without_gtids_is_refused_with_what_to_do(own_folder: Path) -> None:
    server = MySql(own_folder, durable=False, options={"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"})
    with started(server):
        database = new_database(server, "anonymous")
        filled(server, database)
        follower = Follower(server, database, **READ_ONLY)

        with pytest.raises(DefiniteError, match=r"runs with gtid_mode=OFF; turn GTIDs on there"):
            follower.start()

        follower.config["read.only"] = "false"
        follower.restart()
        follower.until_dumped()
        follower.task.stop()
        execute(
            server,
            "SET GLOBAL enforce_gtid_consistency = ON",
            *[f"SET GLOBAL gtid_mode = {mode}" for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")],
        )
        follower.config["read.only"] = "true"
        follower.task = follower.new_task()
        with pytest.raises(DefiniteError, match="the connector's offset has no GTIDs"):
            follower.task.start(follower.offset)
        follower.offset = None
        follower.restart()
        follower.until_equal("t")
        follower.task.stop()


def test_owned_gtids_are_read_as_a_set() -> None:
    class Answers:
        def __init__(self, text: str) -> None:
            self.text = text

        def query(self, *_: object, **__: object) -> list[tuple[str]]:
            return [(self.text,)]

    one, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"

    assert state_watermarks.owned_gtids(Answers("")) == GtidSet()  # type: ignore[arg-type]
    assert state_watermarks.owned_gtids(Answers(f"{one}:7#42")).text() == f"{one}:7"  # type: ignore[arg-type]
    assert state_watermarks.owned_gtids(Answers(f"{one}:7#42:9#43,\n{other}:1#5")).text() == f"{one}:7:9,{other}:1"  # type: ignore[arg-type]
    for thread in (4, 42, 1234567):
        assert state_watermarks.owned_gtids(Answers(f"{one}:7#{thread}:9#43{other}:1#{thread}")).text() == f"{one}:7:9,{other}:1"  # type: ignore[arg-type]

"""What the publication has of the tables: how it is made, what is missing in it, and what comes back into it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg2
import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.core.dumprequests import INITIAL
from dblog.dialects.postgres.catalog import publishing
from dblog.dialects.postgres.task import server as task_server
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.dialects.postgres.task.log import PostgresReader
from dblog.dialects.postgres.task.source import PostgresSource
from dblog.dialects.postgres.task.watch import PostgresWatch
from dblog.dialects.postgres.wire.session import Session
from dblog.errors import DefiniteError, ServerChangedError, TransientError
from dblog.model import TableId
from stack import Postgres, Postgres18
from structlog.testing import capture_logs
from support.postgres import connected, execute, new_database
from support.postgres_follower import PostgresFollower, drop_slots
from support.servers import started


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.fixture
def put_back(postgres: Postgres, database: str) -> PostgresFollower:
    """Dumped, and stopped while its table `t` is not in the publication, which has missed a row; the next start puts it back."""
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "filtered"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    follower.start()
    follower.until_dumped()
    follower.sql("ALTER PUBLICATION dbz_publication DROP TABLE t", "INSERT INTO t VALUES (2, 'b')")
    follower.until_caught_up()
    follower.task.stop()
    return follower


def published(server: Postgres, database: str) -> list[str]:
    rows = execute(server, "SELECT tablename FROM pg_publication_tables WHERE pubname = 'dbz_publication' ORDER BY 1", database=database)
    return [str(row[0]) for row in rows]


TREES = (
    "CREATE SCHEMA s",
    *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT)" for name in ("plain", "s.plain", "other")),
    "CREATE UNLOGGED TABLE s.unlogged (id INT PRIMARY KEY)",
    *(f"CREATE TABLE {root} (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)" for root in ("root", "s.root")),
    *(f"CREATE TABLE {name} PARTITION OF {root} FOR VALUES FROM (0) TO (9)" for name, root in (("s.leaf", "root"), ("leaf", "s.root"))),
    "CREATE TABLE middle PARTITION OF root FOR VALUES FROM (10) TO (90) PARTITION BY RANGE (id)",
    "CREATE TABLE deep PARTITION OF middle FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE going PARTITION OF root FOR VALUES FROM (90) TO (99)",
    "CREATE TABLE child () INHERITS (plain)",
    "CREATE VIEW seen AS SELECT * FROM plain",
)
"""Tables with and without partitions, which lie in other schemas than their roots."""

LISTS = (
    "ALL TABLES",
    "TABLE plain, root",
    "TABLE ONLY plain, s.leaf",
    "TABLE root, middle",
    "TABLE middle, s.leaf, deep",
    "TABLE root WHERE (id > 1), s.leaf WHERE (id > 2), plain WHERE (id > 3)",
    "TABLES IN SCHEMA s",
    "TABLES IN SCHEMA public",
    "TABLES IN SCHEMA s, TABLE root, s.plain WHERE (id > 1)",
    "TABLES IN SCHEMA public, s, TABLE root WHERE (id > 1), deep WHERE (id > 2)",
)


@pytest.mark.parametrize("kind", [Postgres, pytest.param(Postgres18, marks=pytest.mark.long)])
def test_a_publication_s_tables_are_those_that_the_server_names(
    own_folder: Path, kind: type[Postgres], postgres: Postgres, database: str
) -> None:
    with ExitStack() as closed:
        server = postgres if kind is Postgres else closed.enter_context(started(kind(own_folder / "server", durable=False)))
        where = database if kind is Postgres else new_database(server, "trees")
        ((version,),) = execute(server, "SELECT current_setting('server_version_num')::int")
        execute(server, *TREES, database=where)
        with connected(server, database=where) as reader:
            reader.autocommit = False
            reader.cursor().execute("SELECT FROM root")
            with pytest.raises(psycopg2.errors.QueryCanceled):  # its second half waits for the reader, and is left to be done
                execute(server, "SET statement_timeout = 300", "ALTER TABLE root DETACH PARTITION going CONCURRENTLY", database=where)
            reader.rollback()
        view = "SELECT schemaname, tablename, rowfilter IS NOT NULL FROM pg_publication_tables WHERE pubname = 'p'"
        for text in LISTS:
            for by_root in ("false", "true"):
                listed = text if by_root == "true" else text.replace("root WHERE (id > 1)", "root")  # the server takes it with roots only
                execute(server, f"CREATE PUBLICATION p FOR {listed} WITH (publish_via_partition_root = {by_root})", database=where)
                ours = execute(server, publishing.tables_sql("p", version=version), database=where)
                assert sorted(ours) == sorted(execute(server, view, database=where)), (listed, by_root)
                execute(server, "DROP PUBLICATION p", database=where)


@pytest.mark.parametrize("mode", ["all_tables", "filtered"])
def test_the_publication_is_made_and_a_new_table_joins_it(postgres: Postgres, database: str, mode: str) -> None:
    config = {"publication.autocreate.mode": mode, "table.include.list": r"public\.(t.*|marks)"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql("CREATE TABLE t1 (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO t1 VALUES (1)")
    follower.sql("CREATE TABLE marks (id SERIAL PRIMARY KEY)")
    follower.start()
    follower.until_dumped()
    assert published(postgres, database) == (["marks", "t1"] if mode == "filtered" else ["marks", "other", "t1"])

    follower.sql("CREATE TABLE t2 (id INT PRIMARY KEY)", "INSERT INTO t2 VALUES (1)")
    follower.until_caught_up()
    follower.restart()
    follower.sql("INSERT INTO t2 VALUES (2)", "INSERT INTO t1 VALUES (2)")
    follower.until_caught_up()

    follower.until_equal("t1")
    follower.until_equal("t2")
    follower.task.stop()
    assert "other" not in follower.rows
    assert published(postgres, database) == (["marks", "t1", "t2"] if mode == "filtered" else ["marks", "other", "t1", "t2"])


def test_a_publication_that_is_made_empty_is_filled_by_hand(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "no_tables"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    with pytest.raises(DefiniteError, match=r'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"\."t"'):
        follower.start()
    follower.sql('ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."t"')
    follower.task = follower.new_task()
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (2)")
    follower.until_equal("t")
    follower.task.stop()


def test_without_a_publication_that_may_be_made_the_statement_is_named(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    statement = r'CREATE PUBLICATION "dbz_publication" FOR TABLE "public"\."t", "public"\."u";'

    with pytest.raises(DefiniteError, match=statement):
        PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())
    with pytest.raises(DefiniteError, match=statement):
        follower.start()
    follower.sql("CREATE PUBLICATION dbz_publication FOR TABLE t")

    with pytest.raises(DefiniteError, match=r'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"\."u"'):
        PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())


@pytest.mark.parametrize(("option", "publication", "names"), [(True, False, {"old"}), (False, True, {"root"})])
def test_a_check_warns_where_the_publication_has_partitions_otherwise_than_the_option_and_the_publication_counts(
    postgres: Postgres, database: str, option: bool, publication: bool, names: set[str]
) -> None:
    follower = PostgresFollower(postgres, database, **{"publish.via.partition.root": str(option).lower()})
    follower.sql(
        "CREATE TABLE marks (id SERIAL PRIMARY KEY)",
        "CREATE TABLE root (id INT, year INT, PRIMARY KEY (id, year)) PARTITION BY RANGE (year)",
        "CREATE TABLE old PARTITION OF root FOR VALUES FROM (2000) TO (2020)",
        f"CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_via_partition_root = {publication})",
        "INSERT INTO root VALUES (1, 2001)",
    )

    (warning,) = PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO root VALUES (2, 2001)", "DELETE FROM root WHERE id = 1")
    follower.until_caught_up()
    follower.task.stop()

    assert f"publish_via_partition_root = {str(publication).lower()}, which counts" in warning
    found = {name: [row["id"] for row in rows.values()] for name, rows in follower.rows.items() if name != "marks"}
    assert found == {name: [2] for name in names}


def test_a_check_warns_of_a_signal_table_that_the_publication_lacks(postgres: Postgres, database: str) -> None:
    config = {"publication.autocreate.mode": "disabled", "signal.data.collection": "public.signals"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE signals (id TEXT PRIMARY KEY, type TEXT, data TEXT)")
    follower.sql("CREATE PUBLICATION dbz_publication FOR TABLE t")

    (warning,) = PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())

    assert 'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."signals";' in warning


def test_a_check_warns_of_a_publication_that_has_some_rows_of_a_table(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    follower.sql("CREATE PUBLICATION dbz_publication FOR TABLE t WHERE (id > 7), u")

    (warning,) = PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())

    assert "a condition for rows of public.t:" in warning
    assert "snapshot.select.statement.overrides" in warning


@pytest.mark.parametrize("listed_first", [True, False], ids=["from the begin", "while the connector runs"])
def test_rows_of_dump_and_log_have_the_columns_that_the_publication_lists(postgres: Postgres, database: str, listed_first: bool) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    listed = "t (id, shown)"
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, hidden TEXT, shown TEXT)",
        "CREATE TABLE marks (id SERIAL PRIMARY KEY)",
        f"CREATE PUBLICATION dbz_publication FOR TABLE {listed if listed_first else 't'}, marks",
        "INSERT INTO t VALUES (1, 'no', 'yes')",
    )
    follower.start()
    follower.until_dumped()
    follower.sql(f"ALTER PUBLICATION dbz_publication SET TABLE {listed}, marks")

    follower.sql("INSERT INTO t VALUES (2, 'no', 'yes')", "ALTER TABLE t ADD more TEXT, ADD hidden_too TEXT")
    follower.sql("UPDATE t SET shown = 'and again' WHERE id = 1")
    follower.until_caught_up()
    follower.until(lambda: all(set(row) == {"id", "shown"} for row in follower.rows["t"].values()))
    follower.restart()
    follower.sql("INSERT INTO t VALUES (3, 'no', 'yes')")
    follower.until_caught_up()
    follower.sql("ALTER PUBLICATION dbz_publication SET TABLE t (id, shown, more), marks", "UPDATE t SET more = 'm' WHERE id = 3")
    follower.until_caught_up()
    follower.task.stop()

    rows = sorted(follower.rows["t"].values(), key=lambda row: row["id"])
    assert [(row["id"], row["shown"], row.get("more")) for row in rows] == [(1, "and again", None), (2, "yes", None), (3, "yes", "m")]
    assert not any({"hidden", "hidden_too"} & set(row) for row in rows)
    dumped = [record["after"] for table, record in follower.values if table == "t" and record is not None and record["op"] == "r"]
    assert any("hidden" in row for row in dumped) is not listed_first


@pytest.mark.long
def test_of_version_18_rows_have_stored_generated_columns_where_the_publication_has_them(own_folder: Path) -> None:
    with started(Postgres18(own_folder / "server", durable=False)) as server:
        database = new_database(server, "computed")
        follower = PostgresFollower(server, database, **{"publication.autocreate.mode": "disabled"})
        follower.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) STORED, seen INT GENERATED ALWAYS AS (id * 3) VIRTUAL)",
            "CREATE TABLE listed (id INT PRIMARY KEY, n INT, twice INT GENERATED ALWAYS AS (id * 2) STORED)",
            "CREATE PUBLICATION dbz_publication FOR TABLE t, listed (id, twice) WITH (publish_generated_columns = stored)",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO listed VALUES (1, 1)",
        )
        follower.start()
        follower.until_dumped()

        follower.sql(
            "INSERT INTO t VALUES (2)",
            "INSERT INTO listed VALUES (2, 2)",
            "ALTER TABLE t ADD fourfold INT GENERATED ALWAYS AS (id * 4) STORED",
        )
        follower.sql("INSERT INTO t VALUES (3)")
        follower.until(
            lambda: all(row.get("fourfold") == row["id"] * 4 for row in follower.rows["t"].values()) and len(follower.rows["t"]) == 3
        )
        follower.until(lambda: len(follower.rows["listed"]) == 2)
        follower.task.stop()

        assert sorted(follower.rows["listed"].values(), key=lambda row: row["id"]) == [{"id": 1, "twice": 2}, {"id": 2, "twice": 4}]
        assert {(row["id"], row["twice"], "seen" in row) for row in follower.rows["t"].values()} == {
            (1, 2, False),
            (2, 4, False),
            (3, 6, False),
        }


def test_a_captured_table_that_the_publication_lacks_while_the_connector_runs_is_named_once(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE left_out (id INT PRIMARY KEY)")
    follower.sql("CREATE PUBLICATION dbz_publication FOR TABLE t, u")
    server = PostgresSource(parse_connector(follower.options, follower.config)).connect(again=False)
    at = server.now()

    def said(*statements: str) -> list[str]:
        with capture_logs() as lines:
            follower.sql(*statements)
            watch.look(at, at)
            watch.look(at, at)
        return [line["reason"] for line in lines if line["log_level"] == "warning"]

    server.begin()
    watch = PostgresWatch(server.connections, Abort(), selection=SimpleNamespace(includes=lambda table: table.name != "left_out"))
    with closing(server), closing(watch):
        assert said() == []
        (of_one,) = said("ALTER PUBLICATION dbz_publication DROP TABLE u")
        (of_two,) = said("CREATE TABLE a_new_one (id INT PRIMARY KEY)")
        (standing,) = server.connections.warnings.texts()
        assert said("ALTER PUBLICATION dbz_publication ADD TABLE u, a_new_one", "DROP TABLE t") == []
        assert server.connections.warnings.texts() == ()

    assert 'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."u"; or leave the tables out' in of_one
    assert "tables that had been captured are dumped again then" in of_one
    assert 'ADD TABLE "public"."a_new_one", "public"."u"' in of_two
    assert standing == f"the publication lacks captured tables: changes of them are in no record: {of_two}"


def test_a_publication_that_is_dropped_ends_the_task_with_what_helps(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    follower.start()
    follower.until_dumped()

    follower.sql("DROP PUBLICATION dbz_publication", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(DefiniteError, match="publication") as failed:
        follower.until(lambda: follower.keys("t"))
    follower.task.stop()

    assert "dbz_publication" in str(failed.value)
    assert "snapshot.mode=when_needed" in str(failed.value)


@pytest.mark.parametrize("made_by", ["connector", "hand"])
@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_behind_a_publication_that_was_dropped_the_tables_are_dumped_again_where_they_may_be(
    postgres: Postgres, database: str, made_by: str, away: bool
) -> None:
    follower = PostgresFollower(postgres, database, **{"snapshot.mode": "when_needed"})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    follower.start()
    follower.until_dumped()
    follower.until_caught_up()
    if away:
        follower.task.stop()

    follower.sql("DROP PUBLICATION dbz_publication", "INSERT INTO t VALUES (3, 'c')", "DELETE FROM t WHERE id = 1")
    if not away:
        with pytest.raises(ServerChangedError, match="starts again"):
            follower.until(lambda: '{"id":3}' in follower.keys("t"))
        follower.task.stop()
    if made_by == "hand":
        follower.sql("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
    follower.restart()
    follower.sql("INSERT INTO t VALUES (4, 'd')")
    follower.until(lambda: {'{"id":2}', '{"id":3}', '{"id":4}'} <= set(follower.keys("t")))
    follower.task.stop()


@pytest.mark.long
def test_of_version_18_a_publication_that_was_dropped_for_a_while_is_no_silent_loss(own_folder: Path) -> None:
    with started(Postgres18(own_folder / "server", durable=False)) as server:

        def began(**config: str) -> PostgresFollower:
            follower = PostgresFollower(server, new_database(server, "dropped"), **config)
            follower.sql(
                "CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')"
            )
            follower.start()
            follower.until_dumped()
            follower.until_caught_up()
            return follower

        def lose(follower: PostgresFollower) -> None:
            follower.sql("DROP PUBLICATION dbz_publication", "INSERT INTO t VALUES (2, 'b')", "DELETE FROM t WHERE id = 1")
            follower.sql("CREATE PUBLICATION dbz_publication FOR ALL TABLES", "INSERT INTO t VALUES (3, 'c')")

        fails = began()
        lose(fails)
        for _ in range(2):
            with pytest.raises(DefiniteError, match=r'skipped loading publication "dbz_publication".*snapshot\.mode=when_needed'):
                fails.until(lambda: '{"id":3}' in fails.keys("t"))
            fails.restart()
        fails.task.stop()

        for away in (False, True):
            again = began(**{"snapshot.mode": "when_needed"})
            if away:
                again.task.stop()
            lose(again)
            if not away:
                with pytest.raises(ServerChangedError, match="starts again"):
                    again.until(lambda follower=again: '{"id":3}' in follower.keys("t"))
            again.restart()
            again.until(lambda follower=again: {'{"id":2}', '{"id":3}'} <= set(follower.keys("t")))
            again.task.stop()


def test_a_publication_of_inserts_alone_is_refused_in_filtered_mode_too(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "filtered"})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'a')",
        "CREATE PUBLICATION dbz_publication FOR TABLE t, marks WITH (publish = 'insert')",
    )
    with pytest.raises(DefiniteError, match="dbz_publication"):
        follower.start()


def test_a_table_that_was_taken_out_of_the_publication_is_dumped_when_it_is_put_back(put_back: PostgresFollower) -> None:
    markers: list[dict[str, Any]] = []
    put_back.marked = lambda value: markers.append(json.loads(value))
    put_back.restart()
    put_back.sql("INSERT INTO t VALUES (3, 'c')")
    put_back.until_equal("t")
    put_back.until(lambda: any(marker["final"] for marker in markers))
    put_back.task.stop()
    assert {marker["mode"] for marker in markers if marker["table"].endswith(".t")} == {"repair"}, "rows may have been deleted meanwhile"


@pytest.mark.parametrize("how", ["the start is killed", "the first connection is lost"])
def test_a_table_that_is_put_back_into_the_publication_is_dumped_though(
    put_back: PostgresFollower, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [TransientError("lost")]
    add_tables, receive = task_server.add_tables, PostgresReader.receive

    def added(*arguments: Any) -> None:
        add_tables(*arguments)
        raise RuntimeError("killed")

    def received(reader: PostgresReader, timeout_s: float) -> int:
        if lost:
            raise lost.pop()
        return receive(reader, timeout_s)

    if how == "the start is killed":
        with monkeypatch.context() as patch:
            patch.setattr(task_server, "add_tables", added)
            with pytest.raises(RuntimeError, match="killed"):
                put_back.new_task().start(put_back.offset)
    else:
        monkeypatch.setattr(PostgresReader, "receive", received)
    put_back.task = put_back.new_task()
    put_back.start()
    put_back.sql("INSERT INTO t VALUES (3, 'c')")
    put_back.until_equal("t")
    put_back.task.stop()
    assert how == "the start is killed" or not lost


def test_a_table_that_is_new_to_the_publication_is_followed_where_nothing_is_dumped(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "filtered", "snapshot.mode": "no_data"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
    follower.start()
    follower.until_caught_up()
    follower.sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    follower.restart()
    follower.sql("INSERT INTO u VALUES (2)")
    follower.until(lambda: [row["id"] for row in follower.rows.get("u", {}).values()] == [2])
    follower.task.stop()


def test_a_table_that_is_put_back_is_refused_where_nothing_may_dump_it(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "filtered", "snapshot.mode": "no_data"})
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    follower.start()
    follower.until_caught_up()
    follower.task.stop()
    follower.sql("ALTER PUBLICATION dbz_publication DROP TABLE t", "INSERT INTO t VALUES (2, 'b')")

    for _ in range(2):
        with pytest.raises(DefiniteError, match=r"only a dump of public\.t brings them.*event\.processing\.failure\.handling\.mode=warn"):
            follower.new_task().start(follower.offset)

    follower.config["event.processing.failure.handling.mode"] = "warn"
    follower.restart()
    follower.sql("INSERT INTO t VALUES (3, 'c')")
    follower.until(lambda: follower.keys("t") == ['{"id":3}'])
    follower.task.stop()


@pytest.mark.parametrize("prepared", [False, True], ids=["idle", "prepared"])
def test_a_table_that_is_added_to_the_publication_is_dumped_behind_transactions_that_have_written_to_it(
    own_folder: Path, prepared: bool
) -> None:
    with started(Postgres(own_folder / "server", durable=False, options={"max_prepared_transactions": "2"})) as server:
        database = new_database(server)
        config = {"publication.autocreate.mode": "filtered", "table.include.list": r"public\.(t.*|marks)", "snapshot.mode": "initial"}
        follower = PostgresFollower(server, database, **config)
        follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)")
        follower.start()
        follower.until_dumped()
        follower.until_caught_up()
        follower.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE t_other (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        follower.sql("INSERT INTO t_other VALUES (1)")

        def reason() -> str:
            return str((follower.status(INITIAL) or {}).get("reason"))

        with connected(server, database=database) as writes, connected(server, database=database) as bystands:
            writes.autocommit = bystands.autocommit = False
            writing, bystanding = writes.cursor(), bystands.cursor()
            writing.execute("INSERT INTO t VALUES (2)")
            bystanding.execute("INSERT INTO marks VALUES (1000)")
            if prepared:
                writing.execute("PREPARE TRANSACTION 'left'")
            for _ in range(2):  # a restart does not forget it
                follower.restart()
                if not prepared:
                    follower.until_equal("t_other")
                follower.until(lambda: reason().endswith("under way at that time: 1 not ended yet"))
            if prepared:
                follower.sql("COMMIT PREPARED 'left'")
            else:
                writing.execute("INSERT INTO t VALUES (3)")
                writes.commit()
            follower.until_equal("t")
            bystands.commit()
        follower.sql("INSERT INTO t VALUES (4)")
        follower.until_equal("t")
        follower.task.stop()


def test_a_first_start_on_a_slot_that_is_older_than_the_table_in_the_publication_waits_for_who_was_writing_then(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    slot = follower.config["slot.name"]
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    follower.sql("CREATE PUBLICATION dbz_publication FOR TABLE marks", f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    with connected(postgres, database=database) as writer:
        writer.autocommit = False
        writer.cursor().execute("INSERT INTO t VALUES (2)")
        follower.sql("ALTER PUBLICATION dbz_publication ADD TABLE t")
        follower.start()
        for restarts in (True, False):
            for _ in range(3):
                follower.until_caught_up()
            if restarts:
                follower.restart()
        assert "t" not in follower.rows
        writer.commit()

    follower.until_equal("t")
    follower.task.stop()


def test_a_publication_with_a_list_of_columns_is_followed(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled"})
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, w TEXT)",
        "INSERT INTO t VALUES (1, 'a', 'A')",
        "CREATE PUBLICATION dbz_publication FOR TABLE t (id, v), marks",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("INSERT INTO t VALUES (2, 'b', 'B')")
    follower.until_caught_up()
    follower.restart()
    follower.sql("INSERT INTO t VALUES (3, 'c', 'C')")
    follower.until_caught_up()
    request = follower.ask("public.t")
    follower.until_state(request, "DONE")
    follower.sql("INSERT INTO t VALUES (4, 'd', 'D')")
    follower.until_caught_up()
    follower.task.stop()
    rows = sorted(follower.rows["t"].values(), key=lambda row: row["id"])
    assert rows == [{"id": n, "v": v} for n, v in enumerate("abcd", 1)]


def test_another_publication_in_the_middle_of_a_transaction_loses_no_row(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(
        postgres, database, **{"publication.autocreate.mode": "disabled", "publication.name": "one", "max.batch.size": "100"}
    )
    follower.sql(
        "CREATE TABLE marks (id INT PRIMARY KEY)",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "CREATE PUBLICATION one FOR TABLE t, u, marks",
        "CREATE PUBLICATION two FOR TABLE u, marks",
    )
    follower.start()
    follower.until_dumped()
    follower.sql("BEGIN; INSERT INTO t SELECT generate_series(1, 1000); INSERT INTO u SELECT generate_series(1, 1000); COMMIT")
    while len(follower.rows.get("t", {})) < 500:
        follower.poll(records_max=100)
    assert follower.offset is not None
    assert follower.offset.get("dblog_event")
    follower.config |= {"publication.name": "two", "table.include.list": "public.u,public.marks"}
    follower.restart()
    follower.until_caught_up()
    found = len(follower.rows.get("u", {}))
    follower.task.stop()
    assert found == 1000


@pytest.mark.parametrize("told", [True, False], ids=["the log tells", "the log does not"])
def test_a_table_outside_that_has_got_the_name_of_a_captured_one_is_dumped_when_it_is_let_in(
    postgres: Postgres, database: str, told: bool
) -> None:
    config = {"publication.autocreate.mode": "filtered", "table.include.list": "public.t,public.marks"}
    follower = PostgresFollower(postgres, database, **config)
    follower.sql("CREATE TABLE marks (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    follower.sql(
        "CREATE TABLE outside (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')", "INSERT INTO outside VALUES (1, 'b')"
    )
    follower.start().until_dumped()
    follower.until_caught_up()
    follower.task.stop()

    follower.sql("BEGIN; ALTER TABLE t RENAME TO w; ALTER TABLE outside RENAME TO t; ALTER TABLE w RENAME TO outside; COMMIT")
    if told:
        follower.sql("INSERT INTO outside VALUES (2, 'c')")
    follower.config["table.include.list"] = "public.t,public.outside,public.marks"
    follower.restart()

    follower.until_equal("t")
    follower.until_equal("outside")
    follower.task.stop()


def test_tables_that_somebody_else_adds_in_the_same_moment_are_dumped(put_back: PostgresFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    def added(session: Session, publication: str, tables: Sequence[TableId]) -> None:
        put_back.sql("ALTER PUBLICATION dbz_publication ADD TABLE t")
        add_tables(session, publication, tables)

    add_tables = task_server.add_tables
    with monkeypatch.context() as patch:
        patch.setattr(task_server, "add_tables", added)
        with pytest.raises(TransientError, match="somebody else has done it meanwhile"):
            put_back.new_task().start(put_back.offset)

    put_back.task = put_back.new_task()
    put_back.start()
    put_back.until_equal("t")
    put_back.task.stop()

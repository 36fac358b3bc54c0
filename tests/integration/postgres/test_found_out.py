"""What becomes of tables while the log tells nothing: no row follows, the connector is away, or one statement does much at once. # I3, I4"""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import psycopg2
import pytest
from dblog.clock import SystemClock
from dblog.core.timeline import Timeline
from dblog.dialects.postgres.pgoutput.changes import changes_of
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.task.schemas import PostgresSchemas
from dblog.dialects.postgres.wire.connect import settings_of
from dblog.dialects.postgres.wire.session import connect
from dblog.model import TableId
from dblog.readers.contract import TaskContext
from stack import Postgres
from structlog.testing import capture_logs
from support.postgres_begun import ATTACH, BY_ROOT, FILLED, OFTEN, ROOT_ONLY, SELDOM, Begun, renamed, together
from support.postgres_follower import ROOT, PostgresFollower


@pytest.mark.parametrize(
    ("moves", "now"),
    [
        (("a>x", "b>a", "x>b"), "abc"),
        (("a>x", "b>a", "c>b", "x>c"), "abc"),
        (("c>d", "b>c", "a>b"), "bcd"),
        (("a>d", "b>a"), "acd"),
    ],
    ids=["swapped", "rotated", "moved on", "replaced"],
)
@pytest.mark.parametrize("partitioned", [False, True], ids=["tables", "roots"])
def test_tables_that_take_each_others_names_are_found_whole_without_a_row(
    begun: Begun, partitioned: bool, moves: tuple[str, ...], now: str
) -> None:
    by = " PARTITION BY RANGE (id)" if partitioned else ""
    made = [
        statement
        for name in "abc"
        for statement in (
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT){by}",
            *([f"CREATE TABLE of_{name} PARTITION OF {name} FOR VALUES FROM (0) TO (100)"] if partitioned else []),
            f"INSERT INTO {name} VALUES (1, 'of {name}')",
        )
    ]
    config = {**BY_ROOT, "table.include.list": "public.[a-d],public.marks"} if partitioned else {}
    follower = begun(*made, **config, **OFTEN)

    follower.sql(together(*renamed(*moves)))

    for name in now:
        follower.until_has(name)


@pytest.mark.parametrize("partitioned", [False, True], ids=["a table", "a root"])
@pytest.mark.parametrize("rows", [False, True], ids=["without rows", "with rows"])
def test_a_table_that_leaves_the_filters_and_comes_back_is_captured_again(begun: Begun, partitioned: bool, rows: bool) -> None:
    follower = begun(
        f"CREATE TABLE t (id INT PRIMARY KEY, v TEXT){' PARTITION BY RANGE (id)' if partitioned else ''}",
        *(["CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100)"] if partitioned else []),
        "INSERT INTO t VALUES (1, 'a')",
        **{"table.include.list": "public.t,public.marks"},
        **BY_ROOT,
        **OFTEN,
    )

    with capture_logs() as lines:
        follower.sql(*renamed("t>outside"))
        follower.until(lambda: any(line["event"] == "schema change in the log" for line in lines))
    follower.sql("INSERT INTO outside VALUES (2, 'b')", "UPDATE outside SET v = 'x' WHERE id = 1")
    follower.until_caught_up()
    follower.sql(*renamed("outside>t"), *(["INSERT INTO t VALUES (3, 'c')"] if rows else []))

    follower.until_has("t")
    follower.sql("INSERT INTO t VALUES (4, 'd')")
    follower.until_has("t")


@pytest.mark.parametrize("filtered", [False, True], ids=["all tables", "filtered"])
def test_a_partition_that_is_filled_and_attached_in_its_own_transaction_brings_its_rows(begun: Begun, filtered: bool) -> None:
    autocreate = {"publication.autocreate.mode": "filtered"} if filtered else {}
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN, **autocreate)

    follower.sql(together(*FILLED))

    follower.until_equal("root")


def test_a_partition_that_is_made_as_one_costs_no_dump(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN)

    with capture_logs() as lines:
        follower.sql(
            together("CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20)", "INSERT INTO root VALUES (11, 'b')"),
            "CREATE TABLE higher PARTITION OF root (v DEFAULT 'x') FOR VALUES FROM (20) TO (30)",
            "INSERT INTO root VALUES (21, 'c')",
        )
        for number in range(5):
            follower.sql(f"UPDATE root SET v = 'x{number}'")
            follower.until_caught_up()
    follower.until_equal("root")

    assert not [line for line in lines if line["event"] == "the table is dumped again"]


def test_a_partition_that_is_detached_filled_and_attached_again_brings_its_rows(begun: Begun) -> None:
    follower = begun(
        *ROOT, "CREATE TABLE high (LIKE root INCLUDING ALL)", ATTACH, "INSERT INTO root VALUES (11, 'b')", **ROOT_ONLY, **SELDOM
    )
    follower.sql("ALTER TABLE root DETACH PARTITION high", "INSERT INTO high VALUES (13, 'd')")
    follower.until_caught_up()

    follower.sql(ATTACH, "INSERT INTO root VALUES (12, 'c')")

    follower.until_equal("root")


@pytest.mark.parametrize("one", [True, False], ids=["one transaction", "three"])
def test_a_filled_table_that_becomes_a_partition_of_a_published_root_is_dumped(begun: Begun, one: bool) -> None:
    config = {"publication.autocreate.mode": "disabled"}
    follower = begun(*ROOT, "CREATE PUBLICATION dbz_publication FOR TABLE root, marks", **config, **OFTEN)

    follower.sql(*([together(*FILLED)] if one else FILLED))

    follower.until_equal("high")


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("ALTER TABLE t ADD more INT DEFAULT 7", "t"),
        ("ALTER TABLE t DROP v, ADD v TEXT DEFAULT 'again'", "t"),
        ("ALTER TABLE t ALTER v TYPE VARCHAR(9) USING upper(v)", "t"),
        ("DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, w INT); INSERT INTO t VALUES (3, 3)", "t"),
        ("ALTER TABLE t RENAME TO renamed", "renamed"),
        (together(*FILLED), "root"),
    ],
    ids=["default", "column made again", "converted", "table made again", "renamed", "attached"],
)
def test_what_a_statement_did_while_the_connector_was_away_is_found_out_at_its_start(begun: Begun, statement: str, table: str) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')", *ROOT, **BY_ROOT, **OFTEN)
    follower.task.stop()

    follower.sql(statement)
    follower.restart()

    follower.until_has(table)


def test_a_start_behind_which_nothing_has_changed_finds_nothing_out(begun: Begun) -> None:
    follower = begun(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE t (id SERIAL PRIMARY KEY, v TEXT DEFAULT 'x', w NUMERIC(9, 2) NOT NULL DEFAULT 1.5, d TIMESTAMPTZ DEFAULT now(), m mood[], "
        "g INT GENERATED ALWAYS AS (1 + 1) STORED)",
        "CREATE UNIQUE INDEX ON t (w) WHERE v IS NOT NULL",
        "COMMENT ON TABLE t IS 'of things'",
        "ALTER TABLE t ADD more INT DEFAULT 7",
        *ROOT,
        together(*FILLED),
        **BY_ROOT,
        **OFTEN,
    )

    with capture_logs() as lines:
        follower.restart()
        follower.until_caught_up()
        follower.sql("INSERT INTO t (v) VALUES ('b')")
        follower.until_caught_up()

    assert not [line for line in lines if line["event"] in ("schema change in the log", "the table is dumped again")]


@pytest.mark.parametrize("expression", ["7", "(random() * 5)::int"], ids=["kept apart", "written anew"])
@pytest.mark.parametrize("rows", [True, False], ids=["with a row", "without one"])
def test_old_rows_have_the_default_that_a_new_column_has_lost_again(begun: Begun, expression: str, rows: bool) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')", **OFTEN)

    follower.sql(
        together(f"ALTER TABLE t ADD more INT DEFAULT {expression}", "ALTER TABLE t ALTER more DROP DEFAULT"),
        *(["INSERT INTO t VALUES (2, 'b', 8)"] if rows else []),
    )

    follower.until_equal("t")


def test_old_rows_have_the_column_that_the_publication_lists_by_now(begun: Begun) -> None:
    follower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, w TEXT)",
        "INSERT INTO t VALUES (1, 'a', 'b')",
        "CREATE PUBLICATION dbz_publication FOR TABLE t (id, v), marks",
        **{"publication.autocreate.mode": "disabled"},
    )

    follower.sql("ALTER PUBLICATION dbz_publication SET TABLE t (id, v, w), marks", "INSERT INTO t VALUES (2, 'a', 'b')")

    follower.until_equal("t")


def test_a_partition_elsewhere_that_somebody_has_locked_holds_up_neither_a_start_nor_the_watch(
    postgres: Postgres, database: str, begun: Begun
) -> None:
    follower = begun(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "CREATE SCHEMA elsewhere",
        "CREATE TABLE elsewhere.root (id INT) PARTITION BY RANGE (id)",
        "CREATE TABLE elsewhere.low PARTITION OF elsewhere.root FOR VALUES FROM (0) TO (10)",
        **{"table.include.list": "public.t,public.renamed,public.marks", "database.query.timeout.ms": "5000"},
        **OFTEN,
    )
    locking = psycopg2.connect(**{**postgres.login, "dbname": database})
    try:
        locking.cursor().execute("ALTER TABLE elsewhere.low ADD CHECK (id < 100)")

        follower.restart()
        follower.until_caught_up()
        follower.sql("ALTER TABLE t RENAME TO renamed")

        follower.until_equal("renamed")
    finally:
        locking.close()


def test_what_is_found_out_where_the_log_has_not_moved_waits_until_it_has(postgres: Postgres, database: str) -> None:
    """A second change of one position would count as a replay of the first."""
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    settings = follower.parts().settings
    connections = Connections(settings, connect(settings_of(settings), by_root=False))
    tables = connections.session.read_tables(lambda _: True)
    timeline, ((number, table),) = Timeline(), tables.items()
    timeline.put(table, sequence_of(epoch=1, lsn=8))
    context = TaskContext(
        run="",
        watermark_name="",
        selection=SimpleNamespace(includes=lambda _: True),
        stopped=threading.Event(),
        retrying=lambda ask: ask(),
        clock=SystemClock(),
    )
    schemas = PostgresSchemas(connections, timeline, context, epoch=1)
    schemas.know(tables)

    def found_out_at(lsn: int) -> bool:
        position = sequence_of(epoch=1, lsn=lsn)
        found = schemas.found_out(LogOffset(lsn=lsn), position)
        return found is not None and timeline.apply(changes_of(found), position) == (table.id,)

    end = connections.session.log_end() + (1 << 30)
    for column, at, known in (("a", end, True), ("b", end, False), ("c", end + 8, True)):
        follower.sql(f"ALTER TABLE t ADD {column} INT")
        connections.doubts.add(table.id)
        assert found_out_at(at) is known
    connections.session.close()

    now = timeline.current_table(table.id)
    assert now is not None
    assert [column.name for column in now.columns] == ["id", "a", "b", "c"]
    assert schemas.number_of(table.id) == number


def test_a_column_in_the_log_does_not_refuse_null_because_the_next_one_of_its_name_does(begun: Begun) -> None:
    """An array of two dimensions is NULL where the column takes that, and ends the task elsewhere."""
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    follower.task.stop()

    follower.sql(
        "ALTER TABLE t ADD a INT[]", "INSERT INTO t VALUES (2, ARRAY[ARRAY[1]])", "ALTER TABLE t DROP a, ADD a INT DEFAULT 5 NOT NULL"
    )
    follower.restart()

    follower.until_equal("t")


def test_a_new_table_is_dumped_once_the_publication_has_it_with_what_it_holds_then(begun: Begun) -> None:
    follower = begun("CREATE PUBLICATION dbz_publication FOR TABLE marks", **{"publication.autocreate.mode": "disabled"}, **OFTEN)
    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')")
    with capture_logs() as lines:
        follower.until(lambda: any(line["event"].startswith("the publication lacks") for line in lines))
        for _ in range(3):
            follower.until_caught_up()
    assert follower.keys("t") == []

    follower.sql("ALTER PUBLICATION dbz_publication ADD TABLE t")

    follower.until_equal("t")


def test_a_partition_that_is_attached_without_rows_costs_no_dump(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN)

    with capture_logs() as lines:
        follower.sql(together("CREATE TABLE high (LIKE root INCLUDING ALL)", ATTACH))
        follower.until(lambda: any(line["event"] == "schema change in the log" for line in lines))
        follower.sql("INSERT INTO root VALUES (11, 'b')")
        for number in range(3):
            follower.sql(f"UPDATE root SET v = 'x{number}'")
            follower.until_caught_up()

    follower.until_equal("root")
    assert not [line for line in lines if line["event"] == "the table is dumped again"]


def test_a_partition_that_is_attached_and_altered_in_one_transaction_brings_its_rows(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN)

    follower.sql(together(*FILLED, "ALTER TABLE high ALTER id SET STATISTICS 500, ALTER v SET STATISTICS 500"))

    follower.until_equal("root")


def test_a_detach_that_is_rolled_back_costs_no_dump(begun: Begun) -> None:
    follower = begun(*ROOT, "CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20)", **ROOT_ONLY, **OFTEN)
    follower.sql("BEGIN; ALTER TABLE root DETACH PARTITION high; ROLLBACK")

    with capture_logs() as lines:
        follower.restart()
        for _ in range(3):
            follower.until_caught_up()

    assert not [line for line in lines if line["event"] == "the table is dumped again"]


@pytest.mark.parametrize("anew", ["VACUUM FULL t", "TRUNCATE t", "CLUSTER t USING t_pkey"])
def test_a_column_that_is_added_behind_rows_that_were_written_anew_costs_no_dump(begun: Begun, anew: str) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a')", **OFTEN)

    def file() -> int | None:
        known = follower.task.running.schemas.timeline.current_table(TableId("public", "t"))
        return None if known is None else known.file

    before = file()
    with capture_logs() as lines:
        follower.sql(anew)
        follower.until(lambda: file() != before)
        follower.sql("ALTER TABLE t ADD w INT", "INSERT INTO t VALUES (2, 'b', 3)")
        for _ in range(3):
            follower.until_caught_up()

    assert not [line for line in lines if line["event"] == "the table is dumped again"]


def test_what_joins_without_a_row_where_the_log_rests_is_dumped_over_a_kill(begun: Begun) -> None:
    config = {"table.include.list": "public.t,public.marks", "dblog.metrics.server.interval.ms": "3000"}
    follower = begun("CREATE TABLE outside (id INT PRIMARY KEY, v TEXT)", "INSERT INTO outside VALUES (1, 'a')", **config)

    with capture_logs() as lines:
        follower.sql(*renamed("outside>t"))
        follower.until_caught_up()
        until_s = time.monotonic() + 20
        while not any(line["event"] == "schema change in the log" for line in lines):
            assert time.monotonic() < until_s
            time.sleep(0.01)
        follower.restart()  # nothing was polled behind that

    follower.until_has("t")


def test_old_rows_of_partitions_have_the_default_that_a_new_column_has_lost_again(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY, **OFTEN)

    follower.sql(together("ALTER TABLE root ADD more INT DEFAULT 7", "ALTER TABLE root ALTER more DROP DEFAULT"))

    follower.until_equal("root")


def test_a_table_that_is_only_followed_is_not_dumped_for_a_statement_ahead_of_its_first_row(begun: Begun) -> None:
    follower = begun(
        "CREATE TABLE late (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO late VALUES (1, 'a')",
        **{"table.include.list": "public.marks"},
        **OFTEN,
    )
    follower.task.stop()
    follower.config |= {"table.include.list": "public.late,public.marks", "dblog.new.tables": "log"}
    follower.restart()

    follower.sql("ALTER TABLE late ADD w INT")
    for _ in range(3):
        follower.until_caught_up()
    follower.sql("INSERT INTO late VALUES (2, 'b', 3)")
    follower.until(lambda: '{"id":2}' in follower.keys("late"))

    assert follower.keys("late") == ['{"id":2}']


def test_deletes_of_a_table_whose_name_another_one_has_by_now_come_over_a_kill(begun: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are in the topic, and the offset is in front of where it got that name."""
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    offset = follower.offset
    monkeypatch.setattr(follower.task, "commit", lambda _: None)
    follower.sql(*renamed("t>r"), "UPDATE r SET v = 'c'")
    follower.until(lambda: follower.keys("r") == ['{"id":1}', '{"id":2}'])
    follower.until_caught_up()
    follower.task.stop()

    follower.sql(
        "DELETE FROM r WHERE id = 1",
        together("CREATE TABLE c (LIKE r INCLUDING ALL)", "INSERT INTO c SELECT * FROM r", *renamed("r>o", "c>r"), "DROP TABLE o"),
    )
    follower.offset = offset
    follower.restart()

    follower.until_equal("r")

"""Tables that are altered, renamed and made again under writes, with restarts in between: what was sent comes to the tables' rows. # I3 I4

The log of PostgreSQL has no statements. What one did shows in front of the next row of its table, so each trial ends with one of each.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest
from dblog.dialects.postgres.task import schemas
from dblog.dialects.postgres.wire.connect import Wire
from stack import Postgres
from stack.process import wait_until
from structlog.testing import capture_logs
from support.in_windows import SourceWithWindows
from support.postgres import connected, execute
from support.postgres_follower import PostgresFollower, drop_slots

ROWS = 60
STEPS = 14


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


# --- changes that no row follows -------------------------------------------------------------------------------------


class SourceAltered(SourceWithWindows):
    """The change comes once, between the snapshot of the table's first chunk and its SELECT."""

    def connect(self, **options: Any) -> Any:
        return _Server(self._real.connect(**options), self._change)


class _Server:
    def __init__(self, real: Any, change: Any) -> None:
        self._real, self._change = real, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def open_chunks(self) -> Any:
        return _Chunks(self._real.open_chunks(), self._change)


class _Chunks(_Server):
    def select(self, *parameters: Any, **options: Any) -> Any:
        self._change(())
        return self._real.select(*parameters, **options)


def altered(follower: PostgresFollower, *statements: str, between: bool = False) -> None:
    """Have the statements run once: behind the first chunk's SELECT, or between its snapshot and that."""
    left = list(statements)

    def change(_: tuple[Any, ...]) -> None:
        if left:
            run, left[:] = left[:], []
            follower.sql(*run)

    follower.wrapped = lambda source: (SourceAltered if between else SourceWithWindows)(source, change)
    follower.task = follower.new_task()


PLACES = pytest.mark.parametrize("between", [False, True], ids=["behind a chunk", "between snapshot and SELECT"])
WINDOWS = pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])


def make(follower: PostgresFollower, *, rows: int = 60) -> None:
    follower.sql(
        "CREATE TABLE a (id INT PRIMARY KEY, n INT, name TEXT)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        f"INSERT INTO a SELECT n, n, 'row ' || n FROM generate_series(1, {rows}) n",
        f"INSERT INTO b SELECT generate_series(1, {rows})",
    )


@PLACES
@WINDOWS
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE a ALTER n TYPE TEXT USING 'was ' || n",
        "ALTER TABLE a DROP n",
        "ALTER TABLE a RENAME n TO m",
        "ALTER TABLE a ADD m INT DEFAULT 5",
        "ALTER TABLE a ADD m FLOAT8 DEFAULT random()",
        "VACUUM FULL a",
        "ALTER TABLE a ALTER id TYPE BIGINT",
    ],
)
def test_a_dump_goes_on_behind_a_change_of_its_table_that_no_row_follows(
    postgres: Postgres, database: str, statement: str, windows: dict[str, str], between: bool
) -> None:
    follower = PostgresFollower(postgres, database, **windows, **{"dblog.chunk.rows": "20"})
    make(follower)
    altered(follower, statement, between=between)
    follower.start()

    follower.until_dumped()

    follower.until_equal_by_name("a")
    follower.until_equal("b")
    follower.task.stop()


@PLACES
@WINDOWS
def test_the_dump_of_a_table_that_is_dropped_ends(postgres: Postgres, database: str, windows: dict[str, str], between: bool) -> None:
    follower = PostgresFollower(postgres, database, **windows, **{"dblog.chunk.rows": "20"})
    make(follower)
    altered(follower, "DROP TABLE a", between=between)
    follower.start()

    follower.until_dumped()

    follower.until_equal("b")
    follower.task.stop()


@PLACES
@WINDOWS
def test_the_dump_of_a_table_that_is_renamed_goes_on_with_its_new_name(
    postgres: Postgres, database: str, windows: dict[str, str], between: bool
) -> None:
    follower = PostgresFollower(postgres, database, **windows, **{"dblog.chunk.rows": "20"})
    make(follower)
    altered(follower, "ALTER TABLE a RENAME TO c", between=between)
    follower.start()

    follower.until(lambda: len(follower.rows.get("c", {})) == 60)
    follower.until_dumped()

    follower.until_equal("c")
    follower.until_equal("b")
    follower.task.stop()


# --- what makes a table be dumped again ------------------------------------------------------------------------------

SAME = [
    "ALTER TABLE a ADD m INT",
    "ALTER TABLE a ADD m INT DEFAULT NULL",
    "ALTER TABLE a DROP n",
    "ALTER TABLE a ALTER short TYPE VARCHAR(20)",
    "ALTER TABLE a ALTER short TYPE TEXT",
    "ALTER TABLE a ALTER n SET DEFAULT 7",
    "ALTER TABLE a ALTER n SET NOT NULL",
    "ALTER TYPE mood ADD VALUE 'new'",
    "ALTER DOMAIN amount ADD CHECK (VALUE < 1000)",
    "VACUUM FULL a",
]
OTHERS = [
    "ALTER TABLE a ADD m INT DEFAULT 5",
    "ALTER TABLE a ADD m TEXT NOT NULL DEFAULT 'x'",
    "ALTER TABLE a ADD m TIMESTAMPTZ DEFAULT now()",
    "ALTER TABLE a ADD m SERIAL",
    "ALTER TABLE a RENAME n TO m",
    "ALTER TABLE a ALTER n TYPE BIGINT",
    "ALTER TABLE a ALTER name TYPE INT USING length(name)",
    "ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (n)",
]


@pytest.mark.parametrize(
    ("statement", "redump", "again"),
    [
        *((statement, "changed", False) for statement in SAME),
        *((statement, "changed", True) for statement in OTHERS),
        (OTHERS[0], "never", False),
    ],
)
def test_a_table_is_dumped_again_where_old_rows_have_other_values_or_may_have(
    postgres: Postgres, database: str, statement: str, redump: str, again: bool
) -> None:
    follower = PostgresFollower(postgres, database, **{"dblog.ddl.redump": redump, "time.precision.mode": "isostring"})
    follower.sql(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE DOMAIN amount AS int",
        "CREATE TABLE a (id INT PRIMARY KEY, n INT NOT NULL, name TEXT, short VARCHAR(10), m0 mood, d amount)",
        "INSERT INTO a SELECT n, n, 'row ' || n, 'x', 'sad', n FROM generate_series(1, 5) n",
        "CREATE TABLE marks (id INT PRIMARY KEY)",
    )
    follower.start()
    follower.until_dumped()

    follower.sql(statement, "UPDATE a SET d = 7 WHERE id = 1", "INSERT INTO marks VALUES (1)")
    follower.until(lambda: "c" in follower.ops("marks"))
    if again:
        follower.until(lambda: follower.ops("a").count("r") == 10)
    follower.until_dumped()
    follower.task.stop()

    assert follower.ops("a").count("r") == (10 if again else 5)


@pytest.mark.parametrize("identity", ["FULL", "DEFAULT"])
def test_another_primary_key_distinguishes_the_rows_whatever_the_log_shows_of_them(
    postgres: Postgres, database: str, identity: str
) -> None:
    follower = PostgresFollower(postgres, database, **{"dblog.chunk.rows": "2"})
    follower.sql(
        "CREATE TABLE a (id INT PRIMARY KEY, name TEXT NOT NULL, n INT NOT NULL)",
        "CREATE UNIQUE INDEX a_n ON a (n)",
        f"ALTER TABLE a REPLICA IDENTITY {identity}",
        "INSERT INTO a SELECT n, 'row ' || n, n FROM generate_series(1, 5) n",
    )
    follower.start()
    follower.until_dumped()

    follower.sql(
        "ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (name, id)",
        "INSERT INTO a VALUES (1, 'another', 6), (1, 'and another', 7)",
    )
    follower.until(lambda: '{"name":"and another","id":1}' in follower.rows["a"] and '{"name":"row 5","id":5}' in follower.rows["a"])
    follower.until_dumped()
    follower.task.stop()

    new = [row for key, row in follower.rows["a"].items() if "name" in key]
    assert sorted(new, key=lambda row: row["n"]) == sorted(follower.selected("a"), key=lambda row: row["n"])


def test_the_key_of_a_table_that_is_made_meanwhile_has_its_own_order(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    make(follower)
    follower.start()
    follower.until_dumped()

    follower.sql("CREATE TABLE c (id INT, name TEXT, PRIMARY KEY (name, id))", "INSERT INTO c VALUES (1, 'x')")
    follower.until(lambda: bool(follower.rows.get("c")))
    follower.task.stop()

    assert list(follower.rows["c"]) == ['{"name":"x","id":1}']


def test_a_primary_key_whose_columns_change_their_order_is_another_one(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE a (id INT, name TEXT, PRIMARY KEY (id, name))", "INSERT INTO a VALUES (1, 'x')")
    follower.start()
    follower.until_dumped()

    follower.sql("ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (name, id)", "INSERT INTO a VALUES (2, 'y')")
    follower.until(lambda: '{"name":"y","id":2}' in follower.rows["a"] and '{"name":"x","id":1}' in follower.rows["a"])
    follower.task.stop()


def test_a_column_that_takes_null_from_now_on_is_null_in_records(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO a SELECT n, n FROM generate_series(1, 5) n")
    follower.start()
    follower.until_dumped()

    follower.sql("ALTER TABLE a ALTER n DROP NOT NULL", "INSERT INTO a VALUES (6, NULL)")
    follower.until(lambda: '{"id":6}' in follower.rows["a"])
    follower.task.stop()

    assert follower.rows["a"]['{"id":6}'] == {"id": 6, "n": None}


def test_rows_of_a_table_that_has_lost_its_primary_key_are_kept_apart_where_they_have_the_same_values_in_it(
    postgres: Postgres, database: str
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY, name TEXT)", "INSERT INTO a VALUES (1, 'one')")
    follower.start()
    follower.until_dumped()

    follower.sql("ALTER TABLE a DROP CONSTRAINT a_pkey", "INSERT INTO a VALUES (1, 'another')")

    follower.until_equal("a")
    follower.task.stop()


def test_a_primary_key_that_is_deferrable_is_the_key_although_the_log_flags_no_column(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql("CREATE TABLE a (id INT PRIMARY KEY DEFERRABLE, name TEXT)", "INSERT INTO a VALUES (1, 'one')")
    follower.start()
    follower.until_dumped()

    follower.sql("INSERT INTO a VALUES (2, 'two')")

    follower.until(lambda: len(follower.rows["a"]) == 2)
    follower.task.stop()
    assert set(follower.rows["a"]) == {'{"id":1}', '{"id":2}'}


# --- a kill behind a change, and ahead of what follows from it --------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "table"),
    [
        (("ALTER TABLE a ADD m INT DEFAULT 5", "INSERT INTO a VALUES (-1)"), "a"),
        (("ALTER TABLE a ALTER n TYPE TEXT USING 'was ' || n", "INSERT INTO a VALUES (-1)"), "a"),
        (("ALTER TABLE a RENAME TO c", "INSERT INTO c VALUES (-1)"), "c"),
        (("ALTER TABLE a RENAME n TO m", "ALTER TABLE a RENAME TO c", "INSERT INTO c VALUES (-1)"), "c"),
        (
            (
                "DROP TABLE a",
                "CREATE TABLE a AS SELECT n AS id, 7 AS n FROM generate_series(-1, 60) n",
                "ALTER TABLE a ADD PRIMARY KEY (id)",
            ),
            "a",
        ),
    ],
)
def test_what_follows_from_a_change_does_not_get_lost_with_the_run_that_came_to_it(
    postgres: Postgres, database: str, statements: tuple[str, ...], table: str
) -> None:
    """The history has the table as it is behind the change, the offset stands in front of it and knows of no dump."""
    follower = PostgresFollower(postgres, database)
    make(follower)
    follower.start()
    follower.until_dumped()
    changes = follower.task.metrics()["ddl_total"]

    follower.sql(*statements, f"INSERT INTO {table} (id) VALUES (-2)")
    wait_until(lambda: follower.task.metrics()["ddl_total"] > changes, timeout_s=20, what="the log thread to come to the change")
    follower.restart()

    follower.until_equal_by_name(table)
    follower.until_dumped()
    follower.task.stop()


# --- random changes --------------------------------------------------------------------------------------------------

VALUES = {
    "integer": "{n}",
    "bigint": "{n}",
    "text": "'text {n}'",
    "character varying": "'v{n}'",
    "numeric": "{n}.5",
    "USER-DEFINED": "'sad'",
    "ARRAY": "ARRAY[{n}]",
    "double precision": "{n}.25",
}


class Tables:
    """Tables of one database and what happens to them: statements come from two threads, each with dice and a connection of its own."""

    def __init__(self, server: Postgres, database: str, seed: int) -> None:
        self.server, self.database = server, database
        self._changes, self._writes = random.Random(seed), random.Random(seed + 1)
        self._ended = threading.Event()
        self.names = ["t1", "t2", "t3"]
        self.again: set[str] = set()
        """Names that another table had before: rows of that stay with whoever reads."""
        self._made = 0
        self.done: list[str] = []

    def statements(self) -> list[str]:
        return [
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE DOMAIN amount AS int",
            *(self._create(name) for name in self.names),
        ]

    def _create(self, name: str) -> str:
        return (
            f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT DEFAULT 7, b VARCHAR(20), m mood, d amount); "
            f"INSERT INTO {name} SELECT n, n, 'row ' || n, 'ok', n FROM generate_series(1, {ROWS}) n"
        )

    # ---- writes

    @contextlib.contextmanager
    def written(self) -> Iterator[None]:
        thread = threading.Thread(target=self._write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(30)

    def _write(self) -> None:
        dice = self._writes
        with connected(self.server, database=self.database) as connection, connection.cursor() as cursor:
            while not self._ended.wait(0.002):
                with contextlib.suppress(psycopg2.Error):  # the table or the column is another one by now
                    table = dice.choice(self.names)
                    cursor.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", (table,))
                    columns = [(name, type_) for name, type_ in cursor.fetchall() if name != "id"]
                    name, type_ = dice.choice(columns or [("a", "integer")])
                    value = VALUES.get(type_, "NULL").format(n=dice.randrange(1000)) if dice.random() < 0.9 else "NULL"
                    id_, other = dice.randrange(1, 2 * ROWS), dice.randrange(1, 2 * ROWS)
                    cursor.execute(
                        dice.choice(
                            [
                                f"INSERT INTO {table} (id, {name}) VALUES ({id_}, {value})",
                                f"UPDATE {table} SET {name} = {value} WHERE id = {id_}",
                                f"UPDATE {table} SET {name} = {value} WHERE id BETWEEN {id_} AND {id_ + 9}",
                                f"DELETE FROM {table} WHERE id = {id_}",
                                f"UPDATE {table} SET id = {other} WHERE id = {id_}",
                            ]
                        )
                    )

    # ---- changes

    def change(self) -> None:
        """One statement, or one that the server refuses."""
        dice, table = self._changes, self._changes.choice(self.names)
        self._made += 1
        new = f"x{self._made}"
        with connected(self.server, database=self.database) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND column_name <> 'id'", (table,)
            )
            columns = cursor.fetchall()
            name, type_ = dice.choice(columns) if columns else ("a", "integer")
            other_types = {
                "integer": "BIGINT",
                "bigint": f"TEXT USING 'was ' || {name}",
                "character varying": "TEXT",
                "text": f"INT USING length({name})",
            }
            statement = dice.choice(
                [
                    f"ALTER TABLE {table} ADD {new} INT",
                    f"ALTER TABLE {table} ADD {new} INT DEFAULT 5",
                    f"ALTER TABLE {table} ADD {new} TEXT NOT NULL DEFAULT 'x'",
                    f"ALTER TABLE {table} ADD {new} NUMERIC DEFAULT random()",
                    f"ALTER TABLE {table} ADD {new} INT[], ADD {new}b BIGINT",
                    f"ALTER TABLE {table} DROP {name}",
                    f"ALTER TABLE {table} DROP {name}, ADD {name} FLOAT8",
                    f"ALTER TABLE {table} RENAME {name} TO {new}",
                    f"ALTER TABLE {table} ALTER {name} TYPE {other_types.get(type_, 'TEXT')}",
                    f"ALTER TABLE {table} ALTER id TYPE BIGINT",
                    f"ALTER TABLE {table} ALTER a SET DEFAULT 9",
                    f"ALTER TABLE {table} REPLICA IDENTITY {dice.choice(['FULL', 'DEFAULT'])}",
                    f"ALTER TYPE mood ADD VALUE 'm{self._made}'",
                    "ALTER DOMAIN amount SET DEFAULT 3",
                    f"VACUUM FULL {table}",
                    f"RENAME {table}",
                    f"AGAIN {table}",
                    f"NEW {new}",
                ]
            )
            kind, _, named = statement.partition(" ")
            self.done.append(statement)
            with contextlib.suppress(psycopg2.Error):
                match kind:
                    case "RENAME":
                        cursor.execute(f"ALTER TABLE {named} RENAME TO {new}")
                        self._instead(named, new)
                    case "AGAIN":
                        self.again.add(named)
                        cursor.execute(f"BEGIN; DROP TABLE {named}; {self._create(named)}; COMMIT")
                    case "NEW":
                        cursor.execute(self._create(named))
                        self.names = [*self.names, named]
                    case _:
                        cursor.execute(statement)

    def _instead(self, before: str, now: str) -> None:
        self.names = [now if name == before else name for name in self.names]

    def end(self) -> None:
        """A row of each table, which shows what it is like."""
        with connected(self.server, database=self.database) as connection, connection.cursor() as cursor:
            for name in self.names:
                cursor.execute(f"INSERT INTO {name} (id) VALUES (-1)")


def differences(follower: PostgresFollower, tables: Tables) -> dict[str, list[str]]:
    """By table the rows that are not the same, as far as there are columns for them."""
    found = {}
    for name in tables.names:
        selected = follower.selected(name)
        names = list(selected[0])
        wanted = {row["id"]: _text(row, names) for row in selected}
        got = {row["id"]: _text(row, names) for row in follower.rows.get(name, {}).values()}
        wrong = [f"{wanted.get(id_)} is {got.get(id_)}" for id_ in wanted | got if wanted.get(id_) != got.get(id_)]
        if name in tables.again:
            wrong = [f"{row} is {got.get(id_)}" for id_, row in wanted.items() if got.get(id_) != row]
        if wrong:
            found[name] = wrong
    return found


def _text(row: dict[str, Any], names: list[str]) -> str:
    return json.dumps({name: row.get(name) for name in names}, default=str, sort_keys=True)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 40))])
def test_whatever_is_altered_under_writes_and_restarts_the_fold_is_the_tables_rows(postgres: Postgres, database: str, seed: int) -> None:
    tables = Tables(postgres, database, seed)
    dice = random.Random(seed + 2)
    config = {"dblog.chunk.rows": "16", "max.batch.size": "100", "max.queue.size": "500"}
    follower = PostgresFollower(postgres, database, **config, **{"value.converter.replace.null.with.default": "false"})
    follower.sql(*tables.statements())
    with tables.written():
        follower.start()
        for _ in range(STEPS):
            for _ in range(dice.randrange(4)):
                tables.change()
            for _ in range(dice.randrange(6)):
                follower.poll(records_max=dice.choice([10, 2000]))
            if dice.random() < 0.4:
                follower.restart()
    tables.end()

    try:
        follower.until(lambda: "snapshot" not in (follower.offset or {}) and not differences(follower, tables))
    except AssertionError:
        raise AssertionError(
            "\n".join([*tables.done, *(f"{name}: {rows[:3]}" for name, rows in differences(follower, tables).items())])
        ) from None
    follower.task.stop()


def test_what_the_catalog_had_of_a_table_does_not_undo_what_the_log_shows_behind_it(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log ends at a place when the catalog is asked; what the answer says comes to effect there, with further changes of the table behind it by then."""
    follower = PostgresFollower(postgres, database)
    make(follower)
    follower.start()
    follower.until_dumped()
    log_end, asked = schemas.settled_log_end, []

    def altered_behind(wire: Wire) -> tuple[int, int]:
        if asked:
            return log_end(wire)
        follower.sql("INSERT INTO b (id) VALUES (1000)")  # the log goes on, so that the answer waits for it
        asked.append(log_end(wire))
        follower.sql("ALTER TABLE a ADD later INT", "INSERT INTO a (id, n, later) VALUES (1000, 1, 7)")
        ((end,),) = execute(postgres, "SELECT pg_current_wal_lsn()")
        sent = f"SELECT sent_lsn >= '{end}' FROM pg_stat_replication WHERE application_name = 'dblog log {follower.name}'"
        wait_until(lambda: execute(postgres, sent) == [(True,)], timeout_s=30, what="the walsender to send all of it")
        return asked[0]

    monkeypatch.setattr(schemas, "settled_log_end", altered_behind)
    with capture_logs() as lines:
        follower.sql("ALTER TABLE a DROP name, ADD name TEXT", "INSERT INTO a (id, n, name) VALUES (999, 1, 'x')")
        follower.until(lambda: '{"id":1000}' in follower.rows["a"])
        follower.sql("INSERT INTO a (id, n, later) VALUES (1001, 1, 8)")
        follower.until(lambda: '{"id":1001}' in follower.rows["a"])
    follower.until_dumped()
    follower.task.stop()

    assert asked
    assert follower.rows["a"]['{"id":1001}']["later"] == 8
    assert all("later" in row for row in follower.rows["a"].values())
    assert not [line for line in lines if line.get("reason", "").startswith("the log contradicts")]


@pytest.mark.parametrize("between", [False, True], ids=["away for both", "running between"])
@pytest.mark.parametrize("further", [[], ["ALTER TABLE a ADD last POINT"]], ids=["", "ahead of another column"])
def test_a_column_that_is_added_and_made_again_while_the_connector_is_away_has_its_values_alone(
    postgres: Postgres, database: str, between: bool, further: list[str]
) -> None:
    """The catalog tells of the second one when the log shows the first."""
    follower = PostgresFollower(postgres, database)
    make(follower, rows=5)
    follower.start()
    follower.until_dumped()
    follower.task.stop()

    follower.sql("ALTER TABLE a ADD m TEXT", "INSERT INTO a VALUES (6, 6, 'row 6', 'of the first')", "INSERT INTO b VALUES (1000)")
    if between:
        follower.restart()
        follower.until(lambda: '{"id":1000}' in follower.rows["b"])
        follower.task.stop()
    follower.sql(*further, "ALTER TABLE a DROP m, ADD m TEXT", "UPDATE a SET n = 0 WHERE id = 1")
    follower.task = follower.new_task()
    follower.start()
    follower.until(lambda: follower.rows["a"]['{"id":1}']["n"] == 0)
    follower.until_dumped()

    follower.until(lambda: follower.rows["a"]['{"id":6}']["m"] is None)
    follower.task.stop()


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "behind a restart"])
def test_a_column_that_gets_a_longer_type_and_other_values_has_them_and_is_not_read_again_without(
    postgres: Postgres, database: str, restarted: bool
) -> None:
    follower = PostgresFollower(postgres, database)
    follower.sql(
        "CREATE TABLE cut (id INT PRIMARY KEY, v VARCHAR(200))",
        "CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(200))",
        "INSERT INTO cut VALUES (1, 'abcdef')",
        "INSERT INTO kept VALUES (1, 'abcdef')",
    )
    follower.start().until_dumped()
    follower.sql("INSERT INTO cut VALUES (2, 'ghijkl')", "INSERT INTO kept VALUES (2, 'ghijkl')")
    follower.until_equal("cut")
    if restarted:
        follower.restart()

    follower.sql("ALTER TABLE cut ALTER v TYPE TEXT USING left(v, 3)", "ALTER TABLE kept ALTER v TYPE TEXT")
    follower.sql("INSERT INTO cut VALUES (3, 'mno')", "INSERT INTO kept VALUES (3, 'mno')")

    follower.until_equal("cut")
    follower.until_equal("kept")
    follower.task.stop()
    assert follower.ops("kept").count("r") == 1

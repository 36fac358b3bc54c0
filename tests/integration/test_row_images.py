"""Logs of both servers with binlog_row_image=MINIMAL: whole rows where the log has them, and rows read again from the table where not. # I2 I3 I4"""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from dblog.errors import DefiniteError
from stack.database import Database
from support.follower import Follower
from support.in_windows import SourceWithWindows
from support.servers import connected, execute, new_database

pytestmark = pytest.mark.either_server

REREAD = {"dblog.row.image.missing": "reread", "value.converter.replace.null.with.default": "false"}
Make = Callable[..., Follower]


@pytest.fixture
def minimal(source: Database) -> Iterator[Database]:
    """The server, whose new sessions log minimal images."""
    execute(source, "SET GLOBAL binlog_row_image = 'MINIMAL'")
    yield source
    execute(source, "SET GLOBAL binlog_row_image = 'FULL'")


@pytest.fixture
def follow(minimal: Database) -> Iterator[Make]:
    """Makes followers of a new database with these tables."""
    made: list[Follower] = []

    def make(*statements: str, **config: str) -> Follower:
        execute(minimal, "FLUSH BINARY LOGS")
        database = new_database(minimal, "images")
        execute(minimal, *statements, database=database)
        follower = Follower(minimal, database, **{**REREAD, **config})
        made.append(follower)
        return follower

    yield make
    for follower in made:
        follower.task.stop()


def changes(follower: Follower) -> list[tuple[str, object, object] | None]:
    return [record and (record["op"], record["before"], record["after"]) for _, record in follower.values]


TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT DEFAULT 7, s VARCHAR(20) NOT NULL DEFAULT 'x', d DECIMAL(8, 2) NOT NULL DEFAULT 1.5, "
    "at TIMESTAMP(3) NOT NULL DEFAULT '2020-02-02 02:02:02.222', note TEXT)"
)
PAIRS = "CREATE TABLE pairs (k VARCHAR(10) COLLATE utf8mb4_unicode_ci NOT NULL, e ENUM('x','y') NOT NULL DEFAULT 'y', n INT, d DATETIME(2), PRIMARY KEY (k, e))"


def test_a_dump_under_writes_with_minimal_images_ends_equal_to_the_table_also_over_restarts(follow: Make) -> None:
    follower = follow(TABLE, PAIRS, **{"dblog.chunk.rows": "100"})
    follower.sql(
        "INSERT INTO t (a) VALUES " + ",".join(f"({n})" for n in range(1000)), "INSERT INTO pairs (k) VALUES ('a'), ('B'), ('ö'), ('c')"
    )

    def write(seed: int) -> None:
        pick = random.Random(seed)
        with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
            for _ in range(300):
                n, m = pick.randrange(1, 1200), pick.randrange(-50, 0)
                statement = pick.choice(
                    (
                        f"UPDATE t SET a = a + 1 WHERE id % 97 = {n % 97}",
                        f"UPDATE t SET note = REPEAT('é', {n}) WHERE id = {n}",
                        f"DELETE FROM t WHERE id BETWEEN {n} AND {n + 2}",
                        f"INSERT INTO t (s) VALUES ('late {n}'), ('later')",
                        f"UPDATE IGNORE t SET id = {m} WHERE id = {n}",
                        f"REPLACE INTO t (id, d) VALUES ({n}, {n}.25)",
                        f"INSERT INTO t (id) VALUES ({m}) ON DUPLICATE KEY UPDATE id = {n} + 2000, a = NULL",
                        f"INSERT INTO pairs (k, n) VALUES ('k{n % 9}', {n}) ON DUPLICATE KEY UPDATE n = {n}, d = NOW(2)",
                        f"UPDATE IGNORE pairs SET k = UPPER(k), e = 'x' WHERE k = 'k{n % 9}'",
                        f"DELETE FROM pairs WHERE k = 'k{m % 9}'",
                    )
                )
                with contextlib.suppress(pymysql.err.OperationalError, pymysql.err.IntegrityError):  # a deadlock, a key that is taken
                    cursor.execute(statement)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    follower.start()
    for writer in writers:  # after it: what they write is in the log that it reads, however fast they are
        writer.start()
    try:
        for sent in (200, 600, 1000):
            follower.until(lambda sent=sent: len(follower.values) > sent)
            follower.restart()
    finally:
        for writer in writers:
            writer.join()
    follower.until_dumped()

    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, a, s, CAST(d AS CHAR), note FROM t")
        stored = sorted(cursor.fetchall())
        cursor.execute("SELECT k, e, n FROM pairs")
        pairs = sorted(cursor.fetchall(), key=str)
    follower.until(
        lambda: (
            sorted((r["id"], r["a"], r["s"], r["d"], r["note"]) for r in follower.rows["t"].values()) == stored
            and sorted(((r["k"], r["e"], r["n"]) for r in follower.rows["pairs"].values()), key=str) == pairs
        )
    )
    ops = {record["op"] for _, record in follower.values if record is not None}
    assert ops == {"r", "c", "u", "d"}


def test_what_minimal_images_become(follow: Make) -> None:
    follower = follow(
        TABLE,
        "CREATE TABLE keyless (a INT, b VARCHAR(9) DEFAULT 'b', c TEXT, n SMALLINT NOT NULL)",
        "CREATE TABLE two (a TINYINT NOT NULL DEFAULT 3, b INT NOT NULL, c INT, PRIMARY KEY (a, b))",
        **{"snapshot.mode": "no_data"},
    )
    follower.start()
    follower.sql("INSERT INTO t (id, a) VALUES (1, 1)", "UPDATE t SET a = 2", "UPDATE t SET id = 5", "DELETE FROM t")
    follower.until(lambda: bool(follower.values) and follower.ops("t").count("d") == 2 and follower.values[-1][1] is None)
    found = changes(follower)
    # Where nothing is known: null, or the type's zero; for a date, which has none, the default.
    zero = {"a": None, "s": "", "d": "0.00", "at": "2020-02-02T02:02:02.222Z", "note": None}
    assert found[-2] == ("d", {"id": 5, **zero}, None)
    assert ("d", {"id": 1, **zero}, None) in found

    follower.values.clear()
    follower.sql(
        "INSERT INTO two (b) VALUES (1)", "UPDATE two SET c = 4", "UPDATE two SET a = a + 1, c = 5", "INSERT INTO two VALUES (9, 9, 9)"
    )
    follower.until_equal("two")
    assert ("c", None, {"a": 9, "b": 9, "c": 9}) in changes(follower)
    moved = next(record for _, record in follower.values if record is not None and record["op"] == "d")
    assert moved["before"] == {"a": 3, "b": 1, "c": None}

    follower.values.clear()
    follower.sql(
        "INSERT INTO keyless (a, n) VALUES (1, 1)",
        "UPDATE keyless SET a = 2, b = 'z'",
        "UPDATE keyless SET c = 'c'",
        "DELETE FROM keyless",
    )
    follower.until(lambda: len(follower.values) == 4)
    rows = [{"a": 1, "b": "b", "c": None, "n": 1}, {"a": 2, "b": "z", "c": None, "n": 1}, {"a": 2, "b": "z", "c": "c", "n": 1}]
    assert changes(follower) == [("c", None, rows[0]), ("u", rows[0], rows[1]), ("u", rows[1], rows[2]), ("d", rows[2], None)]


def test_rows_of_a_table_that_was_altered_after_their_event_come_by_a_dump(follow: Make) -> None:
    follower = follow(TABLE)
    follower.sql("INSERT INTO t (a) VALUES (1), (2), (3)")
    follower.start()
    follower.until_dumped()
    follower.task.stop()
    follower.sql(
        "UPDATE t SET a = 10 WHERE id = 1",
        "INSERT INTO t (a, note) VALUES (11, 'in')",
        "ALTER TABLE t DROP COLUMN note, CHANGE a b INT, ADD COLUMN a VARCHAR(9) DEFAULT 'new'",
        "UPDATE t SET b = 20 WHERE id = 2",
    )

    follower.task = follower.new_task()
    follower.task.start(follower.offset)
    follower.sql("UPDATE t SET s = 'after'")
    follower.until(lambda: {(r["id"], r.get("b"), r["a"], r["s"]) for r in follower.rows["t"].values()} == {
        (1, 10, "new", "after"), (2, 20, "new", "after"), (3, 3, "new", "after"), (4, 11, "new", "after")
    })  # fmt: skip
    assert all(record["after"]["a"] in (1, 2, 3, 10, 11, "new") for _, record in follower.values if record and record["after"])


def test_an_xa_transaction_with_minimal_images_comes_by_a_dump_once_it_is_committed(follow: Make) -> None:
    follower = follow(TABLE)
    follower.sql("INSERT INTO t (a) VALUES (1), (2)")
    follower.start()
    follower.until_dumped()
    name = f"xa{uuid.uuid4().hex[:10]}"
    with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", "UPDATE t SET a = 5 WHERE id = 1", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
    follower.sql("INSERT INTO t (a) VALUES (3)")
    follower.until(lambda: len(follower.rows["t"]) == 3)
    assert '"unread"' not in str(follower.offset)
    assert follower.offset["dblog_xa"].count(follower.database) == 2
    follower.restart()

    execute(follower.source, f"XA COMMIT '{name}'")
    follower.until(lambda: sorted(r["a"] for r in follower.rows["t"].values()) == [2, 3, 5])
    follower.sql("DELETE FROM t WHERE id = 3")
    follower.until(lambda: len(follower.rows["t"]) == 2)
    assert "dblog_xa" not in follower.offset


def test_without_the_option_a_start_is_refused_with_both_remedies(follow: Make) -> None:
    follower = follow(TABLE, **{"dblog.row.image.missing": "fail"})
    with pytest.raises(DefiniteError, match=r"MINIMAL.*SET GLOBAL binlog_row_image = 'FULL'.*dblog\.row\.image\.missing=reread"):
        follower.start()


def test_a_rows_event_that_nothing_can_be_made_of_is_passed_over_if_that_is_wished(source: Database) -> None:
    database = new_database(source, "images")
    execute(source, "FLUSH BINARY LOGS", f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT)")
    follower = Follower(source, database, **{"snapshot.mode": "no_data", "event.processing.failure.handling.mode": "warn"}).start()
    try:
        follower.sql("INSERT INTO t VALUES (1, 1)")
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
            cursor.execute("UPDATE t SET a = 2")
        follower.sql("INSERT INTO t VALUES (3, 3)")
        follower.until(lambda: len(follower.values) == 2)
        assert follower.ops("t") == ["c", "c"]
        assert follower.task.metrics()["log_events_skipped_total"] == 1

        follower.restart()
        follower.sql("UPDATE t SET a = 4 WHERE id = 3")
        follower.until(lambda: len(follower.values) == 3)
    finally:
        follower.task.stop()


DOCUMENTS = (
    "JSON_OBJECT('a', CAST(12345678.90 AS DECIMAL(12, 2)), 'b', CAST(1e20 AS DOUBLE))",
    "JSON_ARRAY(CAST('2024-01-02 03:04:05.5' AS DATETIME(6)), CAST('10:11:12.25' AS TIME(6)), 'base64:type15:YQ==')",
    "JSON_OBJECT('plain', 1)",
    "JSON_ARRAY(CAST(99999999.5 AS DECIMAL(20, 3)), '2024-01-02 03:04:05.500000')",
)


def test_json_that_is_read_again_has_the_text_of_log_and_dump(mysql: Database) -> None:
    database = new_database(mysql, "images")
    execute(mysql, "FLUSH BINARY LOGS")
    rows = ", ".join(f"('k{n}', {document}, 0)" for n, document in enumerate(DOCUMENTS))
    execute(mysql, "CREATE TABLE j (k VARCHAR(9), d JSON, n INT, PRIMARY KEY (k))", f"INSERT INTO j VALUES {rows}", database=database)
    follower = Follower(mysql, database, **REREAD).start()
    texts = {}
    try:
        follower.until_dumped()
        texts["dump"] = {row["k"]: row["d"] for row in follower.rows["j"].values()}
        follower.sql("UPDATE j SET n = 1")
        follower.until(lambda: len(follower.rows["j"]) == len(DOCUMENTS) and all(row["n"] == 1 for row in follower.rows["j"].values()))
        texts["log"] = {row["k"]: row["d"] for row in follower.rows["j"].values()}
        execute(mysql, "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE j SET n = 2", database=database)
        follower.until(lambda: all(row["n"] == 2 for row in follower.rows["j"].values()))
        texts["read again"] = {row["k"]: row["d"] for row in follower.rows["j"].values()}
    finally:
        follower.task.stop()

    assert texts["log"] == texts["dump"]
    assert texts["read again"] == texts["log"]


def test_kinds_of_json_are_distinguished_behind_keys_that_unicode_does_not_have(mysql: Database) -> None:
    """In the result set's utf8mb4 the keys x'ff', x'd2' and x'ae' are question marks."""
    database = new_database(mysql, "images")
    execute(mysql, "FLUSH BINARY LOGS")
    keys = [f"(x'{text}', {n}, '{{}}', 0)" for text in ("ff", "d2", "ae") for n in range(3)]
    execute(
        mysql,
        "CREATE TABLE j (c VARCHAR(9) CHARACTER SET greek COLLATE greek_bin, k INT, d JSON, n INT, PRIMARY KEY (c, k))",
        f"INSERT INTO j VALUES {', '.join(keys)}",
        *(f"UPDATE j SET d = {DOCUMENTS[n]} WHERE k = {n + 1}" for n in (0, 1)),
        database=database,
    )
    follower = Follower(mysql, database, **REREAD).start()
    texts = {}
    try:
        follower.until_dumped()
        texts["dump"] = [record["after"]["d"] for _, record in follower.values]
        for way, image in (("log", "FULL"), ("read again", "MINIMAL")):
            follower.values.clear()
            execute(mysql, f"SET SESSION binlog_row_image = '{image}'", "UPDATE j SET n = n + 1 ORDER BY c, k", database=database)
            follower.until(lambda: len(follower.values) == len(keys))
            texts[way] = [record["after"]["d"] for _, record in follower.values]
    finally:
        follower.task.stop()

    assert texts["dump"] == texts["log"]
    assert sorted(texts["read again"]) == sorted(texts["log"])


def test_a_replace_that_names_no_column_is_read_again(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE n (id INT NOT NULL DEFAULT 4, a INT DEFAULT 7, s VARCHAR(9) NOT NULL DEFAULT 'x', PRIMARY KEY (id))",
        "CREATE TABLE u (a INT DEFAULT 3, k INT NOT NULL DEFAULT 1, UNIQUE KEY (k))",
        **{"snapshot.mode": "no_data"},
    )
    follower.start()

    follower.sql("INSERT INTO n () VALUES ()", "UPDATE n SET a = 8, s = 'y'", "REPLACE INTO n () VALUES ()")
    follower.sql("INSERT INTO u () VALUES ()", "UPDATE u SET a = 8", "REPLACE INTO u () VALUES ()", "INSERT INTO u (k) VALUES (2)")

    follower.until(lambda: len(follower.rows.get("u", {})) == 2)
    follower.until_equal("n")
    follower.until_equal("u")
    assert follower.ops("n") == ["c", "u", "u"]


def test_an_insert_that_names_no_column_has_its_defaults(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE n (id INT NOT NULL DEFAULT 4, a INT DEFAULT 7, s VARCHAR(9) NOT NULL DEFAULT 'x', PRIMARY KEY (id))",
        "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT 7, d DATETIME(2) NOT NULL DEFAULT '2024-01-02 03:04:05.678', f FLOAT DEFAULT 1.5)",
        "CREATE TABLE w (a INT DEFAULT 3, b VARCHAR(9) DEFAULT 'b')",
        **{"snapshot.mode": "no_data"},
    )
    follower.start()

    follower.sql(
        "INSERT INTO n () VALUES ()",
        "INSERT INTO a () VALUES ()",
        "INSERT INTO a () VALUES (), ()",
        "INSERT INTO w () VALUES ()",
        "INSERT INTO w (a) VALUES (5)",
    )
    with contextlib.suppress(pymysql.err.OperationalError):  # MySQL cannot log more than one row of no column
        follower.sql("INSERT INTO w () VALUES (), (), ()")

    follower.until_equal("w")
    follower.until(lambda: [len(follower.ops(table)) for table in ("n", "a")] == [1, 3])
    assert list(follower.rows["n"].values()) == [{"id": 4, "a": 7, "s": "x"}]
    assert [row["id"] for row in follower.rows["a"].values()] == [1, 2, 3]
    assert {row["f"] for row in follower.rows["a"].values()} == {1.5}
    assert set(follower.ops("n") + follower.ops("a") + follower.ops("w")) == {"c"}


def test_updates_go_on_where_the_catalog_cannot_show_a_member(follow: Make) -> None:
    follower = follow(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x','\U0001f600') CHARACTER SET utf8mb4 DEFAULT 'x')",
        "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, '\U0001f600'), (3, 3, 'x')",
    ).start()
    follower.until_dumped()

    for value in (101, 201, 301):
        follower.sql(f"UPDATE t SET a = {value} WHERE id < 3")
        follower.until(lambda value=value: [row["a"] for row in follower.rows["t"].values()][:2] == [value, value])

    assert follower.ops("t") == ["r"] * 3 + ["u"] * 6
    follower.until_equal("t")


CONSTANTS = """
    i INT UNSIGNED DEFAULT 4000000000, b BIGINT NOT NULL DEFAULT -5, n DECIMAL(5,2) NOT NULL DEFAULT 12.5, m DECIMAL(30,9) DEFAULT -123456789012.000000001,
    z DECIMAL(9,9) DEFAULT 0.1, f FLOAT DEFAULT 0, f4 FLOAT(7,4) DEFAULT 1.25, g DOUBLE DEFAULT 0.1, y YEAR DEFAULT 1999, d DATE DEFAULT '2024-02-29', t TIME(3) DEFAULT '-12:34:56.789',
    t5 TIME(5) DEFAULT '-00:00:00.00001', t0 TIME DEFAULT '838:59:59', m0 DATETIME DEFAULT '1000-01-01', m3 DATETIME(3) DEFAULT '9999-12-31 23:59:59.999',
    s4 TIMESTAMP(4) NULL DEFAULT '2021-03-04 05:06:07.8901', bt BIT(11) DEFAULT b'10110', e ENUM('a','b','c') DEFAULT 'b', s SET('a','b','c') DEFAULT 'c,a',
    v VARCHAR(20) DEFAULT 'ab', c CHAR(4) NOT NULL DEFAULT 'x', x VARBINARY(300) DEFAULT 'xyz'
"""
ZEROS = """
    i INT NOT NULL, n DECIMAL(5,2) NOT NULL, f FLOAT NOT NULL, g DOUBLE NOT NULL, y YEAR NOT NULL, d DATE NOT NULL, t TIME(3) NOT NULL, m DATETIME(6) NOT NULL,
    s2 TIMESTAMP(2) NOT NULL DEFAULT 0, bt BIT(9) NOT NULL, e ENUM('a','b') NOT NULL, s SET('a','b') NOT NULL, v VARCHAR(9) NOT NULL, x VARBINARY(9) NOT NULL,
    o BLOB NOT NULL, k BINARY(3) NOT NULL
"""


def test_columns_of_every_type_that_an_insert_leaves_out_are_as_in_a_whole_image(follow: Make) -> None:
    follower = follow(
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE w (id INT, {CONSTANTS})",
        f"CREATE TABLE z (id INT, {ZEROS})",
        "CREATE TABLE k (n DECIMAL(5,2) NOT NULL DEFAULT -7.25, t TIME(3) NOT NULL DEFAULT '-01:02:03.004', x BINARY(3) NOT NULL DEFAULT 'ab', "
        "s TIMESTAMP(2) NOT NULL DEFAULT '2020-02-02 02:02:02.25', a INT, PRIMARY KEY (n, t, x, s))",
        **{"snapshot.mode": "no_data"},
    )
    follower.start()
    inserts = [f"INSERT INTO {table} (id) VALUES (1), (2)" for table in ("w", "z")] + ["INSERT INTO k (a) VALUES (1)"]

    follower.sql("SET SESSION sql_mode = ''", *inserts)
    follower.until(lambda: [follower.ops(table) for table in ("w", "z", "k")] == [["c", "c"], ["c", "c"], ["c"]])
    follower.sql("SET SESSION sql_mode = '', binlog_row_image = 'FULL'", "DELETE FROM k", *inserts)
    follower.until(lambda: [len(follower.ops(table)) for table in ("w", "z", "k")] == [4, 4, 3])

    for table, count in (("w", 2), ("z", 2), ("k", 1)):
        inserted = [record["after"] for name, record in follower.values if name == table and record is not None and record["op"] == "c"]
        assert inserted[:count] == inserted[count:], table


def test_an_insert_that_leaves_out_its_key_is_found_by_the_zeros_of_its_types(follow: Make) -> None:
    key = "id INT NOT NULL, n DECIMAL(5,2) NOT NULL, d DATE NOT NULL, t TIME(3) NOT NULL, m DATETIME(6) NOT NULL, y YEAR NOT NULL"
    follower = follow(
        f"CREATE TABLE z ({key}, v INT DEFAULT 5, w INT, PRIMARY KEY (id, n, d, t, m, y))",
        **{"snapshot.mode": "no_data"},
    )
    follower.start()

    follower.sql("SET SESSION sql_mode = ''", "INSERT INTO z () VALUES ()", "INSERT INTO z (w) VALUES (7) ON DUPLICATE KEY UPDATE v = 6")

    follower.until(lambda: [row["v"] for row in follower.rows.get("z", {}).values()] == [6])


def test_a_row_whose_key_unicode_does_not_have_is_found_again(follow: Make) -> None:
    tables = {
        "greek": [b"\xff\x61", b"\xff\x62"],
        "gb2312": [b"\xa8\xf5a", b"\xa8\xf5b"],
        "ucs2": [b"\xe0\0\0a", b"\xe0\0\0b"],
        "latin1": [b"a ", b"\xe9"],
    }
    statements = []
    for charset, (one, two) in tables.items():
        statements += [
            f"CREATE TABLE {charset}_t (c VARCHAR(10) CHARACTER SET {charset}, n INT, v INT, PRIMARY KEY (c))",
            f"INSERT INTO {charset}_t VALUES (x'{one.hex()}', 1, 1), (x'{two.hex()}', 2, 2)",
        ]
    follower = follow(*statements).start()
    follower.until_dumped()

    follower.sql(*(f"UPDATE {charset}_t SET v = 9 WHERE n = 2" for charset in tables))

    follower.until(lambda: sum(record is not None and record["op"] == "u" for _, record in follower.values) == len(tables))
    updated = {table: record["after"] for table, record in follower.values if record is not None and record["op"] == "u"}
    assert {table: (after["n"], after["v"]) for table, after in updated.items()} == {f"{charset}_t": (2, 9) for charset in tables}


LARGE = "CREATE TABLE t (id INT PRIMARY KEY, at INT NOT NULL, n INT, body TEXT, KEY (at))"


def with_changes_in_windows(follower: Follower, statement: str) -> list[int]:
    """Have the statement run in a session of NOBLOB images, with the last key of each of the first three chunks, once that has been read."""
    seen: list[int] = []

    def inside(last_key: tuple[Any, ...]) -> None:
        if len(seen) < 3:
            seen.append(last_key[0])
            with connected(follower.source, database=follower.database) as connection, connection.cursor() as cursor:
                cursor.execute("SET SESSION binlog_row_image = 'NOBLOB'")
                cursor.execute(statement.format(last=last_key[0]))

    follower.wrapped = lambda source: SourceWithWindows(source, inside)
    follower.task = follower.new_task()
    return seen


def large_rows(rows: int) -> str:
    return "INSERT INTO t VALUES " + ",".join(f"({n}, {n}, 0, REPEAT('{n} ', 5000))" for n in range(1, rows + 1))


def test_a_row_that_changed_inside_its_window_without_its_large_objects_comes_with_them_in_a_later_one(follow: Make) -> None:
    follower = follow(LARGE, "SET SESSION binlog_row_image = 'FULL'", large_rows(60), **{"dblog.chunk.rows": "20"})
    seen = with_changes_in_windows(follower, "UPDATE t SET n = n + 1 WHERE id = {last} - 5")

    follower.start()
    follower.until_dumped()
    follower.until(lambda: follower.ops("t").count("u") == 3)
    follower.task.stop()

    bodies = {record["after"]["id"]: record["after"]["body"] for _, record in follower.values if record and record["op"] == "r"}
    assert len(seen) == 3
    assert sorted(bodies) == list(range(1, 61))
    assert all(body == f"{key} " * 5000 for key, body in bodies.items())


def test_a_dump_that_rows_without_their_large_objects_may_have_escaped_ends_with_what_helps(follow: Make) -> None:
    follower = follow(LARGE, "SET SESSION binlog_row_image = 'FULL'", large_rows(60), **{"snapshot.mode": "no_data"})
    with_changes_in_windows(follower, "UPDATE t SET n = n + 1, at = 0 WHERE id = {last} + 5")
    follower.start()

    ended = follower.until_state(follower.ask(rf"{follower.database}\.t", surrogate_key="at", chunk_rows=20), "FAILED")

    follower.task.stop()
    assert "leaves out large values of a row" in ended["reason"]
    assert "binlog_row_image=FULL" in ended["reason"]


def test_large_objects_that_the_log_leaves_out_beside_a_changed_key_are_read_again_or_named_with_what_helps(source: Database) -> None:
    def followed(**config: str) -> Follower:
        database = new_database(source, "images")
        execute(source, LARGE, large_rows(3), database=database)
        follower = Follower(source, database, **config).start()
        follower.until_dumped()
        noblob = "SET SESSION binlog_row_image = 'NOBLOB'"
        follower.sql(noblob, "UPDATE t SET id = id + 10, n = 1 WHERE id < 3", "UPDATE t SET n = 2 WHERE id = 3")
        follower.until(lambda: follower.ops("t").count("u") == 1)
        follower.task.stop()
        return follower

    rereading = followed(**REREAD)
    bodies = {row["id"]: row["body"] for row in rereading.rows["t"].values()}
    assert bodies == {11: "1 " * 5000, 12: "2 " * 5000, 3: "__debezium_unavailable_value"}, "whoever has had row 3 has its value"
    assert rereading.warnings.texts() == ()

    other = followed()
    (text,) = other.warnings.texts()
    assert all(
        part in text for part in (f"{other.database}.t", "binlog_row_image=NOBLOB", "dblog.row.image.missing=reread", "--mode repair")
    )


def test_a_repair_ends_the_warning_of_large_objects_though_rows_that_keep_their_keys_change_meanwhile(source: Database) -> None:
    database = new_database(source, "images")
    execute(source, LARGE, large_rows(20), database=database)
    follower = Follower(source, database).start()
    try:
        follower.until_dumped()
        noblob = "SET SESSION binlog_row_image = 'NOBLOB'"
        follower.sql(noblob, "UPDATE t SET id = 101 WHERE id = 1")
        follower.until(follower.warnings.texts)
        repair = follower.ask(rf"{database}\.t", mode="repair", chunk_rows=4, delay_ms=100)
        follower.until(lambda: (follower.status(repair.id) or {}).get("rows", 0) >= 4)

        follower.sql(noblob, "UPDATE t SET n = 5 WHERE id = 2")
        follower.until_state(repair, "DONE")

        assert "u" in follower.ops("t")
        assert follower.warnings.texts() == ()
    finally:
        follower.task.stop()

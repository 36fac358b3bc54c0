"""Every DDL statement we know, on real MySQL and MariaDB: after each one our schema must be the server's (D8, I4)."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pytest
from dblog.core.changes import Unknown
from dblog.core.crosscheck import Agreed, cross_check
from dblog.dialects.mysql.binlog.table_map_schema import WIDTHS_SQL, Charsets, collations_sql, merger, seen_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql.err import MySQLError
from stack.database import Database
from support.ddl_cases import BOTH, CASES, Case
from support.ddl_truth import Follower, differences, is_understood
from support.servers import connected, execute


@pytest.fixture
def follower_of(source: Database) -> Iterator[object]:
    """Makes followers, each with a database of its own that is dropped afterwards."""
    made: list[str] = []
    with connected(source) as connection, connection.cursor() as cursor:

        def follow(*, sql_mode: str | None = None) -> Follower:
            cursor.execute("SET SESSION sql_mode = DEFAULT, explicit_defaults_for_timestamp = DEFAULT")
            database = f"ddl_{len(made)}"
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
            made.append(database)
            return Follower(cursor, source.flavor, database, sql_mode=sql_mode)

        yield follow
        cursor.execute("SET SESSION sql_mode = DEFAULT")
        for database in made:
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")


@pytest.fixture
def charsets(source: Database) -> Charsets:
    collations = collations_sql(source.flavor, (10, 11, 0))  # MariaDB's of the tests; MySQL has one query
    return Charsets.of(execute(source, collations), execute(source, WIDTHS_SQL))


SEEN_OTHERWISE = {
    "long unique": ("t",),  # hash columns that only the log shows
}

EACH_ON_ITS_SERVERS = [
    pytest.param(server, case, id=f"{server}-{case.name.replace(' ', '-')}") for server in BOTH for case in CASES if server in case.servers
]


@pytest.mark.parametrize(("source", "case"), EACH_ON_ITS_SERVERS, indirect=["source"])
def test_after_every_statement_our_schema_is_the_servers(case: Case, source: Database, follower_of, charsets: Charsets) -> None:
    follower = follower_of(sql_mode=case.sql_mode)

    for statement in case.statements:
        text = statement.replace("{db}", follower.database)
        changes = follower.run(text)

        assert is_understood(changes), (text, changes)
        assert differences(follower.truth(), follower.ours()) == [], text

    for table_map in follower.table_maps(source.data):
        table = follower.timeline.current_table(table_map.table)
        verdict = cross_check(table, seen_of(table_map, charsets), merger(charsets, signs_known=True))
        assert isinstance(verdict, Agreed) or table_map.table.name in SEEN_OTHERWISE.get(case.name, ()), verdict


def test_the_logged_form_of_a_table_made_by_a_query_has_its_columns(follower_of) -> None:
    follower = follower_of()
    follower.run("CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(10) NOT NULL)")

    follower.run("CREATE TABLE t AS SELECT id + 1 AS i, v, 'x' AS x FROM s")

    assert differences(follower.truth(), follower.ours()) == []


def test_a_statement_from_the_future_spoils_only_its_own_table(follower_of) -> None:
    follower = follower_of()
    follower.run("CREATE TABLE t (a INT)")
    follower.run("CREATE TABLE u (a INT)")
    t, u = sorted(follower.truth())

    from dblog.dialects.mysql.ddl import parser

    changes = parser.parse("ALTER TABLE t ADD COLUMN b QUANTUM(3) ENTANGLED WITH u", follower.context())
    follower.timeline.apply(changes, (1, 10_000))

    assert [type(change) for change in changes] == [Unknown]
    assert follower.timeline.current_table(t) is None
    assert follower.timeline.current_table(u) == follower.truth()[u]


COLUMN_TYPES = (
    "INT", "BIGINT UNSIGNED NOT NULL", "VARCHAR(20)", "VARCHAR(20) CHARACTER SET latin1 NOT NULL DEFAULT 'q'", "TEXT", "DECIMAL(8,3) DEFAULT 1.5",
    "DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", "ENUM('a','b') NOT NULL DEFAULT 'b'", "TIMESTAMP NULL", "DOUBLE NOT NULL", "BINARY(4)", "TINYINT(1)",
    "JSON", "INT UNIQUE", "CHAR(3) BINARY",
)  # fmt: skip
NAMES = tuple(string.ascii_lowercase[:6])
column_types, names = st.sampled_from(COLUMN_TYPES), st.sampled_from(NAMES)
positions = st.one_of(st.just(""), st.just(" FIRST"), names.map(lambda name: f" AFTER {name}"))
clauses = st.one_of(
    st.builds("ADD {} {}{}".format, names, column_types, positions),
    st.builds("ADD COLUMN ({} {}, {} {})".format, names, column_types, names, column_types),
    st.builds("DROP COLUMN {}".format, names),
    st.builds("MODIFY {} {}{}".format, names, column_types, positions),
    st.builds("CHANGE {} {} {}{}".format, names, names, column_types, positions),
    st.builds("RENAME COLUMN {} TO {}".format, names, names),
    st.builds("ALTER {} DROP DEFAULT".format, names),
    st.builds("ALTER {} SET DEFAULT '1'".format, names),
    st.builds("ADD UNIQUE ({}, {})".format, names, names),
    st.builds("ADD UNIQUE u_{} ({})".format, names, names),
    st.builds("ADD INDEX ({})".format, names),
    st.builds("DROP INDEX u_{}".format, names),
    st.builds("ADD PRIMARY KEY ({})".format, names),
    st.just("DROP PRIMARY KEY"),
    st.sampled_from(
        ("CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1", "DEFAULT CHARACTER SET latin1", "COMMENT = 'x'")
    ),
)
alterations = st.lists(clauses, min_size=1, max_size=3).map(", ".join)


def test_any_sequence_of_alterations_leads_both_to_the_same_table(follower_of) -> None:
    follower = follower_of()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.lists(alterations, min_size=1, max_size=6))
    def run(statements: list[str]) -> None:
        follower.run("DROP TABLE IF EXISTS t")
        follower.run(
            "CREATE TABLE t (a INT NOT NULL, b VARCHAR(10), c TEXT, d DATETIME, PRIMARY KEY (a), UNIQUE u_b (b)) CHARACTER SET latin1"
        )
        done = []
        for alteration in statements:
            try:
                changes = follower.run(f"ALTER TABLE t {alteration}")
            except MySQLError:
                continue  # the server refused it, so it is not in the log
            done.append(alteration)
            assert is_understood(changes), (done, changes)
            assert differences(follower.truth(), follower.ours()) == [], done

    run()

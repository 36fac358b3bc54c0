"""What is said of captured tables whose changes are in no log, or not all of them, for as long as it is so. # I3"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task.source import PostgresSource
from dblog.dialects.postgres.task.watch import PostgresWatch
from stack import Postgres
from structlog.testing import capture_logs
from support.postgres_begun import OFTEN, Begun
from support.postgres_follower import ROOT, PostgresFollower

Look = Callable[..., tuple[int | None, tuple[str, ...]]]
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "CREATE TABLE left_out (id INT PRIMARY KEY)",
)


@pytest.fixture
def look_of(postgres: Postgres, database: str) -> Iterator[Callable[..., Look]]:
    """Makes tables and a publication; gives a look at both, behind statements: how many tables are unpublished, and the warnings that stand."""
    opened = []

    def made(*statements: str, **config: str) -> Look:
        follower = PostgresFollower(postgres, database, **{"publication.autocreate.mode": "disabled", **config})
        follower.sql(*statements)
        server = PostgresSource(parse_connector(follower.options, follower.config)).connect(again=False)
        opened.append(server)
        at = server.now()
        server.begin()
        watch = PostgresWatch(server.connections, Abort(), selection=SimpleNamespace(includes=lambda table: table.name != "left_out"))
        opened.append(watch)

        def look(*statements: str) -> tuple[int | None, tuple[str, ...]]:
            follower.sql(*statements)
            state = watch.look(at, at)
            assert watch.look(at, at).tables_unpublished == state.tables_unpublished
            return state.tables_unpublished, server.connections.warnings.texts()

        return look

    yield made
    for each in reversed(opened):
        with closing(each):  # type: ignore[arg-type]
            pass


def test_a_captured_table_that_the_publication_lacks_is_counted_until_it_has_it(look_of: Callable[..., Look]) -> None:
    look = look_of(*TABLES, "CREATE PUBLICATION dbz_publication FOR TABLE t, u")

    assert look() == (0, ())
    count, (text,) = look("ALTER PUBLICATION dbz_publication DROP TABLE u", "CREATE TABLE a (id INT PRIMARY KEY)")
    assert count == 2
    assert 'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."a", "public"."u";' in text
    assert "dumped again" in text
    assert look("ALTER PUBLICATION dbz_publication ADD TABLE u, a") == (0, ())


@pytest.mark.parametrize("tables", ["ALL TABLES", "TABLE t, u"])
def test_a_kind_of_change_that_the_publication_leaves_out_is_said_of_all_tables(look_of: Callable[..., Look], tables: str) -> None:
    look = look_of(*TABLES, f"CREATE PUBLICATION dbz_publication FOR {tables}")

    assert look() == (0, ())
    with capture_logs() as lines:
        count, (text,) = look("ALTER PUBLICATION dbz_publication SET (publish = 'insert, truncate')")
    assert count == 2
    assert "leaves out delete, update" in text
    assert "SET (publish = 'insert, update, delete, truncate');" in text
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1
    assert look("ALTER PUBLICATION dbz_publication SET (publish = 'insert, update, delete')") == (0, ())


def test_a_condition_for_rows_is_said_while_the_publication_has_it(look_of: Callable[..., Look]) -> None:
    look = look_of(*TABLES, "CREATE PUBLICATION dbz_publication FOR TABLE t, u")

    count, (text,) = look("ALTER PUBLICATION dbz_publication SET TABLE t WHERE (id > 7), u")
    assert count == 0
    assert "a condition for rows of public.t:" in text
    assert look("ALTER PUBLICATION dbz_publication SET TABLE t, u") == (0, ())


@pytest.mark.parametrize("by_root", [False, True])
def test_a_table_that_is_unlogged_is_said_until_it_is_logged_again(look_of: Callable[..., Look], by_root: bool) -> None:
    made = f"CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_via_partition_root = {by_root})"
    look = look_of(*TABLES, *ROOT, made, **{"publish.via.partition.root": str(by_root).lower()})

    assert look() == (0, ())
    count, (text,) = look(*(f"ALTER TABLE {name} SET UNLOGGED" for name in ("t", "low", "left_out")))
    assert count == 2
    assert f"public.{'root' if by_root else 'low'}, public.t;" in text
    assert "SET LOGGED" in text
    assert look(*(f"ALTER TABLE {name} SET LOGGED" for name in ("t", "low"))) == (0, ())


def test_the_number_of_unpublished_tables_is_a_metric_of_the_task(begun: Begun) -> None:
    follower = begun("CREATE TABLE t (id INT PRIMARY KEY)", **OFTEN)

    def number() -> float | None:
        return follower.task.running.metrics().get("tables_unpublished")

    follower.until(lambda: number() == 0)
    follower.sql("ALTER TABLE t SET UNLOGGED")
    follower.until(lambda: number() == 1)
    follower.until(lambda: any("unlogged" in text for text in follower.warnings.texts()))

"""Statements that take rows away without a row in PostgreSQL's log: the status names the tables until a repair dump has read them."""

from __future__ import annotations

import pytest
from support.postgres_begun import ATTACH, OFTEN, ROOT_ONLY, Begun, renamed, together
from support.postgres_follower import ROOT, PostgresFollower


def named(follower: PostgresFollower) -> str:
    """What stands of removed rows in the status."""
    return next((text for text in follower.warnings.texts() if text.startswith("rows that statements removed")), "")


PLAIN = ("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
CHILD = ("CREATE TABLE child (id INT PRIMARY KEY, t INT REFERENCES t)", "INSERT INTO child VALUES (1, 1)")
REPLACED = "another table has its name"


def repaired(follower: PostgresFollower, *tables: str) -> None:
    request = follower.ask(*(rf"public\.{table}" for table in tables), mode="repair")
    follower.until_state(request, "DONE")


@pytest.mark.parametrize(
    ("made", "statements", "expected"),
    [
        pytest.param((), ["TRUNCATE t"], {"t": "TRUNCATE"}, id="truncate"),
        pytest.param(CHILD, ["TRUNCATE t CASCADE"], {"t": "TRUNCATE", "child": "TRUNCATE"}, id="cascade"),
        pytest.param(ROOT, ["TRUNCATE root"], {"low": "TRUNCATE"}, id="partitions"),
        pytest.param(
            (),
            ["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (3, 3)"],
            {"t": REPLACED},
            id="drop and create",
        ),
        pytest.param(
            (),
            [together("CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", *renamed("t>former", "fresh>t")), "INSERT INTO t VALUES (3, 3)"],
            {"t": REPLACED},
            id="renamed away and in",
        ),
    ],
)
def test_a_table_that_lost_rows_without_a_row_in_the_log_is_named_until_a_repair_dump(
    begun: Begun, made: tuple[str, ...], statements: list[str], expected: dict[str, str]
) -> None:
    follower = begun(*PLAIN, *made, **OFTEN)
    assert named(follower) == ""

    follower.sql(*statements)
    follower.until(lambda: all(f"public.{table} ({what})" in named(follower) for table, what in expected.items()))
    follower.until_caught_up()
    follower.until(lambda: named(follower).count("(") == len(expected))

    command = named(follower).partition("`")[2].partition("`")[0].split()
    assert command[:4] == ["dblog", "dumps", "start", follower.name]
    assert sorted(command[4:-2]) == sorted(f"public.{table}" for table in expected)
    repaired(follower, *expected)
    assert named(follower) == ""


def test_a_truncate_of_a_root_under_its_own_name_is_named(begun: Begun) -> None:
    follower = begun(*ROOT, **ROOT_ONLY)

    follower.sql("TRUNCATE root")

    follower.until(lambda: "public.root (TRUNCATE)" in named(follower))
    repaired(follower, "root")
    assert named(follower) == ""


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["DROP TABLE high"], id="dropped"),
        pytest.param(["ALTER TABLE root DETACH PARTITION high CONCURRENTLY"], id="detached"),
        pytest.param(["ALTER TABLE root DETACH PARTITION high", "DELETE FROM high", ATTACH], id="detached for a while"),
    ],
)
def test_a_root_that_lost_a_partition_is_named_until_a_repair_dump_over_restarts(begun: Begun, statements: list[str], away: bool) -> None:
    high = ("CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20)", "INSERT INTO root VALUES (11, 'a')")
    follower = begun(*ROOT, *high, **ROOT_ONLY, **OFTEN)
    follower.sql("CREATE TABLE ahead PARTITION OF root FOR VALUES FROM (20) TO (30)")  # which takes nothing away
    follower.until_caught_up()
    if away:
        follower.task.stop()

    follower.sql(*statements)
    if away:
        follower.restart()
    for _ in range(2):
        follower.until(lambda: "public.root (a partition was detached or dropped)" in named(follower))
        follower.until_caught_up()
        follower.restart()

    repaired(follower, "root")
    assert named(follower) == ""
    follower.until_caught_up()
    follower.restart()
    follower.until_caught_up()
    assert named(follower) == ""


@pytest.mark.parametrize("away", [False, True], ids=["running", "away"])
def test_a_table_that_is_dropped_before_a_restart_and_made_again_after_it_is_named(begun: Begun, away: bool) -> None:
    follower = begun(*PLAIN, **OFTEN)
    follower.sql("DROP TABLE t")
    follower.until(lambda: "t" not in {table.name for table in follower.task.running.schemas.captured()})
    for _ in range(2):
        follower.until_caught_up()
    follower.restart()
    follower.until_caught_up()
    if away:
        follower.task.stop()

    follower.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")  # with its first row it would be repaired, and need no warning
    if away:
        follower.restart()

    follower.until(lambda: "public.t (it was gone, and is there again)" in named(follower))


def test_a_truncate_that_is_written_needs_no_warning(begun: Begun) -> None:
    follower = begun(*PLAIN, **{"skipped.operations": "none"})

    follower.sql("TRUNCATE t")

    follower.until(lambda: "t" in follower.ops("t"))
    follower.until_caught_up()
    assert named(follower) == ""


def test_a_table_that_is_dropped_is_named_no_longer(begun: Begun) -> None:
    follower = begun(*PLAIN, **OFTEN)
    follower.sql("TRUNCATE t")
    follower.until(lambda: named(follower))

    follower.sql("DROP TABLE t")

    follower.until(lambda: not named(follower))

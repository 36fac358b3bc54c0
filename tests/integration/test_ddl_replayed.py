"""At least 400 different statements on each real server, rows before, between and after them, through the whole reader. # I4

The log carries no column names here, so every schema follows from the statements' text. After each statement the task's schema must be information_schema's,
and every row must come out with the columns that its table had.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stack.database import Database
from support.ddl_cases import STREAMED_CASES
from support.ddl_replay import Replay, tables_at, watch
from support.ddl_truth import differences
from support.follower import Follower
from support.servers import connected, execute

STATEMENTS_MIN = 400


@pytest.fixture
def without_names(source: Database) -> Iterator[None]:
    """The server logs no column names for a while."""
    execute(source, f"SET GLOBAL binlog_row_metadata = '{'NO_LOG' if source.flavor == 'mariadb' else 'MINIMAL'}'")
    yield
    execute(source, "SET GLOBAL binlog_row_metadata = 'FULL'")


@pytest.mark.either_server
@pytest.mark.usefixtures("without_names")
def test_after_every_statement_the_task_has_the_servers_schema_and_rows_have_their_columns(source: Database) -> None:
    cases = [case for case in STREAMED_CASES if source.flavor in case.servers]
    assert len({(case.sql_mode, statement) for case in cases for statement in case.statements}) >= STATEMENTS_MIN
    follower = Follower(source, r"replay_\d+(_b)?", **{"snapshot.mode": "no_data"}).start()
    try:
        seen = watch(follower.task.running.schemas)
        written: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        with connected(source) as connection, connection.cursor() as cursor:
            replay = Replay(source, cursor, epoch=follower.task.running.stream.progress.epoch)
            for number, case in enumerate(cases):
                replay.run(case, number)
                follower.poll()
            end = replay.log_end()
        follower.until(lambda: follower.task.running.stream.progress.sequence >= end)
        follower.until(lambda: not follower.task.running.queue.records_total)

        problems = [
            f"{case}: {text}: {line}"
            for case, text, end_of_step, truth in replay.steps
            for line in differences(truth, tables_at(seen, end_of_step, databases_of(truth, text)))
        ]
        for _, record in follower.values:
            if record is not None and record["op"] == "c":
                name = (record["source"]["db"], record["source"]["table"])
                written.setdefault(name, []).append(tuple(record["after"]))
        problems += [
            f"{id_}: rows put in {[r for r in rows if r not in written.get((id_.database, id_.name), [])]}, came out {written.get((id_.database, id_.name))}"
            for id_, rows in replay.rows.items()
            if not contains(written.get((id_.database, id_.name), []), rows)
        ]
    finally:
        follower.task.stop()

    assert not problems, "\n".join(problems)
    assert follower.task.metrics()["tables_parked"] == 0
    assert len(replay.rows) > 100


def databases_of(truth: object, text: str) -> tuple[str, ...]:
    del text
    names = {id_.database for id_ in truth}  # type: ignore[attr-defined]
    return tuple(names)


def contains(written: list[tuple[str, ...]], rows: list[tuple[str, ...]]) -> bool:
    """Whether the rows came out in their order; others may stand between (those that statements themselves made)."""
    left = iter(written)
    return all(row in left for row in rows)

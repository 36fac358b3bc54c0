"""Rows of a hundred bytes beside rows of megabytes, under writes: the chunks grow and shrink with what they hold, and the fold of the output is the source. # I3 I6"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from stack.database import Database
from support.follower import Follower, Row
from support.servers import execute, new_database
from support.under_writes import under_writes

NARROW, WIDE, HUGE = 100, 200_000, 3_000_000
BYTES_MAX, RECEIVED = 1 << 20, 256 * 1024
"""What a chunk may have, and what is received at a time; the row that exceeds it comes whole."""
FIRST_WIDE, FIRST_BEHIND, LAST = 4001, 4102, 8000


def width(id_: int) -> int:
    """Bytes of a row's body: a hundred wide rows and a huge one lie between narrow ones."""
    if id_ == FIRST_BEHIND - 1:
        return HUGE
    return WIDE if FIRST_WIDE <= id_ < FIRST_BEHIND else NARROW


@pytest.fixture
def library(source: Database) -> Iterator[Follower]:
    """A task that dumps nothing by itself, and a table that is older."""
    database = new_database(source, "wide")
    limit = "SET SESSION max_recursive_iterations = 10000" if source.flavor == "mariadb" else "SET SESSION cte_max_recursion_depth = 10000"
    size = f"IF(i = {FIRST_BEHIND - 1}, {HUGE}, IF(i BETWEEN {FIRST_WIDE} AND {FIRST_BEHIND - 1}, {WIDE}, {NARROW}))"
    execute(
        source,
        limit,
        "CREATE TABLE papers (id INT PRIMARY KEY, v INT, body LONGTEXT CHARACTER SET latin1)",
        f"INSERT INTO papers WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LAST}) "
        f"SELECT i, i, REPEAT(CHAR(97 + i % 26), {size}) FROM n",
        database=database,
    )
    follower = Follower(source, database, **{"snapshot.mode": "no_data", "dblog.chunk.bytes.max": str(BYTES_MAX)})
    yield follower
    follower.task.stop()


@pytest.mark.either_server
def test_chunks_adapt_to_wide_rows_and_stay_within_their_bytes_under_writes(library: Follower) -> None:
    markers: list[Row] = []
    library.marked = lambda value: markers.append(json.loads(value))
    library.start()

    def statements(n: int) -> tuple[str, ...]:
        wide = FIRST_WIDE + n % (FIRST_BEHIND - FIRST_WIDE)
        return (
            f"UPDATE papers SET v = v + 1 WHERE id % 997 = {n % 997}",
            f"UPDATE papers SET body = REPEAT(CHAR({97 + n % 26}), LENGTH(body)) WHERE id = {wide}",
            f"DELETE FROM papers WHERE id = {n * 3}",
            f"INSERT INTO papers VALUES ({LAST + n}, {n}, 'new') ON DUPLICATE KEY UPDATE v = {n}",
        )

    with under_writes(library, statements, pause_s=0.05):
        request = library.ask(rf"{library.database}\.papers")
        library.until_state(request, "DONE")
    library.until_equal("papers")

    rows: list[int] = []
    for marker in markers:
        after, upto = (json.loads(marker[name] or "[0]")[0] for name in ("range_after", "range_upto"))
        widths = [width(id_) for id_ in range(after + 1, min(upto, LAST) + 1)]
        assert sum(widths) <= BYTES_MAX + RECEIVED + max(widths, default=0), f"a chunk goes from {after} to {upto}"
        rows.append(marker["rows_read"])
    of_wide = [
        marker["rows_read"]
        for marker in markers
        if marker["range_after"] and FIRST_WIDE < json.loads(marker["range_after"])[0] < FIRST_BEHIND
    ]
    assert max(rows) > 1500, "narrow rows come by the thousand"
    assert max(of_wide[:-2]) <= (BYTES_MAX + RECEIVED) // WIDE + 1, "wide ones by the handful"
    assert rows[-1] > 100, "and then the chunks grow again"

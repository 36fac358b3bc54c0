"""What ``dblog-sink verified`` ends with: a script goes by its exit status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from dblog_sink.query.verified import Shown, answer
from dblog_sink.tables.verify import COUNTS, DIFFERING, EQUAL, UNKNOWN


def shown(result: str) -> Shown:
    counts = dict.fromkeys(COUNTS, 0)
    return Shown(
        table="shop.t", topic="p.shop.t", dump="d", scope="table", result=result, why="", counts=counts, keys=(), at=datetime.now(tz=UTC)
    )


@pytest.mark.parametrize(
    ("results", "status"),
    [((EQUAL, EQUAL), 0), ((), 2), ((EQUAL, UNKNOWN), 2), ((UNKNOWN, DIFFERING), 1), ((DIFFERING,), 1)],
)
def test_the_status_is_0_only_where_every_table_is_known_to_be_equal(results: tuple[str, ...], status: int) -> None:
    assert answer([shown(result) for result in results], as_json=False)[1] == status

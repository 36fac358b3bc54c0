"""However many dumps are open, and however long the names of their tables are, a task's report of them is a message that the herder takes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from dblog.cluster.processes import _LINE_BYTES_MAX
from dblog.core.dumprequests import DumpRequest, parse_request
from dblog.core.requested import Requests
from dblog.core.table_dump import KeyRange, TableDump, UnderWay
from dblog.model import TableId
from dblog.readers.dump.chunknotes import Proof
from dblog.readers.dump.dumpreport import REASON_CHARS_MAX, REPORT_BYTES_MAX, bounded
from dblog.readers.dump.dumpstatus import TABLES_SHOWN_MAX
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.run.dumpdesk import DumpDesk


def names(letter: str) -> list[TableId]:
    return [TableId(letter * 64, f"{letter * 58}{number:06}") for number in range(300)]


def request(number: int) -> DumpRequest:
    return parse_request({"tables": [".*"]}, id=f"{number:012x}", connector="c", created_ms=number, requested_by="rest")


def desk(requests: Requests, *, gtid: str | None) -> DumpDesk:
    """A desk over these requests; each table was last read at a position with this set of GTIDs."""
    position = SimpleNamespace(file="binlog.000001", pos=4, gtid=gtid)
    proof = Mock(spec=Proof, rows=1, low=position, high=position, at_us=1)
    windows = Mock(troubles=Mock(return_value={}), notes=Mock(return_value=(0, 0, proof)), rows_leave=Mock(return_value=frozenset()))
    return DumpDesk(
        progress=Mock(own=None, requests=requests),
        windows=windows,
        notes=Mock(),
        dumping=Mock(),
        checks=Mock(),
        signals=Mock(),
        estimates=RowEstimates(),
        governing=Mock(status=dict),
        clock=Mock(monotonic_s=lambda: 1.0),
    )


@pytest.mark.parametrize("letter", ["t", "語", "\x01", "😀"])
@pytest.mark.parametrize("gtid", [None, "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5," * 40])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_report_of_many_dumps_of_many_tables_is_taken_by_the_herder(letter: str, gtid: str | None, count: int) -> None:
    tables = names(letter)
    requests = Requests()
    for number in range(count):
        requests = requests.added(request(number), tables)
        requests = requests.changed(
            request(number).id,
            lambda dump: dump.with_progress(
                [
                    TableDump(table=table, state=UnderWay(key=("id",), upto=(9,), ranges=(KeyRange(None, (9,)),)), rows=9)
                    for table in tables[:32]
                ]
            ),
        )

    statuses = desk(requests, gtid=gtid).statuses()

    size = len(json.dumps({"type": "dumps", "dumps": statuses}, separators=(",", ":")))
    assert size <= REPORT_BYTES_MAX + 100 < _LINE_BYTES_MAX // 2
    assert len(statuses) == count
    assert all(status["tables_total"] == len(tables) for status in statuses)
    assert all(status["tables"] and len(status["tables"]) <= TABLES_SHOWN_MAX for status in statuses)
    if count <= 10 and gtid is None and letter == "t":
        assert all(len(status["tables"]) == TABLES_SHOWN_MAX for status in statuses), "few dumps name as many as ever"


def test_what_was_reported_before_is_left_as_it_is() -> None:
    before = [{"id": "a", "reason": "x" * 3000, "tables": [{"table": "s.t", "fault": "y" * 100_000}] * 50}]

    (after,) = bounded(before)

    assert 0 < len(after["tables"]) < 50
    assert after["reason"] == "x" * REASON_CHARS_MAX
    assert len(before[0]["tables"]) == 50

"""What a connector stores as its offset may be given back to it. # PATCH /connectors/{name}/offsets"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from dblog.codecs.transactions import TransactionCounts
from dblog.dialects.mariadb.offset import MariaDbProgress
from dblog.dialects.mysql.binlog.offset import PREPARED_UNKNOWN, LogProgress
from dblog.dialects.mysql.task import altered as of_mysql
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.offset import PostgresProgress
from dblog.dialects.postgres.task import altered as of_postgres

COUNTS = TransactionCounts("one", {"shop.orders": 3})
FULL = {
    "event": 2,
    "packed_event": 3,
    "row": 4,
    "server_id": 5,
    "ts_sec": 6,
    "server": "a",
    "epoch": 7,
    "prepared": PREPARED_UNKNOWN,
    "transaction": COUNTS,
}
PLACE = LogOffset(lsn=9, commit_lsn=20, event=3, change_lsn=11, change=2, xid=13, ts_us=14, kind="INSERT", transaction=COUNTS)
GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
CHECKED = {
    "mysql": (
        partial(of_mysql.check_altered, LogProgress),
        LogProgress(file="log.000001", pos=4, gtids=GTIDS, **FULL),  # type: ignore[arg-type]
    ),
    "mariadb": (
        partial(of_mysql.check_altered, MariaDbProgress),
        MariaDbProgress(file="log.000001", pos=4, gtids="0-1-5", **FULL),  # type: ignore[arg-type]
    ),
    "postgres": (of_postgres.check_altered, PostgresProgress(PLACE, database="d", server="7/1", epoch=5, standby_started_us=6)),
}


@pytest.mark.parametrize("dialect", CHECKED)
def test_an_offset_with_every_field_that_a_connector_stores_is_taken_back(dialect: str) -> None:
    check, progress = CHECKED[dialect]
    stored: dict[str, Any] = progress.to_map()  # type: ignore[attr-defined]

    check("shop", [({"server": "shop"}, stored)])

"""An offset is read, moved on and written in Debezium's keys."""

import pytest
from dblog.codecs.transactions import TransactionCounts
from dblog.dialects.mysql.binlog.items import LogOffset
from dblog.dialects.mysql.binlog.offset import LogProgress

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
INSIDE = {
    "ts_sec": 9,
    "file": "binlog.000002",
    "pos": 500,
    "gtids": f"{UUID}:1-9",
    "event": 4,
    "transaction_id": f"{UUID}:10",
    "transaction_data_collection_order_shop.a": 3,
    "transaction_data_collection_order_shop.b_c.d": 1,
}


def test_the_counts_of_an_open_transaction_travel_in_debeziums_keys() -> None:
    progress = LogProgress.of_offset(INSIDE)

    assert progress.transaction == TransactionCounts(f"{UUID}:10", {"shop.a": 3, "shop.b_c.d": 1})
    assert progress.to_map() == progress.copy().to_map() == INSIDE


def test_they_end_with_the_transaction() -> None:
    progress = LogProgress.of_offset(INSIDE)

    progress.advance(LogOffset(file="binlog.000002", pos=900, gtids_delta=[(UUID, "", 10, 10)]))

    assert not [key for key in progress.to_map() if key.startswith("transaction_")]


@pytest.mark.parametrize("name", [None, 7])
def test_an_offset_without_them_has_none(name: object) -> None:
    assert LogProgress.of_offset({**INSIDE, "transaction_id": name}).transaction is None

"""Delta tables are read by delta-rs; what is not there (yet) is no error."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from demo.compare import TableResult
from demo.flow import Outcome
from demo.lake import Lake
from demo.shop import TABLES


def lake_with_orders(folder) -> Lake:
    lake = Lake(folder)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "total": pa.array(["a", None, "c"])})
    write_deltalake(str(lake.path("shop", "orders")), rows)
    return lake


def test_rows_come_in_the_order_of_the_asked_columns(tmp_path):
    lake = lake_with_orders(tmp_path)

    assert lake.column_names("shop", "orders") == ["id", "total"]
    assert sorted(lake.read_rows("shop", "orders", ["total", "id"]), key=lambda row: row[1]) == [("a", 1), (None, 2), ("c", 3)]


def test_deleted_rows_are_not_counted(tmp_path):
    lake = lake_with_orders(tmp_path)
    DeltaTable(lake.path("shop", "orders")).delete("id = 2")

    assert lake.count_rows("shop", "orders") == 2
    assert lake.count_rows("shop", "orders", "total = 'a'") == 1
    assert lake.newest("shop", "orders", "id") == 3
    assert lake.version("shop", "orders") == 2


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path):
    lake = Lake(tmp_path)
    (lake.path("shop", "orders") / "_delta_log").mkdir(parents=True)

    for table in ("orders", "customers"):
        assert lake.count_rows("shop", table) == 0
        assert lake.column_names("shop", table) == []
        assert lake.newest("shop", table, "id") is None
        assert lake.version("shop", table) == 0


def test_a_run_that_compared_nothing_is_not_identical():
    same = [TableResult(table) for table in TABLES]

    assert Outcome(results=same).identical
    assert not Outcome().identical
    assert not Outcome(results=same[1:]).identical
    assert not Outcome(results=[TableResult("t", rows_source=1, rows_lake=1, rows_changed=1), *same[1:]]).identical

"""The schema history: recovery in one record a table, beside other people's records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from contracts.history_log import HistoryLogContract
from dblog.core.changes import AlterTable, CreateTable, DropTable
from dblog.core.timeline import START, Database, Known, Timeline
from dblog.errors import DefiniteError, TransientError
from dblog.model import Column, Table, TableId
from dblog.readers.log.history import SchemaHistory
from support.history import FakeHistoryLog

T, U = TableId("d", "t"), TableId("d.x", "u.y")


def table(id_: TableId, *names: str) -> Table:
    return Table(id=id_, columns=tuple(Column(name=name, type="int", type_text="int", nullable=False) for name in names), key=(names[0],))


class TestFakeHistoryLog(HistoryLogContract):
    @pytest.fixture
    def history_log(self) -> FakeHistoryLog:
        return FakeHistoryLog()


def recovered(log: FakeHistoryLog, server: str = "shop") -> Timeline:
    timeline = Timeline()
    SchemaHistory(log, server=server).recover(timeline)
    return timeline


def test_a_timeline_comes_back_as_it_was_saved() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    timeline.put(table(T, "id"), START)
    timeline.put(table(U, "id"), START)
    timeline.databases["d"] = Database("utf8mb4", "utf8mb4_bin")
    history = SchemaHistory(log, server="shop")

    history.save_all(timeline)

    again = recovered(log)
    assert again.tables() == [T, U]
    assert again.current_table(U) == table(U, "id")
    assert again.databases == timeline.databases


def test_where_the_newest_epoch_began_comes_back_though_every_version_is_of_an_older_one() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    timeline.put(table(T, "id"), (1 << 32, 5))
    timeline.databases["epoch"] = Database("utf8mb4", None)
    history = SchemaHistory(log, server="shop")
    history.save_all(timeline)
    history.begin_epoch(timeline, (7 << 32, 4))

    again = recovered(log)

    assert (timeline.newest, again.newest) == ((7 << 32, 4), (7 << 32, 4))
    assert (again.tables(), again.databases) == ([T], timeline.databases)


def test_recovery_parses_one_record_a_table_whatever_the_number_of_statements() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    history = SchemaHistory(log, server="shop")
    timeline.put(table(T, "id"), START)
    for n in range(1, 2000):
        history.save(timeline, timeline.apply([AlterTable(T, table(T, "id", f"c{n}"))], (1, n)))
        history.prune(timeline, (1, n))
    log.compact()

    again = Timeline()
    assert SchemaHistory(log, server="shop").recover(again) == 1
    assert len(log.records) == 1
    assert again.current_table(T) == table(T, "id", "c1999")
    assert len(json.dumps(timeline.to_record(T))) < 2000


def test_records_of_debezium_and_of_other_servers_are_passed_over() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    log.records.append((None, b'{"source":{"server":"shop"},"ddl":"CREATE TABLE t(i int)"}'))
    timeline.put(table(T, "id"), START)
    SchemaHistory(log, server="shop").save_all(timeline)
    log.records.append((b"not json", b"x"))
    log.records.append((b'{"other":1}', b"x"))

    assert recovered(log, "another").tables() == []
    assert recovered(log).tables() == [T]


def test_of_a_dropped_table_only_the_name_is_kept_when_the_drop_is_committed() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    history = SchemaHistory(log, server="shop")
    timeline.put(table(T, "id"), START)
    history.save_all(timeline)
    history.save(timeline, timeline.apply([DropTable((T,))], (1, 9)))
    assert recovered(log).state_at(T, (1, 8)) == Known(table(T, "id"))

    history.prune(timeline, (1, 9))

    assert log.records[-1][1] == b'{"versions":[],"gone":true,"number":null}'
    assert recovered(log).tables() == []
    assert recovered(log).gone() == {T: None}


def test_a_broker_that_is_away_stops_the_stream_before_the_statement_is_passed() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    log.away = True
    changed = timeline.apply([CreateTable(table(T, "id"))], (1, 1))

    with pytest.raises(TransientError):
        SchemaHistory(log, server="shop").save(timeline, changed)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ({"dblog": 2, "server": "shop", "table": "d.t"}, {}, "newer version"),
        ({"dblog": 1, "server": "shop", "table": "d.t"}, {"versions": [{}]}, "cannot be read"),
    ],
)
def test_a_record_that_cannot_be_read_names_the_table_and_the_remedy(key: object, value: object, message: str) -> None:
    log = FakeHistoryLog()
    log.records.append((json.dumps(key).encode(), json.dumps(value).encode()))

    with pytest.raises(DefiniteError, match=message):
        recovered(log)


def test_an_alter_after_a_restart_goes_on_from_the_recovered_version() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    history = SchemaHistory(log, server="shop")
    timeline.put(table(T, "id"), START)
    history.save_all(timeline)

    again = recovered(log)
    found = again.lookup_before((1, 5))(T)
    assert found is not None
    again.apply([AlterTable(T, replace(found, comment="x"))], (1, 5))

    assert [version.position for version in again.versions(T)] == [START, (1, 5)]


def test_lists_of_tables_come_back_by_their_ids_and_those_that_nobody_refers_to_are_erased() -> None:
    log = FakeHistoryLog()
    history = SchemaHistory(log, server="shop")
    history.save_list("first", [T, U])
    history.save_list("second", [U])
    SchemaHistory(log, server="other").save_list("first", [])

    assert SchemaHistory(log, server="shop").lists() == history.lists() == {"first": (T, U), "second": (U,)}
    history.keep_lists({"second", None})
    log.compact()

    assert history.lists() == {"second": (U,)}
    again = SchemaHistory(log, server="shop")
    assert again.recover(Timeline()) == 0, "a list is no table"
    assert again.lists() == {"second": (U,)}
    assert SchemaHistory(log, server="other").lists() == {"first": ()}


def test_a_list_that_cannot_be_read_is_none_and_hurts_no_schema() -> None:
    log, timeline = FakeHistoryLog(), Timeline()
    timeline.put(table(T, "id"), START)
    history = SchemaHistory(log, server="shop")
    history.save_all(timeline)
    history.save_list("l", [T])
    log.records.append((log.records[-1][0], b'{"tables":[["d"]]}'))

    again = SchemaHistory(log, server="shop")
    assert (again.recover(Timeline()), again.lists()) == (1, {})

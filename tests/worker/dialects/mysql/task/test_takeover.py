"""A history that Debezium wrote (tests/support/debezium/history.json), read as ours, and its schema-change topic, written again by us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dblog.core.changes import Ignored
from dblog.core.tablerecord import table_of_record
from dblog.core.timeline import Database, Stale, Timeline
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.flavor import mysql_flavor
from dblog.dialects.mysql.ddl.schema_changes import initial_changes, schema_changes
from dblog.dialects.mysql.task.takeover import is_before, table_id, take_over
from dblog.model import Table, TableId
from dblog.readers.log.history import SchemaHistory
from support.ddl_truth import comparable
from support.history import FakeHistoryLog

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[4] / "support" / "debezium" / "history.json").read_text())
OFFSET = RECORDED["offsets"]["offsets"][0]["offset"]
HISTORY = RECORDED["history"]
FIRST = sum(bool(record["position"].get("snapshot")) for record in HISTORY)
FLAVOR = mysql_flavor((9, 7, 0))
INCLUDE = LogProgress.gtids_include


def in_shop(id_: TableId) -> bool:
    return id_.database == "shop"


def parse_with(timeline: Timeline):
    def parse(text: str, database: str, position: tuple[int, int]):
        def charset(name: str) -> tuple[str | None, str | None]:
            known = timeline.databases.get(name, Database(None, None))
            return known.charset, known.collation

        context = Context(flavor=FLAVOR, table=timeline.lookup_before(position), default_database=database, database_charset=charset)
        return parser.parse(text, context)

    return parse


def taken_over(records: list[Any], offset: dict[str, Any], *, server: str = "p") -> Timeline:
    timeline = Timeline(captured=in_shop)
    take_over(
        (json.dumps(r).encode() for r in records), timeline, server=server, offset=offset, parse=parse_with(timeline), include=INCLUDE
    )
    return timeline


def truth() -> dict[str, Table]:
    tables = {}
    for name, record in RECORDED["tables"].items():
        database, _, table = name.partition(".")
        tables[name] = comparable(table_of_record(TableId(database, table), record))
    return tables


def test_the_tables_at_the_offset_are_the_servers() -> None:
    timeline = taken_over(HISTORY, OFFSET)

    assert {str(t.id): comparable(t) for t in timeline.captured_tables()} == truth()
    assert all(len(timeline.versions(id_)) == 1 for id_ in timeline.tables())
    assert timeline.databases["shop"] == Database("utf8mb4", "utf8mb4_0900_ai_ci")


@pytest.mark.parametrize("count", range(FIRST, len(HISTORY)))
def test_an_offset_in_the_middle_leaves_out_what_came_later(count: int) -> None:
    position = HISTORY[count - 1]["position"]
    offset = {k: v for k, v in position.items() if k != "snapshot"}
    wanted = [r for r in HISTORY if is_before(r["position"], offset, include=INCLUDE)]

    timeline, whole = taken_over(HISTORY, offset), taken_over(wanted, OFFSET)

    assert timeline.captured_tables() == whole.captured_tables()


def test_other_servers_records_and_our_own_are_not_taken() -> None:
    assert taken_over(HISTORY, OFFSET, server="another").tables() == []
    assert taken_over([{"dblog": 1}, "text", 7, None], OFFSET).tables() == []


def test_a_statement_that_makes_other_columns_than_debezium_noted_leaves_its_table_to_be_read_again() -> None:
    records = json.loads(json.dumps(HISTORY))
    (altered,) = [r for r in records if r["ddl"].startswith("ALTER TABLE a")]
    altered["ddl"] = "ALTER TABLE a ADD cc INT"

    timeline = taken_over(records, OFFSET)

    assert isinstance(timeline.current(TableId("shop", "a")), Stale)
    assert timeline.current_table(TableId("shop", "b2")) is not None


def test_our_history_goes_on_in_debeziums_topic_with_one_record_a_table() -> None:
    log = FakeHistoryLog()
    log.records += [(None, json.dumps(r).encode()) for r in HISTORY]
    history, timeline = SchemaHistory(log, server="p"), Timeline(captured=in_shop)
    take_over(history.others(), timeline, server="p", offset=OFFSET, parse=parse_with(timeline), include=INCLUDE)
    history.save_all(timeline)

    again = Timeline(captured=in_shop)

    assert SchemaHistory(log, server="p").recover(again) == len(truth())
    assert again.captured_tables() == timeline.captured_tables()


@pytest.mark.parametrize(
    ("text", "id_"),
    [('"a"."b"', TableId("a", "b")), ('"a.b"."c""d"', TableId("a.b", 'c"d')), ("a.b", None), ('"a"', None), ('"a', None), ("", None)],
)
def test_quoted_names_of_tables(text: str, id_: TableId | None) -> None:
    assert table_id(text) == id_


def reported(record: Any) -> dict[str, Any]:
    return {
        "databaseName": record.database,
        "ddl": record.ddl,
        "table": "" if record.of_nothing else ",".join(t.name for t in record.tables) or None,
        "tableChanges": list(record.table_changes),
    }


def test_the_schema_change_topic_is_debeziums_record_by_record() -> None:
    theirs = [
        {"databaseName": v["databaseName"], "ddl": v["ddl"], "table": v["source"]["table"], "tableChanges": v["tableChanges"]}
        for _, v in RECORDED["topic"]
    ]
    timeline = Timeline()
    parse = parse_with(timeline)
    first: list[tuple[Table, str]] = []
    ours: list[dict[str, Any]] = []
    for n, record in enumerate(HISTORY, start=1):
        (change,) = parse(record["ddl"], record["databaseName"], (0, n))
        timeline.apply([change], (0, n))
        if n <= FIRST:
            if not isinstance(change, Ignored) and record["ddl"].startswith("CREATE TABLE"):
                first.append((change.table, record["ddl"]))
        elif n == FIRST + 1:
            defaults = {name: (d.charset, d.collation) for name, d in timeline.databases.items()}
            ours += [reported(r) for r in initial_changes(first, defaults, server=("utf8mb4", "utf8mb4_0900_ai_ci"))]
        if n > FIRST and not record["ddl"].startswith("RENAME TABLE e"):
            changes = [change]
            statement = record["ddl"]
            if record["ddl"].startswith("RENAME TABLE s"):
                statement = "RENAME TABLE e TO e1, s TO s1"
                changes = list(parser.parse(statement, Context(flavor=FLAVOR, table=lambda _: None, default_database="shop")))
            ours += [
                reported(r)
                for r in schema_changes(changes, statement, default_database="shop", after=timeline.current_table, captured=lambda _: True)
            ]

    assert ours == theirs

"""Debezium's schema-change records, made of our changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from dblog.core.changes import AlterTable, CreateDatabase, CreateTable, DropTable, Ignored, RenameTable, TruncateTable, Unknown
from dblog.core.timeline import Database, Timeline
from dblog.dialects.mariadb.flavor import mariadb_flavor
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.schema_changes import schema_change_values, schema_changes, table_change
from dblog.model import Column, Table, TableId, Written

T, U = TableId("shop", "t"), TableId("shop", "u")
TABLE = Table(
    id=T,
    key=("id",),
    charset="utf8mb4",
    comment="the table",
    columns=(
        Column(name="id", type="bigint", type_text="bigint unsigned", nullable=False, unsigned=True, auto_increment=True),
        Column(name="price", type="decimal", type_text="decimal(5,2)", nullable=False, length=5, scale=2, has_default=True, default="1.00"),
        Column(name="e", type="enum", type_text="enum('a','it''s')", nullable=True, charset="utf8mb4", members=("a", "it's"), has_default=True),
        Column(
            name="at", type="timestamp", type_text="timestamp(3)", nullable=False, length=3, has_default=True, default="CURRENT_TIMESTAMP(3)",
            default_is_expression=True,
        ),
        Column(name="flag", type="bit", type_text="bit(1)", nullable=True, length=1, has_default=True, default="b'1'", comment="c"),
    ),
)  # fmt: skip


def records(*changes, ddl="THE STATEMENT", captured=lambda id_: True):
    return schema_changes(changes, ddl, default_database="shop", after=lambda id_: TABLE if id_ in (T, U) else None, captured=captured)


def test_a_created_table_is_reported_column_by_column_as_debezium_does() -> None:
    (record,) = records(CreateTable(TABLE))
    key, value = schema_change_values(record, source={"table": "t"}, ts_ms=5)

    assert key == {"databaseName": "shop"}
    assert list(value) == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    (change,) = value["tableChanges"]
    assert (change["type"], change["id"]) == ("CREATE", '"shop"."t"')
    assert change["table"]["primaryKeyColumnNames"] == ["id"]
    assert change["table"]["comment"] is None
    reported = {c["name"]: c for c in change["table"]["columns"]}
    assert reported["id"] == {
        "name": "id",
        "jdbcType": -5,
        "nativeType": None,
        "typeName": "BIGINT UNSIGNED",
        "typeExpression": "BIGINT UNSIGNED",
        "charsetName": None,
        "length": None,
        "scale": None,
        "position": 1,
        "optional": False,
        "autoIncremented": True,
        "generated": True,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": None,
    }
    assert (
        reported["price"]["jdbcType"],
        reported["price"]["length"],
        reported["price"]["scale"],
        reported["price"]["defaultValueExpression"],
    ) == (
        3,
        5,
        2,
        "1.00",
    )
    assert (reported["e"]["jdbcType"], reported["e"]["length"], reported["e"]["enumValues"]) == (1, 1, ["'a'", "'it''s'"])
    assert (reported["at"]["jdbcType"], reported["at"]["defaultValueExpression"]) == (2014, "1970-01-01 00:00:00")
    assert reported["flag"]["defaultValueExpression"] == "1"


def test_several_dropped_tables_give_a_record_each() -> None:
    first, second = records(DropTable((T, U)))

    assert (first.ddl, second.ddl) == ("DROP TABLE `shop`.`t`", "DROP TABLE `shop`.`u`")
    assert first.table_changes == ({"type": "DROP", "id": '"shop"."t"', "table": None},)


def test_a_rename_is_an_alter_under_the_new_name() -> None:
    (record,) = records(RenameTable(((T, U),)))

    assert record.ddl == "THE STATEMENT"
    assert (record.table_changes[0]["type"], record.table_changes[0]["id"]) == ("ALTER", '"shop"."u"')


def test_only_captured_tables_and_databases_are_reported() -> None:
    nothing = records(
        CreateTable(TABLE),
        AlterTable(T, TABLE),
        DropTable((T,)),
        TruncateTable(T),
        Unknown((T,), ""),
        Ignored(""),
        captured=lambda _: False,
    )
    (database,) = records(CreateDatabase("d"), TruncateTable(T))  # a TRUNCATE is a record of the table's topic, if it is one at all

    assert nothing == []
    assert (database.database, database.table_changes) == ("d", ())


def replayed(*texts: str) -> Iterator[tuple[Table, list]]:
    """For each statement the table ``t`` after it, reported over a restart as MariaDB's, and the records of the statement."""
    timeline = Timeline()
    timeline.databases["shop"] = Database("utf8mb4", None)
    for number, text in enumerate(texts, start=1):
        context = Context(
            table=timeline.lookup_before((1, number)),
            database_charset=lambda _: ("utf8mb4", None),
            flavor=mariadb_flavor(),
            default_database="shop",
        )
        changes = parser.parse(text, context)
        timeline.apply(changes, (1, number))
        again = Timeline()
        for id_ in timeline.tables():
            again.from_record(id_, json.loads(json.dumps(timeline.to_record(id_))))
        timeline = again
        reported = schema_changes(changes, text, default_database="shop", after=timeline.current_table, captured=lambda _: True)
        yield timeline.current_table(T), reported


def columns(table: Table) -> dict[str, tuple]:
    return {c["name"]: (c["length"], c["defaultValueExpression"]) for c in table_change("ALTER", T, table)["table"]["columns"]}


def test_lengths_and_defaults_are_reported_in_the_words_of_the_statement() -> None:
    made, changed, dropped = (
        table
        for table, _ in replayed(
            "CREATE TABLE t (i INT, w INT(5) DEFAULT '12', f FLOAT(24), g FLOAT(53), h FLOAT(7,3), d DOUBLE DEFAULT 2.5e10, p DECIMAL(10,2) DEFAULT -1.5, "
            "v VARBINARY(8) DEFAULT 'ab', o BOOLEAN DEFAULT true, y YEAR DEFAULT 0, z YEAR(4), b BIT(4) DEFAULT b'0001', c DATE DEFAULT curdate(), u CHAR(36) DEFAULT uuid(), "
            "n DATETIME DEFAULT now())",
            "ALTER TABLE t MODIFY i BIGINT(7), ALTER p SET DEFAULT 9.7, ADD s SMALLINT UNSIGNED",
            "ALTER TABLE t ALTER p DROP DEFAULT, CHANGE d e DOUBLE",
        )
    )

    assert columns(made) == {
        "i": (None, None), "w": (5, "12"), "f": (24, None), "g": (53, None), "h": (7, None), "d": (None, "2.5e10"), "p": (10, "-1.5"),
        "v": (8, "ab"), "o": (1, "true"), "y": (None, "0"), "z": (4, None), "b": (4, "0001"), "c": (None, "curdate()"), "u": (36, None),
        "n": (None, "1970-01-01 00:00:00"),
    }  # fmt: skip
    assert columns(changed) == columns(made) | {"i": (7, None), "p": (10, "9.7"), "s": (None, None)}
    assert columns(dropped)["p"] == (10, None)
    assert columns(dropped)["e"] == (None, None)


def test_rows_are_decoded_by_what_the_server_states_all_the_same() -> None:
    ((table, _),) = replayed("CREATE TABLE t (i INT, d DOUBLE DEFAULT 2.5e10, p DECIMAL(10,2) DEFAULT 1.5)")

    assert [(c.length, c.default) for c in table.columns] == [(11, None), (None, "25000000000"), (10, "1.50")]
    assert table.columns[0].written == Written()
    assert table == replace(table, columns=tuple(replace(column, written=None) for column in table.columns))


@pytest.mark.parametrize(("default", "reported"), [("0x6162", "ab"), ("0xFF", "0xFF"), ("0x", "")])
def test_a_default_of_bytes_that_the_server_shows_is_reported_as_text_where_it_is_text(default: str, reported: str) -> None:
    column = Column(name="v", type="varbinary", type_text="varbinary(8)", nullable=True, length=8, has_default=True, default=default)

    assert columns(Table(id=T, columns=(column,))) == {"v": (8, reported)}


def test_generated_is_what_the_server_counts_and_not_what_it_computes() -> None:
    ((table, _),) = replayed("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, w INT GENERATED ALWAYS AS (a + 1) VIRTUAL)")

    reported = table_change("CREATE", T, table)["table"]["columns"]
    assert {c["name"]: (c["autoIncremented"], c["generated"]) for c in reported} == {
        "id": (True, True),
        "a": (False, False),
        "w": (False, False),
    }
    assert table.columns[2].generated


def test_a_table_that_is_there_already_is_no_change() -> None:
    first, second, like = (
        reported
        for _, reported in replayed(
            "CREATE TABLE IF NOT EXISTS t (a INT)", "CREATE TABLE IF NOT EXISTS t (b INT)", "CREATE TABLE IF NOT EXISTS t LIKE t"
        )
    )

    assert [(record.of_nothing, len(record.table_changes)) for record in (*first, *second, *like)] == [(False, 1), (True, 0), (True, 0)]


def test_a_name_that_a_rename_takes_and_ends_again_has_no_change() -> None:
    *_, reported = (
        reported for _, reported in replayed("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "RENAME TABLE t TO x, u TO t, x TO u")
    )

    assert [record.ddl for record in reported] == ["RENAME TABLE t TO x", "RENAME TABLE u TO t", "RENAME TABLE x TO u"]
    assert [[change["id"] for change in record.table_changes] for record in reported] == [[], ['"shop"."t"'], ['"shop"."u"']]


def test_a_statement_about_very_many_tables_has_one_record() -> None:
    ids = tuple(TableId("shop", f"t{number}") for number in range(5000))
    pairs = tuple((id_, TableId("shop", f"n{id_.name}")) for id_ in ids)

    for change in (DropTable(ids), RenameTable(pairs)):
        (record,) = schema_changes([change], "a long statement", default_database="shop", after=lambda _: None, captured=lambda _: True)
        assert (record.database, record.tables, record.ddl, record.table_changes) == ("shop", (), "a long statement", ())

"""Debezium's schema-change records, made of our changes."""

from __future__ import annotations

from dblog.core.changes import AlterTable, CreateDatabase, CreateTable, DropTable, Ignored, RenameTable, TruncateTable, Unknown
from dblog.dialects.mysql.tablechanges import history_table_change, schema_change_values, schema_changes
from dblog.model import Column, Table, TableId

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


def test_a_created_table_is_told_column_by_column_as_debezium_does() -> None:
    (record,) = records(CreateTable(TABLE))
    key, value = schema_change_values(record, source={"table": "t"}, ts_ms=5)

    assert key == {"databaseName": "shop"}
    assert list(value) == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    (change,) = value["tableChanges"]
    assert (change["type"], change["id"]) == ("CREATE", '"shop"."t"')
    assert change["table"]["primaryKeyColumnNames"] == ["id"]
    assert change["table"]["comment"] is None
    told = {c["name"]: c for c in change["table"]["columns"]}
    assert told["id"] == {
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
    assert (told["price"]["jdbcType"], told["price"]["length"], told["price"]["scale"], told["price"]["defaultValueExpression"]) == (
        3,
        5,
        2,
        "1.00",
    )
    assert (told["e"]["jdbcType"], told["e"]["length"], told["e"]["enumValues"]) == (1, 1, ["'a'", "'it''s'"])
    assert (told["at"]["jdbcType"], told["at"]["defaultValueExpression"]) == (2014, "1970-01-01 00:00:00")
    assert told["flag"]["defaultValueExpression"] == "1"


def test_several_dropped_tables_give_a_record_each() -> None:
    first, second = records(DropTable((T, U)))

    assert (first.ddl, second.ddl) == ("DROP TABLE `shop`.`t`", "DROP TABLE `shop`.`u`")
    assert first.table_changes == ({"type": "DROP", "id": '"shop"."t"', "table": None},)


def test_a_rename_is_an_alter_under_the_new_name() -> None:
    (record,) = records(RenameTable(((T, U),)))

    assert record.ddl == "THE STATEMENT"
    assert (record.table_changes[0]["type"], record.table_changes[0]["id"]) == ("ALTER", '"shop"."u"')


def test_only_captured_tables_and_databases_are_told() -> None:
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


def test_the_history_form_leaves_unset_numbers_out() -> None:
    item = history_table_change("ALTER", T, TABLE, comments=True)

    column = item["table"]["columns"][0]
    assert "length" not in column
    assert column["hasDefaultValue"] is False
    assert column["enumValues"] == []
    assert item["comment"] == "the table"
    assert list(item["table"]) == ["defaultCharsetName", "primaryKeyColumnNames", "columns", "attributes"]
    assert history_table_change("DROP", T, None) == {"type": "DROP", "id": '"shop"."t"', "comment": None}

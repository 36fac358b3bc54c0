"""The table of tests/support/debezium/envelope.json, and the plan that our code makes for it."""

import json
from pathlib import Path

from dblog.codecs import avro
from dblog.codecs.tableplan import PlanSettings, build_table_plan
from dblog.codecs.topic_naming import TopicNaming
from dblog.dialects.mysql.binlog.source_block import source_schema
from dblog.dialects.mysql.values.types import TypeModes, column_plan
from dblog.model import Column, Table, TableId

RECORDED = json.loads((Path(__file__).parent / "debezium" / "envelope.json").read_text())


def table_of_the_recording():
    def c(name, type_text, nullable, **more):
        return Column(name=name, type=type_text.partition("(")[0], type_text=type_text, nullable=nullable, **more)

    return Table(
        id=TableId("db", "t"),
        key=("id", "region"),
        columns=(
            c("region", "char(2)", False, length=2, charset="utf8mb4"),
            c("id", "bigint", False),
            c("price", "decimal(10,2)", True, length=10, scale=2, has_default=True, default="1.50"),
            c("state", "enum('a','b')", False, members=("a", "b"), has_default=True, default="a"),
            c("at", "timestamp(3)", False, length=3, has_default=True, default="CURRENT_TIMESTAMP(3)", default_is_expression=True),
            c("place", "point", True),
            c("spot", "point", False),
            c("small", "tinyint", True),
        ),
    )


def plan_of_the_recording():
    table = table_of_the_recording()
    return build_table_plan(
        table,
        [column_plan(c, TypeModes(), table.id) for c in table.columns],
        settings=PlanSettings(connector="mysql", source=source_schema("mysql"), version="3.6.1.Final", naming=TopicNaming(prefix="p")),
        key_columns=table.key,
        key_prefix=lambda topic, schema: avro.frame(1),
        value_prefix=lambda topic, schema: avro.frame(2),
    )

"""Which tables a connector's row plans refuse."""

import pytest
from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.dialects.mysql.values.types import TypeModes
from dblog.dialects.registry import kind_of
from dblog.errors import DefiniteError
from dblog.model import Column
from support.mysql_tables import plan_of
from support.worker import connector_config

CONVERTER = {
    "converters": "flag",
    "flag.type": "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter",
    "flag.selector": r"sh.p\.t\.(c|k)",
}


def plans_of(**more: str):
    settings = parse_connector(MYSQL_OPTIONS, {**connector_config(name="a"), **CONVERTER, **more})
    return kind_of("mysql").source(settings).plans


def tinyint(name: str, width: int) -> Column:
    return Column(name=name, type="tinyint", type_text=f"tinyint({width})", nullable=False, length=width)


@pytest.mark.parametrize(
    ("more", "width", "form"), [({}, 1, "boolean"), ({}, 4, "int16"), ({"flag.length.checker": "false"}, 4, "boolean")]
)
def test_the_converters_settings_decide_which_columns_become_boolean(more, width, form):
    plan = plan_of([tinyint("c", width)], key=())

    made = plans_of(**more).column_plan(plan.table.columns[0], plan.table.id, included=True)

    assert made.schema.kind.value == form


def test_a_column_of_the_key_does_not_become_true_and_false():
    modes = TypeModes(boolean_column=lambda name, width: True)
    plan = plan_of([tinyint("k", 1)], key=("k",), modes=modes)

    with pytest.raises(DefiniteError, match=r"shöp\.t: column k is in the key .* leave it out of the selector"):
        plans_of().encoder(plan, None)

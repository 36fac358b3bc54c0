"""Plans of tables: topics, keys, filters, frames."""

import pytest
from dblog.codecs.envelope import NameAdjustment
from dblog.codecs.tableplan import PlanSettings, build_table_plan
from dblog.codecs.topic_naming import TopicNaming, clean_topic
from dblog.dialects.mysql.binlog.source_block import source_schema
from dblog.dialects.mysql.values.types import TypeModes, column_plan
from dblog.errors import DefiniteError
from dblog.model import Column, Table, TableId


def table(*names, key=()):
    columns = tuple(Column(name=n, type="int", type_text="int", nullable=n not in key) for n in names)
    return Table(id=TableId("db", "t"), columns=columns, key=tuple(key))


def plan(t, *, excluded=(), key=None, **settings):
    frames = []

    def frame(topic, schema):
        frames.append((topic, schema.name))
        return bytes([len(frames)])

    return build_table_plan(
        t,
        [column_plan(c, TypeModes(), t.id, included=c.name not in excluded) for c in t.columns],
        settings=PlanSettings(connector="mysql", source=source_schema("mysql"), version="v", naming=TopicNaming(prefix="p"), **settings),
        key_columns=t.key if key is None else key,
        key_prefix=frame,
        value_prefix=frame,
    )


def test_a_plan_has_topic_key_and_frames_of_both_schemas():
    made = plan(table("a", "b", "c", key=["c", "a"]))

    assert (made.topic, made.key, made.key_prefix, made.value_prefix) == ("p.db.t", (2, 0), b"\x01", b"\x02")
    assert [f.name for f in made.key_schema.fields] == ["c", "a"]
    assert (made.server_name, made.connector, made.version) == ("p", "mysql", "v")


def test_a_table_without_key_has_neither_key_schema_nor_key_frame():
    made = plan(table("a"))

    assert (made.key, made.key_schema, made.key_prefix) == ((), None, b"")


def test_an_excluded_column_stays_in_the_image_and_leaves_the_record():
    made = plan(table("a", "b", "c", key=["a"]), excluded=["b"])

    row = made.value_schema.fields[1].schema
    assert [f.name for f in row.fields] == ["a", "c"]
    assert [c.included for c in made.columns] == [True, False, True]


def test_an_excluded_key_column_stays_in_the_key_as_in_debezium():
    made = plan(table("a", "b", key=["a"]), excluded=["a"])

    assert [f.name for f in made.key_schema.fields] == ["a"]
    assert [f.name for f in made.value_schema.fields[0].schema.fields] == ["b"]


def test_a_key_column_of_an_unknown_type_is_refused_with_the_way_out():
    unknown = Table(id=TableId("db", "t"), columns=(Column(name="a", type="xmltype", type_text="xmltype", nullable=False),), key=("a",))
    columns = [column_plan(c, TypeModes(), unknown.id, included=False) for c in unknown.columns]

    with pytest.raises(DefiniteError, match=r"db\.t: key column a has a type .*message\.key\.columns"):
        build_table_plan(
            unknown, columns, settings=PlanSettings(connector="mysql", source=source_schema("mysql"), version="1", naming=TopicNaming(prefix="p")), key_columns=["a"],
            key_prefix=lambda _t, _s: b"", value_prefix=lambda _t, _s: b"",
        )  # fmt: skip


def test_an_unknown_key_column_is_refused():
    with pytest.raises(DefiniteError, match=r"db\.t has no column x"):
        plan(table("a"), key=["x"])


def test_names_are_adjusted_in_records_and_stay_in_the_table():
    made = plan(table("a b", key=["a b"]), schema_adjustment=NameAdjustment.AVRO, field_adjustment=NameAdjustment.AVRO)

    assert (made.columns[0].name, made.key_schema.fields[0].name, made.table.columns[0].name) == ("a_b", "a_b", "a b")


def test_two_columns_that_adjust_to_one_name_are_refused():
    with pytest.raises(DefiniteError, match="two columns get the field name a_b"):
        plan(table("a b", "a-b"), field_adjustment=NameAdjustment.AVRO)


def test_topic_names_of_a_connector():
    naming = TopicNaming(prefix="p")

    assert naming.table(TableId("my db", "t$")) == "p.my_db.t_"
    assert (naming.schema_changes, naming.heartbeat, naming.transactions) == ("p", "__debezium-heartbeat.p", "p.transaction")
    assert TopicNaming(prefix="p", heartbeat_name="beats", delimiter="_").heartbeat == "beats"
    assert TopicNaming(prefix="p", delimiter="_").table(TableId("d", "t")) == "p_d_t"


@pytest.mark.parametrize(("name", "cleaned"), [(".", "_"), ("..", "__"), ("a b", "a_b"), ("é$x", "__x"), ("x" * 300, "x" * 249)])
def test_topic_names_are_cleaned_as_debezium_does(name, cleaned):
    assert clean_topic(name) == cleaned

"""Include and exclude lists."""

import pytest
from dblog.config.namespaces import Namespace
from dblog.core.selection import Selection, key_rules, message_key, name_matcher, named_parts, split_list
from dblog.errors import ConfigError
from dblog.model import Column, Table, TableId


def table(*columns, key=(), name="t"):
    return Table(
        id=TableId("db", name), columns=tuple(Column(name=c, type="int", type_text="int", nullable=False) for c in columns), key=tuple(key)
    )


def test_a_list_is_split_at_commas_that_are_not_escaped():
    assert split_list(r"db\.a, db\.b{1\,2} ,,") == [r"db\.a", "db\\.b{1,2}"]
    assert split_list(None) == []


def test_expressions_match_whole_names_in_any_case():
    matches = name_matcher(r"inventory\.orders", option="x")

    assert matches("Inventory.ORDERS")
    assert not matches("inventory.orders2")
    assert not matches("my_inventory.orders")


def test_java_spellings_are_understood():
    assert name_matcher(r"\Qa.b\E.*", option="x")("a.bc")
    assert not name_matcher(r"\Qa.b\E.*", option="x")("aXbc")
    assert name_matcher(r"(?<x>a)b", option="x")("ab")


def test_a_broken_expression_names_its_option():
    with pytest.raises(ConfigError) as e:
        Selection.from_settings({"table.include.list": "db.(t"})

    assert list(e.value.errors) == ["table.include.list"]


def test_include_and_exclude_exclude_each_other():
    with pytest.raises(ConfigError) as e:
        Selection.from_settings({"table.include.list": "a.b", "table.exclude.list": "a.c", "database.include.list": "a"})

    assert list(e.value.errors) == ["table.exclude.list"]


@pytest.mark.parametrize(
    ("settings", "captured"),
    [
        ({}, ["a.x", "a.y", "b.x"]),
        ({"database.include.list": "a"}, ["a.x", "a.y"]),
        ({"database.exclude.list": "a"}, ["b.x"]),
        ({"table.include.list": r".*\.x"}, ["a.x", "b.x"]),
        ({"table.exclude.list": r"a\.x,b\.x"}, ["a.y"]),
        ({"database.include.list": "a", "table.include.list": r".*\.x"}, ["a.x"]),
        ({"table.ignore.builtin": "false"}, ["a.x", "a.y", "b.x", "mysql.user", "sys.x"]),
    ],
)
def test_tables_are_captured_when_database_and_table_are(settings, captured):
    selection = Selection.from_settings(settings, builtin=frozenset({"mysql", "sys"}))

    names = ["a.x", "a.y", "b.x", "mysql.user", "sys.x"]
    assert [n for n in names if selection.includes(TableId(*n.split(".")))] == captured


OWN_SCHEMAS = frozenset({"information_schema", "pg_*", ".spatial_ref_sys"})


@pytest.mark.parametrize(
    ("settings", "captured"),
    [
        ({}, ["a.x", "b.x", "pgx.t"]),
        ({"schema.include.list": "A"}, ["a.x"]),
        ({"schema.exclude.list": "a,pg.*"}, ["b.x"]),
        ({"table.include.list": r"[ab]\.x"}, ["a.x", "b.x"]),
        ({"schema.include.list": "b", "table.exclude.list": r"a\.x"}, ["b.x"]),
        ({"database.include.list": "a", "database.exclude.list": "b"}, ["a.x", "b.x", "pgx.t"]),
        (
            {"table.ignore.builtin": "false"},
            ["a.x", "b.x", "pgx.t", "a.Spatial_ref_sys", "pg_catalog.pg_class", "pg_temp_3.x", "information_schema.sql_features"],
        ),
    ],
)
def test_tables_in_schemas_are_chosen_by_their_schemas(settings, captured):
    selection = Selection.from_settings(settings, namespace=Namespace.SCHEMA, builtin=OWN_SCHEMAS)

    names = ["a.x", "b.x", "pgx.t", "a.Spatial_ref_sys", "pg_catalog.pg_class", "pg_temp_3.x", "information_schema.sql_features"]
    assert [n for n in names if selection.includes(TableId(*n.split(".")))] == captured


def test_a_list_of_schemas_means_nothing_where_tables_lie_in_databases():
    assert Selection.from_settings({"schema.include.list": "a", "schema.exclude.list": "b"}).includes(TableId("b", "x"))


def test_include_and_exclude_of_schemas_exclude_each_other():
    with pytest.raises(ConfigError) as e:
        Selection.from_settings({"schema.include.list": "a", "schema.exclude.list": "b"}, namespace=Namespace.SCHEMA)

    assert e.value.errors == {"schema.exclude.list": ["cannot be given together with schema.include.list; keep one of them"]}


def test_tables_of_our_own_are_never_captured():
    watermarks = TableId("dblog", "watermark")

    assert not Selection.from_settings({}, never=frozenset({watermarks})).includes(watermarks)


def test_columns_are_asked_with_their_full_name():
    t = table("id", "secret", "note")

    assert Selection.from_settings({"column.exclude.list": r"db\.t\.secret"}).columns(t) == (True, False, True)
    assert Selection.from_settings({"column.include.list": r".*\.(id|note)"}).columns(t) == (True, False, True)


def test_message_key_columns_come_in_table_order_and_replace_the_key():
    rules = key_rules(r"db\.t:c,a;(.*)\.other:b")

    assert message_key(table("a", "b", "c", key=["b"]), rules) == ("a", "c")
    assert message_key(table("a", "b", name="other"), rules) == ("b",)
    assert message_key(table("a", "b", key=["b"], name="third"), rules) == ("b",)


@pytest.mark.parametrize("text", ["db.t", "db.t:", ":a", "db.(t:a"])
def test_a_part_without_the_form_is_refused(text):
    with pytest.raises(ConfigError, match=r"message\.key\.columns"):
        key_rules(text)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ((None, None),)),
        ({"database.include.list": "shop, b_2"}, (("shop", None), ("b_2", None))),
        ({"database.include.list": "shop.*"}, ((None, None),)),
        (
            {"table.include.list": r"shop.orders,shop\.items,shop\..*,(a|b)\.t"},
            (("shop", "orders"), ("shop", "items"), ("shop", None), (None, None)),
        ),
        ({"database.include.list": "shop", "table.include.list": "shop.orders"}, (("shop", "orders"),)),
        ({"table.include.list": r"orders,(a|b)\.t"}, ((None, "orders"), (None, None))),
    ],
)
def test_what_the_include_lists_name_without_a_pattern(settings, parts) -> None:
    assert named_parts(settings) == parts


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ((None, None),)),
        ({"schema.include.list": "shop, b_2"}, (("shop", None), ("b_2", None))),
        ({"schema.include.list": "shop", "table.include.list": r"shop\.orders"}, (("shop", "orders"),)),
        ({"database.include.list": "shop"}, ((None, None),)),
    ],
)
def test_what_the_include_lists_of_schemas_name_without_a_pattern(settings, parts) -> None:
    assert named_parts(settings, namespace=Namespace.SCHEMA) == parts

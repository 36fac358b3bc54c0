"""Topic names by each of Debezium's strategies: the expected names were printed by Debezium 3.6.3's own classes."""

import pytest
from dblog.codecs.topic_naming import BY_SCHEMA, DEFAULT, STRATEGIES, TopicNaming, TopicRegex, strategy_of
from dblog.config.connector_options import topics
from dblog.model import TableId

TABLES = [
    TableId("shop", "orders"),
    TableId("my_db", "or$der_s"),
    TableId("déb", "t中é"),
    TableId("d", "a😀b"),
    TableId("shard_12", "customers"),
]
REGEX = TopicRegex(r"(.*)shard_(\d+)\.(.*)", "$1all.$3")
EXPECTED = {
    "Default": ["p.shop.orders", "p.my_db.or_der_s", "p.d_b.t__", "p.d.a__b", "p.shard_12.customers"],
    "Schema": ["p.orders", "p.or_der_s", "p.t__", "p.a__b", "p.customers"],
    "DefaultUnicode": [
        "p.shop.orders",
        "p.my_u005fdb.or_u0024der_u005fs",
        "p.d_u00e9b.t_u4e2d_u00e9",
        "p.d.a_ud83d_ude00b",
        "p.shard_u005f12.customers",
    ],
    "SchemaUnicode": ["p.orders", "p.or_u0024der_u005fs", "p.t_u4e2d_u00e9", "p.a_ud83d_ude00b", "p.customers"],
    "DefaultRegex": ["p.shop.orders", "p.my_db.or_der_s", "p.d_b.t__", "p.d.a__b", "p.all.customers"],
    "SchemaRegex": ["p.orders", "p.or_der_s", "p.t__", "p.a__b", "p.customers"],
}

EXPECTED_OF_SCHEMAS = {
    "Default": EXPECTED["Schema"],
    "Schema": EXPECTED["Default"],
    "DefaultUnicode": EXPECTED["SchemaUnicode"],
    "SchemaUnicode": EXPECTED["DefaultUnicode"],
    "DefaultRegex": EXPECTED["SchemaRegex"],
    "SchemaRegex": EXPECTED["DefaultRegex"],
}
"""What Debezium 3.6.1's classes print for ids without a catalog, as its PostgreSQL connector makes them: the database is no part, the schema is one."""


@pytest.mark.parametrize("kind", EXPECTED_OF_SCHEMAS)
def test_topics_of_tables_that_lie_in_schemas_have_the_names_that_debezium_gives_them(kind):
    naming = TopicNaming(prefix="p", strategy=f"io.debezium.schema.{kind}TopicNamingStrategy", regex=REGEX, has_schemas=True)

    assert [naming.table(table) for table in TABLES] == EXPECTED_OF_SCHEMAS[kind]
    assert (naming.schema_changes, naming.heartbeat, naming.transactions) == ("p", "__debezium-heartbeat.p", "p.transaction")


@pytest.mark.parametrize("kind", EXPECTED)
def test_topics_have_the_names_that_debezium_gives_them(kind):
    naming = TopicNaming(prefix="p", strategy=f"io.debezium.schema.{kind}TopicNamingStrategy", regex=REGEX)

    assert [naming.table(table) for table in TABLES] == EXPECTED[kind]
    assert (naming.schema_changes, naming.heartbeat, naming.transactions) == ("p", "__debezium-heartbeat.p", "p.transaction")


def test_every_strategy_that_the_configuration_takes_is_one_that_names_topics():
    assert set(topics.STRATEGIES) == set(STRATEGIES) == {f"io.debezium.schema.{kind}TopicNamingStrategy" for kind in EXPECTED}


@pytest.mark.parametrize(("replacement", "name"), [("$1-${1}", "a-a"), (r"\$1", "$1"), ("", "p.a.t"), ("$2", "p.a.t"), ("x", "x")], ids=str)
def test_a_replacement_has_groups_and_escapes_and_an_empty_name_changes_nothing(replacement, name):
    assert TopicRegex(r"p\.(a)(b?)\.t", replacement)("p.a.t") == name


@pytest.mark.parametrize("text", [None, "", " ", DEFAULT, f" {DEFAULT.upper()} ", "io.debezium.schema.defaulttopicnamingstrategy"])
def test_a_strategy_is_found_as_the_configuration_s_checks_find_it(text):
    assert strategy_of(text) == DEFAULT


@pytest.mark.parametrize("text", [None, "", " ", f" {BY_SCHEMA.upper()} "])
def test_without_a_strategy_tables_in_schemas_are_named_by_their_schemas(text):
    assert strategy_of(text, has_schemas=True) == BY_SCHEMA
    assert strategy_of(DEFAULT, has_schemas=True) == DEFAULT

"""Tables that would write one topic are refused before they do, and named while they do."""

from __future__ import annotations

import itertools

import pytest
from dblog.codecs.topic_naming import DEFAULT, STRATEGIES
from dblog.config.connector import MYSQL_OPTIONS, POSTGRES_OPTIONS, parse_connector
from dblog.config.options import Settings
from dblog.errors import ConfigError
from dblog.model import TableId
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.topics import SharedTopicWarnings, naming_of, require_own_topics
from support.worker import connector_config, postgres_config

ORDERS, CUSTOMERS = TableId("shop", "订单"), TableId("shop", "客户")


def mysql(**config: str) -> Settings:
    return parse_connector(MYSQL_OPTIONS, connector_config(name="a", **config))


def postgres(**config: str) -> Settings:
    return parse_connector(POSTGRES_OPTIONS, postgres_config(name="a", **config))


EITHER = {"mysql": mysql, "postgres": postgres}
DOTS = (TableId("x.y", "t"), TableId("x", "y.t"))


def refused(settings: Settings, *tables: TableId) -> str:
    with pytest.raises(ConfigError) as raised:
        require_own_topics(settings, tables)
    return "\n".join(raised.value.errors["topic.naming.strategy"])


@pytest.mark.parametrize(
    "tables",
    [
        (ORDERS, CUSTOMERS),
        (TableId("b", "foo@bar"), TableId("b", "foo$bar")),
        DOTS,
        (TableId("b", "T é"), TableId("b", "T ü")),
    ],
)
@pytest.mark.parametrize("settings", [mysql(), postgres()], ids=["mysql", "postgres"])
def test_two_tables_of_one_topic_are_refused_with_both_names_and_the_ways_out(settings: Settings, tables: tuple[TableId, TableId]) -> None:
    text = refused(settings, *tables, TableId("b", "other"))

    assert all(text.count(named) == 1 for named in ('"x.y"."t"', '"x"."y.t"') if tables == DOTS)
    assert all(str(table) in text for table in tables if tables != DOTS)
    assert "dblog.topics.shared=true" in text
    assert "b.other" not in text


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize(
    ("tables", "ways"),
    [
        ((ORDERS, CUSTOMERS), ("strategy",)),
        ((TableId("sales", "eu_orders"), TableId("sales_eu", "orders")), ("strategy",)),
        (DOTS, ("delimiter",)),
        ((TableId("a.b.c", "d"), TableId("a.b", "c.d"), TableId("a", "b.c.d")), ("delimiter",)),
        ((TableId("x.y", "é"), TableId("x", "y.ü"), TableId("x", "y.é")), ("strategy", "delimiter")),
    ],
)
def test_every_way_that_a_refusal_names_gives_each_table_a_topic_of_its_own(
    kind: str, tables: tuple[TableId, ...], ways: tuple[str, ...]
) -> None:
    """A Unicode strategy leaves dots as they are, so it is no way out for names with dots."""
    made = EITHER[kind]
    text = refused(made(), *tables)
    given = {
        "strategy": ("topic_naming_strategy", naming_of(made()).unicode_strategy),
        "delimiter": ("topic_delimiter", "-"),
    }

    named = {way: f"{key.replace('_', '.')}={value}" for way, (key, value) in given.items()}
    assert {way for way, setting in named.items() if setting in text} == set(ways)
    require_own_topics(made(**dict(given[way] for way in ways)), tables)


@pytest.mark.parametrize(("kind", "named"), [("mysql", "database.exclude.list"), ("postgres", "schema.exclude.list")])
def test_tables_that_a_list_of_tables_cannot_tell_apart_are_left_out_by_their_databases(kind: str, named: str) -> None:
    """For the list of tables both are x.y.t."""
    assert f"leave some out with {named} " in refused(EITHER[kind](), *DOTS)
    assert "leave some out with table.exclude.list " in refused(EITHER[kind](), ORDERS, CUSTOMERS)


@pytest.mark.parametrize("kind", EITHER)
def test_where_no_setting_divides_topics_the_refusal_names_none(kind: str) -> None:
    """Topics have 249 characters, and what is behind them is cut off."""
    text = refused(EITHER[kind](), TableId("d" * 200, "t" * 50 + "a"), TableId("d" * 200, "t" * 50 + "b"))

    assert "overwrite each other: leave some out with table.exclude.list" in text


@pytest.mark.parametrize("kind", EITHER)
def test_a_dotted_name_that_comes_while_the_connector_runs_stands_in_its_status_with_both_names_and_a_way_that_helps(kind: str) -> None:
    warnings = StandingWarnings()
    topics = SharedTopicWarnings(EITHER[kind](), warnings)
    topics.captured(DOTS[0])
    assert warnings.texts() == ()

    topics.captured(DOTS[1])

    (text,) = warnings.texts()
    assert all(part in text for part in ('"x"."y.t", "x.y"."t"', "share the topic shop.x.y.t", "topic.delimiter=-"))
    topics.gone(DOTS[0])
    assert warnings.texts() == ()


def test_topics_that_kafka_cannot_tell_apart_are_refused_with_the_reason() -> None:
    text = refused(postgres(), TableId("sales", "eu_orders"), TableId("sales_eu", "orders"))

    assert "shop.sales.eu_orders" in text
    assert "shop.sales_eu.orders" in text
    assert "Kafka refuses the second one" in text


@pytest.mark.parametrize(("settings", "way"), [(mysql(), mysql), (postgres(), postgres)], ids=["mysql", "postgres"])
def test_the_strategy_that_the_refusal_names_helps(settings: Settings, way: type) -> None:
    named = naming_of(settings).unicode_strategy

    assert named in STRATEGIES
    require_own_topics(way(topic_naming_strategy=named), [ORDERS, CUSTOMERS, TableId("sales", "eu_orders"), TableId("sales_eu", "orders")])


def test_who_accepts_shared_topics_is_not_refused_and_not_warned() -> None:
    settings, warnings = mysql(dblog_topics_shared="true"), StandingWarnings()

    require_own_topics(settings, [ORDERS, CUSTOMERS])
    topics = SharedTopicWarnings(settings, warnings)
    topics.captured(ORDERS)
    topics.captured(CUSTOMERS)

    assert warnings.texts() == ()


def test_tables_that_topic_regex_brings_together_share_it_knowingly_and_others_do_not() -> None:
    settings = mysql(
        topic_naming_strategy="io.debezium.schema.DefaultRegexTopicNamingStrategy",
        topic_regex=r"(.*)\.shard_\d+\.(.*)",
        topic_replacement="$1.all.$2",
        topic_key_enforce_uniqueness="false",
    )

    require_own_topics(settings, [TableId(f"shard_{n}", "orders") for n in range(3)])
    assert "shop.客户" in refused(settings, TableId("shard_1", "orders"), ORDERS, CUSTOMERS)


def test_a_strategy_that_leaves_out_the_schema_shares_topics_and_is_refused_where_it_does() -> None:
    settings = postgres(topic_naming_strategy=DEFAULT)

    require_own_topics(settings, [TableId("a", "t"), TableId("a", "u")])
    assert "a.t, b.t share the topic shop.t" in refused(settings, TableId("a", "t"), TableId("b", "t"))


def test_many_shared_topics_are_counted_and_many_tables_of_one_too() -> None:
    names = [TableId("d", f"{first}{second}") for first, second in itertools.product("äöü", repeat=2)]
    many = [TableId(f"d{n}", letter) for n in range(50) for letter in "äö"]

    assert "and" not in refused(mysql(), *names).split(" share ")[0]
    with pytest.raises(ConfigError) as raised:
        require_own_topics(mysql(), many)
    assert len(raised.value.errors["topic.naming.strategy"]) == 21
    assert "and 80 more" in refused(mysql(), *(TableId("d", chr(0x4E00 + n)) for n in range(100)))


def test_a_table_that_went_is_named_no_longer_beside_those_that_still_share_its_topic() -> None:
    warnings, third = StandingWarnings(), TableId("shop", "货物")
    topics = SharedTopicWarnings(mysql(), warnings)
    for table in (ORDERS, CUSTOMERS, third):
        topics.captured(table)

    topics.gone(ORDERS)

    (text,) = warnings.texts()
    assert "shop.订单" not in text
    assert "shop.客户" in text
    assert "shop.货物" in text


def test_a_table_is_alone_while_no_other_writes_its_topic_and_never_where_sharing_is_accepted() -> None:
    topics = SharedTopicWarnings(mysql(), StandingWarnings())
    topics.captured(ORDERS)
    alone = [topics.is_alone(ORDERS)]
    topics.captured(CUSTOMERS)
    alone.append(topics.is_alone(ORDERS))
    topics.gone(CUSTOMERS)
    alone.append(topics.is_alone(ORDERS))
    accepted = SharedTopicWarnings(mysql(dblog_topics_shared="true"), StandingWarnings())
    accepted.captured(ORDERS)

    assert alone == [True, False, True]
    assert not accepted.is_alone(ORDERS)


def test_a_table_that_topic_regex_sends_into_the_topic_of_another_leaves_neither_alone() -> None:
    settings = mysql(
        topic_naming_strategy="io.debezium.schema.DefaultRegexTopicNamingStrategy",
        topic_regex=r"(.*)\.old\.(.*)",
        topic_replacement="$1.new.$2",
        topic_key_enforce_uniqueness="false",
    )
    topics = SharedTopicWarnings(settings, StandingWarnings())
    topics.captured(TableId("new", "t"))
    topics.captured(TableId("old", "t"))

    assert not topics.is_alone(TableId("new", "t"))
    assert not topics.is_alone(TableId("old", "t"))


@pytest.mark.parametrize("order", list(itertools.permutations("abg")))
def test_the_warning_stands_exactly_while_two_captured_tables_share_a_topic(order: tuple[str, ...]) -> None:
    """Two tables come, and one of them goes, in any order."""
    warnings = StandingWarnings()
    topics = SharedTopicWarnings(mysql(), warnings)
    captured: set[TableId] = set()

    for step in order:
        if step == "g":
            topics.gone(ORDERS)
            captured.discard(ORDERS)
        else:
            table = ORDERS if step == "a" else CUSTOMERS
            topics.captured(table)
            captured.add(table)
        assert bool(warnings.texts()) is (len(captured) == 2), step

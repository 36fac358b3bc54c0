"""A task whose connector reads the schemas of one database: the keys of PostgreSQL's connector, on the database in memory."""

from __future__ import annotations

from dblog.config.connector import POSTGRES_OPTIONS
from dblog.config.options import Settings
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import FakeSource
from support.task_follower import TaskFollower
from support.worker import postgres_config


class Follower(TaskFollower):
    """Of the database in memory, whose databases stand for schemas."""

    def __init__(self, database: FakeDatabase, **config: str) -> None:
        self.database = database
        self.topics: dict[str, str] = {}
        super().__init__(postgres_config(name="c") | config, POSTGRES_OPTIONS)

    def source_of(self, settings: Settings) -> FakeSource:
        return FakeSource(self.database)

    def topics_of(self, *tables: TableId) -> list[str]:
        """Where the records of these tables go."""
        records = self.parts().records
        return [records.schemas(self.database.tables[table]).topic for table in tables]


SHOP, OTHER = TableId("shop", "orders"), TableId("other", "orders")


def database() -> FakeDatabase:
    made = FakeDatabase()
    for table in (SHOP, OTHER):
        made.execute(f"CREATE TABLE {table.name} (id int, name text, PRIMARY KEY (id))", database=table.database)
        made.insert(table, *((n, table.database) for n in range(5)))
    return made


def test_the_rows_of_the_chosen_schemas_are_dumped_and_followed() -> None:
    source = database()
    follower = Follower(source, **{"schema.include.list": "shop"}).start()

    follower.until_dumped()
    for table in (OTHER, SHOP):  # the wanted row last: once it is there, the other one would be
        source.insert(table, (9, table.database))
    follower.until(lambda: len(follower.rows.get("orders", {})) == 6)
    follower.task.stop()

    assert {row["name"] for row in follower.rows["orders"].values()} == {"shop"}
    assert follower.reported == []


def test_topics_are_named_by_schema_and_table_unless_the_strategy_takes_the_database_which_is_one() -> None:
    by_schema, by_database = (
        Follower(database()),
        Follower(database(), **{"topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy"}),
    )

    assert by_schema.topics_of(SHOP, OTHER) == ["shop.shop.orders", "shop.other.orders"]
    assert by_database.topics_of(SHOP) == ["shop.orders"]
    assert Follower(database(), **{"topic.naming.strategy": ""}).topics_of(SHOP) == ["shop.shop.orders"]

"""A connector's task on the database in memory, by ``support.task_follower``."""

from __future__ import annotations

from dblog.config.connector import MYSQL_OPTIONS
from dblog.config.options import Settings
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import FakeSource
from support.task_follower import Row, TaskFollower

DATABASE = "d"


class FakeFollower(TaskFollower):
    """A follower of the tables whose names begin with ``d``."""

    def __init__(self, database: FakeDatabase, **config: str) -> None:
        self.database = database
        own = {
            "name": "c",
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "topic.prefix": "p",
            "database.hostname": "unused",
            "database.user": "unused",
            "database.server.id": "7",
            "database.include.list": DATABASE,
        }
        super().__init__({**own, **config}, MYSQL_OPTIONS)

    def source_of(self, settings: Settings) -> FakeSource:
        return FakeSource(self.database)

    def selected(self, table: str) -> list[Row]:
        with self.database.changed:
            id_ = TableId(DATABASE, table)
            names = [column.name for column in self.database.tables[id_].columns]
            return [dict(zip(names, row, strict=True)) for row in self.database.rows[id_].values()]

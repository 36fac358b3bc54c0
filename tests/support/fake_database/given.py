"""The database in memory in the form that the tests of ``contracts.database`` require."""

from __future__ import annotations

from typing import Any

from dblog.model import OffsetMap, TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.follower import DATABASE, FakeFollower


class GivenFake:
    """A ``contracts.database.Given``."""

    database = DATABASE
    log_has_statements = True

    def __init__(self) -> None:
        self.server = FakeDatabase()

    def create(self, table: str) -> None:
        self.server.execute(f"CREATE TABLE {table} (id int, name text, PRIMARY KEY (id))")

    def create_strangely(self, table: str) -> None:
        self.server.execute(f"CREATE TABLE {table} (id int, name text, PRIMARY KEY (id)) STRANGELY")

    def add_column(self, table: str, column: str) -> None:
        self.server.execute(f"ALTER TABLE {table} ADD {column} int")

    def drop_column(self, table: str, column: str) -> None:
        self.server.execute(f"ALTER TABLE {table} DROP {column}")

    def rename(self, table: str, to: str) -> None:
        self.server.execute(f"RENAME TABLE {table} TO {to}")

    def insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        self.server.insert(TableId(DATABASE, table), *rows)

    def update(self, table: str, id_: int, name: str) -> None:
        self.server.update(TableId(DATABASE, table), (id_, name))

    def delete(self, table: str, id_: int) -> None:
        self.server.delete(TableId(DATABASE, table), (id_,))

    def purge(self) -> None:
        self.server.purge()

    def rest(self) -> None:
        """Do nothing: the log contains only the test's own changes."""

    def of_another_server(self, offset: OffsetMap) -> OffsetMap:
        return {**offset, "server": "another"}

    def follow(self, **config: str) -> FakeFollower:
        return FakeFollower(self.server, **config)

"""The fake session keeps the contract of real ones."""

from __future__ import annotations

import pytest
from contracts.dump_connection import DumpConnectionContract, Given
from dblog.model import Column, Table, TableId
from support.fake_session import FakeDatabase, FakeDumpConnection, fake_sql
from support.row_packets import row_count


class TestFakeDumpConnection(DumpConnectionContract):
    @pytest.fixture
    def given(self):
        table = Table(
            id=TableId("shop", "t"),
            columns=(
                Column(name="a", type="bigint", type_text="bigint", nullable=False),
                Column(name="b", type="varchar", type_text="varchar(10)", nullable=False),
                Column(name="v", type="varchar", type_text="varchar(2000)", nullable=True),
            ),
            key=("a", "b"),
        )
        database = FakeDatabase()
        database.create(table)
        return Given(
            table=table,
            sql=fake_sql,
            connect=lambda: FakeDumpConnection(database),
            insert=lambda rows: database.insert(table.id, *rows),
            row_count=row_count,
        )

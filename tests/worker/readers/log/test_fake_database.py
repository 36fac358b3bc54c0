"""The database in memory, which no dialect of dblog knows, keeps the contracts: what the reader layer asks of a database is in ``readers.contract``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.database import StatementLogContract
from contracts.dump_connection import DumpConnectionContract, Given
from dblog.model import TableId
from support.fake_database.database import FakeDatabase
from support.fake_database.dialect import FakeChunks, fake_sql
from support.fake_database.given import GivenFake
from support.fake_database.image import row_count
from support.task_follower import TaskFollower


class TestFakeDatabase(StatementLogContract):
    @pytest.fixture
    def given(self) -> GivenFake:
        return GivenFake()

    @pytest.mark.usefixtures("table")
    def test_a_stored_offset_is_confirmed_to_the_database(self, given: GivenFake, follow: Callable[[], TaskFollower]) -> None:
        follower = follow().start()

        given.insert("t", (1001, "x"))
        follower.until(lambda: given.server.confirmed and given.server.confirmed[-1] == len(given.server.log))

        assert given.server.confirmed == sorted(given.server.confirmed)


class TestFakeChunks(DumpConnectionContract):
    @pytest.fixture
    def given(self) -> Given:
        database, table = FakeDatabase(), TableId("d", "t")
        database.execute("CREATE TABLE t (a int, b text, v text, PRIMARY KEY (a, b))")
        return Given(
            table=database.tables[table],
            sql=fake_sql,
            connect=lambda: FakeChunks(database),
            insert=lambda rows: database.insert(table, *rows),
            row_count=row_count,
        )


def test_the_task_runs_without_any_module_of_a_dialect() -> None:
    """In a process of its own: this one may have loaded others' tests."""
    program = """
import sys
from support.fake_database.given import GivenFake
given = GivenFake()
given.create("t")
given.insert("t", (1, "a"), (2, "b"))
follower = given.follow().start()
follower.until_dumped()
given.delete("t", 1)
follower.until_equal("t")
follower.task.stop()
print(len(follower.rows["t"]), [name for name in sys.modules if name.startswith("dblog.dialects")])
"""
    tests = Path(__file__).parents[3]

    done = subprocess.run([sys.executable, "-c", program], cwd=tests, capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.strip().splitlines()[-1:] == ["1 []"], done.stderr

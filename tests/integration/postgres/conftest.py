"""A database of the server that all trials share, and connectors that have begun with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stack import Postgres
from support.postgres_begun import Begun
from support.postgres_follower import drop_slots


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


@pytest.fixture
def begun(postgres: Postgres, database: str) -> Iterator[Begun]:
    made = Begun(postgres, database)
    yield made
    for follower in made.followers:
        follower.task.stop()

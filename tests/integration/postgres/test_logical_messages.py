"""Logical messages (pg_logical_emit_message) become Debezium's records, each once, in their place among the rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stack import Postgres
from support.postgres import execute
from support.postgres_follower import PostgresFollower, drop_slots


class MessageFollower(PostgresFollower):
    """Keeps the records of the topic of messages: (key, value), and what it sent of them and of rows, in order."""

    def __init__(self, *arguments: Any, **config: str) -> None:
        self.messages: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.order: list[str] = []
        super().__init__(*arguments, **config)

    def poll(self, *, records_max: int = 2000) -> None:
        batches = self.task.poll(timeout_s=0.05, records_max=records_max, bytes_max=1 << 20)
        for batch in batches:
            for segment in batch.segments:
                for key, value in zip(segment.keys, segment.values, strict=True):
                    if segment.topic == f"{self.name}.message":
                        assert key is not None
                        assert value is not None
                        self.messages.append((json.loads(key), json.loads(value)))
                        self.order.append(self.messages[-1][0]["prefix"])
                    elif segment.table is not None:
                        self.order.append(str(segment.table.name))
            self.task.fold.advance(batch.step)
        if batches:
            self.offset = self.task.fold.offset()
            self.task.commit(self.offset)


@pytest.fixture
def follow(postgres: Postgres, postgres_database: str) -> Iterator[Callable[..., MessageFollower]]:
    followers: list[MessageFollower] = []

    def made(**config: str) -> MessageFollower:
        followers.append(MessageFollower(postgres, postgres_database, **{"snapshot.mode": "no_data"}, **config))
        return followers[-1]

    execute(postgres, "CREATE TABLE t (id INT PRIMARY KEY)", database=postgres_database)
    yield made
    for follower in followers:
        follower.task.stop()
    drop_slots(postgres, postgres_database)


def test_messages_stand_between_the_rows_of_their_transaction_and_those_of_none_by_themselves(follow, postgres, postgres_database):
    follower = follow().start()

    execute(
        postgres,
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "SELECT pg_logical_emit_message(true, 'inside', 'content')",
        "INSERT INTO t VALUES (2)",
        "COMMIT",
        "SELECT pg_logical_emit_message(false, 'alone', '')",
        "BEGIN",
        "SELECT pg_logical_emit_message(true, 'rolled back', 'x')",
        "ROLLBACK",
        "INSERT INTO t VALUES (3)",
        database=postgres_database,
    )
    follower.until(lambda: len(follower.order) == 5)

    assert follower.order == ["t", "inside", "t", "alone", "t"]
    (key, inside), (_, alone) = follower.messages
    assert key == {"prefix": "inside"}
    assert (inside["op"], inside["message"]["prefix"]) == ("m", "inside")
    assert base64.b64decode(inside["message"]["content"]) == b"content"
    assert (inside["source"]["schema"], inside["source"]["table"], inside["source"]["db"]) == ("", "", postgres_database)
    assert inside["source"]["txId"] > 0
    assert alone["source"]["txId"] is None
    assert alone["message"]["content"] == ""
    assert set(inside) == {"op", "ts_ms", "source", "transaction", "message"}


def test_a_restart_inside_a_transaction_sends_no_message_again(follow, postgres, postgres_database):
    follower = follow(**{"max.batch.size": "1", "max.queue.size": "2"}).start()
    execute(
        postgres,
        "BEGIN",
        *(f"SELECT pg_logical_emit_message(true, 'm{n}', 'x')" for n in range(20)),
        "COMMIT",
        database=postgres_database,
    )
    follower.until(lambda: len(follower.order) >= 5)
    follower.restart()
    follower.until(lambda: "m19" in follower.order)

    assert follower.order == [f"m{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("config", "prefixes"),
    [
        ({"message.prefix.include.list": "out.*"}, ["outbox"]),
        ({"message.prefix.exclude.list": "OUTBOX"}, ["other"]),
        ({}, ["outbox", "other"]),
    ],
)
def test_prefixes_choose_the_messages(follow, postgres, postgres_database, config, prefixes):
    follower = follow(**config).start()

    execute(
        postgres,
        "SELECT pg_logical_emit_message(true, 'outbox', 'x')",
        "SELECT pg_logical_emit_message(true, 'other', 'x')",
        "INSERT INTO t VALUES (1)",
        database=postgres_database,
    )
    follower.until(lambda: "t" in follower.order)

    assert [key["prefix"] for key, _ in follower.messages] == prefixes

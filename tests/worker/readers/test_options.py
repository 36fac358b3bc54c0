"""What a connector's options mean to the reader layer."""

from __future__ import annotations

import pytest
from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.readers.options import dump_threads

LEAST = {
    "name": "a",
    "connector.class": "MySqlConnector",
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.server.id": "7",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "b:9092",
}


@pytest.mark.parametrize(
    ("given", "threads"),
    [({}, 1), ({"snapshot.max.threads": "4"}, 4), ({"snapshot.max.threads": "4", "dblog.dump.threads": "2"}, 2)],
)
def test_as_many_threads_dump_as_snapshot_max_threads_asks_for_unless_our_own_key_is_set(given: dict[str, str], threads: int) -> None:
    assert dump_threads(parse_connector(MYSQL_OPTIONS, LEAST | given)) == threads

"""The second log connection of a task has a replica id of its own."""

from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.dialects.mysql.task.connections import second_server_id

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


def settings(**more: str):
    return parse_connector(MYSQL_OPTIONS, LEAST | {key.replace("__", "."): value for key, value in more.items()})


def test_the_second_log_connection_has_an_id_at_the_configured_distance_or_one_far_away():
    assert second_server_id(settings()) == 7 ^ 0x4000_0000
    assert second_server_id(settings(database__server__id__offset="100")) == 107
    assert second_server_id(settings(database__server__id="4294967295", database__server__id__offset="1")) == 1

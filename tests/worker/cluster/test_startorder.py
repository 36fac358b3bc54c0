"""What a task is started with: its configuration with the values of placeholders, without what its connector never reads."""

import pytest
from dblog.cluster.records import Target, TaskId
from dblog.cluster.startorder import StartOrders
from dblog.errors import DefiniteError
from dblog.observe.logs import LevelTable
from support.worker import connector_config, postgres_config

LEFT_OVER = {
    "schema.history.internal.kafka.bootstrap.servers": "gone.example:9092",
    "schema.history.internal.producer.ssl.truststore.location": "${file:/nowhere:store}",
}


class NoOffsets:
    """Of a connector that has stored none."""

    def of(self, _connector):
        return []


def message(config):
    """The order for a task with this configuration."""
    orders = StartOrders(NoOffsets(), providers={}, hidden={}, properties={}, advertised_url="http://w", levels=LevelTable())
    return orders.build(TaskId("a", 0), config, Target.STARTED, generation=1).message


def test_what_is_left_of_a_schema_history_keeps_no_connector_from_starting_that_has_none():
    config = postgres_config(name="a")

    assert message(config | LEFT_OVER)["config"] == message(config)["config"]


def test_a_placeholder_that_nobody_can_resolve_keeps_a_connector_from_starting_that_reads_it():
    with pytest.raises(DefiniteError, match="cannot be used"):
        message(connector_config(name="a") | LEFT_OVER)

"""The herder without Kafka, for the tests of its parts."""

from types import SimpleNamespace

import pytest
from dblog.kafka.group import Standing
from support.held_herder import HeldClock, HeldLog, herder_with


@pytest.fixture
def clock():
    return HeldClock()


@pytest.fixture
def membership():
    return SimpleNamespace(standing=Standing(leads=True, term=1, leader="http://here"), group="g")


@pytest.fixture
def registry_log():
    return HeldLog("_schemas")


@pytest.fixture
def herder(clock, membership, registry_log):
    made = herder_with(clock, membership, further_logs=[registry_log])
    yield made
    made.processes.close()

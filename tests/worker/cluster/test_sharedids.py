"""Two connectors with one server id, or one slot, at one server are found, wherever else the worker is busy and however many connectors it has."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
from dblog.cluster.records import Target, TaskId, commit_record, connector_record, target_record, task_record
from dblog.cluster.requests import RequestError
from dblog.cluster.sharedids import shared_prefixes
from dblog.cluster.stores import ConfigStore
from dblog.cluster.validation import Validator
from dblog.kafka.log import LogRecord
from dblog.rest.api import Checks
from dblog.rest.connectors import require_valid
from starlette.requests import Request
from support.worker import connector_config, postgres_config


class Watched(ConfigStore):
    """Notes which threads ask for all connectors at once."""

    asking: set[int]

    def __getattribute__(self, name):
        if name in ("views", "connector_configs"):
            self.asking.add(threading.get_ident())
        return super().__getattribute__(name)


@pytest.fixture
def store():
    """Of a worker with a thousand connectors of ten tasks, each with an id of its own."""
    taken = []
    store = Watched("t", lambda _topic, take: taken.append(take), on_change=lambda _record: None)
    store.asking = set()

    def give(*records):
        for key, value in records:
            taken[0](LogRecord(partition=0, offset=0, key=key, value=value, live=False))

    for number in range(1000):
        config = connector_config(name=f"c{number}", database_server_id=str(10_000 + number), topic_prefix=f"p{number}")
        tasks = [task_record(TaskId(f"c{number}", task), config) for task in range(10)]
        give(connector_record(f"c{number}", config), *tasks, commit_record(f"c{number}", 10))
    store.give = give
    return store


def checked(store, config=connector_config, **given):
    """The warnings about an id or a slot of a request that posts this configuration."""
    services = SimpleNamespace(
        validator=Validator(providers={}, check_database=None), herder=SimpleNamespace(configs=store), checks=Checks()
    )
    request = Request({"type": "http", "app": SimpleNamespace(state=SimpleNamespace(services=services))})
    remarks = asyncio.run(require_valid(request, services, config(**given)))
    return [warning for warning in remarks.doubts if warning.startswith(("database.server.id: ", "slot.name: "))]


def test_all_connectors_are_looked_through_in_the_thread_of_the_check(store):
    (warning,) = checked(store, name="new", database_server_id="10700")

    assert warning.startswith("database.server.id: 10700 is also that of connector c700 on the same server")
    assert store.asking
    assert threading.get_ident() not in store.asking


def test_neither_the_connector_itself_nor_one_that_is_stopped_nor_another_server_is_meant(store):
    store.give(target_record("c701", Target.STOPPED))

    assert checked(store, name="c700", database_server_id="10700") == []
    assert checked(store, name="new", database_server_id="10701") == []
    assert checked(store, name="new", database_server_id="10702", database_hostname="elsewhere") == []


def test_a_slot_that_two_connectors_read_is_found_by_its_default_and_whatever_their_databases_are(store):
    store.give(connector_record("bank", postgres_config(name="bank", database_port="5432", topic_prefix="bank")))

    (warning,) = checked(store, postgres_config, name="new", database_dbname="other")
    assert warning == (
        "slot.name: debezium is also that of connector bank on the same server, which lets one of them read the slot at a time; give each its own"
    )
    assert checked(store, postgres_config, name="new", slot_name="new") == []
    assert checked(store, postgres_config, name="new", database_port="5433") == []
    assert checked(store, postgres_config, name="bank") == []


def test_a_prefix_that_another_connector_has_is_refused_for_a_new_one_and_for_one_that_takes_it(store):
    def refusal(**given):
        with pytest.raises(RequestError) as raised:
            checked(store, **given)
        assert raised.value.status == 400
        return raised.value.message

    text = refusal(name="new", topic_prefix="p700", database_server_id="1", database_hostname="elsewhere")
    assert all(part in text for part in ("topic.prefix: p700", "connector c700", "dblog.topics.shared=true"))
    assert "connector c700" in refusal(name="c1", topic_prefix="p700", database_server_id="1")
    assert checked(store, name="new", topic_prefix="p700", database_server_id="1", dblog_topics_shared="true") == []
    store.give(target_record("c700", Target.STOPPED))
    assert checked(store, name="new", topic_prefix="p700", database_server_id="1") == []


def test_connectors_that_share_a_prefix_since_before_may_be_changed_and_are_named(store):
    shared = connector_config(name="twin", topic_prefix="p700", database_server_id="1")
    store.give(connector_record("twin", shared))
    configs = store.connector_configs()

    assert checked(store, name="twin", topic_prefix="p700", database_server_id="1", snapshot_mode="no_data") == []
    found = shared_prefixes(configs, is_stopped=lambda _name: False)
    assert {name: "connector twin" in text or "connector c700" in text for name, text in found.items()} == {"twin": True, "c700": True}
    accepted = {**configs, "twin": {**shared, "dblog.topics.shared": "true"}}
    assert shared_prefixes(accepted, is_stopped=lambda _name: False) == {}


def test_the_store_is_held_for_a_moment_only_while_all_configurations_are_taken_from_it(store):
    started_s = time.process_time()
    for _ in range(100):
        assert len(store.connector_configs()) == 1000

    assert time.process_time() - started_s < 0.1

"""Keys that nothing reads are named with the key that was meant, and families of keys are left alone."""

import time

import pytest
from dblog.config.connector import MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.unknown_keys import describe_unknown, misspelt_worker_keys, unknown_keys, without_effect, worker_keys_without_effect


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("databse.include.list", "database.include.list"),
        ("table.includelist", "table.include.list"),
        ("Database.Include.List", "database.include.list"),
        ("database.include.list ", "database.include.list"),
        ("snapshot.mod", "snapshot.mode"),
        ("task.max", "tasks.max"),
        ("dblog.chunk.row", "dblog.chunk.rows"),
        ("nothing.like.any.of.them", None),
    ],
)
def test_a_misspelt_key_is_named_with_the_one_it_resembles(key, meant):
    assert unknown_keys(MYSQL_OPTIONS, ["name", key, "topic.prefix"]) == {key: meant}


@pytest.mark.parametrize(
    ("options", "key", "meant"),
    [
        (MYSQL_OPTIONS, "database.server.name", "topic.prefix"),
        (MYSQL_OPTIONS, "schema.include.list", "database.include.list"),
        (MYSQL_OPTIONS, "table.whitelist", "table.include.list"),
        (POSTGRES_OPTIONS, "database.server.name", "topic.prefix"),
        (POSTGRES_OPTIONS, "database.include.list", "schema.include.list"),
        (POSTGRES_OPTIONS, "schema.blacklist", "schema.exclude.list"),
    ],
)
def test_a_key_of_another_version_or_of_the_connector_for_another_database_is_named_with_its_name_here(options, key, meant):
    assert unknown_keys(options, [key]) == {key: meant}


def test_known_keys_aliases_and_the_keys_of_clients_and_converters_are_not_unknown():
    names = [name for option in MYSQL_OPTIONS for name in (option.name, *option.aliases)]
    families = [
        "producer.override.linger.ms",
        "value.converter.schema.registry.url",
        "topic.creation.default.partitions",
        "schema.history.internal.producer.security.protocol",
        "column.mask.with.3.chars",
    ]

    assert unknown_keys(MYSQL_OPTIONS, [*names, *families, "name", "connector.class", "tasks.max"]) == {}


def test_many_unknown_keys_are_named_in_a_moment_the_first_of_them_with_what_is_meant():
    names = ["databse.include.list", *(f"database.history.producer_key_{number}" for number in range(3000))]

    started_s = time.process_time()
    unknown = unknown_keys(MYSQL_OPTIONS, names)

    assert time.process_time() - started_s < 0.5
    assert list(unknown) == names
    assert unknown["databse.include.list"] == "database.include.list"


def test_what_the_worker_adds_for_a_task_is_not_unknown():
    assert unknown_keys(MYSQL_OPTIONS, ["task.class"]) == {}


def test_the_sentence_states_what_happens_and_what_may_be_meant():
    sentences = describe_unknown({"databse.include.list": "database.include.list", "x": None})

    assert sentences == {
        "databse.include.list": "no such key; it is ignored. Is database.include.list meant?",
        "x": "no such key; it is ignored",
    }


def test_a_misspelt_key_of_a_worker_s_file_is_named_and_a_client_s_own_is_not():
    names = [
        "sesion.timeout.ms",
        "offset.flush.intervall.ms",
        "group.id",
        "request.timeout.ms",
        "retry.backoff.ms",
        "metadata.max.age.ms",
        "rest.port",
        "producer.linger.ms",
        "offset.storage.file.filename",
        "internal.key.converter",
        "connections.max.idle.ms",
        "sasl.jaas.config",
    ]

    assert misspelt_worker_keys(names) == {
        "sesion.timeout.ms": "session.timeout.ms",
        "offset.flush.intervall.ms": "offset.flush.interval.ms",
    }


def test_a_key_of_a_worker_s_file_that_only_a_jvm_obeys_is_named_with_the_reason():
    given = {"plugin.path": "/plugins", "connect.protocol": "sessioned", "worker.sync.timeout.ms": "1", "group.id": "a"}

    assert worker_keys_without_effect(given) == {
        "plugin.path": "no effect here: the connectors are part of this program",
        "worker.sync.timeout.ms": "no effect here: one worker of a group runs its connectors and the others stand by, so no tasks are handed around",
    }


def test_a_misspelt_key_of_a_converter_is_named_and_a_converter_s_own_that_is_not_known_is_not():
    names = [
        "value.converter.schema.registry.ulr",
        "key.converter.auto.registr.schemas",
        "value.converter.schemas.enable",
        "value.converter.request.header.X-Tenant",
        "value.converter.request.header.auth.token",
        "value.converter.bearer.auth.client.secret",
        "value.converter.schema.registry.ssl.protocol",
        "value.converter.plugin.version",
        "value.converter.something.of.ours",
    ]
    meant = {
        "value.converter.schema.registry.ulr": "value.converter.schema.registry.url",
        "key.converter.auto.registr.schemas": "key.converter.auto.register.schemas",
    }

    assert unknown_keys(MYSQL_OPTIONS, names) == meant
    assert misspelt_worker_keys(names) == meant


def test_a_key_of_a_converter_that_has_no_effect_here_is_named_with_the_reason():
    given = {"value.converter.use.schema.id": "7", "key.converter.use.schema.id": "-1", "value.converter.flatten.unions": "False"}

    assert without_effect(MYSQL_OPTIONS, given) == {
        "value.converter.use.schema.id": "no effect here: a schema is registered or looked up by its text"
    }

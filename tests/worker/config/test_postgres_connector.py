"""The PostgreSQL connector's configuration: Debezium's keys with its defaults, and a reason for each that is refused or changes nothing here."""

from pathlib import Path

import pytest
from dblog.config.connector import MYSQL_OPTIONS, POSTGRES_OPTIONS, check_connector, parse_connector
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.infos import config_infos
from dblog.config.inline_secrets import inline_secret_keys
from dblog.config.insecure_choices import insecure_choices
from dblog.config.namespaces import Namespace, namespace_of
from dblog.config.options import Kind, Voice
from dblog.config.other_defaults import other_defaults
from dblog.config.secret_values import secrets_of
from dblog.config.unknown_keys import unknown_keys, without_effect
from support.worker import postgres_config

OPTIONS = {option.name: option for option in POSTGRES_OPTIONS}
OF_DEBEZIUM = dict(
    line.split("=", 1)
    for line in Path(__file__).with_name("debezium_postgres.properties").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)

EXAMPLE = {
    "name": "inventory-connector",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "topic.prefix": "fulfillment",
    "database.hostname": "192.168.99.100",
    "database.port": "5432",
    "database.user": "postgres",
    "database.password": "${file:/opt/secrets:password}",
    "database.dbname": "postgres",
    "database.sslmode": "verify-full",
    "database.sslrootcert": "/certs/ca.pem",
    "database.sslcert": "/certs/client.pem",
    "database.sslkey": "/certs/client.key",
    "database.sslpassword": "${file:/opt/secrets:key}",
    "database.tcpKeepAlive": "true",
    "database.initial.statements": "SET search_path TO public;SET statement_timeout TO 0",
    "slot.name": "debezium_inventory",
    "slot.failover": "true",
    "publication.name": "dbz_inventory",
    "publication.autocreate.mode": "filtered",
    "publish.via.partition.root": "true",
    "replica.identity.autoset.values": "public.orders:FULL,public.items:INDEX items_key",
    "schema.include.list": "public,inventory",
    "table.include.list": r"public\.orders,inventory\..*",
    "column.exclude.list": r"public\.customers\.note",
    "column.mask.with.10.chars": r"public\.customers\.(email|phone)",
    "column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K": r"public\.orders\.customer",
    "column.truncate.to.20.chars": r"public\.orders\.comment",
    "message.key.columns": r"(.*).purchaseorders:pk1,pk2",
    "snapshot.mode": "when_needed",
    "snapshot.include.collection.list": r"public\.orders",
    "snapshot.select.statement.overrides": "public.orders",
    "snapshot.select.statement.overrides.public.orders": "SELECT * FROM public.orders WHERE open",
    "snapshot.max.threads": "4",
    "decimal.handling.mode": "string",
    "time.precision.mode": "connect",
    "interval.handling.mode": "string",
    "hstore.handling.mode": "map",
    "binary.handling.mode": "base64",
    "money.fraction.digits": "4",
    "include.unknown.datatypes": "true",
    "heartbeat.interval.ms": "10000",
    "status.update.interval.ms": "5000",
    "lsn.flush.mode": "connector_and_driver",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "signal.data.collection": "public.debezium_signal",
    "signal.enabled.channels": "source,kafka",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
    "key.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "key.converter.schema.registry.url": "http://registry:8081",
    "value.converter.schema.registry.url": "http://registry:8081",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.default.partitions": "10",
}
"""Keys as Debezium's manual writes them (PostgreSQL connector, Connector configuration example, and the properties' own examples)."""


def errors(**config):
    return check_connector(POSTGRES_OPTIONS, postgres_config(name="a") | config).errors


def settings(**config):
    return parse_connector(POSTGRES_OPTIONS, postgres_config(name="a") | config)


def test_a_configuration_that_was_made_for_debezium_is_taken_unchanged():
    assert check_connector(POSTGRES_OPTIONS, EXAMPLE).errors == {}
    assert unknown_keys(POSTGRES_OPTIONS, EXAMPLE) == {}
    assert without_effect(POSTGRES_OPTIONS, EXAMPLE) == {}
    assert other_defaults(POSTGRES_OPTIONS, EXAMPLE) == {}


def test_values_of_that_configuration_are_typed():
    found = parse_connector(POSTGRES_OPTIONS, EXAMPLE)

    assert found.items_of("schema.include.list") == ("public", "inventory")
    assert found.integer("connect.timeout.ms") == 30_000
    assert found.integer("money.fraction.digits") == 4
    assert found.boolean("slot.failover") is True
    assert found.boolean("publish.via.partition.root") is True
    assert found.text("publication.autocreate.mode") == "filtered"
    assert found.text("hstore.handling.mode") == "map"


def test_the_least_configuration_gets_debeziums_defaults():
    found = settings()

    assert found["database.port"] == 5432
    assert found["database.sslmode"] == "prefer"
    assert found["time.precision.mode"] == "adaptive"
    assert found["slot.name"] == "debezium"
    assert found["publication.name"] == "dbz_publication"
    assert found["publication.autocreate.mode"] == "all_tables"
    assert found["snapshot.mode"] == "initial"
    assert found["interval.handling.mode"] == "numeric"
    assert found["hstore.handling.mode"] == "json"
    assert found["money.fraction.digits"] == 2
    assert found["include.unknown.datatypes"] is False
    assert found["status.update.interval.ms"] == 10000
    assert found["skipped.operations"] == ("t",)
    assert found["topic.naming.strategy"] == "io.debezium.schema.SchemaTopicNamingStrategy"
    assert namespace_of(found) is Namespace.SCHEMA


OTHER_DEFAULTS = {
    "plugin.name": "pgoutput",
    "poll.interval.ms": None,
    "retriable.restart.connector.wait.ms": None,
    "custom.sanitize.pattern": None,
    "sourceinfo.struct.maker": None,
    "transaction.metadata.factory": None,
}
"""plugin.name has a warning; the others are left to the worker, or have no effect, where they are not set."""


@pytest.mark.parametrize("name", OF_DEBEZIUM)
def test_each_key_of_debezium_is_declared_with_its_default(name):
    declared = {known: option for option in POSTGRES_OPTIONS for known in (option.name, *option.aliases)}

    default = OTHER_DEFAULTS[name] if name in OTHER_DEFAULTS else OF_DEBEZIUM[name] or None
    assert (declared[name].default or "").lower() == (default or "").lower()


def test_declarations_are_sound():
    names = [name for option in POSTGRES_OPTIONS for name in (option.name, *option.aliases)]

    assert len(set(names)) == len(names)
    assert not set(names) & {name for option in FRAMEWORK_OPTIONS for name in (option.name, *option.aliases)}
    for option in POSTGRES_OPTIONS:
        assert option.doc.endswith((".", "?")), option.name
        assert option.group
        assert option.label
        assert option.voice is Voice.DEBEZIUM
        if option.kind in (Kind.INT, Kind.LONG) and option.name.endswith(".ms"):
            assert option.unit == "ms", option.name


def test_whoever_writes_every_default_out_gets_the_settings_of_one_who_writes_none():
    written_out = {option.name: option.default for option in (*FRAMEWORK_OPTIONS, *POSTGRES_OPTIONS) if option.default is not None}

    given = postgres_config(name="c")

    assert dict(parse_connector(POSTGRES_OPTIONS, written_out | given)) == dict(parse_connector(POSTGRES_OPTIONS, given))


@pytest.mark.parametrize(
    "name",
    [
        "database.server.id",
        "database.ssl.mode",
        "database.include.list",
        "gtid.source.includes",
        "binlog.buffer.size",
        "bigint.unsigned.handling.mode",
        "enable.time.adjuster",
        "include.query",
        "include.schema.changes",
        "schema.history.internal.prefer.ddl",
        "dblog.row.image.missing",
        "dblog.dump.limit.history.list.length",
    ],
)
def test_a_key_of_mysql_is_none_of_postgresql(name):
    assert name in {option.name for option in MYSQL_OPTIONS}
    assert name in unknown_keys(POSTGRES_OPTIONS, [*postgres_config(), name])


@pytest.mark.parametrize("name", ["topic.prefix", "database.hostname", "database.user", "database.dbname"])
def test_what_is_required_is_named(name):
    config = {key: text for key, text in postgres_config(name="a").items() if key != name}

    assert check_connector(POSTGRES_OPTIONS, config).errors == {name: [f"The '{name}' value is invalid: A value is required"]}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        *(
            (
                "slot.name",
                value,
                "Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63",
            )
            for value in ("", "Shop", "shop-1", "s" * 64)
        ),
        ("status.update.interval.ms", "0", "A positive, non-zero integer value is expected"),
        ("lsn.flush.timeout.ms", "0", "A positive, non-zero integer value is expected"),
        ("xmin.fetch.interval.ms", "-1", "A non-negative long value is expected"),
        ("money.fraction.digits", "two", "A short value is expected"),
        ("database.tcpKeepAlive", "1", "Either 'true' or 'false' is expected"),
        ("database.sslmode", "required", "Value must be one of disable, allow, prefer, require, verify-ca, verify-full"),
        ("hstore.handling.mode", "text", "Value must be one of json, map"),
        ("interval.handling.mode", "text", "Value must be one of numeric, string"),
        ("publication.autocreate.mode", "some", "Value must be one of all_tables, disabled, filtered, no_tables"),
        ("publication.name", "", "A name of 1 to 63 bytes is expected"),
        ("database.dbname", "ü" * 32, "A name of 1 to 63 bytes is expected"),
        ("signal.data.collection", "orders", "it must be schema.table, or several of them separated by commas"),
        (
            "replica.identity.autoset.values",
            "public.a",
            "public.a has an invalid format (expecting '<schema.table regex>:DEFAULT|FULL|NOTHING|INDEX <name>')",
        ),
        ("snapshot.select.statement.overrides", "orders", "orders is not a table; write it as schema.table"),
    ],
)
def test_an_error_has_the_words_users_search_for(key, value, message):
    assert errors(**{key: value}) == {key: [f"The '{key}' value is invalid: {message}"]}


@pytest.mark.parametrize("kind", ["schema", "table", "column"])
def test_include_and_exclude_lists_are_exclusive_and_compile(kind):
    found = errors(**{f"{kind}.include.list": "a", f"{kind}.exclude.list": "b"})

    assert found == {f"{kind}.exclude.list": [f"The '{kind}.exclude.list' value is invalid: \"{kind}.include.list\" is already specified"]}
    for key in (f"{kind}.exclude.list", "message.prefix.exclude.list"):
        assert list(errors(**{key: "(a"})) == [key]


def test_chunks_come_from_a_standby_only_where_nothing_is_written():
    standby = {"dblog.dump.hostname": "standby", "dblog.dump.port": "5433"}

    assert errors(**standby, **{"read.only": "true"}) == {}
    assert list(errors(**standby)) == ["dblog.dump.hostname", "dblog.dump.port"]


REFUSED = [
    ("plugin.name", "decoderbufs", ("does not read the messages of decoderbufs", "plugin.name=pgoutput", "slot.name", "when_needed")),
    ("plugin.name", "wal2json", ("does not read the JSON of wal2json", "plugin.name=pgoutput")),
    ("plugin.name", "wal2json_rds_streaming", ("does not read the JSON of wal2json_rds_streaming",)),
    ("plugin.name", "test_decoding", ("Value must be one of pgoutput",)),
    ("slot.stream.params", "add-tables=public.a;include-lsn=true", ("sets those of pgoutput by itself", "remove it from the key")),
    ("slot.stream.params", "origin=local", ("origin must be one of any, none",)),
    ("xmin.fetch.interval.ms", "1000", ("does not write source.xmin yet", "remove the key")),
    ("database.sslfactory", "org.postgresql.ssl.NonValidatingFactory", ("Java", "database.sslmode", "require", "verify-full")),
    ("snapshot.mode", "configuration_based", ("flags", "use initial, no_data or when_needed")),
    ("snapshot.mode", "custom", ("Java", "use initial, no_data or when_needed")),
    ("snapshot.locking.mode", "custom", ("Java", "use none")),
    ("sourceinfo.struct.maker", "org.example.Mine", ("Java", "remove the key")),
    ("transaction.metadata.factory", "org.example.Mine", ("Java", "remove the key")),
    ("driver.socketTimeout", "10", ("JDBC", "remove the key")),
    ("driver.allowPublicKeyRetrieval", "true", ("JDBC", "remove the key")),
]


@pytest.mark.parametrize(("key", "value", "words"), REFUSED)
def test_what_would_change_the_result_and_is_not_done_is_refused_with_reason_and_remedy(key, value, words):
    found = errors(**{key: value})

    assert list(found) == [key]
    assert len(found[key]) == 1
    assert all(word in found[key][0] for word in words), found


def test_debeziums_own_classes_and_every_strategy_of_its_may_be_named():
    assert (
        errors(
            **{
                "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
                "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
                "schema.refresh.mode": "columns_diff_exclude_unchanged_toast",
                "offset.mismatch.strategy": "Trust_Slot",
            }
        )
        == {}
    )


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("slot.max.retries", "3", "errors.max.retries"),
        ("slot.retry.delay.ms", "5000", "retriable.restart.connector.wait.ms"),
        ("lsn.flush.timeout.ms", "60000", "sent and not waited for"),
        ("lsn.flush.timeout.action", "ignore", "sent and not waited for"),
        ("dblog.watermark.table", "public.marks", "messages of the log"),
        ("snapshot.isolation.mode", "repeatable_read", "a snapshot of its own"),
        ("snapshot.locking.mode", "shared", "takes no locks"),
        ("snapshot.fetch.size", "2000", "dblog.chunk.rows"),
        ("schema.refresh.mode", "columns_diff_exclude_unchanged_toast", "follow the log"),
        ("query.fetch.size", "100", "dblog.chunk.rows"),
        ("queue.provider.type", "mine", "in memory"),
        ("memory.management.tables.class", "org.example.Mine", "Java"),
        ("openlineage.integration.enabled", "true", "OpenLineage"),
        ("openlineage.integration.job.namespace", "shop", "OpenLineage"),
    ],
)
def test_a_key_that_changes_nothing_is_taken_and_says_why(key, value, reason):
    assert errors(**{key: value}) == {}
    found = without_effect(POSTGRES_OPTIONS, postgres_config(**{key: value}))
    assert list(found) == [key]
    assert found[key].startswith("no effect here: ")
    assert reason in found[key]
    assert reason in next(
        entry["definition"]["documentation"]
        for entry in config_infos("x", POSTGRES_OPTIONS, {}, {}, unknown={})["configs"]
        if entry["value"]["name"] == key
    )


@pytest.mark.parametrize("given", [{}, {"plugin.name": " "}])
def test_a_configuration_without_a_plugin_reads_pgoutput_and_says_that_debezium_would_not(given):
    config = {key: text for key, text in postgres_config().items() if key != "plugin.name"} | given

    assert other_defaults(POSTGRES_OPTIONS, config) == {
        "plugin.name": "not set: dblog reads pgoutput, and not decoderbufs, which Debezium takes then; write plugin.name=pgoutput"
    }
    assert other_defaults(MYSQL_OPTIONS, config) == {}
    assert other_defaults(POSTGRES_OPTIONS, {**config, "plugin.name": "PgOutput"}) == {}


@pytest.mark.parametrize("mode", ["allow", "prefer", "require", None])
def test_a_mode_that_checks_no_certificate_is_named_unless_the_database_is_on_this_machine(mode):
    config = {"database.hostname": "db.example", **({} if mode is None else {"database.sslmode": mode})}

    choice = insecure_choices(POSTGRES_OPTIONS, config)["database.sslmode"]

    assert choice.reason.startswith(f"{mode or 'prefer'} does not check the server's certificate")
    assert choice.safer == ("verify-ca", "verify-full")
    assert not insecure_choices(POSTGRES_OPTIONS, {**config, "database.hostname": "localhost"})


def test_a_mode_that_checks_is_not_named_and_one_without_tls_is():
    for mode, named in (("disable", True), ("verify-ca", False), ("verify-full", False)):
        found = insecure_choices(POSTGRES_OPTIONS, {"database.hostname": "db.example", "database.sslmode": mode})
        assert ("database.sslmode" in found) is named


@pytest.mark.parametrize("file", ["database.sslrootcert", "database.sslcert", "database.sslkey"])
def test_a_file_beside_a_mode_without_tls_is_named(file):
    config = {"database.hostname": "localhost", "database.sslmode": "Disable", file: "/x/a.pem"}

    assert insecure_choices(POSTGRES_OPTIONS, config)["database.sslmode"].reason == f"the connection is not encrypted, and {file} not used"
    assert not insecure_choices(POSTGRES_OPTIONS, {**config, "database.sslmode": "prefer"})
    assert errors(**{file: "/x/a.pem"}) == {}


@pytest.mark.parametrize("methods", ["password", "password,md5", "scram-sha-256", "!password", "!password,!md5", "none", ""])
def test_login_methods_are_a_list_as_libpq_reads_it(methods):
    assert errors(**{"driver.requireAuth": methods}) == {}
    assert ("driver.requireAuth" in insecure_choices(POSTGRES_OPTIONS, {"driver.requireAuth": methods})) is methods.startswith("password")


@pytest.mark.parametrize("methods", ["scram", "md5, none", "md5,md5", "!md5,none", "md5,!md5", ",", "md5,", "!"])
def test_a_list_that_libpq_would_not_take_is_refused_with_its_key(methods):
    assert "separated by commas without blanks" in str(errors(**{"driver.requireAuth": methods})["driver.requireAuth"])


def test_a_binding_that_does_not_exist_is_refused_with_its_key():
    assert errors(**{"driver.channelBinding": "Require"}) == {}
    assert "driver.channelBinding" in errors(**{"driver.channelBinding": "always"})


def test_tls_from_the_first_byte_takes_a_mode_with_tls():
    direct = {"driver.sslNegotiation": "direct"}

    for mode in ("require", "verify_full", "verify-ca"):
        assert "driver.sslNegotiation" not in errors(**direct, **{"database.sslmode": mode})
    for mode in ({}, {"database.sslmode": "allow"}):
        assert "direct takes a database.sslmode of require" in errors(**direct, **mode)["driver.sslNegotiation"][0]


def test_secrets_are_known_as_such():
    config = postgres_config() | {
        "database.sslpassword": "key-word",
        "database.sslkey": "/x/client.key",
        "database.initial.statements": "ALTER ROLE a PASSWORD 'third'",
    }

    assert set(secrets_of(POSTGRES_OPTIONS, config)) == {"sesame-open", "key-word", "third"}
    assert inline_secret_keys(POSTGRES_OPTIONS, config) == ["database.password", "database.sslpassword", "database.initial.statements"]
    shown = {
        entry["value"]["name"]: entry["value"]["value"] for entry in config_infos("x", POSTGRES_OPTIONS, config, {}, unknown={})["configs"]
    }
    assert (shown["database.password"], shown["database.sslpassword"]) == ("[hidden]", "[hidden]")
    assert shown["database.sslkey"] == "/x/client.key"
    assert inline_secret_keys(POSTGRES_OPTIONS, config | {"database.sslpassword": "${file:/x:key}"}) == [
        "database.password",
        "database.initial.statements",
    ]


def test_a_misspelt_key_is_named_with_the_one_that_is_meant():
    assert unknown_keys(POSTGRES_OPTIONS, ["schema.includelist", "slot.nam", "database.db.name", "publication.names"]) == {
        "schema.includelist": "schema.include.list",
        "slot.nam": "slot.name",
        "database.db.name": "database.dbname",
        "publication.names": "publication.name",
    }

"""A connector's configuration: every key of Debezium's reference is declared, values are typed, errors have the words users search for."""

import pytest
from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS, check_connector, parse_connector
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.options import Kind, Voice
from dblog.config.topic_creation import topic_rules
from dblog.config.unknown_keys import unknown_keys
from dblog.errors import ConfigError
from support.worker import connector_config, postgres_config


def errors(*, options=MYSQL_OPTIONS, **config):
    return check_connector(options, connector_config(name="a") | config).errors


def settings(*, options=MYSQL_OPTIONS, **config):
    return parse_connector(options, connector_config(name="a") | config)


def test_a_minimal_configuration_gets_debeziums_defaults():
    found = settings()

    assert found["snapshot.mode"] == "initial"
    assert found["max.batch.size"] == 2048
    assert found["max.queue.size"] == 8192
    assert found["tombstones.on.delete"] is True
    assert found["skipped.operations"] == ("t",)
    assert found["table.include.list"] == ()
    assert found["database.port"] == 3306
    assert found["decimal.handling.mode"] == "precise"
    assert found["time.precision.mode"] == "adaptive_time_microseconds"
    assert found["database.ssl.mode"] == "preferred"
    assert settings(options=MARIADB_OPTIONS)["database.ssl.mode"] == "disable"
    assert found["dblog.chunk.rows"] == 20000
    assert found["dblog.watermark.table"] == "dblog.watermark"


def test_values_are_typed_and_lists_may_hold_escaped_commas():
    found = settings(
        **{"table.include.list": r"shop\.a , shop\.b{1\,2},", "heartbeat.interval.ms": " 100 ", "tombstones.on.delete": "FALSE"}
    )

    assert found.items_of("table.include.list") == (r"shop\.a", r"shop\.b{1,2}")
    assert found.integer("heartbeat.interval.ms") == 100
    assert found.boolean("tombstones.on.delete") is False
    assert found.text("topic.prefix") == "shop"
    assert found.text_or_none("dblog.chunk.marker.topic") is None
    with pytest.raises(TypeError):
        found.integer("topic.prefix")


def test_what_starts_with_a_prefix_can_be_taken_together():
    assert settings(**{"producer.override.linger.ms": "5"}).with_prefix("producer.override.") == {"linger.ms": "5"}


def test_settings_never_print_their_values():
    assert "sesame" not in repr(settings())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topic.prefix", "", "The 'topic.prefix' value is invalid: A value is required"),
        (
            "topic.prefix",
            "a b",
            (
                "The 'topic.prefix' value is invalid: a b has invalid format "
                "(only the underscore, hyphen, dot and alphanumeric characters are allowed)"
            ),
        ),
        ("database.port", "x", "The 'database.port' value is invalid: An integer is expected"),
        ("database.port", "0", "The 'database.port' value is invalid: A positive, non-zero integer value is expected"),
        ("database.server.id", "-1", "The 'database.server.id' value is invalid: A positive, non-zero long value is expected"),
        ("database.server.id", "4294967296", "The 'database.server.id' value is invalid: A replica id is at most 4294967295"),
        ("max.queue.size", "2048", "The 'max.queue.size' value is invalid: Must be larger than the maximum batch size"),
        ("heartbeat.interval.ms", "-1", "The 'heartbeat.interval.ms' value is invalid: An non-negative integer is expected"),
        ("tombstones.on.delete", "yes", "The 'tombstones.on.delete' value is invalid: Either 'true' or 'false' is expected"),
        ("decimal.handling.mode", "exact", "The 'decimal.handling.mode' value is invalid: Value must be one of precise, string, double"),
        ("skipped.operations", "c,x", "The 'skipped.operations' value is invalid: Invalid operation"),
        (
            "skipped.operations",
            "none,c",
            "The 'skipped.operations' value is invalid: 'none' cannot be specified with other skipped operation types",
        ),
        *(
            (
                "unavailable.value.placeholder",
                value,
                "The 'unavailable.value.placeholder' value is invalid: 1 to 63 ASCII characters are expected, the first four of them not 'hex:'",
            )
            for value in ("", "x" * 64, "fällt weg", "hex:00")
        ),
        ("tasks.max", "0", "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
        ("tasks.max", "99999999999", "Invalid value 99999999999 for configuration tasks.max: Not a number of type INT"),
        ("errors.log.enable", "1", "Invalid value 1 for configuration errors.log.enable: Expected value to be either true or false"),
        ("errors.tolerance", "some", "Invalid value some for configuration errors.tolerance: String must be one of: none, all"),
        (
            "transaction.boundary",
            "connector",
            (
                "Invalid value connector for configuration transaction.boundary: The connector does not support "
                "connector-defined transaction boundaries with the provided configuration."
            ),
        ),
    ],
)
def test_an_error_has_the_words_users_search_for(key, value, message):
    assert errors(**{key: value}) == {key: [message]}


def test_a_bad_regular_expression_is_named():
    (message,) = errors(**{"table.include.list": "shop.(a"})["table.include.list"]

    assert message.startswith(
        "The 'table.include.list' value is invalid: A comma-separated list of valid regular expressions is expected, but "
    )


@pytest.mark.parametrize("kind", ["database", "table", "column"])
def test_include_and_exclude_lists_are_exclusive(kind):
    found = errors(**{f"{kind}.include.list": "a", f"{kind}.exclude.list": "b"})

    assert found == {f"{kind}.exclude.list": [f"The '{kind}.exclude.list' value is invalid: \"{kind}.include.list\" is already specified"]}


def test_every_error_is_reported_at_once():
    config = {"name": "a", "connector.class": "x"}

    with pytest.raises(ConfigError) as raised:
        parse_connector(MYSQL_OPTIONS, config)

    assert {"topic.prefix", "database.hostname", "database.user", "database.server.id", "schema.history.internal.kafka.topic"} <= set(
        raised.value.errors
    )


def test_keys_nobody_knows_are_ignored_and_kept():
    found = settings(**{"my.own.note": "x"})

    assert "my.own.note" not in found
    assert found.originals["my.own.note"] == "x"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exactly.once.support", "required"),
        ("connector.plugin.version", "[1.0,2.0)"),
        ("snapshot.mode", "custom"),
        ("snapshot.mode", "recovery"),
        ("snapshot.mode", "configuration_based"),
        ("snapshot.locking.mode", "custom"),
        ("converters", "isbn"),
        ("post.processors", "reselect"),
        ("column.mask.with.ten.chars", "a.b.c"),
        ("column.mask.with.10.chars", "a.(b.c"),
        ("column.mask.hash.SHA-256.with.salt.", "a.b.c"),
        ("column.mask.hash.v2.CRC32.with.salt.x", "a.b.c"),
        ("column.truncate.to.0.chars", "a.b.c"),
        ("column.truncate.to.99999999999.chars", "a.b.c"),
        ("message.key.columns", "a.b"),
        ("message.key.columns", "a.b:c;(:d"),
        ("signal.enabled.channels", "source,pigeon"),
        ("signal.file", "../worker.properties"),
        ("signal.data.collection", "orders"),
        ("notification.enabled.channels", "log,pigeon"),
        ("notification.enabled.channels", "sink"),
        ("topic.naming.strategy", "org.example.Mine"),
        ("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory"),
        ("gtid.ignore.on.recovery", "true"),
        ("database.server.id.offset", "0"),
        ("snapshot.select.statement.overrides", "a.b"),
        ("time.precision.mode", "adaptive"),
    ],
)
def test_what_would_change_the_result_and_is_not_done_is_refused(key, value):  # number 26 of the worker's safety
    assert list(errors(**{key: value})) == [key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("snapshot.mode", "schema_only"),
        ("snapshot.mode", "When_Needed"),
        ("snapshot.mode", "never"),
        ("snapshot.locking.mode", "none"),
        ("heartbeat.topics.prefix", "beat"),
        ("topic.naming.strategy", "io.debezium.schema.DefaultTopicNamingStrategy"),
        ("key.converter", "io.confluent.connect.avro.AvroConverter"),
        ("value.converter", "JsonConverter"),
        ("errors.tolerance", "all"),
        ("skipped.operations", "none"),
        ("max.queue.size.in.bytes", "0"),
        ("database.ssl.mode", "verify_identity"),
        ("schema.history.internal.store.only.captured.tables.ddl", "true"),
        ("converters", ""),
        ("transforms", ""),
        ("message.key.columns", r"shop\.(.*):id;\Qshop.x\E:a,b"),
        ("table.include.list", r"\Qshop.a\E,(?<x>shop)\.b+,shop\.(?!tmp_).*,shop\.\p{Alpha}+"),
        ("database.ssl.truststore", "/x/ca.pem"),
        ("include.schema.comments", "true"),
        ("provide.transaction.metadata", "true"),
    ],
)
def test_what_debezium_users_write_is_taken(key, value):
    assert errors(**{key: value}) == {}


@pytest.mark.parametrize("store", ["database.ssl.truststore", "database.ssl.keystore"])
def test_a_store_that_only_the_default_mode_would_not_use_is_refused_with_the_modes_that_do(store):
    found = errors(options=MARIADB_OPTIONS, **{store: "/x/ca.pem"})

    assert list(found) == [store]
    assert all(word in found[store][0] for word in (store, "disable", "not be encrypted", "database.ssl.mode=verify-full"))
    for mode in ("disable", "trust", "verify-ca"):
        assert errors(options=MARIADB_OPTIONS, **{store: "/x/ca.pem", "database.ssl.mode": mode}) == {}
    assert errors(options=MARIADB_OPTIONS, **{store: " "}) == {}


@pytest.mark.parametrize("text", ["FAIL", "fail ", " Fail"])
@pytest.mark.parametrize("key", ["event.processing.failure.handling.mode", "inconsistent.schema.handling.mode"])
def test_a_choice_is_known_however_it_is_spelt(key, text):  # a task that compares it must not take it for "skip"
    assert settings(**{key: text})[key] == "fail"


def test_an_old_name_of_a_key_counts():
    assert settings(**{"heartbeat.topics.prefix": "beat"})["topic.heartbeat.prefix"] == "beat"


def test_secrets_and_placeholders_are_not_shown_in_errors():
    checked = check_connector(
        MYSQL_OPTIONS, connector_config(name="a") | {"tasks.max": "TOPSECRET"}, shown={"tasks.max": "${file:/x:tasks}"}
    )

    assert checked.errors == {"tasks.max": ["Invalid value ${file:/x:tasks} for configuration tasks.max: Not a number of type INT"]}


DOCUMENTED = """
bigint.unsigned.handling.mode binary.handling.mode binlog.buffer.size binlog.net.read.timeout binlog.net.write.timeout
column.exclude.list column.include.list column.propagate.source.type connect.keep.alive connect.keep.alive.interval.ms
connect.timeout.ms connection.validation.timeout.ms connector.class converters custom.metric.tags custom.sanitize.pattern
database.exclude.list database.hostname database.include.list database.initial.statements database.password database.port
database.query.timeout.ms database.server.id database.server.id.offset database.ssl.keystore database.ssl.mode
database.ssl.truststore database.user datatype.propagate.source.type decimal.handling.mode enable.time.adjuster errors.max.retries
event.converting.failure.handling.mode event.deserialization.failure.handling.mode event.processing.failure.handling.mode
extended.headers.enabled field.name.adjustment.mode gtid.ignore.on.recovery gtid.source.excludes gtid.source.filter.dml.events
gtid.source.includes guardrail.collections.limit.action guardrail.collections.max heartbeat.action.query heartbeat.interval.ms
include.query include.schema.changes include.schema.comments inconsistent.schema.handling.mode
incremental.snapshot.allow.schema.changes incremental.snapshot.chunk.size incremental.snapshot.watermarking.strategy key.converter
legacy.snapshot.max.threads max.batch.size max.queue.size max.queue.size.in.bytes message.key.columns
min.row.count.to.stream.results notification.enabled.channels notification.sink.topic.name poll.interval.ms post.processors
predicates provide.transaction.metadata read.only retriable.restart.connector.wait.ms schema.history.internal
schema.history.internal.ddl.filter schema.history.internal.kafka.bootstrap.servers schema.history.internal.kafka.buffer.batch.size
schema.history.internal.kafka.create.timeout.ms schema.history.internal.kafka.query.timeout.ms
schema.history.internal.kafka.recovery.attempts schema.history.internal.kafka.recovery.poll.interval.ms
schema.history.internal.kafka.topic schema.history.internal.memory.optimization schema.history.internal.prefer.ddl
schema.history.internal.skip.unparseable.ddl schema.history.internal.store.only.captured.databases.ddl
schema.history.internal.store.only.captured.tables.ddl schema.name.adjustment.mode signal.data.collection
signal.emit.failure.backoff.ms signal.emit.failure.max.retries signal.enabled.channels signal.file signal.kafka.bootstrap.servers
signal.kafka.groupId signal.kafka.poll.timeout.ms signal.kafka.topic signal.poll.interval.ms skip.messages.without.change
skipped.operations snapshot.delay.ms snapshot.fetch.size snapshot.include.collection.list snapshot.lock.timeout.ms
snapshot.locking.mode snapshot.locking.mode.custom.name snapshot.max.threads snapshot.max.threads.multiplier snapshot.mode
snapshot.mode.configuration.based.snapshot.data snapshot.mode.configuration.based.snapshot.on.data.error
snapshot.mode.configuration.based.snapshot.on.schema.error snapshot.mode.configuration.based.snapshot.schema
snapshot.mode.configuration.based.start.stream snapshot.mode.custom.name snapshot.query.mode snapshot.query.mode.custom.name
snapshot.select.statement.overrides snapshot.tables.order.by.row.count sourceinfo.struct.maker statistics.metrics.enabled
streaming.delay.ms table.exclude.list table.ignore.builtin table.include.list tasks.max time.precision.mode tombstones.on.delete
topic.delimiter topic.heartbeat.name topic.heartbeat.prefix topic.naming.strategy topic.prefix topic.transaction transforms
unavailable.value.placeholder use.nongraceful.disconnect value.converter
"""
"""Every key of Debezium 3.6's manual for MySQL and MariaDB, besides families like column.mask.*."""


def test_read_only_goes_with_what_writes_nothing_and_only_it_reads_chunks_elsewhere():
    replica = {"dblog.dump.hostname": "replica", "dblog.dump.port": "3307"}

    assert errors(**{"read.only": "true"}) == {}
    assert errors(**{"read.only": "true", **replica}) == {}
    assert list(errors(**replica)) == ["dblog.dump.hostname", "dblog.dump.port"]
    assert list(errors(**{"read.only": "true", **replica, "dblog.dump.port": "0"})) == ["dblog.dump.port"]
    assert list(errors(**{"read.only": "true", "dblog.row.image.missing": "reread"})) == ["read.only"]


@pytest.mark.parametrize("options", [MYSQL_OPTIONS, MARIADB_OPTIONS])
def test_every_documented_key_is_declared(options):
    declared = {name for option in (*FRAMEWORK_OPTIONS, *options) for name in (option.name, *option.aliases)}

    assert set(DOCUMENTED.split()) - declared == set()


@pytest.mark.parametrize("options", [MYSQL_OPTIONS, MARIADB_OPTIONS])
def test_whoever_writes_every_default_out_gets_the_settings_of_one_who_writes_none(options):
    written_out = {option.name: option.default for option in (*FRAMEWORK_OPTIONS, *options) if option.default is not None}
    given = connector_config(name="c")

    assert dict(parse_connector(options, written_out | given)) == dict(parse_connector(options, given))


def test_declarations_are_sound():
    for options in (MYSQL_OPTIONS, MARIADB_OPTIONS, FRAMEWORK_OPTIONS):
        names = [name for option in options for name in (option.name, *option.aliases)]
        assert len(set(names)) == len(names)
        for option in options:
            assert option.doc.endswith((".", "?")), option.name
            assert option.group
            assert option.label
            if option.kind in (Kind.INT, Kind.LONG) and option.name.endswith(".ms"):
                assert option.unit == "ms", option.name
        assert len({option.voice for option in options} & set(Voice)) == 1


def test_topic_creation_rules_are_tried_in_order_and_the_default_comes_last():
    rules = topic_rules(
        {
            "topic.creation.groups": "compacted,default",
            "topic.creation.default.replication.factor": "3",
            "topic.creation.default.partitions": "-1",
            "topic.creation.compacted.include": r"shop\..*,x",
            "topic.creation.compacted.exclude": r"shop\.secret",
            "topic.creation.compacted.partitions": "6",
            "topic.creation.compacted.cleanup.policy": "compact",
        }
    )

    compacted, default = rules
    assert (compacted.partitions, compacted.replication_factor, compacted.settings) == (6, 3, {"cleanup.policy": "compact"})
    assert [compacted.matches(topic) for topic in ("shop.a", "x", "xy", "shop.secret")] == [True, True, False, False]
    assert (default.partitions, default.replication_factor) == (-1, 3)
    assert default.matches("anything")
    assert topic_rules({"topic.prefix": "a"}) == ()


REGEX_STRATEGY = {"topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy", "topic.key.enforce.uniqueness": "false"}


@pytest.mark.parametrize(
    ("given", "key", "text"),
    [
        ({"topic.key.enforce.uniqueness": "true"}, "topic.key.enforce.uniqueness", "does not add a field to keys yet"),
        ({"topic.regex": ""}, "topic.regex", "required"),
        ({"topic.regex": "(a"}, "topic.regex", "A regular expression is required"),
        ({"topic.replacement": ""}, "topic.replacement", "required"),
        ({"topic.replacement": "$2"}, "topic.replacement", "has no group 2"),
        ({"topic.replacement": "${table}"}, "topic.replacement", "has no group table"),
        ({"topic.naming.strategy": " IO.debezium.schema.defaultREGEXTopicNamingStrategy", "topic.regex": ""}, "topic.regex", "required"),
    ],
)
def test_a_regex_strategy_needs_a_pattern_a_replacement_and_keys_that_are_unique_without_help(given, key, text):
    whole = REGEX_STRATEGY | {"topic.regex": "(.*)_[0-9]+", "topic.replacement": "$1"}

    assert check_connector(MYSQL_OPTIONS, connector_config(name="a") | whole).errors == {}
    assert text in " ".join(check_connector(MYSQL_OPTIONS, connector_config(name="a") | whole | given).errors[key])


BOOLEAN = "io.debezium.connector.mysql.converters.TinyIntOneToBooleanConverter"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"b.type": "com.acme.Mine"}, "b.type"),
        ({"b.type": "io.debezium.connector.binlog.converters.ZeroDateFallbackConverter"}, "b.type"),
        ({"b.type": BOOLEAN, "b.selector": "a.(b"}, "b.selector"),
        ({"b.type": BOOLEAN, "b.columns": "a.b.c"}, "b.columns"),
    ],
)
def test_a_column_converter_that_does_not_run_here_is_refused_at_its_key(given, key):
    assert list(errors(converters="b", **given)) == [key]


def test_the_settings_of_a_column_converter_are_no_unknown_keys():
    given = connector_config(name="a") | {
        "converters": "b",
        "b.type": BOOLEAN,
        "b.selector": r"shop\.a\.(x|y)",
        "b.length.checker": "false",
    }

    assert unknown_keys(MYSQL_OPTIONS, given) == {}
    assert check_connector(MYSQL_OPTIONS, given).errors == {}
    assert list(check_connector(POSTGRES_OPTIONS, {**postgres_config(name="a"), "converters": "b", "b.type": BOOLEAN}).errors) == [
        "converters"
    ]

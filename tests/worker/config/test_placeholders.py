"""Which keys of a connector take a placeholder: a test walks all that are declared, so that a new one is put on one side or the other."""

import pytest
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.options import Kind
from dblog.config.placeholders import ALLOWED, ALLOWED_IN_CONVERTERS, NAMES_OF_CLIENTS, refused_placeholders
from dblog.config.plugins import CONNECTORS
from dblog.config.secret_values import is_secret
from dblog.transforms.catalog import PREDICATE_PLUGINS, TRANSFORM_PLUGINS
from worker.config.test_what_options_lead_to import FILES, HOSTS, TOPICS

PLACEHOLDER = "${file:/secrets/db.properties:other}"
DECLARED = {option.name: option for plugin in CONNECTORS for option in (*FRAMEWORK_OPTIONS, *plugin.options)}
OF_CONVERTERS = {option.name: option for option in CONVERTER_OPTIONS}
SHOWN = """
binlog.net.read.timeout binlog.net.write.timeout column.exclude.list column.include.list column.propagate.source.type
connect.keep.alive.interval.ms connect.timeout.ms connection.validation.timeout.ms connector.class connector.plugin.version converters
custom.metric.tags database.exclude.list database.include.list database.query.timeout.ms database.sslfactory
datatype.propagate.source.type dblog.chunk.bytes.max dblog.chunk.marker.topic dblog.chunk.rows dblog.dump.limit.history.list.length
dblog.dump.limit.log.lag.ms dblog.dump.limit.replica.lag.ms dblog.dump.limit.statement.p95.ms dblog.dump.limit.threads.running
dblog.dump.limit.transaction.age.s dblog.dump.threads dblog.history.topic dblog.metrics.server.interval.ms dblog.owner
dblog.retry.timeout.ms dblog.watermark.table dblog.window.keys.max driver.requireAuth errors.deadletterqueue.topic.name errors.max.retries
gtid.source.excludes
gtid.source.includes guardrail.collections.max header.converter.plugin.version heartbeat.interval.ms incremental.snapshot.chunk.size
key.converter.plugin.version max.batch.size max.queue.size max.queue.size.in.bytes message.key.columns message.prefix.exclude.list
message.prefix.include.list money.fraction.digits name notification.enabled.channels notification.sink.topic.name offsets.storage.topic
plugin.name poll.interval.ms post.processors predicates publication.name replica.identity.autoset.values
retriable.restart.connector.wait.ms schema.exclude.list schema.history.internal.ddl.filter schema.history.internal.kafka.topic
schema.include.list signal.data.collection signal.enabled.channels signal.kafka.groupId signal.kafka.topic signal.poll.interval.ms
skipped.operations slot.name slot.stream.params snapshot.delay.ms snapshot.include.collection.list snapshot.locking.mode.custom.name
snapshot.max.threads snapshot.mode.custom.name snapshot.query.mode.custom.name snapshot.select.statement.overrides sourceinfo.struct.maker
status.update.interval.ms streaming.delay.ms table.exclude.list table.include.list topic.creation.groups topic.delimiter
topic.heartbeat.name topic.heartbeat.prefix topic.naming.strategy topic.prefix topic.regex topic.replacement topic.transaction
transaction.metadata.factory transforms unavailable.value.placeholder value.converter.plugin.version xmin.fetch.interval.ms
"""


def _is_choice(option):
    return option.kind in (Kind.PASSWORD, Kind.BOOLEAN, Kind.CLASS) or option.choices


def refused(name, text=PLACEHOLDER):
    return any(name in refused_placeholders(plugin.options, {name: text}) for plugin in CONNECTORS)


def test_every_option_takes_placeholders_or_shows_what_it_becomes():  # number 28 of the worker's safety
    show_nothing = {
        name
        for name, option in DECLARED.items()
        if option.kind in (Kind.PASSWORD, Kind.BOOLEAN, Kind.CLASS) or option.choices or option.no_effect is not None
    }

    assert {name for name in DECLARED if refused(name)} == set(SHOWN.split())
    assert set(DECLARED) == set(SHOWN.split()) | ALLOWED | show_nothing
    assert not set(SHOWN.split()) & ALLOWED


def test_secrets_addresses_and_files_take_placeholders_and_topics_take_none():  # number 28
    takes = [
        *HOSTS["connector"].split(),
        *FILES["connector"].split(),
        *(name for name, option in DECLARED.items() if option.kind is Kind.PASSWORD),
    ]

    assert [name for name in takes if refused(name)] == []
    assert [name for name in TOPICS["connector"].split() if not refused(name) and DECLARED[name].no_effect is None] == []
    assert [alias for option in DECLARED.values() for alias in option.aliases if refused(alias) != refused(option.name)] == []


@pytest.mark.parametrize("prefix", ["key.converter.", "value.converter."])
def test_a_converters_secrets_addresses_and_files_take_placeholders(prefix):
    takes = {name for name in OF_CONVERTERS if not refused(prefix + name)}
    leads = {*HOSTS["converter"].split(), *FILES["converter"].split(), *filter(is_secret, OF_CONVERTERS)}

    assert leads | ALLOWED_IN_CONVERTERS <= takes
    assert all(
        option.no_effect is not None
        for name, option in OF_CONVERTERS.items()
        if name in takes - leads - ALLOWED_IN_CONVERTERS and not _is_choice(option)
    )
    assert not refused(f"{prefix}request.header.X-Api")


@pytest.mark.parametrize("prefix", ["producer.override.", "schema.history.internal.consumer.", "signal.consumer."])
def test_names_of_clients_take_none_and_their_logins_do(prefix):
    assert [name for name in NAMES_OF_CLIENTS if not refused(prefix + name)] == []
    assert [name for name in ("sasl.jaas.config", "sasl.username", "bootstrap.servers", "ssl.key.password") if refused(prefix + name)] == []


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("topic.creation.default.include", True),
        ("topic.creation.default.partitions", True),
        ("column.mask.with.8.chars", True),
        ("column.truncate.to.8.chars", True),
        ("transforms.route.replacement", True),
        ("transforms.mark.static.value", True),
        ("predicates.orders.pattern", True),
        ("snapshot.select.statement.overrides.shop.orders", False),
        ("a.key.that.nobody.reads", False),
    ],
)
def test_families_of_keys(name, is_refused):
    assert refused(name) is is_refused


@pytest.mark.parametrize("text", ["shop", "", "$1", "${no.placeholder}", "a{1,2}$"])
def test_what_is_no_placeholder_is_taken(text):
    assert not refused("topic.prefix", text)


def test_no_option_of_a_transform_or_predicate_takes_a_placeholder():  # number 28
    classes = [(f"transforms.x.{option.name}", plugin) for plugin in TRANSFORM_PLUGINS for option in plugin.options]
    classes += [(f"predicates.x.{option.name}", plugin) for plugin in PREDICATE_PLUGINS for option in plugin.options]

    assert len(classes) > 90
    assert [(name, plugin.class_name) for name, plugin in classes if not refused(name)] == []
    assert not refused("transforms.outbox.route.topic.replacement", "outbox.event.${routedByValue}"), "a group of the pattern is none"


def test_a_placeholder_in_the_middle_is_one():
    assert refused("topic.prefix", f"shop-{PLACEHOLDER}-eu")
    assert "write the value itself" in refused_placeholders(CONNECTORS[0].options, {"topic.prefix": PLACEHOLDER})["topic.prefix"][0]

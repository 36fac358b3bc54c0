"""What the value of each option can lead to: a file, a host, a topic or code. An option that is new has to be put here, and passes by the door of its kind."""

from __future__ import annotations

import pytest
from dblog.config.connector import check_connector
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.hosts import check_hosts
from dblog.config.options import Option
from dblog.config.plugins import CONNECTORS
from dblog.config.worker_options import WORKER_OPTIONS
from support.worker import connector_config, postgres_config

FILES = {
    "connector": """
database.ssl.keystore database.ssl.truststore database.sslcert database.sslkey database.sslrootcert openlineage.integration.config.file.path
signal.file
""",
    "converter": """
schema.registry.ssl.keystore.location schema.registry.ssl.truststore.location
""",
    "worker": """
dblog.rest.login.config dblog.rest.oidc.jwks.file dblog.rest.oidc.ssl.ca.location dblog.rest.roles.file dblog.rest.users.file
dblog.signal.files.folder
""",
}

HOSTS = {
    "connector": """
database.hostname dblog.dump.hostname openlineage.integration.dataset.kafka.bootstrap.servers
schema.history.internal.kafka.bootstrap.servers signal.kafka.bootstrap.servers
""",
    "converter": """
bearer.auth.issuer.endpoint.url proxy.host schema.registry.url
""",
    "worker": """
access.control.allow.origin admin.listeners bootstrap.servers dblog.connector.allowed.hosts dblog.rest.allowed.hosts dblog.rest.oidc.issuer
dblog.rest.oidc.jwks.url dblog.rest.proxies dblog.rest.readonly.listener dblog.rest.workers.allowed.hosts listeners rest.advertised.host.name rest.advertised.listener
""",
}

TOPICS = {
    "connector": """
dblog.chunk.marker.topic dblog.history.topic errors.deadletterqueue.topic.name notification.sink.topic.name offsets.storage.topic schema.history.internal.kafka.topic
signal.kafka.topic topic.delimiter topic.heartbeat.name topic.heartbeat.prefix topic.prefix topic.regex topic.replacement topic.transaction
""",
    "converter": "",
    "worker": """
config.storage.topic dblog.dumps.storage.topic dblog.registry.topic dblog.sinks.topic offset.storage.topic status.storage.topic
""",
}

LIBRARIES = {
    "connector": """
connector.class connector.plugin.version converters database.sslfactory header.converter key.converter memory.management.schemas.class
memory.management.tables.class post.processors queue.provider.type schema.history.internal snapshot.locking.mode.custom.name
snapshot.mode.custom.name snapshot.query.mode.custom.name sourceinfo.struct.maker topic.naming.strategy transaction.metadata.factory
value.converter
""",
    "converter": """
delegate.converter.type key.subject.name.strategy value.subject.name.strategy
""",
    "worker": """
config.providers connector.client.config.override.policy header.converter key.converter metric.reporters plugin.discovery plugin.path
rest.extension.classes value.converter
""",
}

NOTHING = {
    "connector": """
predicates transforms
bigint.unsigned.handling.mode binary.handling.mode binlog.buffer.size binlog.net.read.timeout binlog.net.write.timeout column.exclude.list
column.include.list column.propagate.source.type config.action.reload connect.keep.alive connect.keep.alive.interval.ms connect.timeout.ms
connection.validation.timeout.ms custom.metric.tags dblog.errors.deadletterqueue.records
errors.deadletterqueue.context.headers.enable custom.sanitize.pattern database.dbname database.exclude.list database.include.list
database.initial.statements database.password database.port database.query.timeout.ms database.server.id database.server.id.offset
database.ssl.keystore.password database.ssl.mode database.ssl.truststore.password database.sslmode database.sslpassword
database.tcpKeepAlive database.user datatype.propagate.source.type dblog.chunk.bytes.max dblog.chunk.rows dblog.ddl.redump
dblog.dump.limit.history.list.length dblog.dump.limit.log.lag.ms dblog.dump.limit.replica.lag.ms dblog.dump.limit.statement.p95.ms
dblog.dump.limit.threads.running dblog.dump.limit.transaction.age.s dblog.dump.port dblog.dump.threads dblog.log.streaming
dblog.metrics.server.interval.ms dblog.new.tables dblog.owner dblog.retry.timeout.ms dblog.row.image.missing dblog.signals.filters dblog.topics.shared
dblog.tracing.enabled dblog.watermark.table dblog.window.keys.max decimal.handling.mode driver.allowPublicKeyRetrieval driver.channelBinding driver.sslNegotiation
driver.requireAuth enable.time.adjuster errors.log.enable errors.log.include.messages errors.max.retries errors.retry.delay.max.ms
errors.retry.timeout errors.tolerance event.converting.failure.handling.mode event.deserialization.failure.handling.mode
event.processing.failure.handling.mode exactly.once.support executor.shutdown.timeout.ms extended.headers.enabled field.name.adjustment.mode
flush.lsn.source gtid.ignore.on.recovery gtid.source.excludes gtid.source.filter.dml.events gtid.source.includes
guardrail.collections.limit.action guardrail.collections.max header.converter.plugin.version heartbeat.action.query heartbeat.interval.ms
hstore.handling.mode include.query include.schema.changes include.schema.comments include.unknown.datatypes
inconsistent.schema.handling.mode incremental.snapshot.allow.schema.changes incremental.snapshot.chunk.size
incremental.snapshot.watermarking.strategy interval.handling.mode key.converter.plugin.version legacy.snapshot.max.threads lsn.flush.mode
lsn.flush.timeout.action lsn.flush.timeout.ms max.batch.size max.queue.size max.queue.size.in.bytes message.key.columns
message.prefix.exclude.list message.prefix.include.list min.row.count.to.stream.results money.fraction.digits name
notification.enabled.channels offset.mismatch.strategy openlineage.integration.enabled openlineage.integration.job.description
openlineage.integration.job.namespace openlineage.integration.job.owners openlineage.integration.job.tags plugin.name poll.interval.ms
provide.transaction.metadata publication.autocreate.mode publication.name publish.via.partition.root query.fetch.size read.only
replica.identity.autoset.values retriable.restart.connector.wait.ms schema.exclude.list schema.history.internal.ddl.filter
schema.history.internal.kafka.buffer.batch.size schema.history.internal.kafka.create.timeout.ms
schema.history.internal.kafka.query.timeout.ms schema.history.internal.kafka.recovery.attempts
schema.history.internal.kafka.recovery.poll.interval.ms schema.history.internal.memory.optimization schema.history.internal.prefer.ddl
schema.history.internal.skip.unparseable.ddl schema.history.internal.store.only.captured.databases.ddl
schema.history.internal.store.only.captured.tables.ddl schema.include.list schema.name.adjustment.mode schema.refresh.mode
signal.data.collection signal.emit.failure.backoff.ms signal.emit.failure.max.retries signal.enabled.channels signal.kafka.groupId
signal.kafka.poll.timeout.ms signal.poll.interval.ms skip.messages.without.change skipped.operations slot.drop.on.stop slot.failover
slot.max.retries slot.name slot.retry.delay.ms slot.stream.params snapshot.delay.ms snapshot.fetch.size snapshot.include.collection.list
snapshot.isolation.mode snapshot.lock.timeout.ms snapshot.locking.mode snapshot.max.threads snapshot.max.threads.multiplier snapshot.mode
snapshot.mode.configuration.based.snapshot.data snapshot.mode.configuration.based.snapshot.on.data.error
snapshot.mode.configuration.based.snapshot.on.schema.error snapshot.mode.configuration.based.snapshot.schema
snapshot.mode.configuration.based.start.stream snapshot.query.mode snapshot.select.statement.overrides snapshot.tables.order.by.row.count
statistics.metrics.enabled status.update.interval.ms streaming.delay.ms table.exclude.list table.ignore.builtin table.include.list tasks.max
tasks.max.enforce time.precision.mode tombstones.on.delete topic.cache.size topic.creation.groups topic.key.enforce.uniqueness
topic.key.field.name topic.key.field.regex topic.key.field.replacement transaction.boundary transaction.boundary.interval.ms
unavailable.value.placeholder use.nongraceful.disconnect value.converter.plugin.version xmin.fetch.interval.ms
""",
    "converter": """
allow.optional.map.keys auto.register.schemas basic.auth.credentials.source basic.auth.user.info bearer.auth.client.id
bearer.auth.client.secret bearer.auth.credentials.source bearer.auth.identity.pool.id bearer.auth.logical.cluster bearer.auth.scope
bearer.auth.token connect.meta.data converter.encoding decimal.format discard.type.doc.default enhanced.avro.schema.support
flatten.singleton.unions flatten.unions generalized.sum.type.support http.connect.timeout.ms http.read.timeout.ms id.compatibility.strict
ignore.default.for.nullables latest.cache.size latest.cache.ttl.sec latest.compatibility.strict max.schemas.per.subject normalize.schemas
proxy.port replace.null.with.default schema.content schema.reflection schema.registry.basic.auth.user.info
schema.registry.ssl.enabled.protocols schema.registry.ssl.key.password schema.registry.ssl.keystore.certificate.chain
schema.registry.ssl.keystore.key schema.registry.ssl.keystore.password schema.registry.ssl.keystore.type schema.registry.ssl.protocol
schema.registry.ssl.truststore.certificates schema.registry.ssl.truststore.password schema.registry.ssl.truststore.type schemas.cache.config
schemas.cache.size schemas.enable scrub.invalid.names use.latest.version use.schema.id
data.serializer.type extension.attributes.enable metadata.source opentelemetry.tracing.attributes.enable schema.cloudevents.name
schema.data.name.source.header.enable schema.name.adjustment.mode serializer.type
""",
    "worker": """
access.control.allow.methods client.id config.storage.replication.factor connect.protocol connector.client.config.override.allowlist
dblog.config.providers.own dblog.dumps.storage.replication.factor dblog.log.format dblog.log.level dblog.log.levels dblog.metrics.jmx.case
dblog.metrics.names dblog.metrics.tables.max dblog.registry.enable dblog.registry.replication.factor dblog.rest.config.secrets
dblog.rest.login.certificates dblog.rest.login.failures.per.minute dblog.rest.oidc.algorithms dblog.rest.oidc.audience
dblog.rest.oidc.groups.claim dblog.rest.oidc.user.claim dblog.rest.without.login dblog.rest.writes.per.minute dblog.task.restart.max
dblog.tracing.enabled dblog.ui.enable exactly.once.source.support group.id heartbeat.interval.ms inter.worker.key.generation.algorithm inter.worker.key.size
inter.worker.key.ttl.ms inter.worker.signature.algorithm inter.worker.verification.algorithms internal.topics.automatic.creation.enable
metrics.num.samples metrics.recording.level metrics.sample.window.ms offset.flush.interval.ms offset.flush.timeout.ms
offset.storage.partitions offset.storage.replication.factor rebalance.timeout.ms response.http.headers.config rest.advertised.port
scheduled.rebalance.max.delay.ms security.protocol session.timeout.ms status.storage.partitions status.storage.replication.factor
task.shutdown.graceful.timeout.ms topic.creation.enable topic.tracking.allow.reset topic.tracking.enable worker.sync.timeout.ms
worker.unsync.backoff.ms
""",
}
OPTIONS: dict[str, dict[str, Option]] = {
    "connector": {option.name: option for plugin in CONNECTORS for option in (*FRAMEWORK_OPTIONS, *plugin.options)},
    "converter": {option.name: option for option in CONVERTER_OPTIONS},
    "worker": {option.name: option for option in WORKER_OPTIONS},
}
KINDS = {"file": FILES, "host": HOSTS, "topic": TOPICS, "library": LIBRARIES, "none": NOTHING}
OF_CONNECTORS = ["connector", "converter"]

READ_BY = {
    "database.ssl.keystore": "dialects/mysql/wire/test_tls.py",
    "database.ssl.truststore": "dialects/mysql/wire/test_tls.py",
    "database.sslcert": "dialects/postgres/wire/test_hostile_server.py",
    "database.sslkey": "dialects/postgres/wire/test_hostile_server.py",
    "database.sslrootcert": "dialects/postgres/wire/test_hostile_server.py",
    "schema.registry.ssl.keystore.location": "kafka/test_registry.py",
    "schema.registry.ssl.truststore.location": "kafka/test_registry.py",
    "signal.file": "config/test_connector.py",
}
"""The tests that show by which door each file of a connector comes in: NamedFile, or the worker's folder of signals."""
COMPARED = {
    "dblog.chunk.marker.topic",
    "dblog.history.topic",
    "errors.deadletterqueue.topic.name",
    "notification.sink.topic.name",
    "schema.history.internal.kafka.topic",
    "signal.kafka.topic",
    "topic.heartbeat.name",
    "topic.heartbeat.prefix",
    "topic.prefix",
    "topic.transaction",
}
"""Compared with the worker's own topics when they are configured (readers/test_reserved_topics.py)."""
PARTS = {"topic.delimiter", "topic.regex", "topic.replacement"}
"""Of topics of tables, which are compared when the producer gets their first record."""


def effective(name: str, whose: str = "connector") -> bool:
    return OPTIONS[whose][name].no_effect is None


@pytest.mark.parametrize("whose", OPTIONS)
def test_every_option_has_one_kind(whose):  # number 5 of the worker's safety
    named = [name for kind in KINDS.values() for name in kind[whose].split()]

    assert sorted(named) == sorted(OPTIONS[whose])


@pytest.mark.parametrize("whose", OF_CONNECTORS)
def test_every_host_of_a_connector_is_looked_for_on_the_list(whose):
    for name in filter(lambda name: effective(name, whose), HOSTS[whose].split()):
        key = f"key.converter.{name}" if whose == "converter" else name
        value = "http://elsewhere.example" if name.endswith(".url") else "elsewhere.example"

        assert set(check_hosts({key: value}, ("nowhere.example",))) == {key}


@pytest.mark.parametrize("name", ["database.hostname", "dblog.dump.hostname"])
@pytest.mark.parametrize("host", ["a.example,b.example", "/run/postgresql", "@abstract", "a.example service=x"])
def test_a_host_of_a_database_is_one_host(name, host):
    plugin = next(plugin for plugin in CONNECTORS if plugin.flavor == "postgres")

    errors = check_connector(plugin.options, postgres_config(name="a") | {"read.only": "true", name: host}).errors

    assert set(errors) == {name}
    assert "has invalid format" in errors[name][0]


@pytest.mark.parametrize("whose", OF_CONNECTORS)
def test_every_file_of_a_connector_comes_in_by_a_door_that_a_test_watches(whose):
    assert {name for name in FILES[whose].split() if effective(name, whose)} <= set(READ_BY)


def test_every_topic_of_a_connector_is_compared_with_the_workers_own():
    assert {name for name in TOPICS["connector"].split() if OPTIONS["connector"][name].refused is None} == COMPARED | PARTS


@pytest.mark.parametrize("base", [connector_config(name="a"), postgres_config(name="a")], ids=["mysql", "postgres"])
def test_no_class_that_a_connector_names_is_taken_but_those_of_a_table(base):
    plugin = next(plugin for plugin in CONNECTORS if plugin.class_name == base["connector.class"])
    declared = {option.name: option for option in (*FRAMEWORK_OPTIONS, *plugin.options)}
    for name in filter(declared.get, LIBRARIES["connector"].split()):
        if name == "connector.class":
            continue  # looked up in the table before anything else is read
        errors = check_connector(plugin.options, {**base, name: "com.example.Evil"}).errors

        assert name in errors or not effective(name), name

"""Builds a worker's objects and connects them; called by ``cli`` and by tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette

from dblog.clock import SystemClock
from dblog.cluster.certificates import Certificates
from dblog.cluster.herder import Herder
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import TaskId
from dblog.cluster.sinkstore import SinkTopic, SinkView
from dblog.cluster.statusview import Snapshot
from dblog.cluster.validation import DatabaseCheck, ReachableCheck, Validator
from dblog.config.options import Settings
from dblog.config.overrides import override_policy
from dblog.config.plugins import Plugin, find_connector
from dblog.config.worker import WorkerConfig, dumps_topic, own_topics
from dblog.config.worker_file import WorkerFile
from dblog.config.worker_options import DUMPS_TOPIC, SINKS_TOPIC
from dblog.kafka.admin import TopicWanted, admin_client, ensure_topics, wait_for_brokers
from dblog.kafka.failures import FailuresHeard
from dblog.kafka.group import Membership
from dblog.kafka.instance import take_instance
from dblog.kafka.log import CompactedLog, LogRecord
from dblog.kafka.othergroups import OtherGroups
from dblog.kafka.registry_store import RegistryStore
from dblog.observe.logs import TABLE, TAP
from dblog.observe.metrics import PluginNames, TaskNumbers, WorkerNumbers, metrics_text, naming_of
from dblog.page.history import History
from dblog.page.recorder import Recorder
from dblog.page.routes import Page
from dblog.rest.api import Checks, Services
from dblog.rest.app import Part, build_app
from dblog.rest.identity import Identity
from dblog.rest.limits import Limits
from dblog.rest.schemas import registry_routes
from dblog.rest.waiting import Waiting


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is ready to be started."""

    herder: Herder
    app: Starlette
    admin_app: Starlette
    """Application of the listeners that serve only /admin."""
    reading_app: Starlette
    """Application of the read-only listener."""
    own_app: Starlette
    """Application for the worker's own tasks: the registry, with their token."""
    waiting: Waiting
    """Waiting requests of all applications."""
    registry: RegistryStore | None
    recorder: Recorder | None
    """Takes the samples for the page's charts. None without the page."""
    sinks: SinkTopic | None
    """Follows the reports of sinks. None where the option names no topic."""

    def stop(self) -> None:
        """Stop the tasks, then everything else."""
        self.herder.stop()
        if self.sinks is not None:
            self.sinks.stop()
        if self.registry is not None:
            self.registry.stop()


def assemble(
    worker: WorkerConfig,
    file: WorkerFile,
    *,
    task_program: TaskProgram,
    commit: str,
    on_fatal: Callable[[BaseException], None],
    check_database: DatabaseCheck | None = None,
    check_reachable: ReachableCheck | None = None,
    identity: Identity,
) -> Worker:
    """Build all objects of the herder's process.

    ``worker`` and ``file`` were checked before, so none of the objects can fail because of them.
    """
    settings = worker.settings
    consumer, producer, administration = (worker.client_settings(role) for role in ("consumer", "producer", "admin"))

    def make_log(topic: str, on_record: Callable[[LogRecord], None]) -> CompactedLog:
        return CompactedLog(
            topic=topic, consumer_settings=consumer, producer_settings=producer, admin_settings=administration, on_record=on_record
        )

    registry: RegistryStore | None = None
    if settings.boolean("dblog.registry.enable"):
        registry = RegistryStore(settings.text("dblog.registry.topic"), make_log)

    sink_view: SinkView | None = None
    sinks: SinkTopic | None = None
    if topic := settings.text(SINKS_TOPIC):
        sink_view = SinkView()
        sinks = SinkTopic(
            sink_view,
            lambda take: CompactedLog(
                topic=topic,
                consumer_settings=consumer,
                producer_settings=producer,
                admin_settings=administration,
                on_record=take,
                keeps=False,
            ),
            ensure=lambda: ensure_topics(
                admin_client(administration, FailuresHeard()),
                [_sinks_topic(settings, topic)],
                create=settings.boolean("internal.topics.automatic.creation.enable"),
            ),
        )

    def prepare(stopped: threading.Event) -> str:
        heard = FailuresHeard()
        cluster_id = wait_for_brokers(administration, heard, servers=",".join(settings.items_of("bootstrap.servers")), stopped=stopped)
        if not stopped.is_set():
            create = settings.boolean("internal.topics.automatic.creation.enable")
            ensure_topics(admin_client(administration, heard), internal_topics(settings), create=create)
            if registry is not None:
                registry.start()
            if sinks is not None:
                sinks.start()
        return cluster_id

    membership = Membership(
        group=settings.text("group.id"),
        topic=settings.text("config.storage.topic"),
        url=worker.advertised_url,
        consumer_settings=consumer,
        silence_s=settings.integer("session.timeout.ms") / 1000,
        heartbeat_s=settings.integer("heartbeat.interval.ms") / 1000,
        rebalance_s=settings.integer("rebalance.timeout.ms") / 1000,
        others=OtherGroups(
            group=settings.text("group.id"),
            topic=settings.text("config.storage.topic"),
            admin_settings=administration,
            consumer_settings=consumer,
        ),
        instance=take_instance(*settings.items_of("bootstrap.servers"), settings.text("group.id"), worker.advertised_url),
    )
    herder = Herder(
        worker,
        make_log=make_log,
        membership=membership,
        prepare=prepare,
        task_program=task_program,
        providers=file.providers,
        hidden=file.hidden,
        clock=SystemClock(),
        levels=TABLE,
        on_fatal=on_fatal,
        properties=file.texts,
        further_logs=() if registry is None else (registry.log,),
    )
    TAP.set(herder.journal.heard)
    validator = Validator(
        providers=file.providers,
        hidden=file.hidden,
        check_database=check_database,
        check_reachable=None if check_reachable is None else lambda asked, limit_s: check_reachable(asked, worker, limit_s),
        override_policy=override_policy(settings),
        allowed_hosts=settings.items_of("dblog.connector.allowed.hosts"),
        worker_topics=own_topics(settings),
    )
    started_s = time.time()
    page: Page | None = None
    recorder: Recorder | None = None
    if settings.boolean("dblog.ui.enable"):
        history = History()
        page = Page(history, version=commit.partition("-")[2], started_s=started_s)
        recorder = Recorder(history, herder.status_view)
    certificates = Certificates(settings.originals, herder.status_view, SystemClock(), providers=file.providers)
    services = Services(
        worker=worker,
        herder=herder,
        validator=validator,
        checks=Checks(),
        metrics=metrics_text(
            worker_numbers(herder, registry, certificates, commit=commit, started_s=started_s),
            naming_of(settings.text("dblog.metrics.names"), settings.text("dblog.metrics.jmx.case")),
        ),
        commit=commit,
        sinks=sink_view,
        sink_topic=sinks,
    )
    schemas = registry_routes(registry) if registry is not None else ()
    page_routes = page.routes() if page is not None else ()
    waiting, limits = Waiting(), Limits.of(settings)

    def app(part: Part) -> Starlette:
        return build_app(
            services, part=part, waiting=waiting, registry_routes=schemas, page_routes=page_routes, identity=identity, limits=limits
        )

    return Worker(
        herder=herder,
        app=app(Part.ALL),
        admin_app=app(Part.ADMIN),
        reading_app=app(Part.READING),
        own_app=app(Part.OWN),
        waiting=waiting,
        registry=registry,
        recorder=recorder,
        sinks=sinks,
    )


def internal_topics(settings: Settings) -> list[TopicWanted]:
    """Return the topics that the worker needs: Connect's three, the registry's, and the dump
    requests'.
    """

    def extra(kind: str) -> dict[str, str]:
        own = {"topic", "partitions", "replication.factor"}
        return {
            name: text for name, text in settings.with_prefix(f"{kind}.storage.").items() if name not in own and name != "cleanup.policy"
        }

    topics = [
        TopicWanted(
            name=settings.text(f"{kind}.storage.topic"),
            setting=f"{kind}.storage.topic",
            partitions=1 if kind == "config" else settings.integer(f"{kind}.storage.partitions"),
            partitions_exactly=1 if kind == "config" else None,
            replication_factor=settings.integer(f"{kind}.storage.replication.factor"),
            settings=extra(kind),
        )
        for kind in ("config", "offset", "status")
    ]
    if settings.boolean("dblog.registry.enable"):
        topics.append(
            TopicWanted(
                name=settings.text("dblog.registry.topic"),
                setting="dblog.registry.topic",
                partitions=1,
                partitions_exactly=1,
                replication_factor=_replication(settings, "dblog.registry.replication.factor"),
            )
        )
    if dumps := dumps_topic(settings):
        topics.append(
            TopicWanted(
                name=dumps,
                setting=DUMPS_TOPIC,
                partitions=1,
                replication_factor=_replication(settings, "dblog.dumps.storage.replication.factor"),
            )
        )
    return topics


def _sinks_topic(settings: Settings, topic: str) -> TopicWanted:
    """Return the topic of sinks' reports. The worker runs without it, so it is no internal topic."""
    factor = settings.integer("config.storage.replication.factor")
    return TopicWanted(name=topic, setting=SINKS_TOPIC, partitions=1, replication_factor=factor)


def _replication(settings: Settings, name: str) -> int:
    factor = settings[name]
    return factor if isinstance(factor, int) else settings.integer("config.storage.replication.factor")


def worker_numbers(
    herder: Herder, registry: RegistryStore | None, certificates: Certificates, *, commit: str, started_s: float
) -> Callable[[], WorkerNumbers]:
    """Return a function that collects the state of this worker for the metrics."""

    def now() -> WorkerNumbers:
        shown, role = herder.status_view.snapshot(), herder.role
        return WorkerNumbers(
            now_s=time.time(),
            connectors={name: state.value.lower() for name, state in shown.connectors.items()},
            tasks=tuple(_task_numbers(shown, task) for task in shown.tasks),
            startup_counts=herder.status_view.startup_counts(),
            records_skipped=herder.records_skipped(),
            registry_records_skipped=registry.skipped if registry is not None else 0,
            version=commit.partition("-")[2],
            commit=commit,
            started_s=started_s,
            ready=herder.ready.is_set(),
            leads=role.leads,
            leaderships=role.leaderships,
            rebalances=role.rebalances,
            leader=role.leader,
            generation=role.generation,
            configured=shown.configured,
            warnings=shown.warnings,
            plugins={name: _plugin_names(plugin) for name, plugin in shown.plugins.items() if plugin is not None},
            certificates=tuple((c.use, c.connector, c.name, c.ends_s) for c in certificates.all()),
            registry_requests=dict(registry.requests) if registry is not None else {},
        )

    return now


def _plugin_names(plugin: Plugin) -> PluginNames:
    return PluginNames(class_name=plugin.class_name, type=plugin.type, version=plugin.version or "unknown")


def _task_numbers(shown: Snapshot, task: TaskId) -> TaskNumbers:
    config = shown.task_classes[task]
    plugin = find_connector(config.get("connector.class"))
    return TaskNumbers(
        connector=task.connector,
        task=task.task,
        state=shown.tasks[task].value.lower(),
        plugin=plugin.flavor if plugin is not None else "unknown",
        server=config.get("topic.prefix", ""),
        kills=shown.kills[task],
        values=shown.metrics[task],
        reported_s=shown.reported_s[task],
        restarts=shown.restarts[task],
        failures=shown.failures[task],
    )

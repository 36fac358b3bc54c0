"""The state of the cluster, folded from the records of the config and status topics. Pure.

Workers that read the same records in the same order know the same state; that is how they agree.
The rules are Kafka Connect's (``KafkaConfigBackingStore``, ``KafkaStatusBackingStore``): task
configurations count only from their commit on, a commit with gaps makes the connector inconsistent,
and a late UNASSIGNED of an older generation does not hide a RUNNING.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dblog.cluster.records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    ConnectorStatusRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TargetRecord,
    TaskId,
    TaskRecord,
    TaskStatusRecord,
    TopicUse,
    TopicUseRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorView:
    """One connector as the config topic describes it."""

    name: str
    config: Mapping[str, str]
    target: Target
    tasks: tuple[Mapping[str, str], ...]
    consistent: bool


@dataclass(slots=True)
class ConfigState:
    """The fold of the config topic. Not thread-safe: its store protects it."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    task_counts: dict[str, int] = field(default_factory=dict)
    task_configs: dict[TaskId, dict[str, str]] = field(default_factory=dict)
    pending: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)
    inconsistent: set[str] = field(default_factory=set)

    def apply(self, record: ConfigRecord) -> None:
        """Apply one record."""
        match record:
            case ConnectorRecord(name, None):
                self._forget(name)
            case ConnectorRecord(name, properties) if properties is not None:
                self.configs[name] = properties
                self.targets.setdefault(name, Target.STARTED)
            case TargetRecord(name, None):
                self.targets.pop(name, None)
                if name in self.configs:
                    self.targets[name] = Target.STARTED
            case TargetRecord(name, target) if target is not None:
                self.targets[name] = target
            case TaskRecord(task, properties):
                self.pending.setdefault(task.connector, {})[task.task] = properties
            case CommitRecord(name, count):
                self._commit(name, count)
            case RestartRecord() | LoggerRecord():
                # Requests, not state: only a reader that sees one live acts on it.
                pass
            case FencingRecord() | SessionKeyRecord():
                # Records of JVM workers, known so that they are not reported as unreadable.
                pass

    def _commit(self, name: str, count: int) -> None:
        # Always emptied: the rest of an incomplete commit must not complete a later one.
        pending = self.pending.pop(name, {})
        if name not in self.configs:
            return
        if any(number not in pending for number in range(count)):
            self.inconsistent.add(name)
        else:
            self.inconsistent.discard(name)
            for number, properties in pending.items():
                self.task_configs[TaskId(name, number)] = properties
        self.task_counts[name] = count

    def _forget(self, name: str) -> None:
        self.configs.pop(name, None)
        self.targets.pop(name, None)
        self.task_counts.pop(name, None)
        self.pending.pop(name, None)
        self.inconsistent.discard(name)
        for task in [task for task in self.task_configs if task.connector == name]:
            del self.task_configs[task]

    def view(self, name: str) -> ConnectorView | None:
        """Return one connector, or None if it does not exist."""
        if name not in self.configs:
            return None
        consistent = name not in self.inconsistent
        count = self.task_counts.get(name, 0) if consistent else 0
        return ConnectorView(
            name=name,
            config=self.configs[name],
            target=self.targets.get(name, Target.STARTED),
            tasks=tuple(self.task_configs[TaskId(name, number)] for number in range(count)),
            consistent=consistent,
        )

    def views(self) -> dict[str, ConnectorView]:
        """Return all connectors by name."""
        return {name: view for name in self.configs if (view := self.view(name)) is not None}


@dataclass(slots=True)
class StatusState:
    """The fold of the status topic. Not thread-safe: its store protects it."""

    connectors: dict[str, Status] = field(default_factory=dict)
    tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    topics: dict[str, dict[str, TopicUse]] = field(default_factory=dict)

    def apply(self, record: StatusRecord) -> None:
        """Apply one record."""
        match record:
            case ConnectorStatusRecord(name, None):
                # Connect drops the tasks with their connector.
                self.connectors.pop(name, None)
                self.tasks.pop(name, None)
            case ConnectorStatusRecord(name, status) if status is not None:
                self.connectors[name] = status
            case TaskStatusRecord(task, None):
                self.tasks.get(task.connector, {}).pop(task.task, None)
            case TaskStatusRecord(task, status) if status is not None:
                known = self.tasks.get(task.connector, {}).get(task.task)
                if not is_stale(status, known):
                    self.tasks.setdefault(task.connector, {})[task.task] = status
            case TopicUseRecord(topic, connector, None):
                self.topics.get(connector, {}).pop(topic, None)
            case TopicUseRecord(topic, connector, use) if use is not None:
                self.topics.setdefault(connector, {})[topic] = use

    def generation_max(self) -> int:
        """Return the highest generation of any worker. A new leader starts above it."""
        generations = [status.generation for status in self.connectors.values()]
        generations += [status.generation for tasks in self.tasks.values() for status in tasks.values()]
        return max(generations, default=0)


def is_stale(status: Status, known: Status | None) -> bool:
    """Return True for an UNASSIGNED of a worker that lost the task to the one that runs it
    (KAFKA-12525).

    Records of one worker in one generation are in order, so its own UNASSIGNED after RUNNING is
    news, not stale.
    """
    if known is None or status.state is not State.UNASSIGNED or known.state is not State.RUNNING:
        return False
    if known.generation == status.generation:
        return known.worker_id != status.worker_id
    return known.generation > status.generation


def may_write(status: Status, known: Status | None) -> bool:
    """Return True if Connect's safe write allows the status.

    UNASSIGNED and FAILED must not replace the status of another worker of a newer generation.
    """
    if known is None or status.state not in (State.UNASSIGNED, State.FAILED):
        return True
    return known.worker_id == status.worker_id or known.generation <= status.generation

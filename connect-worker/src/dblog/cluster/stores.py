"""The three internal topics as views that never block a reader.

A store folds its topic in the log's thread and answers from memory under a short lock. A write
returns when it has been read back, so the writer sees its own change in the view, and so does every
later GET.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dblog.cluster.confighistory import ConfigHistory, ConfigVersion
from dblog.cluster.records import (
    ConfigRecord,
    ConnectorRecord,
    KeyValue,
    Status,
    StatusRecord,
    Target,
    TaskId,
    TopicUse,
    commit_record,
    connector_record,
    connector_status_record,
    offset_record,
    read_config_record,
    read_offset_key,
    read_offset_value,
    read_status_record,
    target_record,
    task_record,
    task_status_record,
    topic_use_record,
)
from dblog.cluster.state import ConfigState, ConnectorView, StatusState
from dblog.kafka.log import CompactedLog, LogRecord, UnreadableRecordError
from dblog.kafka.writer import Write
from dblog.model import OffsetMap

WRITE_LIMIT_S = 30.0
"""Connect's limit for reading back a write to the config topic."""

_UNREADABLE = "this version does not know its kind, or cannot read its value"

MakeLog = Callable[[str, Callable[[LogRecord], None]], CompactedLog]
"""Creates the log of a topic with the callback for its records."""


def start_logs(logs: Sequence[CompactedLog], *, limit_s: float) -> None:
    """Read all logs that are not open yet to their ends, in parallel.

    Raise the first failure when all are done.
    """
    failures: list[BaseException] = []

    def start(log: CompactedLog) -> None:
        try:
            log.start(limit_s=limit_s)
        except BaseException as e:  # noqa: BLE001  raised in the caller's thread
            failures.append(e)

    _side_by_side(start, [log for log in logs if not log.is_open])
    if failures:
        raise failures[0]


def stop_logs(logs: Sequence[CompactedLog]) -> None:
    """Stop the logs in parallel, because each waits for its own last poll."""
    _side_by_side(lambda log: log.stop(), logs)


def _side_by_side(work: Callable[[CompactedLog], None], logs: Sequence[CompactedLog]) -> None:
    threads = [threading.Thread(target=work, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class ConfigStore:
    """Configurations of connectors and tasks, and the states that users want."""

    def __init__(self, topic: str, make_log: MakeLog, *, on_change: Callable[[ConfigRecord], None]) -> None:
        self._lock = threading.Lock()
        self._state = ConfigState()
        self._history = ConfigHistory()
        self._on_change = on_change
        self.log = make_log(topic, self._take)

    def _take(self, record: LogRecord) -> None:
        known = read_config_record(record.key, record.value)
        with self._lock:
            if known is not None:
                self._state.apply(known)
            if isinstance(known, ConnectorRecord):
                self._history.note(known.name, known.properties, offset=record.offset, at_ms=record.at_ms)
        if known is None:
            raise UnreadableRecordError(_UNREADABLE)
        if record.live:
            self._on_change(known)

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        with self._lock:
            return list(self._state.configs)

    def view(self, name: str) -> ConnectorView | None:
        """Return one connector, or None."""
        with self._lock:
            return self._state.view(name)

    def connector_configs(self) -> dict[str, Mapping[str, str]]:
        """Return the configurations of all connectors without their tasks.

        Fast even for many connectors.
        """
        with self._lock:
            return dict(self._state.configs)

    def has(self, name: str) -> bool:
        """Return True if a connector exists. It takes no lock, so that a log line may ask."""
        return name in self._state.configs

    def versions(self, name: str) -> list[ConfigVersion]:
        """Return the configurations that a connector has had, newest first."""
        with self._lock:
            return self._history.of(name)

    def is_stopped(self, name: str) -> bool:
        """Return True if nothing of a connector should run: it is stopped or does not exist."""
        with self._lock:
            return self._state.targets.get(name, Target.STOPPED) is Target.STOPPED

    def views(self) -> dict[str, ConnectorView]:
        """Return a copy of all connectors with their configurations, targets and tasks."""
        with self._lock:
            return self._state.views()

    def write_connector(self, name: str, config: Mapping[str, str], *, target: Target | None) -> None:
        """Create or change a connector.

        A given target is written first, so that nobody starts what should be paused.
        """
        records = [] if target is None else [target_record(name, target)]
        with self._lock:
            stray = name not in self._state.configs and name in self._state.targets
        if stray and target is None:
            # Left by a worker that died between the two records of a create or a delete. A new
            # connector must not start paused.
            records = [target_record(name, None)]
        self.write([*records, connector_record(name, config)])

    def write_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write all task configurations of a connector, then their commit."""
        tasks = [task_record(TaskId(name, number), config) for number, config in enumerate(configs)]
        self.write([*tasks, commit_record(name, len(configs))])

    def write_target(self, name: str, target: Target) -> None:
        """Write the state that a user wants."""
        self.write([target_record(name, target)])

    def delete(self, name: str) -> None:
        """Write Connect's two tombstones. Everything else of the connector stays."""
        self.write([connector_record(name, None), target_record(name, None)])

    def write(self, records: Iterable[KeyValue]) -> None:
        """Write records in order. Return when they have been read back."""
        self.log.put_all([Write(key, value) for key, value in records], limit_s=WRITE_LIMIT_S)


class StatusStore:
    """Statuses of connectors and tasks, and the topics that they write to."""

    def __init__(self, topic: str, make_log: MakeLog, *, on_change: Callable[[StatusRecord], None]) -> None:
        self._lock = threading.Lock()
        self._state = StatusState()
        self._on_change = on_change
        self.log = make_log(topic, self._take)

    def _take(self, record: LogRecord) -> None:
        known = read_status_record(record.key, record.value)
        if known is None:
            raise UnreadableRecordError(_UNREADABLE)
        with self._lock:
            self._state.apply(known)
        if record.live:
            self._on_change(known)

    def connector(self, name: str) -> Status | None:
        """Return the newest status of a connector, or None."""
        with self._lock:
            return self._state.connectors.get(name)

    def task(self, task: TaskId) -> Status | None:
        """Return the newest status of a task, or None."""
        with self._lock:
            return self._state.tasks.get(task.connector, {}).get(task.task)

    def tasks(self, name: str) -> dict[int, Status]:
        """Return the statuses of all tasks of a connector, by number."""
        with self._lock:
            return dict(sorted(self._state.tasks.get(name, {}).items()))

    def known(self) -> dict[str, set[int]]:
        """Return the connectors with a status, each with the numbers of its tasks that have one."""
        with self._lock:
            names = set(self._state.connectors) | {name for name, tasks in self._state.tasks.items() if tasks}
            return {name: set(self._state.tasks.get(name, {})) for name in names}

    def topics(self, name: str) -> list[str]:
        """Return the topics that a connector has written to, in the order they were first seen."""
        with self._lock:
            uses = self._state.topics.get(name, {})
            return [use.topic for use in sorted(uses.values(), key=lambda use: (use.discovered_ms, use.topic))]

    def generation_max(self) -> int:
        """Return the highest generation in the topic."""
        with self._lock:
            return self._state.generation_max()

    def write_connector(self, name: str, status: Status | None) -> None:
        """Write a status without waiting. None removes it."""
        self.log.put_later(*connector_status_record(name, status))

    def write_task(self, task: TaskId, status: Status | None) -> None:
        """Write a status without waiting. None removes it."""
        self.log.put_later(*task_status_record(task, status))

    def note_topic(self, use: TopicUse) -> None:
        """Record that a connector writes to a topic, once and without waiting."""
        with self._lock:
            if use.topic in self._state.topics.get(use.connector, {}):
                return
        self.log.put_later(*topic_use_record(use.topic, use.connector, use))

    def topic_users(self) -> list[str]:
        """Return the connectors with recorded topics."""
        with self._lock:
            return [name for name, topics in self._state.topics.items() if topics]

    def drop_topics(self, name: str) -> None:
        """Remove all recorded topics of a connector, without waiting."""
        with self._lock:
            topics = list(self._state.topics.get(name, {}))
        for topic in topics:
            self.log.put_later(*topic_use_record(topic, name, None))

    def forget_topics(self, name: str, *, limit_s: float) -> None:
        """Remove all recorded topics of a connector. Return when that has been read back."""
        with self._lock:
            topics = list(self._state.topics.get(name, {}))
        if topics:
            records = [topic_use_record(topic, name, None) for topic in topics]
            self.log.put_all([Write(key, value) for key, value in records], limit_s=limit_s)


class OffsetStore:
    """Source offsets of all connectors, by connector and source partition."""

    def __init__(self, topic: str, make_log: MakeLog) -> None:
        self._lock = threading.Lock()
        self._offsets: dict[str, dict[bytes, tuple[dict[str, Any], dict[str, Any]]]] = {}
        self.log = make_log(topic, self._take)

    def _take(self, record: LogRecord) -> None:
        known = read_offset_key(record.key)
        value = None if record.value is None else read_offset_value(record.value)
        if known is None or record.key is None or (record.value is not None and value is None):
            raise UnreadableRecordError(_UNREADABLE)
        name, partition = known
        with self._lock:
            if value is None:
                self._offsets.get(name, {}).pop(record.key, None)
            else:
                self._offsets.setdefault(name, {})[record.key] = (partition, value)

    def of(self, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the pairs of partition and offset of a connector, in the order of their keys."""
        with self._lock:
            return [entry for _, entry in sorted(self._offsets.get(name, {}).items(), key=lambda item: item[0])]

    def refresh(self, *, limit_s: float) -> None:
        """Read to the end: a task that starts must see what the last run stored."""
        self.log.read_to_end(limit_s=limit_s)

    def write(self, name: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]], *, limit_s: float) -> None:
        """Set offsets, or remove them (None). Return when the changes are in the view."""
        records = [offset_record(name, partition, offset) for partition, offset in changes]
        self.log.put_all([Write(key, value) for key, value in records], limit_s=limit_s)

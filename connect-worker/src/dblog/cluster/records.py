"""The records of Kafka Connect's three internal topics, to and from bytes.

They have Connect 4's format, byte for byte (KafkaConfigBackingStore, KafkaStatusBackingStore,
OffsetStorageWriter), except for one more field of a status, which Connect ignores. Values are JSON
without schemas and keys are UTF-8 text. Offset keys are a compact JSON array whose bytes identify
the partition. Readers skip what they do not understand, and what could not be written again,
because these topics outlive versions and have other writers. No record makes a reader raise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from dblog.model import OffsetMap

TaskProperties = Mapping[str, str]

TASKS_MAX = 10_000
"""Tasks of one connector."""
NUMBER_MAX = (1 << 53) - 1
"""Largest generation and time: an integer that every reader of JSON can hold."""


class Target(StrEnum):
    """The state that a user wants for a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(StrEnum):
    """The actual state of a connector or task."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A connector's task. Connect writes it ``name-number``."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def fields(self) -> dict[str, str | int]:
        """Fields that identify the task in log lines, the same as in the task's own lines."""
        return {"connector": self.connector, "task": self.task}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The newest status of a connector or task, written by the worker that runs it."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    run: str = ""
    """Identity of the worker's run, because two workers may advertise one address. Empty in records
    of Connect and of older versions.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """A topic that a connector has written to."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


# The kinds of records in the config topic.


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """``connector-<name>``: a connector's configuration, or None if it was deleted."""

    name: str
    properties: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """``task-<name>-<i>``: a task's configuration, which applies only after its commit."""

    id: TaskId
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """``commit-<name>``: the task records before it are complete."""

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """``target-state-<name>``: the wanted state, or None for a tombstone."""

    name: str
    target: Target | None


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """``restart-connector-<name>``: a restart request."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class FencingRecord:
    """``tasks-fencing-<name>``: the number of producers that the last fencing round covered."""

    name: str
    task_count: int


@dataclass(frozen=True, slots=True)
class SessionKeyRecord:
    """``session-key``: the key that signs internal calls."""

    key: str
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """``logger-cluster-<namespace>``: a log level for all workers."""

    namespace: str
    level: str


ConfigRecord = ConnectorRecord | TaskRecord | CommitRecord | TargetRecord | RestartRecord | FencingRecord | SessionKeyRecord | LoggerRecord

KeyValue = tuple[bytes, bytes | None]

_TASK_DIGITS_MAX = 4
"""Digits of a task's number, which is below ``TASKS_MAX``."""

_CONNECTOR, _TASK, _COMMIT, _TARGET = "connector-", "task-", "commit-", "target-state-"
_RESTART, _FENCING, _SESSION_KEY, _LOGGER = "restart-connector-", "tasks-fencing-", "session-key", "logger-cluster-"
_RUN = "dblog.run"
_STATUS_CONNECTOR, _STATUS_TASK, _STATUS_TOPIC = "status-connector-", "status-task-", "status-topic-"


def compact_json(value: object) -> bytes:
    """Return JSON as Connect's converter writes it: without blanks and unnecessary escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def connector_record(name: str, properties: Mapping[str, str] | None) -> KeyValue:
    """Return the record of a connector's configuration, or its tombstone."""
    return f"{_CONNECTOR}{name}".encode(), None if properties is None else compact_json({"properties": dict(properties)})


def task_record(task: TaskId, properties: TaskProperties) -> KeyValue:
    """Return the record of one task's configuration."""
    return f"{_TASK}{task}".encode(), compact_json({"properties": dict(properties)})


def commit_record(name: str, tasks: int) -> KeyValue:
    """Return the record that commits a set of task configurations."""
    return f"{_COMMIT}{name}".encode(), compact_json({"tasks": tasks})


def target_record(name: str, target: Target | None) -> KeyValue:
    """Return the record of a connector's wanted state, or its tombstone.

    ``state`` is for old workers, which do not know STOPPED; ``state.v2`` is for all others.
    """
    key = f"{_TARGET}{name}".encode()
    if target is None:
        return key, None
    old = Target.PAUSED if target is Target.STOPPED else target
    return key, compact_json({"state": old.value, "state.v2": target.value})


def restart_record(name: str, *, include_tasks: bool, only_failed: bool) -> KeyValue:
    """Return a restart request. Every worker acts on its own share of it."""
    return f"{_RESTART}{name}".encode(), compact_json({"include-tasks": include_tasks, "only-failed": only_failed})


def logger_record(namespace: str, level: str) -> KeyValue:
    """Return the record of a log level for all workers."""
    return f"{_LOGGER}{namespace}".encode(), compact_json({"level": level})


def read_config_record(key: bytes | None, value: bytes | None) -> ConfigRecord | None:
    """Parse a record of the config topic.

    Return None if it cannot be read or is of an unknown kind.
    """
    text = _text(key)
    body = _map(value)
    if text is None or (value is not None and body is None):
        return None
    if text.startswith(_TARGET):
        return _read_target(text.removeprefix(_TARGET), body)
    if text.startswith(_CONNECTOR):
        name = text.removeprefix(_CONNECTOR)
        if body is None:
            return ConnectorRecord(name, None)
        properties = _properties(body)
        return None if properties is None else ConnectorRecord(name, properties)
    if body is None:
        return None
    if text.startswith(_FENCING):
        count = body.get("task-count")
        return FencingRecord(text.removeprefix(_FENCING), count) if _is_count(count) else None
    if text.startswith(_TASK):
        task, properties = _task_id(text.removeprefix(_TASK)), _properties(body)
        return None if task is None or properties is None else TaskRecord(task, properties)
    if text.startswith(_COMMIT):
        count = body.get("tasks")
        return CommitRecord(text.removeprefix(_COMMIT), count) if _is_count(count) else None
    if text.startswith(_RESTART):
        return RestartRecord(text.removeprefix(_RESTART), body.get("include-tasks") is True, body.get("only-failed") is True)
    return _read_cluster_record(text, body)


def _read_cluster_record(text: str, body: Mapping[str, Any]) -> SessionKeyRecord | LoggerRecord | None:
    if text == _SESSION_KEY:
        match body:
            case {"key": str(secret), "algorithm": str(algorithm), "creation-timestamp": int(created_ms)} if _is_number(created_ms):
                return SessionKeyRecord(secret, algorithm, created_ms)
    if text.startswith(_LOGGER) and isinstance(level := body.get("level"), str):
        return LoggerRecord(text.removeprefix(_LOGGER), level)
    return None


def _read_target(name: str, body: Mapping[str, Any] | None) -> TargetRecord | None:
    if body is None:
        return TargetRecord(name, None)
    for field in ("state.v2", "state"):
        if isinstance(text := body.get(field), str) and text in Target.__members__:
            return TargetRecord(name, Target(text))
    return None


# Status topic.


def connector_status_record(name: str, status: Status | None) -> KeyValue:
    """Return the record of a connector's status, or its tombstone."""
    return f"{_STATUS_CONNECTOR}{name}".encode(), None if status is None else _status_value(status)


def task_status_record(task: TaskId, status: Status | None) -> KeyValue:
    """Return the record of a task's status, or its tombstone."""
    return f"{_STATUS_TASK}{task}".encode(), None if status is None else _status_value(status)


def topic_use_record(topic: str, connector: str, use: TopicUse | None) -> KeyValue:
    """Return the record of a used topic, or its tombstone."""
    key = f"{_STATUS_TOPIC}{topic}:{_CONNECTOR}{connector}".encode()
    if use is None:
        return key, None
    inner = {"name": use.topic, "connector": use.connector, "task": use.task, "discoverTimestamp": use.discovered_ms}
    return key, compact_json({"topic": inner})


def _status_value(status: Status) -> bytes:
    return compact_json(
        {
            "state": status.state.value,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
            **({_RUN: status.run} if status.run else {}),
        }
    )


@dataclass(frozen=True, slots=True)
class ConnectorStatusRecord:
    """``status-connector-<name>``: a connector's status, or None for a tombstone."""

    name: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusRecord:
    """``status-task-<name>-<i>``: a task's status, or None for a tombstone."""

    id: TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicUseRecord:
    """``status-topic-<topic>:connector-<name>``: a used topic, or None for a tombstone."""

    topic: str
    connector: str
    use: TopicUse | None


StatusRecord = ConnectorStatusRecord | TaskStatusRecord | TopicUseRecord


def read_status_record(key: bytes | None, value: bytes | None) -> StatusRecord | None:
    """Parse a record of the status topic.

    Return None if it cannot be read or is of an unknown kind.
    """
    text = _text(key)
    body = _map(value)
    if text is None or (value is not None and body is None):
        return None
    if text.startswith(_STATUS_TOPIC):
        topic, colon, rest = text.removeprefix(_STATUS_TOPIC).partition(":")
        if not topic or not colon or not rest.startswith(_CONNECTOR):
            return None
        connector = rest.removeprefix(_CONNECTOR)
        if body is None:
            return TopicUseRecord(topic, connector, None)
        match body.get("topic"):
            case {"name": str(name), "connector": str(owner), "task": int(task), "discoverTimestamp": int(at_ms)} if _is_count(
                task
            ) and _is_number(at_ms):
                return TopicUseRecord(topic, connector, TopicUse(topic=name, connector=owner, task=task, discovered_ms=at_ms))
        return None
    status = None if body is None else _read_status(body)
    if body is not None and status is None:
        return None
    if text.startswith(_STATUS_TASK):
        task_id = _task_id(text.removeprefix(_STATUS_TASK))
        return None if task_id is None else TaskStatusRecord(task_id, status)
    if text.startswith(_STATUS_CONNECTOR) and len(text) > len(_STATUS_CONNECTOR):
        return ConnectorStatusRecord(text.removeprefix(_STATUS_CONNECTOR), status)
    return None


def _read_status(body: Mapping[str, Any]) -> Status | None:
    match body:
        case {"state": str(state), "worker_id": str(worker_id), "generation": int(generation)} if state in State.__members__ and _is_number(
            generation
        ):
            trace, version, run = body.get("trace"), body.get("version"), body.get(_RUN)
            return Status(
                state=State(state),
                worker_id=worker_id,
                generation=generation,
                trace=trace if isinstance(trace, str) else None,
                version=version if isinstance(version, str) else None,
                run=run if isinstance(run, str) else "",
            )
    return None


# Offset topic.


def offset_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    """Return the key of one source partition.

    Its bytes are its identity, so the map's order is kept.
    """
    return compact_json([connector, dict(partition)])


def offset_record(connector: str, partition: Mapping[str, Any], offset: OffsetMap | None) -> KeyValue:
    """Return the record of an offset, or its tombstone."""
    return offset_key(connector, partition), None if offset is None else compact_json(dict(offset))


def read_offset_key(key: bytes | None) -> tuple[str, dict[str, Any]] | None:
    """Return connector name and source partition, or None for a key that is not Connect's."""
    match _json(key):
        case [str(name), dict(partition)] if _is_flat(partition):
            return name, partition
    return None


def read_offset_value(value: bytes) -> dict[str, Any] | None:
    """Return the offset map, or None if it is not one. As in Connect its values are not nested."""
    offset = _map(value)
    return offset if offset is not None and _is_flat(offset) else None


def _text(key: bytes | None) -> str | None:
    if key is None:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _map(value: bytes | None) -> dict[str, Any] | None:
    loaded = _json(value)
    return loaded if isinstance(loaded, dict) else None


def _json(data: bytes | None) -> Any:
    """Return the JSON value.

    None for no JSON, for too many levels, and for text that is not Unicode.
    """
    if data is None:
        return None
    try:
        loaded = json.loads(data)
        if b"\\u" in data or not data.isascii():
            # Raises for half of a surrogate pair, written with \u or as three bytes that Python's
            # parser accepts. No answer and no record could hold it.
            json.dumps(loaded, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return loaded


def _is_flat(values: Mapping[str, Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values.values())


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= NUMBER_MAX


def _is_count(value: object) -> TypeGuard[int]:
    return _is_number(value) and 0 <= value <= TASKS_MAX


def _properties(body: Mapping[str, Any]) -> dict[str, str] | None:
    properties = body.get("properties")
    if not isinstance(properties, dict):
        return None
    return {str(name): text for name, text in properties.items() if isinstance(text, str)}


def _task_id(text: str) -> TaskId | None:
    name, dash, number = text.rpartition("-")
    if not dash or not name or not number.isascii() or not number.isdigit() or len(number) > _TASK_DIGITS_MAX:
        return None
    return TaskId(name, int(number))

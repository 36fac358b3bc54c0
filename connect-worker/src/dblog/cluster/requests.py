"""The REST interface's requests to the herder, as values, and their refusals.

The herder's own thread carries out one request at a time, in order; the answer comes back through a
future. Whatever may be slow because of other systems (checking a configuration against a database)
happens before, outside that thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from dblog.cluster.records import Target, TaskId
from dblog.core.dumprequests import DumpRequest, Wanted
from dblog.core.signals import Signal
from dblog.errors import DblogError
from dblog.model import OffsetMap


class RequestError(DblogError):
    """A refused request. Status and text are Connect's, and go to the client unchanged.

    ``retry_after_s`` is the time after which another try may succeed, or None.
    """

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        self.status = HTTPStatus(status)
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(message)


def not_found(message: str) -> RequestError:
    """Return a 404."""
    return RequestError(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> RequestError:
    """Return a 400."""
    return RequestError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> RequestError:
    """Return a 409. Clients try again."""
    return RequestError(HTTPStatus.CONFLICT, message)


def not_offered(message: str) -> RequestError:
    """Return a 501: this worker never does it, so clients need not try again."""
    return RequestError(HTTPStatus.NOT_IMPLEMENTED, message)


STALE = "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Request to create or change a connector whose configuration has been validated.

    ``only_new`` answers 409 if the connector exists. ``expected`` is the configuration that must
    still be stored (PATCH).
    """

    name: str
    config: Mapping[str, str]
    only_new: bool = False
    target: Target | None = None
    expected: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Request to remove a connector. Its offsets stay."""

    name: str


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Request to pause, resume or stop a connector."""

    name: str
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartConnector:
    """Request to restart the connector and the tasks that the flags add."""

    name: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class RestartTask:
    """Request to restart one task."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Request to set offsets of a stopped connector, or to remove them (None)."""

    name: str
    changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Request to remove all offsets of a stopped connector."""

    name: str


@dataclass(frozen=True, slots=True)
class ResetTopics:
    """Request to forget which topics a connector has written to."""

    name: str


@dataclass(frozen=True, slots=True)
class CheckDump:
    """Request to let the connector's task check a dump. The answer is a future of its tables."""

    request: DumpRequest


@dataclass(frozen=True, slots=True)
class StartDump:
    """Request to store a checked dump request, which passes it to the task."""

    request: DumpRequest


@dataclass(frozen=True, slots=True)
class ChangeDump:
    """Request to change the parameters of a dump. The body has their new values."""

    name: str
    dump: str
    body: object


@dataclass(frozen=True, slots=True)
class FindTable:
    """Request to let the connector's task find a table that a dump's status does not show.

    The answer is a future of the matching names, or None if no task needs to be asked or can be.
    """

    name: str
    dump: str
    table: str


@dataclass(frozen=True, slots=True)
class SetDump:
    """Request to pause, resume or stop a dump, or one of its tables.

    ``found`` are the names that ``FindTable`` has found, or None if it was not asked.
    """

    name: str
    dump: str
    wanted: Wanted
    table: str | None = None
    found: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Request to send a signal to the connector's task."""

    name: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class SetClusterLevel:
    """Request to set a logger's level on every worker."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class Ping:
    """A request without effect, answered when the herder's thread is free."""


Request = (
    PutConnector
    | DeleteConnector
    | SetTarget
    | RestartConnector
    | RestartTask
    | AlterOffsets
    | ResetOffsets
    | ResetTopics
    | CheckDump
    | StartDump
    | ChangeDump
    | FindTable
    | SetDump
    | SendSignal
    | SetClusterLevel
    | Ping
)

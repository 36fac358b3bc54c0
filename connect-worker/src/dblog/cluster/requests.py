"""What the REST interface asks of the herder, as values, and how it is refused.

Each request is carried out by the herder's own thread, one at a time and in order; its answer comes back through a future. Whatever can be
slow for reasons of others (checking a configuration against a database) is done before, outside that thread.
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
    """A request that is refused; status and text are Connect's, and go to the client as they are. ``retry_after_s``: when another try may do."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        self.status = HTTPStatus(status)
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(message)


def not_found(message: str) -> RequestError:
    """404."""
    return RequestError(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> RequestError:
    """400."""
    return RequestError(HTTPStatus.BAD_REQUEST, message)


def conflict(message: str) -> RequestError:
    """409; clients try again."""
    return RequestError(HTTPStatus.CONFLICT, message)


def not_offered(message: str) -> RequestError:
    """501: this worker never does it, so nobody need try again."""
    return RequestError(HTTPStatus.NOT_IMPLEMENTED, message)


STALE = "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Create or change a connector whose configuration has been validated.

    ``only_new``: an existing one is a 409. ``expected``: refuse if the stored configuration is no longer this one (PATCH).
    """

    name: str
    config: Mapping[str, str]
    only_new: bool = False
    target: Target | None = None
    expected: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Remove a connector; its offsets stay."""

    name: str


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Pause, resume or stop."""

    name: str
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartConnector:
    """Restart the connector, and what the flags add."""

    name: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class RestartTask:
    """Restart one task."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Set or (None) remove offsets of a stopped connector."""

    name: str
    changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Remove all offsets of a stopped connector."""

    name: str


@dataclass(frozen=True, slots=True)
class ResetTopics:
    """Forget which topics a connector has written to."""

    name: str


@dataclass(frozen=True, slots=True)
class CheckDump:
    """Have the connector's task check a request for a dump; the answer is a future of the tables that it would dump."""

    request: DumpRequest


@dataclass(frozen=True, slots=True)
class StartDump:
    """Store a request for a dump that has been checked, and tell the task."""

    request: DumpRequest


@dataclass(frozen=True, slots=True)
class ChangeDump:
    """Change how a dump runs; the body has the fields and their new values."""

    name: str
    dump: str
    body: object


@dataclass(frozen=True, slots=True)
class FindTable:
    """Have the connector's task find a table of a dump whose status does not show all of them; the answer is a future of the names that are like this one,
    or None where nobody need or can be asked.
    """

    name: str
    dump: str
    table: str


@dataclass(frozen=True, slots=True)
class SetDump:
    """Pause, resume or stop a dump, or one table of it. ``found``: the names that ``FindTable`` has found; None where it was not asked."""

    name: str
    dump: str
    wanted: Wanted
    table: str | None = None
    found: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Hand a signal to the connector's task."""

    name: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class SetClusterLevel:
    """Set a logger's level on every worker."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Nothing: answered when the herder's thread is free."""


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

"""The herder's current or last operation, for the message of a request that timed out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dblog.cluster.requests import (
    AlterOffsets,
    ChangeDump,
    CheckDump,
    DeleteConnector,
    FindTable,
    Ping,
    PutConnector,
    Request,
    ResetOffsets,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SendSignal,
    SetClusterLevel,
    SetDump,
    SetTarget,
    StartDump,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One operation with its start and end in microseconds."""

    what: str
    began_us: int
    ended_us: int | None = None

    def __str__(self) -> str:
        if self.ended_us is None:
            return f"The worker is currently {self.what}, which began at {_iso(self.began_us)}"
        times = f"which began at {_iso(self.began_us)} and completed at {_iso(self.ended_us)}"
        return f"The last operation the worker completed was {self.what}, {times}"


def describe(request: Request) -> str:
    """Return a request's description, in the words of Connect's stages."""
    match request:
        case PutConnector(name=name):
            return f"writing the configuration of connector {name}"
        case DeleteConnector(name):
            return f"removing connector {name}"
        case SetTarget(name, target):
            return f"setting the target state of connector {name} to {target.value}"
        case RestartConnector(name=name):
            return f"restarting connector {name}"
        case RestartTask(task):
            return f"restarting task {task}"
        case AlterOffsets(name) | ResetOffsets(name):
            return f"changing the offsets of connector {name}"
        case ResetTopics(name):
            return f"resetting the topics of connector {name}"
        case CheckDump(asked):
            return f"having a dump of connector {asked.connector} checked"
        case StartDump(asked):
            return f"storing the request of a dump of connector {asked.connector}"
        case FindTable(name, dump):
            return f"having a table of the dump {dump} of connector {name} found"
        case ChangeDump(name, dump) | SetDump(name, dump):
            return f"changing the dump {dump} of connector {name}"
        case SendSignal(name):
            return f"handing a signal to the task of connector {name}"
        case SetClusterLevel(namespace):
            return f"setting the level of logger {namespace}"
        case Ping():
            return "performing a health check"


def _iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat().replace("+00:00", "Z")

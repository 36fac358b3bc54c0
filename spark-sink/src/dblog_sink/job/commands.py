"""Passes commands to the job as files in a folder of its state; each is carried out once.

``dblog-sink park TABLE``, ``resume TABLE``, ``replay [TABLE]`` and ``maintain [TABLE]`` write such
a file. The job looks for them at its start and between batches. So the same commands work on a
laptop and on a cluster, and only the running job writes its tables.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass

from dblog_sink.state.files import Folder

VERBS = ("park", "resume", "replay", "maintain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command. ``table`` is ``db.table`` or a topic, None for all."""

    verb: str
    table: str | None = None
    reason: str | None = None
    """Reason of a park. For a replay, a text that the reasons of the replayed records contain."""
    version: int | None = None
    """Version of the quarantine that a replay takes; None until it begins."""


def ask(folder: Folder, command: Command) -> str:
    """Leave a command for the job, and return the name of its file."""
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    folder.replace(name, json.dumps(asdict(command)))
    return name


def begun(folder: Folder, name: str, command: Command) -> None:
    """Store a command's decisions before it does anything that a crash could interrupt."""
    folder.replace(name, json.dumps(asdict(command)))


def waiting(folder: Folder) -> list[tuple[str, Command | None]]:
    """Return the commands to carry out, oldest first; None for a file that is not a command."""
    found: list[tuple[str, Command | None]] = []
    for name in folder.names():
        if not name.endswith(".json"):
            continue
        text = folder.read(name)
        if text is None:
            continue
        try:
            command = Command(**json.loads(text))
        except (ValueError, TypeError):
            found.append((name, None))
        else:
            found.append((name, command if command.verb in VERBS else None))
    return found

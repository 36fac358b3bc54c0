"""What a person asks of a sink that runs, or will run: files in a folder of its state, each done once, between two batches.

``dblog-sink park TABLE``, ``resume TABLE``, ``replay [TABLE]``, ``maintain [TABLE]`` write such a file; the job looks for them while it runs and when it
starts. So the same commands work on a laptop and on a cluster, and nobody but the running job ever writes its tables.
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
    """One command. ``table`` is ``db.table`` or a topic; None: all."""

    verb: str
    table: str | None = None
    reason: str | None = None
    """Of a park; of a replay: only records whose reason contains this."""
    version: int | None = None
    """Of a replay that has begun: the quarantine's version that it takes."""


def ask(folder: Folder, command: Command) -> str:
    """Leave a command for the job; returns the name of its file."""
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    folder.replace(name, json.dumps(asdict(command)))
    return name


def begun(folder: Folder, name: str, command: Command) -> None:
    """Keep what a command has decided before it does anything that a crash could interrupt."""
    folder.replace(name, json.dumps(asdict(command)))


def waiting(folder: Folder) -> list[tuple[str, Command | None]]:
    """What is to be done, oldest first; None for a file that is no command."""
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

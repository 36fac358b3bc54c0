"""Binds a checkpoint to its configuration: recorded at the first start, compared at later ones.

A checkpoint is a set of offsets of certain topics on a certain Kafka, applied to certain tables.
With another configuration it would be read without complaint, and rows would be missing or come
twice. So a difference stops the job before it begins, and the message names the remedy. Topics
added to a list are read from their beginning. Spark itself would refuse a removed topic, but only
after its records are lost, so it is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dblog_sink.config.job_options import Settings, listed
from dblog_sink.errors import DefiniteError
from dblog_sink.state.files import Folder

FILE = "dblog.json"
_BASE = "{base}"
_SLASHES = re.compile("/+")


def described(settings: Settings, cluster_id: str) -> dict[str, Any]:
    """Return the parts of the configuration on which the checkpoint depends.

    The lake may be moved as a whole, so the path of the state is relative to its base.
    """
    topics = sorted(listed(settings["topics"])) if settings["topics"] is not None else None
    return {
        "name": settings["name"],
        "state": _place(settings.state_path, settings.base_path),
        "cluster": cluster_id,
        "topics": topics,
        "pattern": settings["topics.pattern"],
        "position": settings["position"],
    }


def _place(path: str, base: str) -> str:
    """Return a path in one spelling, relative to ``{base}`` if it lies below the base.

    A folder has the same spelling with and without ``file:`` and a trailing slash. A path recorded by
    an older sink may begin with ``{base}`` only because its text began with that of the base.
    """
    base = _plain(base)
    path = _plain(base + path.removeprefix(_BASE) if path.startswith(_BASE) else path)
    return _BASE + path.removeprefix(base) if f"{path}/".startswith(f"{base}/") else path


def _plain(path: str) -> str:
    """Return a path without redundant slashes, and a local one without its scheme."""
    scheme, divider, rest = path.partition("://")
    if not divider:
        scheme, rest = "", path.removeprefix("file:")
    elif scheme == "file":
        scheme, rest = "", rest.removeprefix("localhost")
    rest = _SLASHES.sub("/", rest).rstrip("/")
    return f"{scheme}://{rest}" if scheme else rest


def differences(kept: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return each difference that forbids using the checkpoint, as text."""
    found = []
    if kept["name"] != given["name"]:
        found.append(f"it belongs to the pipeline {kept['name']}, and name is {given['name']}")
    if kept["cluster"] and given["cluster"] and kept["cluster"] != given["cluster"]:
        found.append(
            f"its offsets are those of the Kafka cluster {kept['cluster']}, and kafka.bootstrap.servers leads to {given['cluster']}"
        )
    if kept["state"] != given["state"]:
        found.append(f"its tables' state is in {kept['state']}, and the configuration has {given['state']}")
    if kept["position"] != given["position"]:
        found.append(f"its rows are ordered by position={kept['position']}, and the configuration has {given['position']}")
    if kept["topics"] and given["topics"] and (missing := sorted(set(kept["topics"]) - set(given["topics"]))):
        found.append(f"it has read {', '.join(missing)}, and topics does not name them any more")
    return found


def check(folder: Folder, settings: Settings, cluster_id: str) -> None:
    """Raise DefiniteError if the checkpoint is of another configuration, else record this one."""
    given = described(settings, cluster_id)
    text = folder.read(FILE)
    if text is not None:
        kept = json.loads(text)
        kept["state"] = _place(kept["state"], settings.base_path)
        if found := differences(kept, given):
            read_again = "everything is then read again from Kafka's beginning, and the tables come out the same"
            if kept["cluster"] and given["cluster"] and kept["cluster"] != given["cluster"]:
                read_again = (
                    "its topics are then read from their beginning, and a table of which they have less than was read before is parked, "
                    "to be dumped again"
                )
            msg = (
                f"the checkpoint {settings.checkpoint_path} is of another configuration: {'; '.join(found)}. Set these back, or give this pipeline a "
                f"name or a checkpoint.path of its own: {read_again}"
            )
            raise DefiniteError(msg)
        given["cluster"] = given["cluster"] or kept["cluster"]  # brokers that do not answer change nothing
    if text is None or json.loads(text) != given:
        folder.replace(FILE, json.dumps(given))

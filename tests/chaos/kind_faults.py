"""The faults of kinds of trouble: servers that lack what was read, a standby that is promoted, a dump that rows move in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.handover import handover
from chaos.kinds import KIND_SESSION
from chaos.plan import DDL_SESSION, Plan
from chaos.sources import drawing_of
from stack.process import wait_until

if TYPE_CHECKING:
    from chaos.run import Run

GAP_S = 2.0
"""How long is written what the next server lacks."""
STORED_S = 2.5
"""After so long the worker has stored the offset of what it has sent (``offset.flush.interval.ms``)."""
OFFSET_S = 180.0
"""A task whose offsets are not stored starts again after a minute."""


def needs_servers(plan: Plan) -> bool:
    """Whether a kind of the plan needs a primary and a replica of its own."""
    kinds = drawing_of(plan.flavor).kinds
    return any(kinds[name].servers for name in plan.kinds)


def lacking(run: Run) -> None:
    """Go over to a server that lacks the last transactions that were read, and has written others by then.

    DDL waits until the server is there: the plan goes on as if it had all of it.
    """
    with run.held(DDL_SESSION, KIND_SESSION):
        run.database.part()
        time.sleep(GAP_S)  # how long the gap is
        with run.held(*range(DDL_SESSION + 1, KIND_SESSION)):
            run.caught_up(run.connector)
            time.sleep(STORED_S)  # nothing outside shows that an offset is stored
            run.rest("PUT", f"/connectors/{run.connector}/stop")
            run.database.fail_over_parted()
    time.sleep(2 * GAP_S)  # how long the server writes on
    run.edit()
    run.rest("PUT", f"/connectors/{run.connector}/resume")


def behind(run: Run) -> None:
    """Read on at a replica that gets later what was read, and then make it the primary."""
    with run.held(DDL_SESSION, KIND_SESSION):
        run.database.part()
        time.sleep(GAP_S)  # how long the replica is behind
        with run.held(*range(DDL_SESSION + 1, KIND_SESSION)):
            run.caught_up(run.connector)
            time.sleep(STORED_S)  # nothing outside shows that an offset is stored
            run.database.read_replica()
            run.edit()
            time.sleep(GAP_S)  # how long the connector waits for the replica
            run.database.join()
            run.caught_up(run.connector)


def promotion(run: Run) -> None:
    """Promote the standby that is read, once it has all that the sessions were told."""
    with run.held():
        run.database.promote()
    time.sleep(STORED_S)  # how long the connection that outlives it brings rows
    # The next start is to know the server, whether this run has noticed the promotion or not.
    run.servers.worker.kill_task()


def large_left_out(run: Run) -> None:
    """Dump a table whose rows move meanwhile, and whose large values no change of it has."""
    name = f"{run.database.name}.y_large"
    body = {"tables": [name.replace(".", r"\.")], "chunk_rows": 5, "delay_ms": 20, **run.database.moving}
    run.rest("POST", f"/connectors/{run.connector}/dumps", json=body)


def stalled(run: Run) -> None:
    """Have the producers that the task has now stand still: see ``standing/sitecustomize.py``."""
    Path(run.servers.worker.env["CHAOS_STANDS_STILL"]).touch()


def wait_for_offset(run: Run) -> None:
    """Wait until the worker stores an offset that is newer than what has been read by now; what is written again with it is read, too."""

    def offset() -> str:
        return json.dumps(run.rest("GET", f"/connectors/{run.connector}/offsets"))

    before = offset()
    run.sentinels += 1
    run.database.sentinel(run.sentinels, f"sentinel {run.sentinels}.")
    wait_until(lambda: offset() != before, timeout_s=OFFSET_S, what="an offset after the producers stood still", pause_s=1.0)
    run.caught_up(run.connector)


FAULTS: Mapping[str, Callable[[Run], None]] = {
    "lacking": lacking,
    "behind": behind,
    "promotion": promotion,
    "large_left_out": large_left_out,
    "handover": handover,
    "stalled": stalled,
}
"""What each of them does."""

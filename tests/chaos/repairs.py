"""Repair dumps of a run: those that a user asks for by the connector's warnings, and what a reader of the chunk markers takes away for them."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

from stack.errors import StackError
from stack.process import wait_until
from support.topicfold import records

if TYPE_CHECKING:
    from chaos.check import Decoder
    from chaos.run import Run

REPAIR_S = 180.0
ROUNDS = 4
"""A warning names at most twenty tables, and those that a repair has read no more."""
REMOVED = "rows that statements removed"
LEFT_OUT = "what was changed in "
"""Of tables that the dump after a lost position leaves out."""
DUMPED = ("DONE", "FAILED", "STOPPED")


def repaired(bootstrap: str, prefix: str, decode: Decoder) -> dict[str, tuple[int, int]]:
    """Return for each topic the position at which its last whole repair began: a row whose newest record is older is gone at the source."""
    began: dict[tuple[str, str], tuple[int, int]] = {}
    found: dict[str, tuple[int, int]] = {}
    for _, value, _ in records(bootstrap, f"__dblog-chunks.{prefix}"):
        if value is None:
            continue
        marker = decode(value)
        if marker.get("mode") != "repair" or marker.get("scope") != "table":
            continue
        of = str(marker["topic"]), str(marker["dump"])
        if marker["begins"]:
            began[of] = int(marker["low"]["sequence_high"]), int(marker["low"]["sequence_low"])
        if marker["final"] and of in began:
            found[of[0]] = max(found.get(of[0], (0, 0)), began[of])
    return found


def settle(run: Run) -> None:
    """Request the repairs that the warnings of the status name, as a user does, and wait until no dump is left to do."""
    for _ in range(ROUNDS):
        _wait_for_dumps(run)
        names = named(run.rest("GET", f"/connectors/{run.connector}/status").get("warnings", []))
        asked = [name for name in names if _repair(run, name)]
        if not asked:
            return
        run.log(f"repairs of {', '.join(asked)}")


def named(warnings: list[str]) -> list[str]:
    """Return the tables that the warnings name as in need of a repair."""
    removed = _of(warnings, REMOVED).partition(", of ")[2].partition(": `")[0]
    left_out = _of(warnings, LEFT_OUT).partition(" before the connector began again")[0]
    return re.findall(r"(\S+) \([^)]*\)(?:,| and|:)", removed + ":") + re.findall(r"\w+\.\w+", left_out)


def _of(warnings: list[str], beginning: str) -> str:
    return next((text.removeprefix(beginning) for text in warnings if text.startswith(beginning)), "")


def _repair(run: Run, table: str) -> bool:
    """Whether a repair of the table is taken: it is not without a key."""
    answer: Any = None
    with contextlib.suppress(StackError):
        body = {"tables": [re.escape(table)], "mode": "repair"}
        answer = run.rest("POST", f"/connectors/{run.connector}/dumps", json=body, fine=(400, 409))
    return answer is not None and "id" in answer


def _wait_for_dumps(run: Run) -> None:
    def over() -> bool:
        listed = run.rest("GET", f"/connectors/{run.connector}/dumps")["dumps"]
        return all(dump["status"]["state"] in DUMPED for dump in listed)

    wait_until(over, timeout_s=REPAIR_S, what=f"the dumps of {run.connector}", pause_s=0.5)
    run.log(json.dumps(run.rest("GET", f"/connectors/{run.connector}/dumps")["dumps"])[:2000])

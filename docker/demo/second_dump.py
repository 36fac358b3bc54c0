"""Requests dumps with an operator's commands.

A second dump while the shop is open is paused, resumed and made faster. A damaged row is found by
one dump and healed by another.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demo import screen
from demo.destination import DeltaLake, RunFailedError
from demo.pipeline import ROOT, Worker
from demo.progress import Progress
from demo.shop import DATABASE

BAR_CELLS = 24
COMMAND_S_MAX = 120.0
ROWS_BEFORE_PAUSE = 2_000
SLOW = ("--chunk-rows", "500", "--delay-ms", "300")
"""Options as beside a busy database; the shop's customers would take a minute."""
FAST = ("--chunk-rows", "20000", "--delay-ms", "0")

Wait = Callable[[Callable[[], bool], str], None]
"""Function that waits until a condition holds; the text names it in errors."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator who types ``dblog dumps`` commands; each is shown with its answer."""

    worker: Worker
    connector: str
    progress: Progress

    def ask(self, command: str, *arguments: str) -> str:
        """Return the answer's last line. Raise RunFailedError if the command fails."""
        shown = " ".join(f"'{part}'" if "\\" in part else part for part in arguments)
        self.progress.event(f"$ dblog dumps {command} {self.connector} {shown}")
        line = [sys.executable, "-P", "-m", "dblog", "dumps", command, self.connector, *arguments, "--url", self.worker.url]
        path = {"PYTHONPATH": str(ROOT / "connect-worker" / "src")}
        done = subprocess.run(line, env=path, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
        if done.returncode != 0:
            raise RunFailedError(f"dblog dumps {command} failed: {(done.stderr or done.stdout).strip()}")
        answer = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
        self.progress.event(f"  {answer}")
        return answer

    def start(self, *arguments: str) -> str:
        """Request a dump and return its id, from ``dump ID of CONNECTOR: ...``."""
        return self.ask("start", *arguments).split()[1]

    def status(self, dump: str) -> Mapping[str, Any]:
        """Return the worker's status of a dump, empty while the worker does not answer."""
        detail = self.worker.rest.requested_dump(self.connector, dump)
        return detail.get("status", {}) if detail else {}

    def until(self, dump: str, state: str, wait: Wait) -> None:
        """Wait for a state. Raise RunFailedError if the dump ends in another one."""

        def reached() -> bool:
            now = self.status(dump)
            if now.get("state") != state and now.get("state") in {"FAILED", "STOPPED", "DONE"}:
                raise RunFailedError(f"dump {dump} is {now['state']}: {now.get('reason')}")
            return bool(now.get("state") == state)

        wait(reached, f"dump {dump} to be {state}")


def dump_again(operator: Operator, pattern: str, wait: Wait) -> None:
    """Request a second dump of the tables that match ``pattern``, and control it."""
    dump = operator.start(pattern, *SLOW)
    operator.progress.dump = lambda: bar(operator.status(dump))
    operator.until(dump, "RUNNING", wait)
    began_s = time.monotonic()
    wait(lambda: (operator.status(dump).get("rows") or 0) >= ROWS_BEFORE_PAUSE, "the first rows of the second dump")
    operator.ask("pause", dump)
    operator.until(dump, "PAUSED", wait)
    slow_s, slow = time.monotonic() - began_s, operator.status(dump)
    operator.progress.event(f"  {bar(slow)}")
    operator.ask("resume", dump)
    operator.until(dump, "RUNNING", wait)
    began_s = time.monotonic()
    operator.ask("set", dump, *FAST)
    operator.until(dump, "DONE", wait)
    fast_s, fast = time.monotonic() - began_s, operator.status(dump)
    operator.progress.event(f"  {bar(fast)}")
    slowly, all_rows = slow.get("rows") or 0, fast.get("rows") or 0
    operator.progress.event(f"  {slowly:,} rows in {slow_s:.0f} s before the pause, {all_rows - slowly:,} more in {fast_s:.0f} s after it")
    operator.progress.dump = None


def bar(status: Mapping[str, Any]) -> str:
    """Return a dump's bar, state, rows and speed as one line."""
    rows, estimated = status.get("rows") or 0, status.get("rows_estimated") or 0
    share = 1.0 if status.get("state") == "DONE" else min(0.99, rows / estimated) if estimated else 0.0
    speed = f", {status['rows_per_s']:,.0f} rows/s" if status.get("rows_per_s") else ""
    return f"{screen.bar(share, BAR_CELLS)} {share:.0%} {status.get('state', '-')}, {rows:,} rows{speed}"


def heal(operator: Operator, lake: DeltaLake, table: str, column: str, wait: Wait) -> None:
    """Damage a row in the lake; find it with a verify dump, heal it with a repair dump, verify."""
    name = f"{DATABASE}.{table}"
    pattern = name.replace(".", r"\.")
    damaged = lake.damage(table, column)
    operator.progress.event(f"somebody has damaged a row of the lake: {column} of {name} where {damaged}")
    found = _compared(operator, lake, pattern, wait)
    if found.get("result") != "differing" or found.get("differing") != 1:
        raise RunFailedError(f"one row of {name} was damaged, and the comparison says {found}")
    operator.progress.event(f"  differing: {', '.join(lake.wrong_rows(str(found['dump'])))}, as `dblog-sink verified {name}` prints")
    repair = operator.start(pattern, "--mode", "repair")
    operator.until(repair, "DONE", wait)
    ended_s = time.monotonic()
    wait(lambda: lake.outcome("ghosts", repair) is not None, f"the repair of {name}")
    operator.progress.event(f"  {name}: repaired {time.monotonic() - ended_s:.1f} s after the dump's end")
    after = _compared(operator, lake, pattern, wait)
    if after.get("result") != "equal":
        raise RunFailedError(f"{name} was repaired, and the comparison says {after}")


def _compared(operator: Operator, lake: DeltaLake, pattern: str, wait: Wait) -> Mapping[str, Any]:
    """Run a verify dump and return the sink's verdict."""
    dump = operator.start(pattern, "--mode", "verify")
    operator.until(dump, "DONE", wait)
    ended_s = time.monotonic()
    wait(lambda: lake.outcome("verified", dump) is not None, f"the comparison of dump {dump}")
    verdict = lake.outcome("verified", dump) or {}
    facts = ", ".join(f"{verdict[name]:,} {name}" for name in ("equal", "differing", "missing", "invented") if verdict.get(name))
    operator.progress.event(f"  {verdict.get('table')}: {facts}, {time.monotonic() - ended_s:.1f} s after the dump's end")
    return verdict

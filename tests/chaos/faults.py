"""The faults of a plan: which, and when. How each is done stands in ``run.py``."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = (
    "kill_task",
    "kill_task",
    "kill_worker",
    "kill_sink",
    "restart_broker",
    "kill_broker",
    "restart_server",
    "kill_server",
    "failover",
    "pause",
    "stop",
    "widen",
    "narrow",
    "reset",
)
"""Those of every database; one that stands twice is drawn twice as often."""
LATE_SHARE = 0.85
"""No fault begins after this share of the load: what it brings about is to be seen under writes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, so many seconds after the load began."""

    at_s: float
    kind: str


def faults_of(chance: random.Random, *, seconds: float, kinds: tuple[str, ...]) -> list[Fault]:
    """One for every six seconds or so, each kind at most twice, a failover at most once and with no widening after it."""
    out: list[Fault] = []
    for _ in range(max(1, round(seconds / 6))):
        kind = chance.choice(kinds)
        at_s = round(chance.uniform(0.5, seconds * LATE_SHARE), 2)
        most = 1 if kind in ("failover", "widen", "narrow", "reset") else 2
        if sum(fault.kind == kind for fault in out) < most:
            out.append(Fault(at_s, kind))
    return sorted(out, key=lambda fault: fault.at_s)

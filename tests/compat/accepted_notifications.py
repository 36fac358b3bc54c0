"""Differences of notifications from Debezium that are meant, each with its reason. A rule names what both wrote, so that another difference is still seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from differences import ABSENT, Difference

SIGNALS = "signals.debezium_signal"


@dataclass(frozen=True, slots=True)
class Rule:
    """Accepts a difference where all of it fits."""

    reason: str
    step: str
    where: str
    fits: Callable[[Any, Any], bool]
    flavor: str = ""


def reason(difference: Difference) -> str | None:
    """Why this difference is right, or None."""
    return next((rule.reason for rule in RULES if _fits(rule, difference)), None)


def _fits(rule: Rule, d: Difference) -> bool:
    found = re.search(rule.step, d.topic) and re.search(rule.where, d.where) and re.search(rule.flavor, d.phase)
    return bool(found) and rule.fits(d.ours, d.peer)


def _but_for_signals(ours: Any, peer: Any) -> bool:
    return isinstance(peer, str) and ",".join(name for name in peer.split(",") if name != SIGNALS) == ours


_NO_KEY = "a table without a key is read in one window; the peer leaves it out"
_STOPPED = (
    "a snapshot that was stopped is ABORTED, under its own id; the peer notifies COMPLETED, then ABORTED under an id that is nobody's"
)
_NOTHING = "a stop of what is no part of the snapshot changes nothing, and nobody is notified; the peer may notify ABORTED of no table"
_ALL = "^stop of (all|both tables|a table that is none)"
_NONE = "^stop of a table that is none"

RULES = (
    Rule("the signal table is no data here, and no table of the initial snapshot", "initial", r"data_collections$", _but_for_signals),
    Rule(_NO_KEY, "^no key", "^record$", lambda ours, peer: str(ours).startswith("IN_PROGRESS") and peer == ABSENT),
    Rule(_NO_KEY, "^no key", "status$", lambda ours, peer: (ours, peer) == ("SUCCEEDED", "NO_PRIMARY_KEY")),
    Rule(_NO_KEY, "^no key", "total_rows_scanned$", lambda ours, peer: (ours, peer) == ("3", "0")),
    Rule(_STOPPED, _ALL, r"value\.(op|type)$", lambda ours, peer: (ours, peer) == ("ABORTED", "COMPLETED")),
    Rule(_STOPPED, _ALL, "data_collections$", lambda ours, peer: (ours, peer) == ("signals.big,signals.orders", ABSENT)),
    Rule(_STOPPED, _ALL, "^record$", lambda ours, peer: ours == ABSENT and str(peer).startswith("ABORTED")),
    Rule(_NOTHING, _NONE, "data_collections$", lambda ours, peer: (ours, peer) == ("signals.big,signals.orders", "")),
    Rule(_NOTHING, _NONE, "^record$", lambda ours, peer: ours == ABSENT and str(peer).startswith("COMPLETED")),
    Rule(
        "tables that one pattern names are read in the order of their names; PostgreSQL's connector of the peer has them from a hash map",
        "^patterns",
        r"^record$|(data_collections|scanned_collection|current_collection_in_progress|status|total_rows_scanned|key)$",
        lambda ours, peer: ours != peer,
        flavor="^postgres$",
    ),
)

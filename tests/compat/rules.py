"""What accepts a difference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from differences import Difference


@dataclass(frozen=True, slots=True)
class Rule:
    """Accepts a difference where all of it fits."""

    reason: str
    phase: str
    where: str
    fits: Callable[[Any, Any], bool]
    topic: str = ""


def reason(difference: Difference, rules: Iterable[Rule]) -> str | None:
    """Why this difference is right, or None."""
    return next((rule.reason for rule in rules if _fits(rule, difference)), None)


def _fits(rule: Rule, d: Difference) -> bool:
    where = d.where.replace("_u005f", "_")  # names that avro_unicode has escaped
    found = re.search(rule.phase, d.phase) and re.search(rule.where, where) and re.search(rule.topic, d.topic)
    return bool(found) and rule.fits(d.ours, d.peer)

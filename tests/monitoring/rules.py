"""The rule file that the project ships, and the same one with shorter times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).parents[2] / "helm" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"

_DURATION = re.compile(r"(\[|\boffset )(\d+)(s|m|h|d)\b")
_PRODUCT = re.compile(r"\b\d+(?: \* \d+)+\b")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def groups() -> list[dict[str, Any]]:
    """The groups as they are shipped."""
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"]
    return found


def rules() -> dict[str, dict[str, Any]]:
    """The rules by alert."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def shortened(factor: float, *, least_s: float = 2.0) -> str:
    """The rule file with each time divided by ``factor``: ``for``, ranges, offsets, and products of seconds. Nothing else is changed.

    Ranges are ``least_s`` at least: less has no two scrapes.
    """

    def milliseconds(number: str, unit: str, least: float) -> str:
        return f"{round(max(least, int(number) * _SECONDS[unit] / factor) * 1000)}ms"

    def expression(text: str) -> str:
        text = _DURATION.sub(lambda m: m.group(1) + milliseconds(m.group(2), m.group(3), least_s), text)
        return _PRODUCT.sub(lambda m: f"({m.group(0)} / {factor:g})", text)

    changed = groups()
    for group in changed:
        for rule in group["rules"]:
            rule["expr"] = expression(rule["expr"])
            if "for" in rule:
                rule["for"] = milliseconds(rule["for"][:-1], rule["for"][-1], 0.0)
    return yaml.safe_dump({"groups": changed}, sort_keys=False, width=1000)

"""The boards as they are shipped, and what their queries become outside of Grafana."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from monitoring.rules import MONITORING

DASHBOARDS = MONITORING / "dashboards"


def generator() -> Any:
    """helm/monitoring/generate.py, which is a program beside its board file."""
    sys.path.insert(0, str(MONITORING))
    try:
        spec = importlib.util.spec_from_file_location("dblog_boards_generate", MONITORING / "generate.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(MONITORING))
    return module


def shipped() -> dict[str, dict[str, Any]]:
    """The JSON files by board."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(DASHBOARDS.glob("*.json"))}


def queries() -> Iterator[tuple[str, str]]:
    """Each panel's name, board first, and one of its queries."""
    for board, content in shipped().items():
        for panel in content["panels"]:
            for target in panel["targets"]:
                yield f"{board}: {panel['title']}", target["expr"]


def concrete(expression: str, *, interval: str = "30s") -> str:
    """As Grafana sends it, with everything selected."""
    return expression.replace("$__rate_interval", interval).replace("$connector", ".*").replace("$job", ".*").replace("$namespace", ".*")


def metrics_in(expression: str) -> set[str]:
    """Names of metrics in an expression: ours have a prefix."""
    without_labels = re.sub(r'\{[^}]*\}|\b(?:by|on|ignoring|without) ?\([^)]*\)|"[^"]*"', "", expression)
    return {word for word in re.findall(r"[a-zA-Z_]\w*", without_labels) if word.startswith("dblog_")}

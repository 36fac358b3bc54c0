# ruff: noqa: INP001  programs, no package
"""Writes dashboards/*.json from boards.py: python3 helm/monitoring/generate.py.

The JSON is version 38 of Grafana's dashboard model, which Grafana 10 reads unchanged and later
versions convert. Two variables stand for the data source and for the address of the runbooks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from boards import BOARDS, Board, Panel

FOLDER = Path(__file__).with_name("dashboards")
_COLUMNS = 24
_SIZES = {"stat": (6, 5), "table": (12, 7), "timeseries": (8, 8)}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "table": {"cellHeight": "sm", "showHeader": True},
    "timeseries": {
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}


def dashboard(board: Board) -> dict[str, Any]:
    """Return the board in Grafana's dashboard model."""
    panels = []
    x = y = row_height = 0
    for number, panel in enumerate(board.panels, start=1):
        width, height = _SIZES[panel.kind]
        if x + width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        panels.append(_panel(number, panel, {"x": x, "y": y, "w": width, "h": height}))
        x, row_height = x + width, max(row_height, height)
    return {
        "uid": f"dblog-{board.name}",
        "title": board.title,
        "description": board.description,
        "tags": ["dblog"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [
            {
                "title": "dblog",
                "type": "dashboards",
                "tags": ["dblog"],
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
                "targetBlank": False,
            }
        ],
        "templating": {"list": _variables(board)},
        "panels": panels,
    }


def _variables(board: Board) -> list[dict[str, Any]]:
    everything = {"selected": True, "text": "All", "value": "$__all"}
    runbooks = "helm/monitoring/RUNBOOKS.md"
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
            "refresh": 1,
            "regex": "",
            "current": {},
        },
        *(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": _DATASOURCE,
                "definition": query,
                "query": {"query": query, "refId": "values"},
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": everything,
                "hide": 0,
                "regex": "",
            }
            for name, query in board.variables
        ),
        {
            "name": "runbooks",
            "label": "Runbooks",
            "description": "Where the page of runbooks is.",
            "type": "textbox",
            "query": runbooks,
            "current": {"text": runbooks, "value": runbooks},
            "options": [{"selected": True, "text": runbooks, "value": runbooks}],
            "hide": 0,
        },
    ]


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    instant = panel.kind == "table"
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _DATASOURCE,
                "editorMode": "code",
                "expr": expression,
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                **({"format": "table"} if instant else {}),
            }
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }
    if panel.alert is not None:
        made["links"] = [{"title": f"Runbook: {panel.alert}", "url": f"${{runbooks}}#{panel.alert.lower()}", "targetBlank": True}]
    return made


def text(board: Board) -> str:
    """Return the content of the board's JSON file."""
    return json.dumps(dashboard(board), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in BOARDS:
        (FOLDER / f"{one.name}.json").write_text(text(one), encoding="utf-8")

"""The boards: generated, loadable, described, linked, and about metrics that worker and sink declare."""

from __future__ import annotations

import re
import subprocess

import pytest
from dblog.apply.program import Numbers as Applied
from dblog.observe.declared import OF_TASK, WORKER_METRICS, Kind
from dblog_sink.observe.metrics import Metrics
from monitoring.boards import concrete, generator, metrics_in, queries, shipped
from monitoring.rules import rules
from prometheus_client import CollectorRegistry
from stack.prometheus import program
from support.servers import required

ENDINGS = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}


def declared() -> set[str]:
    """Every series that worker, sink or the program that applies connectors may export."""
    found = {f"dblog_{metric.name}" for metric in WORKER_METRICS}
    for metric in OF_TASK.values():
        found |= {f"dblog_task_{metric.name}{ending}" for ending in ENDINGS.get(metric.kind, ("",))}
    applied = CollectorRegistry()
    applied.register(Applied())
    for family in [*Metrics(version="1").registry.collect(), *applied.collect()]:
        endings = {"counter": ("_total",), "histogram": ENDINGS[Kind.HISTOGRAM]}.get(family.type, ("",))
        found |= {family.name + ending for ending in endings}
    return found


def test_the_files_are_those_of_the_generator() -> None:
    made = generator()

    assert {board.name for board in made.BOARDS} == set(shipped()) == {"fleet", "connector", "dump", "sink"}
    for board in made.BOARDS:
        assert (made.FOLDER / f"{board.name}.json").read_text() == made.text(board), "run python3 helm/monitoring/generate.py"


def test_panels_and_alerts_ask_for_metrics_that_are_declared() -> None:
    known = declared()
    asked = {name: metrics_in(expression) for name, expression in queries()} | {
        name: metrics_in(rule["expr"]) for name, rule in rules().items()
    }

    assert {name: sorted(metrics - known) for name, metrics in asked.items() if metrics - known} == {}
    assert all(asked.values())


def test_prometheus_parses_every_expression() -> None:
    with required():
        promtool = program("promtool")
    groups = [{"name": "panels", "rules": [{"record": f"panel:{n}", "expr": concrete(query)} for n, (_, query) in enumerate(queries())]}]

    done = subprocess.run(
        [*promtool, "check", "rules", "--lint=none", "/dev/stdin"],
        input=str({"groups": groups}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_board_is_grafanas_model_and_every_panel_is_described(name: str) -> None:
    board = shipped()[name]
    anchors = {alert.lower() for alert in rules()}
    variables = {one["name"]: one for one in board["templating"]["list"]}

    assert board["schemaVersion"] == 38
    assert board["uid"] == f"dblog-{name}"
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] in ("timeseries", "stat", "table")
        assert panel["description"].endswith(".")
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        for link in panel.get("links", []):
            address, _, anchor = link["url"].partition("#")
            assert address == "${runbooks}"
            assert anchor in anchors
    for panel in board["panels"]:
        for target in panel["targets"]:
            selectors = re.findall(r"dblog_\w+(\{[^}]*\})?", target["expr"])
            assert all('namespace=~"$namespace",job=~"$job"' in selector for selector in selectors), target["expr"]
    used = {
        part
        for panel in board["panels"]
        for target in panel["targets"]
        for part in ("connector", "job", "namespace")
        if f"${part}" in target["expr"]
    }
    assert used <= set(variables)


def test_every_alert_is_linked_from_a_panel_or_needs_none() -> None:
    linked = {link["url"].partition("#")[2] for board in shipped().values() for panel in board["panels"] for link in panel.get("links", [])}

    assert {alert.lower() for alert in rules()} - linked == set()


def test_what_is_of_two_groups_is_neither_added_up_nor_named_alike() -> None:
    sums = [(panel, expression) for panel, expression in queries() if " by (" in expression and panel != "fleet: Tasks by state"]

    assert [panel for panel, expression in sums if not re.search(r" by \(namespace, job[,)]", expression)] == []
    for board in shipped().values():
        for panel in board["panels"]:
            for target in panel["targets"]:
                assert "{{job}}" in target["legendFormat"] or panel["title"] == "Tasks by state", panel["title"]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_groups_to_look_at_are_chosen_before_the_connectors_among_them(name: str) -> None:
    chosen = [one for one in shipped()[name]["templating"]["list"] if one["type"] == "query"]

    assert [one["name"] for one in chosen] == ["namespace", "job"] + (["connector"] if name != "sink" else [])
    for at, one in enumerate(chosen):
        assert all(f'{before["name"]}=~"${before["name"]}"' in one["definition"] for before in chosen[:at])

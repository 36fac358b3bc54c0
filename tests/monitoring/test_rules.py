"""The shipped rules: Prometheus accepts them, each fires when it must and not when it must not, and each leads to its runbook."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from monitoring.cases import Case, cases
from monitoring.rules import ALERTS, MONITORING, rules, shortened
from stack.prometheus import program
from support.servers import required

RUNBOOKS = MONITORING / "RUNBOOKS.md"


@pytest.fixture(scope="module")
def promtool() -> list[str]:
    with required():
        return program("promtool")


def test_prometheus_accepts_the_rules_and_the_shortened_ones(promtool: list[str], tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(shortened(60))

    done = subprocess.run(
        [*promtool, "check", "rules", str(ALERTS), str(tmp_path / "short.yaml")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"SUCCESS: {len(rules())} rules found") == 2


def test_every_alert_fires_when_it_must_and_not_when_it_must_not(promtool: list[str], tmp_path: Path) -> None:
    files = []
    for name, rule in rules().items():  # an alert alone: promtool evaluates every rule of a file for every case
        alone = tmp_path / f"{name}.rules.yaml"
        alone.write_text(json.dumps({"groups": [{"name": name, "rules": [rule]}]}))
        tests = [_promtool_test(case) for case in cases() if case.alert == name]
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(json.dumps({"rule_files": [str(alone)], "evaluation_interval": "15s", "tests": tests}))

    done = subprocess.run([*promtool, "test", "rules", *map(str, files)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def _promtool_test(case: Case) -> dict[str, Any]:
    return {
        "name": f"{case.alert}: {case.when}",
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'sum(ALERTS{{alertname="{case.alert}",alertstate="firing"}})',
                "eval_time": case.at,
                "exp_samples": [{"labels": "{}", "value": case.fires}] if case.fires else [],
            }
        ],
    }


@pytest.mark.parametrize("fires", [True, False])
def test_no_alert_is_without_a_case(fires: bool) -> None:
    tried = {case.alert for case in cases() if bool(case.fires) is fires}

    assert tried == set(rules())


def test_every_alert_has_what_a_person_needs_who_is_woken_by_it() -> None:
    sections = RUNBOOKS.read_text().split("\n## ")[1:]
    anchors = {section.splitlines()[0].lower(): section for section in sections}

    for name, rule in rules().items():
        notes = rule["annotations"]
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        assert "Look at" in notes["description"], name
        assert notes["runbook_url"] == f"helm/monitoring/RUNBOOKS.md#{name.lower()}"
        for part in ("**Means.**", "**Look.**", "**Do.**"):
            assert part in anchors[name.lower()], f"{name} has no {part}"
    assert {anchor for anchor in anchors if anchor.startswith("dblog")} == {name.lower() for name in rules()}


def test_times_are_written_so_that_they_can_be_shortened() -> None:
    for name, rule in rules().items():
        numbers = re.sub(r"\[\d+[smhd]\]|offset \d+[smhd]|\b\d+(?: \* \d+)+\b", "", rule["expr"])
        large = [number for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", numbers) if float(number) > 5]
        assert not large, f"{name}: {large} look like seconds"

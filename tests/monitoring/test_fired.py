"""Each alert fires once in a real Prometheus that scrapes pages of metrics over loopback and evaluates the shipped rules, all times divided by sixty, or less."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from pathlib import Path

import pytest
from monitoring.cases import cases
from monitoring.replay import Replay, values
from monitoring.rules import rules, shortened
from stack import Prometheus
from stack.errors import StackError
from stack.process import wait_until
from support.servers import started

FACTORS = (60.0, 20.0, 10.0)
"""How much faster than in life. What a busy machine made miss its few seconds is tried again more slowly."""


@pytest.mark.long
def test_every_alert_fires_in_a_real_prometheus_and_its_text_has_what_it_names(own_folder: Path) -> None:
    met: dict[str, dict[str, str]] = {}
    for factor in FACTORS:
        met |= fired(own_folder / f"{factor:g}", factor, left=set(rules()) - met.keys())
        if set(met) == set(rules()):
            break

    assert set(rules()) - met.keys() == set(), "alerts that did not fire"
    for name, notes in met.items():
        assert not [text for text in notes.values() if "no value" in text or "error" in text.lower().replace("errors", "")[:20]], (
            name,
            notes,
        )


def fired(folder: Path, factor: float, *, left: set[str]) -> dict[str, dict[str, str]]:
    """Which of these fire in time, each by its first case, and their texts."""
    first = {case.alert: case for case in reversed(cases()) if case.fires and case.alert in left}
    folder.mkdir()
    rules_file = folder / "alerts.yaml"
    rules_file.write_text(shortened(factor))
    met: dict[str, dict[str, str]] = {}

    with started(Prometheus(folder / "prometheus", rules=[rules_file], interval_s=0.5)) as prometheus, ExitStack() as pages:
        replays = {name: pages.enter_context(Replay(case=case, factor=factor)) for name, case in first.items()}
        prometheus.scrape({name: [replay.address] for name, replay in replays.items()})

        def all_fired() -> bool:
            for alert in prometheus.alerts():
                labels = alert["labels"]
                own = {labels["alertname"]} >= {labels[name] for name in ("connector", "job") if labels.get(name)}
                if alert["state"] == "firing" and own:
                    met.setdefault(labels["alertname"], alert["annotations"])
            return set(met) >= left

        with contextlib.suppress(StackError):  # the caller tries those again
            wait_until(all_fired, timeout_s=6000 / factor, what="every alert to fire", pause_s=0.5)
    return met


def test_a_case_of_promtool_is_replayed_as_promtool_reads_it() -> None:
    assert values("0x2 1+2x2 _x1 -5+15x1") == [0, 0, 0, 1, 3, 5, None, -5, 10]

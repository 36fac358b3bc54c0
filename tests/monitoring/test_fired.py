"""Each alert fires once in a real Prometheus that scrapes pages of metrics over loopback and evaluates the shipped rules, all times divided by sixty."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from monitoring.cases import cases
from monitoring.replay import Replay, values
from monitoring.rules import rules, shortened
from stack import Prometheus
from stack.process import wait_until
from support.servers import started

FACTOR = 60.0


def test_every_alert_fires_in_a_real_prometheus_and_its_text_has_what_it_names(own_folder: Path) -> None:
    first = {case.alert: case for case in reversed(cases()) if case.fires}
    rules_file = own_folder / "alerts.yaml"
    rules_file.write_text(shortened(FACTOR))
    met: dict[str, dict[str, str]] = {}

    with started(Prometheus(own_folder / "prometheus", rules=[rules_file], interval_s=0.5)) as prometheus, ExitStack() as pages:
        replays = {name: pages.enter_context(Replay(case=case, factor=FACTOR)) for name, case in first.items()}
        prometheus.scrape({name: [replay.address] for name, replay in replays.items()})

        def all_fired() -> bool:
            for alert in prometheus.alerts():
                labels = alert["labels"]
                own = {labels["alertname"]} >= {labels[name] for name in ("connector", "job") if labels.get(name)}
                if alert["state"] == "firing" and own:
                    met.setdefault(labels["alertname"], alert["annotations"])
            return set(met) == set(rules())

        wait_until(all_fired, timeout_s=150, what="every alert to fire", pause_s=0.5)

    for name, notes in met.items():
        assert not [text for text in notes.values() if "no value" in text or "error" in text.lower().replace("errors", "")[:20]], (
            name,
            notes,
        )


def test_a_case_of_promtool_is_replayed_as_promtool_reads_it() -> None:
    assert values("0x2 1+2x2 _x1 -5+15x1") == [0, 0, 0, 1, 3, 5, None, -5, 10]

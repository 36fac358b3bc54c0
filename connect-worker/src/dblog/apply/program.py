"""``dblog connectors apply``: runs one round or many, and reports each by log lines, a file of
problems, metrics and an exit status.

The file has one line for each problem and is empty when everything is as wanted. It exists from the
start, with one line until the first round is done. Its modification time is that of the last
progress: it is touched after each round and, within a round, after each connector. A Kubernetes
probe that prints the file shows in its event which connector and field is at fault. A probe that
checks the file's time detects a round that hangs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dblog.apply.interface import Interface, read_login
from dblog.apply.restarts import Policy, Restarts
from dblog.apply.round import Report, Task, run_round
from dblog.apply.wanted import Problem
from dblog.errors import DblogError
from dblog.observe.metrics_server import MetricsServer

_log = structlog.get_logger("dblog.apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the rounds, and where they are reported."""

    task: Task
    url: str
    policy: Policy
    login: Path | None = None
    authorities: Path | None = None
    every_s: float | None = None
    """Seconds between two rounds; None runs a single round."""
    problems_file: Path | None = None
    metrics_port: int | None = None


class Numbers:
    """Metrics for Prometheus: the newest round, and counts over all rounds."""

    def __init__(self) -> None:
        self._report = Report()
        self._rounds: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._last_good_s = 0.0

    def take(self, report: Report) -> None:
        """Take the report of a further round."""
        self._report = report
        self._rounds["unreachable" if not report.reached else "problems" if report.problems else "good"] += 1
        self._done.update(kind for kind, _ in report.done)
        if not report.problems:
            self._last_good_s = time.time()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families of one scrape."""
        report = self._report
        rounds = CounterMetricFamily("dblog_apply_rounds", "Rounds by their result.", labels=["result"])
        for result in ("good", "problems", "unreachable"):
            rounds.add_metric([result], self._rounds[result])
        yield rounds
        actions = CounterMetricFamily("dblog_apply_actions", "What was done to connectors.", labels=["action"])
        for kind in ("create", "update", "setstate", "delete", "restart"):
            actions.add_metric([kind], self._done[kind])
        yield actions
        connectors = GaugeMetricFamily(
            "dblog_apply_connectors",
            "Connectors: wanted, owned, and owned but left over.",
            labels=["which"],
        )
        connectors.add_metric(["wanted"], report.wanted)
        connectors.add_metric(["owned"], report.owned)
        connectors.add_metric(["left"], len(report.left))
        yield connectors
        problems = GaugeMetricFamily(
            "dblog_apply_problem", "1 for each connector and field that is not as wanted.", labels=["connector", "field"]
        )
        for connector, key in sorted({(problem.connector, problem.key) for problem in report.problems}):
            problems.add_metric([connector, key], 1)
        yield problems
        yield GaugeMetricFamily("dblog_apply_last_good_timestamp_seconds", "When all was as wanted; 0: never yet.", value=self._last_good_s)


def run(settings: Settings) -> int:
    """Run the rounds and return the exit status.

    0 means that one round left no problem, or that a signal ended the rounds; 1 that problems
    remain; 2 that nothing could be done.
    """
    restarts = Restarts(settings.policy)
    numbers = Numbers()
    ended = threading.Event()
    if settings.every_s is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
    if settings.metrics_port is not None:
        registry = CollectorRegistry()
        registry.register(numbers)
        MetricsServer(registry, "0.0.0.0", settings.metrics_port)  # noqa: S104  as scrapers reach it
    # Problems of an earlier process would be taken for those of this one.
    if settings.problems_file is not None:
        _write(settings.problems_file, [Problem("all", "the first round is not done yet")])
    known, is_first = Report(), True
    while True:
        status = 0
        try:
            report = _round(settings, restarts)
        except DblogError as e:
            report, status = Report(problems=[Problem("all", str(e))]), 2
        except Exception as e:  # noqa: BLE001  a bug in one round must not end the program, which looks after all connectors
            report, status = Report(problems=[Problem("all", _unforeseen(e))]), 2
        numbers.take(report)
        _log_changes(known, report)
        if is_first and not (report.done or report.problems or report.left):
            _log.info(f"{report.wanted} connectors are as wanted")
        known, is_first = report, False
        if settings.problems_file is not None:
            _write(settings.problems_file, report.problems)
        if settings.every_s is None:
            return status or (1 if report.problems else 0)
        if ended.wait(settings.every_s):
            return 0


def _round(settings: Settings, restarts: Restarts) -> Report:
    # Read for each round, so that a changed login needs no restart.
    login = read_login(settings.login, os.environ)
    with Interface(settings.url, login=login, authorities=settings.authorities) as interface:
        return run_round(settings.task, interface, restarts, advanced=lambda: _touch(settings.problems_file))


def _unforeseen(error: Exception) -> str:
    """Return a sentence with the error's class and place, without its text, which may contain
    values.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the round ended by {type(error).__name__} at {Path(place.filename).name}:{place.lineno}, which is a mistake of dblog: report it"
    )


def _log_changes(known: Report, report: Report) -> None:
    """Log each problem or leftover that is new or has a new reason, and the end of the last
    problem.

    What stays the same is not logged again.
    """
    if not report.reached:
        # An unreachable worker shows neither, so the known ones are kept.
        report.left, report.warnings = known.left, known.warnings
    for problem in report.problems:
        if problem not in known.problems:
            _log.error("connector is not as wanted", connector=problem.connector, field=problem.key, reason=problem.text)
    for name, texts in report.warnings.items():
        for text in texts:
            if text not in known.warnings.get(name, ()):
                _log.warning("connector leaves something in doubt", connector=name, reason=text)
    for name, reason in report.left.items():
        if known.left.get(name) != reason:
            _log.warning("connector is left over", connector=name, reason=reason)
    if known.problems and not report.problems:
        _log.info("all connectors are as wanted", wanted=report.wanted)


def _touch(file: Path | None) -> None:
    if file is not None:
        file.touch()


def _write(file: Path, problems: list[Problem]) -> None:
    new = file.with_name(f"{file.name}.new")
    new.write_text("".join(f"{' '.join(str(problem).split())}\n" for problem in problems), encoding="utf-8")
    new.replace(file)

"""``dblog connectors apply``: rounds, once or again and again, and what others see of them: log lines, a file of problems, metrics, an exit status.

The file has one line for each problem and none when all is as wanted. It is there from the start, with a line until the first round is done, and its
time is that of the newest progress: after each round, and in a round after each connector. A probe that prints it shows in an event of Kubernetes which
connector and which field is at fault; one that looks at its time finds a round that hangs.
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
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dblog.apply.interface import Interface, read_login
from dblog.apply.restarts import Policy, Restarts
from dblog.apply.round import Report, Task, run_round
from dblog.apply.wanted import Problem
from dblog.errors import DblogError

_log = structlog.get_logger("dblog.apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rounds are made, and where they are reported."""

    task: Task
    url: str
    policy: Policy
    login: Path | None = None
    authorities: Path | None = None
    every_s: float | None = None
    """None: one round."""
    problems_file: Path | None = None
    metrics_port: int | None = None


class Numbers:
    """What Prometheus gets: the newest round, and counts of all."""

    def __init__(self) -> None:
        self._report = Report()
        self._rounds: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._last_good_s = 0.0

    def take(self, report: Report) -> None:
        """One round more."""
        self._report = report
        self._rounds["unreachable" if not report.reached else "problems" if report.problems else "good"] += 1
        self._done.update(kind for kind, _ in report.done)
        if not report.problems:
            self._last_good_s = time.time()

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
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
    """Exit status 0 after one round that leaves nothing to mend, or after a signal; 1 with problems; 2 when nothing can be done at all."""
    restarts = Restarts(settings.policy)
    numbers = Numbers()
    ended = threading.Event()
    if settings.every_s is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
    if settings.metrics_port is not None:
        registry = CollectorRegistry()
        registry.register(numbers)
        start_http_server(settings.metrics_port, registry=registry)
    if settings.problems_file is not None:  # one of a former life would be taken for this one's
        _write(settings.problems_file, [Problem("all", "the first round is not done yet")])
    known, is_first = Report(), True
    while True:
        status = 0
        try:
            report = _round(settings, restarts)
        except DblogError as e:
            report, status = Report(problems=[Problem("all", str(e))]), 2
        except Exception as e:  # noqa: BLE001  a mistake in one round ends no other, and every connector is still looked after
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
    # The login is read for each round: one that was changed needs no restart.
    login = read_login(settings.login, os.environ)
    with Interface(settings.url, login=login, authorities=settings.authorities) as interface:
        return run_round(settings.task, interface, restarts, advanced=lambda: _touch(settings.problems_file))


def _unforeseen(error: Exception) -> str:
    """Its kind and place. Its text may have values."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the round ended by {type(error).__name__} at {Path(place.filename).name}:{place.lineno}, which is a mistake of dblog: report it"
    )


def _log_changes(known: Report, report: Report) -> None:
    """A line for each problem or leftover that is new or has another reason, and one when the last problem has gone: what stays fills no log."""
    if not report.reached:
        report.left, report.warnings = known.left, known.warnings  # nothing is known of them
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

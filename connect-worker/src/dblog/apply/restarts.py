"""Decides when failed connectors and tasks are started again: after n·n+n minutes for the n-th time in a row, 60 at most, and not for ever.

The first restart comes at once. One that has run for as long as the next pause would have been is sound, and its count begins again. Most failures of a task
need a person: trouble that may pass is retried by the task itself. What is left for a restart are tasks whose retries were limited, or whose process others
ended. Times are of one clock that never stands still.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_PAUSE_MAX_MINUTES = 60

_RETRIABLE = re.compile(
    r"^(?:TransientError|ServerChangedError|TableChangedError): "
    r"|^DefiniteError: gave up after \d+ tries"
    r"|^The process of task \S+ was ended by SIG(?:KILL|TERM|HUP|INT|XCPU)\b"
    r"|\borg\.apache\.kafka\.(?:connect|common)\.errors\.\w*(?:Retriable|Timeout|Disconnect)\w*Exception",
    re.MULTILINE,
)
"""How a trace begins of what another try may mend: our transient errors, those whose tries were limited, a process that was killed from outside; and the
retriable exceptions of a Kafka Connect on the JVM.
"""


def is_retriable(trace: str) -> bool:
    """Whether another try may mend it."""
    return _RETRIABLE.search(trace) is not None


def pause_s(restarts: int) -> float:
    """Seconds between that many restarts in a row and the next one."""
    return 60.0 * min(restarts * restarts + restarts, _PAUSE_MAX_MINUTES)


@dataclass(frozen=True, slots=True)
class Policy:
    """``restarts_max`` None: for ever. ``retriable_only``: a failure that needs a person waits for one."""

    restarts_max: int | None = 7
    retriable_only: bool = True
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """One part of a connector that is FAILED: itself (None) or a task."""

    task: int | None
    trace: str

    @property
    def what(self) -> str:
        return "the connector" if self.task is None else f"task {self.task}"

    @property
    def sentence(self) -> str:
        """The first line of the trace."""
        return self.trace.strip().partition("\n")[0][:500] or "no reason is given"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of failed connectors now: those to restart, and a sentence for each of the others."""

    restart: tuple[str, ...]
    waiting: Mapping[str, str]
    stuck: Mapping[str, str]


@dataclass(slots=True)
class _Series:
    restarts: int
    last_s: float


class Restarts:
    """The series of restarts of each connector. It lives as long as this program: after its own restart the pauses begin again."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._series: dict[str, _Series] = {}

    def decide(self, failures: Mapping[str, Iterable[Failure]], *, now_s: float) -> Verdict:
        """``failures``: of every connector that is looked after, an empty list for one that is sound."""
        self._series = {name: series for name, series in self._series.items() if name in failures}
        restart: list[str] = []
        waiting: dict[str, str] = {}
        stuck: dict[str, str] = {}
        for name, found in failures.items():
            failed = list(found)
            series = self._series.get(name)
            if not failed:
                if series is not None and now_s - series.last_s >= pause_s(series.restarts):
                    del self._series[name]
                continue
            first = failed[0]
            needs_person = next((one for one in failed if self._policy.retriable_only and not is_retriable(one.trace)), None)
            if not self._policy.enabled or needs_person is not None:
                shown = needs_person or first
                stuck[name] = f"{shown.what} is FAILED and waits for a person: {shown.sentence}"
            elif series is None:
                restart.append(name)
            elif self._policy.restarts_max is not None and series.restarts >= self._policy.restarts_max:
                stuck[name] = f"{first.what} is FAILED after {series.restarts} restarts in a row and waits for a person: {first.sentence}"
            elif now_s - series.last_s < pause_s(series.restarts):
                minutes = pause_s(series.restarts) / 60
                waiting[name] = f"{first.what} is FAILED and is started again {minutes:g} minutes after the last restart: {first.sentence}"
            else:
                restart.append(name)
        return Verdict(tuple(restart), waiting, stuck)

    def restarted(self, name: str, *, now_s: float) -> None:
        """A restart was asked for."""
        series = self._series.setdefault(name, _Series(0, now_s))
        series.restarts += 1
        series.last_s = now_s

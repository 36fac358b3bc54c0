"""Decides when failed connectors and tasks are restarted.

The first restart comes at once. The pause after the n-th restart in a row is n*n + n minutes, 60 at
most, and the number of restarts is limited. A connector that ran without failure for as long as its
next pause starts a new series. Most failures of a task need a person, because the task itself
retries transient errors. A restart helps tasks whose retries were limited, or whose process was
killed from outside. Times are those of a monotonic clock.
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
"""Openings of traces whose cause another try may remove: our transient errors, those whose retries
were limited, a process that was killed from outside, and the retriable exceptions of a Kafka
Connect on the JVM.
"""


def is_retriable(trace: str) -> bool:
    """Return True if another try may help against the error of this trace."""
    return _RETRIABLE.search(trace) is not None


def pause_s(restarts: int) -> float:
    """Return the seconds to wait after this number of restarts in a row."""
    return 60.0 * min(restarts * restarts + restarts, _PAUSE_MAX_MINUTES)


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules of the restarts.

    ``restarts_max`` limits the restarts in a row; None does not. With ``retriable_only``, a failure
    that another try cannot remove waits for a person.
    """

    restarts_max: int | None = 7
    retriable_only: bool = True
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """A FAILED part of a connector: the connector itself (``task`` None) or one of its tasks."""

    task: int | None
    trace: str

    @property
    def what(self) -> str:
        return "the connector" if self.task is None else f"task {self.task}"

    @property
    def sentence(self) -> str:
        """First line of the trace, at most 500 characters."""
        return self.trace.strip().partition("\n")[0][:500] or "no reason is given"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision about failed connectors: names to restart, and a sentence for each of the others."""

    restart: tuple[str, ...]
    waiting: Mapping[str, str]
    stuck: Mapping[str, str]


@dataclass(slots=True)
class _Series:
    restarts: int
    last_s: float


class Restarts:
    """Series of restarts of each connector, kept in memory: after a restart of this program the
    pauses start again at the shortest.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._series: dict[str, _Series] = {}

    def decide(self, failures: Mapping[str, Iterable[Failure]], *, now_s: float) -> Verdict:
        """Decide which connectors are restarted now.

        ``failures`` has an entry for every connector of this owner, with an empty list for a sound
        one.
        """
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
        """Count a restart that was requested."""
        series = self._series.setdefault(name, _Series(0, now_s))
        series.restarts += 1
        series.last_s = now_s

"""Compares source and lake while the shop is open.

Run `python -m demo.identical CONNECTOR TABLES WORKER_URL METRICS_URL [--login FOLDER] ...`. Like an
operator, it waits until the connector's first dump is done, requests a dump with the fingerprints
of all rows (`dblog dumps start --mode verify`), and reads the sink's verdict on each table from its
metrics. It prints what it waits for, and for how long; the last line is `identical: yes` or
`identical: no`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LIMIT_S = 570.0
"""Limit of the whole comparison, below the limit of `helm test` for its pod.

A comparison takes a minute or two; the first writes to a lake on a busy machine take longer.
"""
TRIES = 3
"""Number of comparisons; one has no verdict if the sink started in the middle of it."""
COUNTS = ("equal", "changed", "differing", "missing", "invented")
WRONG = ("differing", "missing", "invented")
_SERIES = re.compile(r'^dblog_sink_(verify_dumps_total|verified_rows)\{result="(\w+)",table="([^"]+)"\} (\S+)$', re.MULTILINE)

Series = Mapping[tuple[str, str, str], float]
"""Numbers by metric, table and result."""


class StopError(Exception):
    """Error for a comparison without an answer; the text names the cause and where to look."""


@dataclass(frozen=True, slots=True)
class Question:
    """The tables to compare, the addresses of worker and sink, and the time limit."""

    connector: str
    tables: tuple[str, ...]
    url: str
    metrics_url: str
    options: tuple[str, ...]
    ends_s: float

    @property
    def left_s(self) -> float:
        """Seconds until the limit, at least one."""
        return max(1.0, self.ends_s - time.monotonic())

    def dumps(self, *arguments: str) -> None:
        """Run `dblog dumps` and show its output. Raise StopError if it fails or is too slow."""
        command = [sys.executable, "-P", "-m", "dblog", "dumps", *arguments, "--url", self.url, *self.options]
        try:
            subprocess.run(command, check=True, timeout=self.left_s)
        except subprocess.CalledProcessError as e:
            raise StopError(f"dblog dumps {' '.join(arguments)} failed, for the reason above") from e
        except subprocess.TimeoutExpired as e:
            raise StopError(f"dblog dumps {' '.join(arguments)} did not end in time; the worker's log says why") from e

    def series(self) -> Series | None:
        """Return the sink's metrics of comparisons; None while it does not respond."""
        try:
            with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:  # noqa: S310  an address of the chart's
                text = answer.read().decode()
        except OSError:
            return None
        return {(metric, table, result): float(number) for metric, result, table, number in _SERIES.findall(text)}

    def wait(self, condition: Callable[[], bool], what: str, remedy: str, *, pause_s: float = 1.0) -> None:
        """Wait until the condition is true. Raise StopError with the remedy at the limit."""
        began_s = said_s = time.monotonic()
        while not condition():
            now_s = time.monotonic()
            if now_s >= self.ends_s:
                raise StopError(f"waited {now_s - began_s:.0f} s for {what}; {remedy}")
            if now_s - said_s >= 10:  # noqa: PLR2004 - seconds
                said_s = now_s
                _say(f"waiting for {what}, for {now_s - began_s:.0f} s so far")
            time.sleep(pause_s)


def answer(question: Question) -> bool:
    """Return True if every table is identical. Raise StopError if a table has no verdict."""
    question.wait(lambda: question.series() is not None, "the sink's metrics", "its pod's log says why it does not start")
    question.dumps("watch", question.connector, "initial")
    unjudged: Sequence[str] = question.tables
    for _ in range(TRIES):
        before = question.series() or {}
        question.dumps("start", question.connector, *(re.escape(table) for table in unjudged), "--mode", "verify", "--watch")
        question.wait(lambda: _all_compared(question, before, unjudged), "the sink's verdict", "its pod's log says what it waits for")  # noqa: B023
        now = question.series() or {}
        unjudged = [table for table in unjudged if _rose(now, before, table, "unknown")]
        if not unjudged:
            return _report(now, question.tables)
        _say(f"no verdict yet of {', '.join(unjudged)}: asked again")
    raise StopError(f"no verdict of {', '.join(unjudged)}; `dblog-sink verified` in the sink's pod says why")


def _all_compared(question: Question, before: Series, tables: Sequence[str]) -> bool:
    now = question.series() or {}
    return all(any(_rose(now, before, table, result) for result in ("equal", "differing", "unknown")) for table in tables)


def _rose(now: Series, before: Series, table: str, result: str) -> bool:
    key = ("verify_dumps_total", table, result)
    return now.get(key, 0.0) > before.get(key, 0.0)


def _report(series: Series, tables: Sequence[str]) -> bool:
    width = max(map(len, tables))
    _say(f"{'table':{width}}" + "".join(f"{name:>12}" for name in COUNTS))
    rows = {table: [int(series.get(("verified_rows", table, name), 0)) for name in COUNTS] for table in tables}
    for table, counts in rows.items():
        _say(f"{table:{width}}" + "".join(f"{count:>12,}" for count in counts))
    wrong = sum(count for counts in rows.values() for name, count in zip(COUNTS, counts, strict=True) if name in WRONG)
    return wrong == 0 and all(sum(counts) > 0 for counts in rows.values())


def main(arguments: Sequence[str]) -> int:
    """Compare the tables. Return the exit status: 0 identical, 1 different, 2 no answer."""
    connector, tables, url, metrics_url, *options = arguments
    question = Question(connector, tuple(tables.split(",")), url, metrics_url, tuple(options), time.monotonic() + LIMIT_S)
    try:
        identical = answer(question)
    except StopError as e:
        _say(f"{e}")
        _say("identical: not known")
        return 2
    _say(f"identical: {'yes' if identical else 'no'}")
    return 0 if identical else 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

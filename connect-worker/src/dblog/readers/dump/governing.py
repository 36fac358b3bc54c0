"""Measures once a second how dumps press on their source, and sets the pace of their reading
(``core/pressure.py``).

It has its own thread, and a connection while there is something to dump. A limit that the account
may not measure limits nothing, and the status says so.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import structlog

from dblog.abort import Abort
from dblog.clock import Clock
from dblog.core.lograce import AT_END_BYTES
from dblog.core.pressure import FREE, OF_SERVER, UNANSWERED_S, Governor, Limit
from dblog.errors import DblogError
from dblog.observe.numbers import named
from dblog.readers.contract import LoadWatch, Server
from dblog.readers.dump.dumping import Dumping
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import Watch
from dblog.readers.log.stream import LogStream
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import Tally

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0

STATES = ("free", "slowed", "held")


class TaskLoad:
    """Measurements that a task itself makes of the pressure on its source."""

    def __init__(self, *, stream: LogStream, watch: Watch, tally: Tally, progress: DumpProgress) -> None:
        self._stream = stream
        self._watch = watch
        self._tally = tally
        self._progress = progress

    @property
    def has_dumps(self) -> bool:
        """True if there is something to read for a dump now, if the source can bear it."""
        book = self._progress.book
        return (book.own is not None and not book.own.ended) or any(one.runs for one in book.requests)

    @property
    def log_left_s(self) -> float | None:
        """Seconds until the source drops log that was not read; None if it will not."""
        race = self._watch.race
        return None if race is None else race.left_s

    def measured(self) -> dict[Limit, float]:
        """Return the measurements that the task itself makes.

        A log that has been read except for a small rest is not late, whatever the clocks say.
        """
        watched, p95_ms = self._watch.state, self._tally.select_p95_ms()
        at_end = watched is not None and watched[0].behind_bytes < AT_END_BYTES
        out = {Limit.LOG_LAG: 0.0 if at_end else self._stream.behind_ms()}
        if (race := self._watch.race) is not None:
            out[Limit.LOG_RACE] = race.near
        return out if p95_ms is None else {**out, Limit.STATEMENT_P95: p95_ms}


class Governing:
    """Pace control of one task's dumps. ``dumping`` reads at the pace that is decided."""

    def __init__(
        self,
        server: Server,
        *,
        limits: Mapping[Limit, float],
        load: TaskLoad,
        dumping: Dumping,
        stopped: threading.Event,
        clock: Clock,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._server = server
        self._limits = {Limit.LOG_RACE: 1.0, Limit.ANSWER: UNANSWERED_S, **limits}
        self._asked = [limit for limit in OF_SERVER if limit in limits]
        self._load = load
        self._dumping = dumping
        self._stopped = stopped
        self._clock = clock
        self._warnings = warnings or StandingWarnings()
        self._abort = Abort()
        self._connection: LoadWatch | None = None
        self._governor = Governor(limits=self._limits)
        self._measured: Mapping[Limit, float] = {}
        self._missing: Mapping[Limit, str] = {}
        self._answered_s: float | None = None
        self._spent_s = dict.fromkeys(STATES, 0.0)
        self._looked_s = clock.monotonic_s()

    def run(self) -> None:
        """Look until the task stops."""
        try:
            while not self._stopped.is_set():
                self.look()
                self._stopped.wait(LOOK_EVERY_S)
        finally:
            self._close()

    def stop(self) -> None:
        """Interrupt a question that is under way."""
        self._abort.call()

    def look(self) -> None:
        """Measure and decide once."""
        now_s = self._clock.monotonic_s()
        self._spent_s[self._governor.pace.state] += now_s - self._looked_s
        self._looked_s = now_s
        if self._load.has_dumps:
            measured = self._load.measured()
            own_ms = measured.get(Limit.STATEMENT_P95, 0.0)
            measured |= self._ask()
            if Limit.STATEMENT_P95 in measured:
                measured[Limit.STATEMENT_P95] = max(own_ms, measured[Limit.STATEMENT_P95])
            self._measured = {limit: value for limit, value in measured.items() if limit in self._limits}
            self._decided(self._governor.looked(measured, now_s=self._clock.monotonic_s()))
        else:
            self._close()
            self._measured, self._answered_s = {}, None
            self._decided(Governor(limits=self._limits))

    def status(self) -> dict[str, Any]:
        """Return the governor's part of a dump's status."""
        pace = self._governor.pace
        cause = pace.cause
        return {
            "state": pace.state,
            "reason": None if cause is None else str(cause),
            "measured": None if cause is None else round(cause.measured, 3),
            "limit": None if cause is None else cause.most,
            "log_left_s": None if (left_s := self._load.log_left_s) is None else round(left_s),
            "missing": [f"{limit}: {why}" for limit, why in self._missing.items()],
        }

    def numbers(self) -> dict[str, float]:
        """Return the metrics by name."""
        measured = self._measured
        return {
            **{named("dump_governor_state", state): float(state == self._governor.pace.state) for state in STATES},
            **{named("dump_governor_seconds_total", state): spent_s for state, spent_s in self._spent_s.items() if state != FREE.state},
            **{named("dump_limit", limit): most for limit, most in self._limits.items()},
            **{named("dump_limit_measured", limit): value for limit, value in measured.items()},
        }

    def _ask(self) -> dict[Limit, float]:
        """Return the server's measurements, or the time for which it has not answered."""
        if not self._asked:
            return {}
        began_s = self._clock.monotonic_s()
        if self._answered_s is None:
            self._answered_s = began_s
        try:
            if self._connection is None:
                self._connection = self._server.open_load(self._abort)
            load = self._connection.measure(self._asked)
        except Exception as e:  # noqa: BLE001 - what is measured must not end a task
            self._close()
            silent_s = self._clock.monotonic_s() - self._answered_s
            log.debug(
                "the source does not report its load",
                reason=str(e) if isinstance(e, DblogError) else type(e).__name__,
                silent_s=round(silent_s, 1),
            )
            return {Limit.ANSWER: silent_s}
        self._answered_s = self._clock.monotonic_s()
        for limit, why in load.missing.items():
            if limit not in self._missing:
                log.warning("a limit of dumps cannot be measured in full", limit=f"dblog.dump.limit.{limit}", reason=why)
        self._missing_are(load.missing)
        return dict(load.measured)

    def _missing_are(self, missing: Mapping[Limit, str]) -> None:
        for limit in self._missing.keys() - missing.keys():
            self._warnings.withdraw(f"dump limit {limit}")
        for limit, why in missing.items():
            self._warnings.raise_warning(f"dump limit {limit}", f"dblog.dump.limit.{limit} cannot be measured in full: {why}")
        self._missing = missing

    def _decided(self, governor: Governor) -> None:
        before, self._governor = self._governor.pace, governor
        pace = governor.pace
        if pace.step == before.step:
            return
        if pace.state != before.state:
            log.info("the pace of dumps changes", state=pace.state, reason=None if pace.cause is None else str(pace.cause))
        self._dumping.pace(pace)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

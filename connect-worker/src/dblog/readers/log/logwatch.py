"""Asks the server regularly where its log ends, for metrics, without delaying the reading of the
log.

It has its own thread and connection. A value that could not be read is left out, not repeated from
before. A server that answers slowly is asked less often.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog

from dblog.abort import Abort
from dblog.clock import Clock
from dblog.core.lograce import LogLook, LogRace, Race
from dblog.core.pressure import EASIER_BELOW, SLOWER_FROM
from dblog.errors import DblogError
from dblog.model import TableId
from dblog.readers.contract import ESTIMATED_MAX, LogState, LogWatch, Progress, Server
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.stream import LogStream
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

SHARE_MAX = 0.05
"""Maximum share of the time that the server may spend on the answers."""

FRESH_INTERVALS = 3.0
ANSWER_S = 10.0
"""An answer is valid for this number of intervals, and at least until the next answer can be there:
metrics that come and go would silence alerts.
"""

RACE = "log race"
"""Key of the standing warning about a log that the server may drop too early."""

ESTIMATES_AGAIN_S = 600.0
"""Seconds after which statistics are read again. Tables change during their dump, and the server
renews its statistics.
"""


class RowEstimates:
    """Estimated rows of tables, by the server's statistics. Any thread may read and learn."""

    def __init__(self) -> None:
        self.rows: Mapping[TableId, int] = {}

    def learn(self, rows: Mapping[TableId, int]) -> None:
        """Add estimates, or replace older ones of the same tables."""
        self.rows = {**self.rows, **rows}


class Watch:
    """Watch over the server's log for one task.

    ``stream`` reads the log, ``stored`` is the stored position. ``estimates`` gets the rows of the
    tables that the dumps of ``progress`` have left to read.
    """

    def __init__(
        self,
        server: Server,
        *,
        stream: LogStream,
        stored: Progress,
        progress: DumpProgress,
        estimates: RowEstimates,
        stopped: threading.Event,
        interval_s: float,
        clock: Clock,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._server = server
        self._stream = stream
        self._stored = stored
        self._progress = progress
        self._estimates = estimates
        self._log_race = LogRace()
        self._race = Race()
        self._warned = False
        self._stopped = stopped
        self._interval_s = interval_s
        self._clock = clock
        self._warnings = warnings or StandingWarnings()
        self._abort = Abort()
        self._connection: LogWatch | None = None
        self._state: tuple[LogState, int] | None = None
        self._fresh_s = 0.0
        self._estimated: tuple[frozenset[TableId], float] = frozenset(), 0.0
        self.failures = 0
        self._reported = False

    @property
    def state(self) -> tuple[LogState, int] | None:
        """Last answer and its time in microseconds; None if it is too old."""
        state = self._state
        return state if state is not None and self._clock.now_us() - state[1] <= self._fresh_s * 1_000_000 else None

    @property
    def race(self) -> Race | None:
        """Race between the server's dropping of log and the reading of it; None without a recent
        answer.
        """
        return None if self.state is None else self._race

    def run(self) -> None:
        """Ask the server at intervals until the task stops."""
        try:
            while not self._stopped.is_set():
                self._stopped.wait(self._look())
        finally:
            self._close()

    def stop(self) -> None:
        """Interrupt a question that is under way."""
        self._abort.call()

    def _look(self) -> float:
        """Ask everything once, and return the seconds until the next time."""
        began_s = self._clock.monotonic_s()
        pause_s = self._interval_s
        try:
            connection = self._connection
            if connection is None:
                connection = self._connection = self._server.open_watch(self._abort)
            self._estimate(connection)
            state = connection.look(self._stream.progress, self._stored)
            took_s = self._clock.monotonic_s() - began_s
            pause_s = max(self._interval_s, took_s / SHARE_MAX)
            self._fresh_s = max(FRESH_INTERVALS * self._interval_s, pause_s + took_s + ANSWER_S)
            self._look_at_race(state)
            self._state = state, self._clock.now_us()
            self._reported = False
        except DblogError as e:
            self._failed(str(e))
        except Exception as e:  # noqa: BLE001 - numbers for metrics must not end a task
            self._failed(f"{type(e).__name__}: {e}")
        return pause_s

    def _look_at_race(self, state: LogState) -> None:
        look = LogLook(
            at_s=self._clock.monotonic_s(),
            read_bytes=self._stream.counts().bytes,
            behind_bytes=state.behind_bytes,
            needed_bytes=state.needed_bytes,
            age_s=state.stored_age_s,
            kept_s=state.retention_s,
            kept_bytes=state.kept_bytes,
        )
        race = self._race = self._log_race.looked(look)
        near = race.near >= (EASIER_BELOW if self._warned else SLOWER_FROM)
        if near and not self._warned:
            what = "the server may drop its log before it has been read; dumps give way"
            left_s = None if race.left_s is None else round(race.left_s)
            log.warning(what, behind_bytes=state.behind_bytes, left_s=left_s)
            self._warnings.raise_warning(
                RACE, f"{what}; let the server keep its log for longer, and look at what keeps the connector from reading"
            )
        elif not near:
            self._warnings.withdraw(RACE)
        self._warned = near

    def _failed(self, reason: str) -> None:
        self._state = None
        self._close()
        if self._stopped.is_set():
            return
        self.failures += 1
        if not self._reported:
            self._reported = True
            log.info("the server does not report how far its log goes; metrics lack it meanwhile", reason=reason)

    def _estimate(self, connection: LogWatch) -> None:
        """Read statistics of the tables left to dump if some are new or the last statistics are
        old.
        """
        left = self._progress.book.left
        if not left or len(left) > ESTIMATED_MAX:
            return
        tables, asked_s = self._estimated
        wanted, now_s = frozenset(left), self._clock.monotonic_s()
        if wanted <= tables and now_s - asked_s < ESTIMATES_AGAIN_S:
            return
        self._estimated = wanted | tables, now_s
        self._estimates.learn(connection.row_estimates(sorted(wanted)))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

"""The statement that a configuration wants run with each heartbeat (heartbeat.action.query)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from dblog.dialects.idle_session import SESSION_IDLE_S
from dblog.dialects.postgres.wire.connect import Wire
from dblog.errors import DblogError, DefiniteError, discreet
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

STATEMENT_LIMIT_S = 60.0
"""The server ends a statement that takes longer, unless database.query.timeout.ms is shorter: what it holds must not be held for long."""
ANSWER_LIMIT_S = 2 * STATEMENT_LIMIT_S
"""A server that has not answered by then is gone without a word."""
FAILS = "heartbeat statement"
"""The key of a standing warning."""


class HeartbeatQuery:
    """Runs it on a connection and in a thread of its own, for the log must not wait for it. A beat while it still runs is let go; the first of several failures
    is logged, a warning stands until it succeeds, and each beat tries again. Between beats that are far apart the connection is closed.
    """

    def __init__(self, statement: str, connect: Callable[[], Wire], *, interval_s: float, warnings: StandingWarnings) -> None:
        self._statement = statement
        self._connect = connect
        self._keeps = interval_s < SESSION_IDLE_S
        self._warnings = warnings
        self._fails = False
        self._wire: Wire | None = None
        self._busy = threading.Lock()

    def beat(self) -> None:
        """Run it once more."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._run, name="heartbeat-query", daemon=True).start()

    def _run(self) -> None:
        try:
            if self._wire is None:
                self._wire = self._connect()
            self._wire.query(self._statement, doing="heartbeat.action.query", secret=True, limit_s=ANSWER_LIMIT_S)
            if self._wire.in_transaction:
                message = "it has left a transaction open, which was rolled back; let the statement commit what it begins"
                raise DefiniteError(message)
            if not self._keeps:
                self._close()
            self._fails = False
            self._warnings.withdraw(FAILS)
        except DblogError as e:
            self._failed(discreet(e))
            self._close()
        finally:
            self._busy.release()

    def _failed(self, reason: str) -> None:
        self._warnings.raise_warning(FAILS, f"heartbeat.action.query fails, and each heartbeat tries it again: {reason}")
        if not self._fails:
            log.warning("the statement of a heartbeat failed", reason=reason)
        self._fails = True

    def _close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

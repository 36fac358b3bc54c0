"""Runs the configured statement with each heartbeat (heartbeat.action.query)."""

from __future__ import annotations

import threading
from typing import Protocol

import structlog

from dblog.dialects.idle_session import SESSION_IDLE_S
from dblog.dialects.postgres.wire.connect import Wire
from dblog.errors import DblogError, DefiniteError, discreet
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

STATEMENT_LIMIT_S = 60.0
"""Seconds after which the server ends the statement, unless database.query.timeout.ms is shorter:
its locks must not be held for long.
"""
ANSWER_LIMIT_S = 2 * STATEMENT_LIMIT_S
"""Seconds after which a server that has not answered counts as dead."""
FAILS = "heartbeat statement"
"""Key of a standing warning."""


class HeartbeatConnections(Protocol):
    """The connections of the task's server."""

    def open_heartbeat(self) -> Wire:
        """Open the connection on which the statement runs."""


class HeartbeatQuery:
    """The runner of the heartbeat's statement, on a separate connection and thread, because the log
    must not wait for it.

    A beat is skipped while the statement of the one before still runs. The first of several
    failures is logged, a warning stands until the statement succeeds, and each beat tries again. If
    beats are far apart, the connection is closed between them.
    """

    def __init__(self, statement: str, connections: HeartbeatConnections, *, interval_s: float, warnings: StandingWarnings) -> None:
        self._statement = statement
        self._connections = connections
        self._keeps = interval_s < SESSION_IDLE_S
        self._warnings = warnings
        self._fails = False
        self._wire: Wire | None = None
        self._busy = threading.Lock()

    def beat(self) -> None:
        """Run the statement in a new thread, unless it is still running."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._run, name="heartbeat-query", daemon=True).start()

    def _run(self) -> None:
        try:
            if self._wire is None:
                self._wire = self._connections.open_heartbeat()
            self._wire.query(self._statement, doing="heartbeat.action.query", secret=True, limit_s=ANSWER_LIMIT_S)
            if self._wire.in_transaction:
                message = "it has left a transaction open, which was rolled back; let the statement commit its own transaction"
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

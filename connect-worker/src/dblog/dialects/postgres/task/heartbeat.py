"""The statement that a configuration wants run with each heartbeat (heartbeat.action.query)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from dblog.dialects.idle_session import SESSION_IDLE_S
from dblog.dialects.postgres.wire.connect import Wire
from dblog.errors import DblogError, discreet

log = structlog.get_logger(__name__)


class HeartbeatQuery:
    """Runs it on a connection and in a thread of its own, for the log must not wait for it. A beat while it still runs is let go; a failure is logged, and
    the next beat tries again. Between beats that are far apart the connection is closed.
    """

    def __init__(self, statement: str, connect: Callable[[], Wire], *, interval_s: float) -> None:
        self._statement = statement
        self._connect = connect
        self._keeps = interval_s < SESSION_IDLE_S
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
            self._wire.query(self._statement, doing="heartbeat.action.query", secret=True)
            if not self._keeps:
                self._close()
        except DblogError as e:
            log.warning("the statement of a heartbeat failed", reason=discreet(e))
            self._close()
        finally:
            self._busy.release()

    def _close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

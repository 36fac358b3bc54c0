"""Whether a task's offsets are not stored: since when and why, for its status, and until another producer is to be tried.

Records go on to be sent meanwhile, and a restart sends them again. What is worse, the database keeps its log for them, or deletes it unread: so nobody may
take such a task for one that runs well.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from dblog.errors import TransientError
from dblog.runtime.offsets import OffsetNotStoredError
from dblog.runtime.unacknowledged import Unacknowledged


class Unstored:
    """One run's."""

    def __init__(self, topic: str, watch: Unacknowledged) -> None:
        """``watch`` ends the run when the producer has stalled."""
        self._topic = topic
        self._watch = watch
        self._stored_s = time.time()
        self._reason: str | None = None
        self._stalls_since_s: float | None = None
        self._ended = False

    def stored(self) -> None:
        """Note that an offset has been stored."""
        self._stored_s, self._reason, self._stalls_since_s, self._ended = time.time(), None, None, False

    def failed(self, error: OffsetNotStoredError) -> None:
        """Note that one has not. A refusal by a broker is no stall: another producer would get the same."""
        self._reason = str(error)
        self._stalls_since_s = (self._stalls_since_s or time.monotonic()) if error.stalls else None
        self._ended = error.ended

    @property
    def waits(self) -> str | None:
        """Since when no offset has been stored, and why, in a sentence; None while that is well."""
        if self._reason is None:
            return None
        since = datetime.fromtimestamp(self._stored_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return f"no offset has been stored since {since}: {self._reason}"

    def check(self) -> None:
        """TransientError once that has been so for a minute though the brokers would take it, or at once where the producer takes nothing more."""
        if self._ended:
            raise TransientError(f"{self._reason}; the producer of offsets takes nothing more, so the task starts again with another one")
        waited_s = 0.0 if self._stalls_since_s is None else time.monotonic() - self._stalls_since_s
        self._watch.check(waited_s, lambda: {self._topic})

"""Tracks that a task's offsets cannot be stored: since when, why, and when to replace the producer.

Records are still sent meanwhile, and a restart sends them again. Worse, the database keeps its log
for them, or deletes it unread. So the status of such a task must not look healthy.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from dblog.errors import TransientError
from dblog.runtime.offsets import OffsetNotStoredError
from dblog.runtime.unacknowledged import Unacknowledged


class Unstored:
    """State of the offsets of one run.

    ``watch`` raises when the producer of offsets has stalled.
    """

    def __init__(self, topic: str, watch: Unacknowledged) -> None:
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
        """Note that an offset could not be stored.

        A refusal by a broker is not a stall: another producer would get the same answer.
        """
        self._reason = str(error)
        self._stalls_since_s = (self._stalls_since_s or time.monotonic()) if error.stalls else None
        self._ended = error.ended

    @property
    def waits(self) -> str | None:
        """Sentence that says since when no offset has been stored, and why; None while storing
        works.
        """
        if self._reason is None:
            return None
        since = datetime.fromtimestamp(self._stored_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return f"no offset has been stored since {since}: {self._reason}"

    def check(self) -> None:
        """Raise TransientError if another producer of offsets is needed.

        That is so if nothing was stored for a minute although the brokers would take it, or at once
        if the producer has ended.
        """
        if self._ended:
            raise TransientError(f"{self._reason}; the producer of offsets takes nothing more, so the task starts again with another one")
        waited_s = 0.0 if self._stalls_since_s is None else time.monotonic() - self._stalls_since_s
        self._watch.check(waited_s, lambda: {self._topic})

"""Scheduler strategies for consistent snapshots, and for the return to merges by batches."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from dblog_sink.batches.failures import pause_s
from dblog_sink.batches.merge_by_batches import PAUSE_MAX_S, MergeByBatches
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.scheduler import MergeJob
from dblog_sink.errors import DefiniteError
from dblog_sink.snapshots.publish import SnapshotPublisher
from dblog_sink.state.notes import State

log = logging.getLogger(__name__)

_RETRIES = 5
_LOOKS = 3
"""A drain ends after this many consecutive looks without anything to publish. A waiver, or a source
at rest, is found by the third look at the latest.
"""


class MergeBySnapshots:
    """The ``Strategy`` that makes one snapshot at a time, every ``manifest.interval.s`` at most."""

    def __init__(self, parts: Parts, publisher: SnapshotPublisher, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._publisher = publisher
        self._now_s = now_s
        self._interval_s: float = parts.settings["manifest.interval.s"]
        self._running = False
        self._began_s, self._not_before_s = -math.inf, 0.0
        self._attempts = self._empty_looks = 0

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Return the next snapshot as a job, unless one is running or it is too early."""
        if self._running or slots <= 0 or now_s < self._not_before_s or (not everything and now_s - self._began_s < self._interval_s):
            return []
        self._running, self._began_s = True, now_s
        return [_SnapshotJob(self._publisher, self._ended)]

    def drain_started(self) -> None:
        """Reset the count of empty looks, because looks before the drain do not count."""
        self._empty_looks = 0

    def drained(self) -> bool:
        """Return True if nothing is left to publish but incomplete transactions."""
        return self._empty_looks >= _LOOKS

    def restarted(self) -> None:
        """Clear failures and pauses, so that the next snapshot is tried at once."""
        self._parts.merge_failures.clear()
        self._attempts, self._not_before_s = 0, 0.0

    def lands_everything(self, *, repeated: bool) -> bool:
        """Return True, unless the batch is repeated and may have been begun without a manifest.

        A batch must be finished in the way in which it was begun.
        """
        state = self._parts.control.state
        return not (repeated and state.snapshot is None and state.table_ids)

    @property
    def nothing_left(self) -> bool:
        """True if the last look found nothing to publish."""
        return self._empty_looks > 0 and not self._running

    def _ended(self, error: Exception | None, *, published: bool) -> Exception | None:
        self._running = False
        if error is None:
            self._attempts = 0
            self._empty_looks = 0 if published else self._empty_looks + 1
            # What waits grows while a transaction blocks. Looking at it may take half of the time
            # at most.
            if not published:
                self._not_before_s = 2 * self._now_s() - self._began_s
            return None
        if self._parts.ending.is_set():
            return None
        self._attempts += 1
        self._empty_looks = 0
        if isinstance(error, DefiniteError) or self._attempts > _RETRIES:
            return error
        self._not_before_s = self._now_s() + pause_s(self._attempts, pause_max_s=PAUSE_MAX_S)
        log.warning("the snapshot failed, attempt %d: %s", self._attempts, str(error).splitlines()[0])
        return None


class LastSnapshotThenBatches:
    """The ``Strategy`` after the manifest was switched off.

    It finishes a snapshot that was begun and then merges by batches. ``state`` is that of the
    control table.
    """

    def __init__(self, by_snapshots: MergeBySnapshots, by_batches: MergeByBatches, state: State) -> None:
        self._by_snapshots = by_snapshots
        self._by_batches = by_batches
        self._state = state
        self._finished = False

    def due(self, *, slots: int, now_s: float, everything: bool) -> list[MergeJob]:
        """Return the jobs of the strategy in charge."""
        self._finished = self._finished or self._by_snapshots.nothing_left
        if self._finished:
            return self._by_batches.due(slots=slots, now_s=now_s, everything=everything)
        return self._by_snapshots.due(slots=slots, now_s=now_s, everything=True)

    def drain_started(self) -> None:
        """Do nothing."""

    def drained(self) -> bool:
        """Return True if neither a table nor a snapshot waits."""
        self._finished = self._finished or self._by_snapshots.nothing_left
        return self._finished and self._by_batches.drained()

    def restarted(self) -> None:
        """Clear failures and pauses of the snapshots."""
        self._by_snapshots.restarted()

    def lands_everything(self, *, repeated: bool) -> bool:  # noqa: ARG002  of the protocol
        """Return True while a snapshot is unfinished.

        Another writer of a table would write the snapshot's rows, or its rows would be taken for
        the snapshot's.
        """
        return self._state.snapshot_unfinished is not None


@dataclass(slots=True)
class _SnapshotJob:
    """The ``MergeJob`` that publishes one snapshot."""

    _publisher: SnapshotPublisher
    _ended: Callable[..., Exception | None]
    _published: bool = False

    def run(self) -> None:
        self._published = self._publisher.publish_next()

    def ended(self, error: Exception | None) -> Exception | None:
        return self._ended(error, published=self._published)

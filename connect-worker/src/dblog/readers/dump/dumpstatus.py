"""The statuses of a task's dumps: progress, speed, remaining time, and tables.

Estimates use the server's statistics; values that depend on them are missing for tables without
statistics.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from dblog.clock import Clock
from dblog.core.chunkmap import left_of
from dblog.core.dumps import Dump
from dblog.core.estimates import EndEstimate
from dblog.core.requested import STOPPED, RequestedDump
from dblog.core.table_dump import TableDump
from dblog.core.watermark import WatermarkPosition
from dblog.model import TableId
from dblog.readers.dump.chunknotes import ChunkNotes, Proof
from dblog.readers.dump.governing import Governing
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.log.logwatch import RowEstimates

TABLES_SHOWN_MAX = 200
"""Maximum number of tables in a dump's status, those under way first."""

ENDED = ("DONE", "FAILED", "STOPPED")
_UNDER_WAY = ("RUNNING", "WAITING")


class Statuses:
    """Statuses of one run. One thread calls it."""

    def __init__(
        self,
        *,
        windows: OpenWindows,
        notes: ChunkNotes,
        estimates: RowEstimates,
        governing: Governing,
        clock: Clock,
    ) -> None:
        self._windows = windows
        self._notes = notes
        self._estimates = estimates
        self._governing = governing
        self._clock = clock
        self._end_estimates: dict[str, EndEstimate] = {}
        self._table_estimates: dict[str, dict[TableId, EndEstimate]] = {}
        """Estimates of the tables that are under way."""
        self._at_rest: dict[str, tuple[Dump, RequestedDump | None, dict[str, Any]]] = {}
        """Statuses that do not change by themselves, kept because each may have tens of thousands
        of tables.
        """

    def forget(self, identity: str) -> None:
        """Forget a dump that nobody asks about any more."""
        self._end_estimates.pop(identity, None)
        self._table_estimates.pop(identity, None)
        self._at_rest.pop(identity, None)
        self._notes.forget(identity)

    def of(self, identity: str, dump: Dump, state: str, reason: str | None, *, one: RequestedDump | None = None) -> dict[str, Any]:
        """Return the status of one dump; ``one`` is its request, None for the
        connector's own dump.
        """
        known = self._at_rest.get(identity)
        troubles = self._troubles(identity, dump, one) if state in _UNDER_WAY else {}
        if known is not None and not troubles and known[0] is dump and known[1] is one and known[2]["state"] == state:
            return known[2]
        runs = state == "RUNNING"
        left = self._rows_left(dump) if state not in ENDED else 0
        estimate = self._looked(identity, dump, state, left)
        estimated = None if left is None else dump.rows + left
        shown = list(islice(_shown(dump), TABLES_SHOWN_MAX))
        leaving = self._windows.rows_leave(identity)
        self._look_at_tables(identity, shown, runs=runs)
        status = {
            "id": identity,
            "state": state,
            "tables_total": dump.tables_total,
            "tables_done": dump.tables_done,
            "tables_failed": len(dump.failed) if one is None else one.tables_failed,
            "rows": dump.rows,
            "rows_estimated": estimated,
            "bytes": dump.bytes,
            "bytes_estimated": _bytes_estimated(dump.bytes, dump.rows, estimated),
            "chunks": sum(progress.chunks for progress in chain(dump.left.values(), dump.over.values())),
            "rows_per_s": estimate.rate if runs else None,
            "eta_s": estimate.eta_s if runs else None,
            "eta_error": estimate.error,
            "revision": None if one is None else one.request.revision,
            "reason": reason
            or next((f"{table} waits: {why}" for table, why in troubles.items()), None)
            or next((progress.fault for progress in dump.failed), None),
            "governor": self._governing.status() if runs else None,
            # The herder does not know a request that a signal has made.
            **({"request": one.request.to_json()} if one is not None and one.by_signal else {}),
            "tables": [
                self._table(identity, progress, one, troubles.get(progress.table), rows_leave=progress.table in leaving)
                for progress in shown
            ],
        }
        if runs or troubles:
            self._at_rest.pop(identity, None)
        else:
            self._at_rest[identity] = dump, one, status
        return status

    def eta_error(self, identity: str) -> float | None:
        """Return the error of past estimates of the dump's end; see
        ``core.estimates.EndEstimate.error``.
        """
        estimate = self._end_estimates.get(identity)
        return None if estimate is None else estimate.error

    def _looked(self, identity: str, dump: Dump, state: str, left: int | None) -> EndEstimate:
        estimate = self._end_estimates.setdefault(identity, EndEstimate())
        now_s = self._clock.monotonic_s()
        if state == "RUNNING":
            estimate.look(now_s, done=dump.rows, left=left)
        elif state == "DONE":
            estimate.end(now_s)
        else:
            estimate.rest()
        return estimate

    def _look_at_tables(self, identity: str, shown: Iterable[TableDump], *, runs: bool) -> None:
        """Update the estimates of the tables under way, and forget all others."""
        now_s, known = self._clock.monotonic_s(), self._table_estimates.get(identity, {})
        self._table_estimates[identity] = looked = {}
        for progress in shown:
            if runs and progress.started and not progress.ended:
                estimate = looked[progress.table] = known.get(progress.table) or EndEstimate()
                estimated = self._estimates.rows.get(progress.table)
                estimate.look(now_s, done=progress.rows, left=None if estimated is None else max(0, estimated - progress.rows))

    def _troubles(self, identity: str, dump: Dump, one: RequestedDump | None) -> dict[TableId, str]:
        """Return the reasons why tables that should be read wait."""
        found = self._windows.troubles(identity)
        return {table: why for table, why in found.items() if table in dump.left and (one is None or one.reads(table))}

    def _table(
        self, identity: str, progress: TableDump, one: RequestedDump | None, trouble: str | None, *, rows_leave: bool
    ) -> dict[str, Any]:
        name = str(progress.table)
        estimated = self._estimates.rows.get(progress.table)
        estimate = self._table_estimates[identity].get(progress.table)
        chunks_open, read_again, proof = self._windows.notes(identity, progress.table)
        return {
            "table": name,
            "state": _state_of(progress, None if one is None else one.request.tables_wanted.get(name), rows_leave=rows_leave),
            "rows": progress.rows,
            "rows_estimated": estimated,
            "bytes": progress.bytes,
            "bytes_estimated": _bytes_estimated(progress.bytes, progress.rows, estimated),
            "chunks": progress.chunks,
            "chunks_open": chunks_open,
            "chunks_read_again": read_again,
            "chunk_rows": None if proof is None else proof.rows,
            "rows_per_s": None if estimate is None else estimate.rate,
            "eta_s": None if estimate is None else estimate.eta_s,
            "eta_error": None if estimate is None else estimate.error,
            "left": left_of(progress.parts, rows=progress.rows, rows_left=None if estimated is None else estimated - progress.rows),
            "proof": _proof(proof),
            "reason": trouble,
            "fault": progress.fault,
        }

    def _rows_left(self, dump: Dump) -> int | None:
        """Return the rows left by the statistics; None if a table has none."""
        estimates = self._estimates.rows
        if any(table not in estimates for table in dump.left):
            return None
        return sum(max(0, estimates[table] - progress.rows) for table, progress in dump.left.items())


def _state_of(progress: TableDump, wanted: Any, *, rows_leave: bool) -> str:
    if progress.fault is not None:
        return "STOPPED" if progress.fault == STOPPED else "FAILED"
    if progress.done:
        return "DONE"
    if wanted is not None:
        return str(wanted.value)
    return "RUNNING" if progress.started or rows_leave else "WAITING"


def _proof(proof: Proof | None) -> dict[str, Any] | None:
    """Return the positions of the last chunk's window in the log, and the time of the proof."""
    return None if proof is None else {"low": _position(proof.low), "high": _position(proof.high), "at_ms": proof.at_us // 1000}


def _position(position: WatermarkPosition) -> dict[str, Any]:
    return {"file": position.file, "pos": position.pos, "gtid": position.gtid}


def _bytes_estimated(size_bytes: int, rows: int, rows_estimated: int | None) -> int | None:
    """Return the estimated bytes of all rows, from the mean size of the rows so far."""
    return None if rows_estimated is None or not rows or not size_bytes else round(size_bytes * max(rows, rows_estimated) / rows)


def _shown(dump: Dump) -> Iterable[TableDump]:
    """Return tables under way first, then failed ones, then waiting ones, then finished ones."""
    begun = (progress for progress in dump.left.values() if progress.started)
    waiting = (progress for progress in dump.left.values() if not progress.started)
    done = (progress for progress in dump.over.values() if progress.fault is None)
    return chain(begun, dump.faults.values(), waiting, done)

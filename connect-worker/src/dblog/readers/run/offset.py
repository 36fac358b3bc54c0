"""The source offset of a task, built from the steps of acknowledged batches. # I1

An offset is one Kafka record, which is limited to a megabyte by default, however many tables there
are. So each part of it is bounded at its source (``core/dumps.py``, ``core/requested.py``). Two
parts may still be large for a while: the counts of a transaction that changes thousands of tables,
and the names of thousands of tables that have joined a dump since the task's start. Until they are
smaller, the previous offset is the one to store: a run that is killed meanwhile repeats what has
come since, and loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import structlog

from dblog.core.dumps import Dump, dump_to_text, stored_bytes
from dblog.core.requested import Requests, requests_to_text
from dblog.core.timeline import Position
from dblog.model import OffsetMap
from dblog.readers.contract import Progress
from dblog.readers.dump.marks import MarkExchange
from dblog.readers.dump.order import Step
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

OFFSET_BYTES_MAX = 960_000
"""Maximum size of a whole offset: a producer accepts 1 000 000 bytes including the key and what
Kafka adds.
"""

COUNTS_BYTES_MAX = 100_000
"""Maximum size of the open transaction's counts by table."""

TABLE_COUNT = "transaction_data_collection_order_"
"""Debezium's prefix of a count; the table's name follows."""

NO_ROOM = "offset has no room"
"""Key of the standing warning about an offset that is too large."""

WINDOWS = "dblog_windows"
"""Field of the offset: a number above the window numbers used at one log position
(core/window_numbers.py).
"""

UNREPORTED = "dblog_unreported"
"""Field of the offset: the schemas found at the connector's first start are not all in
their topic.
"""


MANY_COUNTED = "an open transaction has changed so many tables"
MANY_JOINED = "so many tables have joined the dump since the task's start"
_REMEDIES = {
    MANY_COUNTED: "It moves again once the transaction ends: commit smaller ones, or set provide.transaction.metadata=false, so that nothing is counted",
    MANY_JOINED: "It moves again once enough of these tables are dumped; a restart of the task stores their names in a list of their own",
}


class FoldedOffset(dict[str, str | int | float | bool | None]):
    """An offset together with the state that it represents. # I1

    The fold may advance before Kafka confirms that this offset is stored.
    """

    __slots__ = ("dump_ended", "requests", "sequence")

    def __init__(self, fields: OffsetMap, *, sequence: Position, requests: Requests, dump_ended: bool) -> None:
        super().__init__(fields)
        self.sequence = sequence
        self.requests = requests
        self.dump_ended = dump_ended
        """True if the offset says that the connector's own dump has ended."""


class SourceOffset:
    """End of the acknowledged output: the log's position and the state of dumps.

    Implements ``ports.OffsetFold``. While a dump is unfinished, the offset has
    ``snapshot=INITIAL``, so that Debezium would dump again after taking over, instead of missing
    rows.

    ``unreported`` is the number of batches with the schemas of the start, which come before all
    others. Until they are acknowledged, the offset has ``dblog_unreported``, and a run that begins
    with it reports them again. ``windows`` is the value of ``dblog_windows``, 0 to leave it out;
    with ``exchange``, which numbers windows, that has the value. ``warnings`` collects warnings for
    an operator; None discards them.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        dump: Dump | None,
        unreported: int = 0,
        requests: Requests | None = None,
        windows: int = 0,
        exchange: MarkExchange | None = None,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._warnings = warnings or StandingWarnings()
        self._windows = windows
        self._exchange = exchange
        self._progress = progress
        self._dump = dump
        self._dump_text: str | None = None
        """Text form of ``_dump``, kept because it may name thousands of tables and other dumps move
        in between.
        """
        self._requests = requests or Requests()
        self._stored: FoldedOffset | None = None
        """Last offset that had room; None before the first."""
        self._waits = ""
        """Reason why the newest offset has no room; empty if it has."""
        self._unreported = unreported

    @property
    def progress(self) -> Progress:
        """Committed position, which advances with the steps."""
        return self._progress

    @property
    def sequence(self) -> Position:
        """The two numbers of ``source.sequence`` at the committed position (D7)."""
        return self._progress.sequence

    @property
    def requests(self) -> Requests:
        """Requested dumps and their progress."""
        return self._requests

    def __str__(self) -> str:
        """Return the committed position, for people."""
        return str(self._progress)

    def advance(self, step: object) -> None:
        """Take the step of one batch."""
        assert isinstance(step, Step), "the order makes the steps"
        self._unreported = max(0, self._unreported - 1)
        for position in step.log_offsets:
            self._progress.advance(position)
        if step.dump is not None:
            self._dump, self._dump_text = step.dump, None
        if step.requests is not None:
            self._requests = step.requests

    def offset(self) -> FoldedOffset:
        """Return the offset to store now."""
        out = self._progress.to_map()
        if self._dump is not None:
            if not self._dump.done:
                out["snapshot"] = "INITIAL"
            if self._dump_text is None:  # made here, at most once per offset instead of once per batch
                self._dump_text = dump_to_text(self._dump)
            out["dblog_dump"] = self._dump_text
        if windows := self._windows if self._exchange is None else self._exchange.to_store():
            out[WINDOWS] = windows
        if self._unreported:
            out[UNREPORTED] = True
        size = _size(out)
        if self._requests.has_state:
            out["dblog_dumps"] = text = requests_to_text(self._requests, bytes_max=max(0, OFFSET_BYTES_MAX - size))
            size += stored_bytes(text)
        return self._with_room(out, size)

    def stored(self) -> None:
        """Note that an offset is stored; withdraw the warning if the newest one had room."""
        if not self._waits:
            self._warnings.withdraw(NO_ROOM)

    def _with_room(self, out: OffsetMap, size: int) -> FoldedOffset:
        """Return this offset, or the last one that had room if this one is too large for a while.

        An offset that will always be too large is refused by its writer.
        """
        counts = _size({name: value for name, value in out.items() if name.startswith(TABLE_COUNT)})
        waits = ""
        if counts > COUNTS_BYTES_MAX:
            waits = MANY_COUNTED
        elif size > OFFSET_BYTES_MAX and stored_bytes(self._dump_text or "") > OFFSET_BYTES_MAX // 2:
            waits = MANY_JOINED
        if waits != self._waits:
            self._waits = waits
            if waits:
                log.warning("the offset has no room; the last one stays until there is some", reason=waits, size=size, counts=counts)
                self._warnings.raise_warning(
                    NO_ROOM,
                    f"the connector's offset does not move: {waits} that it does not fit into a record ({size} bytes). Rows go on to be sent, and a restart "
                    f"sends them again; the database has to keep its log meanwhile. {_REMEDIES[waits]}",
                )
        if not waits or self._stored is None:
            self._stored = FoldedOffset(
                out, sequence=self.sequence, requests=self._requests, dump_ended=self._dump is not None and self._dump.ended
            )
        return self._stored


def _size(fields: Mapping[str, object]) -> int:
    return len(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()) if fields else 0

"""The source offset of a task, folded from the steps of acknowledged batches. # I1

An offset is one record of Kafka, which takes a megabyte by default, however many tables there are. So each part of it is bounded where it comes from
(``core/dumps.py``, ``core/requested.py``). Two parts may be large for a while all the same: the counts of a transaction that changes thousands of tables, and
the names of thousands of tables that have joined a dump since the task's start. Until they are smaller, the offset before them is the one to store: a run
that is killed meanwhile repeats what has come since, and loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import structlog

from dblog.core.dumps import Dump, dump_to_text, stored_bytes
from dblog.core.requested import Requests, requests_to_text
from dblog.core.timeline import Position
from dblog.model import OffsetMap
from dblog.readers.contract import Progress
from dblog.readers.interleaved import Step
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

OFFSET_BYTES_MAX = 960_000
"""Of a whole offset: a producer takes 1 000 000 bytes with the key and what Kafka adds."""

COUNTS_BYTES_MAX = 100_000
"""Of the counts of the open transaction by table."""

TABLE_COUNT = "transaction_data_collection_order_"
"""Debezium's name of one, before the table's."""

NO_ROOM = "offset has no room"
"""The key of a standing warning."""

WINDOWS = "dblog_windows"
"""In an offset: a number ahead of those that windows at one position of the log have (core/openings.py)."""

UNREPORTED = "dblog_unreported"
"""In an offset: the schemas that the connector found at its first start are not all in their topic yet."""


MANY_COUNTED = "an open transaction has changed so many tables"
MANY_JOINED = "so many tables have joined the dump since the task's start"
_REMEDIES = {
    MANY_COUNTED: "It moves again once the transaction ends: commit smaller ones, or set provide.transaction.metadata=false, so that nothing is counted",
    MANY_JOINED: "It moves again once enough of these tables are dumped; a restart of the task stores their names in a list of their own",
}


class FoldedOffset(dict[str, str | int | float | bool | None]):
    """An offset with the state that it stands for. The fold may have gone on before Kafka answers that it is stored. # I1"""

    __slots__ = ("dump_ended", "requests", "sequence")

    def __init__(self, fields: OffsetMap, *, sequence: Position, requests: Requests, dump_ended: bool) -> None:
        super().__init__(fields)
        self.sequence = sequence
        self.requests = requests
        self.dump_ended = dump_ended
        """Whether it says that the connector's own dump has ended."""


class SourceOffset:
    """Where the acknowledged output ends: the log's position, and the dump's state. Implements ``ports.OffsetFold``.

    While a dump is unfinished the offset has ``snapshot=INITIAL``, so that Debezium, taking over, would dump again instead of missing rows.

    ``unreported``: how many batches with the schemas of the start come ahead of all others. Until they are acknowledged the offset has
    ``dblog_unreported``, and a run that begins with it reports them again.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        dump: Dump | None,
        unreported: int = 0,
        requests: Requests | None = None,
        windows: Callable[[], int] = lambda: 0,
        warnings: StandingWarnings | None = None,
    ) -> None:
        """``windows``: for ``dblog_windows``; 0 where there is nothing to tell. ``warnings`` None: nobody reads them."""
        self._warnings = warnings or StandingWarnings()
        self._windows = windows
        self._progress = progress
        self._dump = dump
        self._dump_text: str | None = None
        """Of ``_dump``; it may name thousands of tables, and other dumps move in between."""
        self._requests = requests or Requests()
        self._stored: FoldedOffset | None = None
        """The last one that had room."""
        self._waits = ""
        """What the newest one has no room for."""
        self._unreported = unreported

    @property
    def progress(self) -> Progress:
        """The committed position; it moves on with the steps."""
        return self._progress

    @property
    def sequence(self) -> Position:
        """D7's numbers of the committed position."""
        return self._progress.sequence

    @property
    def requests(self) -> Requests:
        """How far the dumps that were asked for have come."""
        return self._requests

    def __str__(self) -> str:
        """The committed position, for people."""
        return str(self._progress)

    def advance(self, step: object) -> None:
        """Take one batch's step."""
        assert isinstance(step, Step), "the interleaver makes the steps"
        self._unreported = max(0, self._unreported - 1)
        for position in step.log_offsets:
            self._progress.advance(position)
        if step.dump is not None:
            self._dump, self._dump_text = step.dump, None
        if step.requests is not None:
            self._requests = step.requests

    def offset(self) -> FoldedOffset:
        """The offset to store now."""
        out = self._progress.to_map()
        if self._dump is not None:
            if not self._dump.done:
                out["snapshot"] = "INITIAL"
            if self._dump_text is None:  # made here, once an offset at most, not once a batch
                self._dump_text = dump_to_text(self._dump)
            out["dblog_dump"] = self._dump_text
        if windows := self._windows():
            out[WINDOWS] = windows
        if self._unreported:
            out[UNREPORTED] = True
        size = _size(out)
        if self._requests.has_state:
            out["dblog_dumps"] = text = requests_to_text(self._requests, bytes_max=max(0, OFFSET_BYTES_MAX - size))
            size += stored_bytes(text)
        return self._with_room(out, size)

    def stored(self) -> None:
        """Note that an offset is stored: where the newest one had room, nothing waits any more."""
        if not self._waits:
            self._warnings.withdraw(NO_ROOM)

    def _with_room(self, out: OffsetMap, size: int) -> FoldedOffset:
        """This one, or the last one that had room where it is too large for a while. What is too large for good is for its writer to refuse."""
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

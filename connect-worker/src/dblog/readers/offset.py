"""The source offset of a binlog task, folded from the steps of acknowledged batches. # I1"""

from __future__ import annotations

from dblog.core.dumps import Dump, dump_to_text
from dblog.dialects.mysql.offset import LogProgress
from dblog.model import OffsetMap
from dblog.readers.interleaved import Step

UNTOLD = "dblog_untold"


class BinlogOffset:
    """Where the acknowledged output ends: the log's place, and the dump's state. Implements ``ports.OffsetFold``.

    While a dump is unfinished the offset says ``snapshot=INITIAL``, so that Debezium, taking over, would dump anew instead of missing rows.

    ``untold``: how many batches with the schemas of the start come ahead of all others. Until they are acknowledged the offset says ``dblog_untold``,
    and a life that begins with it tells them again.
    """

    def __init__(self, progress: LogProgress, *, dump: Dump | None, untold: int = 0) -> None:
        self._progress = progress
        self._dump = dump
        self._untold = untold

    @property
    def sequence(self) -> tuple[int, int]:
        """D7's numbers of the committed place."""
        return self._progress.sequence

    def advance(self, step: object) -> None:
        """Take one batch's step."""
        assert isinstance(step, Step), "a binlog task makes binlog steps"
        self._untold = max(0, self._untold - 1)
        for place in step.places:
            self._progress.advance(place)
        if step.dump is not None:
            self._dump = step.dump

    def offset(self) -> OffsetMap:
        """The offset to store now."""
        out = self._progress.to_map()
        if self._dump is not None:
            if not self._dump.done:
                out["snapshot"] = "INITIAL"
            out["dblog_dump"] = dump_to_text(self._dump)  # made here, once an offset, not once a batch: it may name thousands of tables
        if self._untold:
            out[UNTOLD] = True
        return out

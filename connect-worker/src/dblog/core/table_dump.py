"""The progress of one table in a dump, as a union of states: unread, under way, read, cut short, or
failed.

Progress is a frontier: every row with a key up to a range's ``after`` has been sent, or was dropped
for a newer change. The range ends at the greatest key when the table's dump began; the log brings
all rows beyond it. A table that several readers read at once has a few ranges, each with a
frontier; everything between two ranges has been sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dblog.model import TableId

Key = tuple[Any, ...]
"""Values of the key columns as statement parameters, in key order. A text that UTF-8 might not
represent is kept as its bytes.
"""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys after ``after`` up to and including ``upto``. ``upto`` stays the same while the
    range is read. Only the server compares keys.
    """

    after: Key | None
    upto: Key


@dataclass(frozen=True, slots=True)
class Unread:
    """State of a table whose greatest key is not known yet, because no chunk of it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """State of a table between its first chunk and its end."""

    key: tuple[str, ...]
    """Key columns of which the ends of ranges are values."""
    upto: Key
    """Greatest key when the table's dump began."""
    ranges: tuple[KeyRange, ...]
    """Ranges left to read, in key order; never empty."""

    @property
    def is_one(self) -> bool:
        """True if the table is read as one range, up to its greatest key."""
        return len(self.ranges) == 1 and self.ranges[0].upto == self.upto


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """State of a table that was read to its end."""

    begun: bool = True
    """False for a table that was read as a whole, so that its keys were never compared."""
    after: Key | None = None
    upto: Key | None = None
    """Greatest key; None for an empty table, or if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutShort:
    """State of a table that went away before its end was reached. If another table takes its name,
    that one is read from its beginning.
    """

    begun: bool = True
    """False if no chunk of it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """State of a table that cannot be dumped in this run. No text stores it, so the next start
    tries again.
    """

    fault: str
    """Reason, for people."""
    at: Unread | UnderWay | Read | CutShort
    """Progress until then, from which the next start goes on."""


TableState = Unread | UnderWay | Read | CutShort | Failed

UNREAD = Unread()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDump:
    """The progress of one table, with what the dump must do with it. Immutable: each step returns a
    new value.
    """

    table: TableId
    state: TableState = UNREAD
    rows: int = 0
    bytes: int = 0
    """Size of the table's rows, as the server sent them."""
    chunks: int = 0
    chosen: bool = False
    """True if the configuration may choose which of the table's rows are sent. A table that is read
    again is read whole, because the dump then replaces what the log has lost.
    """
    repairs: bool = False
    """True if the dump must also remove rows, as a repair: rows were sent that the table no longer
    has, or its log lacks deletes.
    """
    waits: bool = False
    """True if changes of the table may have been in no log until the dump was ordered. Its windows
    wait for the transactions that were writing then, also after a restart.
    """

    @property
    def progress(self) -> Unread | UnderWay | Read | CutShort:
        """State without regard to a failure."""
        return self.state.at if isinstance(self.state, Failed) else self.state

    @property
    def fault(self) -> str | None:
        """Reason why the table cannot be dumped; None if there is none."""
        return self.state.fault if isinstance(self.state, Failed) else None

    @property
    def done(self) -> bool:
        """True if nothing is left to read."""
        return isinstance(self.progress, Read | CutShort)

    @property
    def cut_short(self) -> bool:
        """True if the table went away before its end was reached."""
        return isinstance(self.progress, CutShort)

    @property
    def ended(self) -> bool:
        """True if nothing is left to read or the table cannot be read."""
        return isinstance(self.state, Read | CutShort | Failed)

    @property
    def started(self) -> bool:
        """True once the greatest key is known."""
        match self.progress:
            case Unread():
                return False
            case UnderWay():
                return True
            case Read(begun=begun) | CutShort(begun=begun):
                return begun

    @property
    def key(self) -> tuple[str, ...]:
        """Key columns of the ranges' ends; empty for a table that is not under way."""
        progress = self.progress
        return progress.key if isinstance(progress, UnderWay) else ()

    @property
    def after(self) -> Key | None:
        """Frontier of the first range; None before the first chunk."""
        match self.progress:
            case UnderWay(ranges=ranges):
                return ranges[0].after
            case Read(after=after):
                return after
            case _:
                return None

    @property
    def upto(self) -> Key | None:
        """Greatest key when the table's dump began; None if it is not known, or the table was
        empty.
        """
        match self.progress:
            case UnderWay(upto=upto) | Read(upto=upto):
                return upto
            case _:
                return None

    @property
    def ranges(self) -> tuple[KeyRange, ...]:
        """Ranges left to read, in key order; empty for a table that is not under way."""
        progress = self.progress
        return progress.ranges if isinstance(progress, UnderWay) else ()

    @property
    def parts(self) -> tuple[KeyRange, ...]:
        """Ranges left to read, if they are not the one range up to the greatest key."""
        progress = self.progress
        return progress.ranges if isinstance(progress, UnderWay) and not progress.is_one else ()

    @property
    def fresh(self) -> TableDump:
        """The table at its beginning, with ``repairs`` and ``waits`` kept."""
        return TableDump(table=self.table, repairs=self.repairs, waits=self.waits)

    def range_to(self, upto: Key | None) -> KeyRange | None:
        """Return the range that ends at ``upto``, or the only range for None. Return None if that
        range has been read.
        """
        ranges = self.ranges
        if upto is None:
            return ranges[0] if len(ranges) == 1 else None
        return next((one for one in ranges if one.upto == upto), None)

    def goes_on(self, behind: Key | None, *, begins: bool) -> bool:
        """Return True if a chunk after this key is the next one of some range. ``begins`` is True
        for a table's first chunk. # I9
        """
        if not self.started or begins:
            return begins and not self.started
        return any(one.after == behind for one in self.ranges)

    # ---- steps

    def begun(self, *, key: tuple[str, ...], upto: Key | None) -> TableDump:
        """Return the progress after the table's greatest key has become known; None for an empty
        table, which is read at once.
        """
        if upto is None:
            return self._at(Read(after=self.after))
        return self._at(UnderWay(key=key, upto=upto, ranges=(KeyRange(self.after, upto),)))

    def read(self, behind: Key | None, after: Key | None, *, ends: bool) -> TableDump:
        """Return the progress after a chunk that began after ``behind`` and was sent up to
        ``after``. ``ends`` is True if its range has no more rows.
        """
        match self.progress:
            case UnderWay() as progress if progress.is_one:
                ranges = () if ends else (KeyRange(after, progress.upto),)
                return self._left(progress, ranges, after=after)
            case UnderWay() as progress:
                out: list[KeyRange] = []
                for one in progress.ranges:
                    if one.after != behind:
                        out.append(one)
                    elif not ends:
                        out.append(KeyRange(after, one.upto))
                return self._left(progress, tuple(out), after=progress.upto)
            case Unread():
                assert ends, "a table that has not begun is read as a whole"
                return self._at(Read(begun=False, after=after))
            case Read() as progress:
                return self._at(replace(progress, after=after))
            case CutShort():
                return self

    def split(self, upto: Key, at: Key) -> TableDump:
        """Return the progress with the range that ends at ``upto`` split in two at the key ``at``,
        which belongs to the first part.
        """
        progress = self.progress
        assert isinstance(progress, UnderWay), "only a table that is under way has ranges"
        out: list[KeyRange] = []
        for one in progress.ranges:
            out += [KeyRange(one.after, at), KeyRange(at, upto)] if one.upto == upto else [one]
        return self._at(replace(progress, ranges=tuple(out)))

    def failed(self, fault: str) -> TableDump:
        """Return the table failed for the reason ``fault``."""
        return replace(self, state=Failed(fault=fault, at=self.progress))

    def dropped(self) -> TableDump:
        """Return the table after it was dropped at the source: nothing is left to read of it."""
        return self if self.done else self._at(CutShort(begun=self.started))

    def created(self) -> TableDump:
        """Return the table after an empty one of its name was created: the log brings all its
        rows.
        """
        match self.progress:
            case CutShort(begun=begun):
                return self._at(Read(begun=begun))
            case _:
                return self

    def _left(self, progress: UnderWay, ranges: tuple[KeyRange, ...], *, after: Key | None) -> TableDump:
        """Return the progress with these ranges left; with none, the table has been read up to
        ``after``.
        """
        return self._at(replace(progress, ranges=ranges) if ranges else Read(after=after, upto=progress.upto))

    def _at(self, progress: Unread | UnderWay | Read | CutShort) -> TableDump:
        """Return the table at this progress. A failure stays."""
        return replace(self, state=Failed(fault=self.state.fault, at=progress) if isinstance(self.state, Failed) else progress)

"""Splits a large table among several readers: which reader reads which range, and where to cut one.

A reader never takes from a range that another one reads. Instead, the reader of a range gives away
the part that it has not reached, between two of its windows, if another reader is free and no table
waits. So a window never reads past the end of its range, and no range is read by two. # I9

The cut is found without a scan of the table. Keys of one integer column that are dense by the
server's estimate are halved by value. For other keys, a number of rows is walked in the index with
a time limit, and the last row's key is the cut, so skewed and sparse keys make no difference. If
neither gives a key, the range stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from dblog.core.table_dump import Key
from dblog.errors import DefiniteError, ServerChangedError, TableChangedError, TransientError
from dblog.model import TableId
from dblog.ports import DumpConnection
from dblog.readers.dump.proof import snapshot

CHUNKS_KEPT = (16, 2)
"""Numbers of chunks that a reader tries to keep for itself when it walks the index."""

WALK_S = 0.5
"""Seconds after which the server ends a walk. Its snapshot keeps an ALTER of the table waiting."""

SPARSE_MAX = 4
"""Maximum number of integers per key for keys to count as dense."""


@dataclass(slots=True, eq=False)
class Share:
    """Part of a table that one reader reads: the range that ends at ``upto``, in windows of
    ``lane``.

    ``upto`` None means the whole table, read by this reader alone.
    """

    table: TableId
    lane: int = 0
    upto: Key | None = None
    splits: bool = True
    """True while a cut may still be found."""


class Shares(Protocol):
    """Source of what a dump thread reads (``dumping.Dumping``). Each share is put back once."""

    def next_share(self, number: int) -> Share | None:
        """Return a table that no other reader has taken, or a part of one; None ends the reader
        ``number``.
        """

    def put_back(self, share: Share) -> None:
        """Release the share of a reader that is done with it, for now or for good."""

    def gives_way(self, share: Share) -> bool:
        """Return True if fewer readers may read now, and the share's reader is one that waits."""

    def lets_others_pass(self, share: Share) -> bool:
        """Return True if another table shall be read while the share's cannot be. The reader
        releases the share then.
        """

    def take_together(self, number: int, tables_max: int) -> list[TableId]:
        """Return tables that the reader ``number`` reads together: none is begun or left to be read
        on its own. Return [] if fewer than two wait.
        """

    def give_back_together(self, number: int, tables: Iterable[TableId], *, alone: bool) -> None:
        """Release tables that the reader has read together; with ``alone``, the next reader reads
        each one on its own.
        """

    def wants_part(self, share: Share) -> bool:
        """Return True if another reader is free for a part of the table."""

    def give_part(self, share: Share, at: Key) -> None:
        """Leave the keys after ``at`` to others; the share ends there from now on."""

    def cannot_be_split(self, share: Share) -> None:
        """Note that the range cannot be cut, so that no reader waits for a part of it."""


def halved(after: Key, upto: Key, *, rows_left: int | None, rows_min: int) -> Key | None:
    """Return the middle of a range of dense integers; None if it does not apply.

    Both halves must keep at least ``rows_min`` keys.
    """
    if rows_left is None or len(upto) != 1 or type(after[0]) is not int or type(upto[0]) is not int:
        return None
    span = upto[0] - after[0]
    if span > rows_left * SPARSE_MAX or span < 2 * rows_min:
        return None
    return (after[0] + span // 2,)


def walked(connection: DumpConnection, key_at: Callable[[int], Key | None], *, rows_asked: int) -> Key | None:
    """Return a key a number of chunks further on, to cut the range there.

    ``key_at`` finds a key in the open snapshot. Return None if the server does not reach one in
    time.
    """
    connection.limit_selects(WALK_S)
    with snapshot(connection):
        try:
            cut = next((found for chunks in CHUNKS_KEPT if (found := key_at(chunks * rows_asked)) is not None), None)
        except (ServerChangedError, TableChangedError):
            raise
        except (TransientError, DefiniteError):
            # It takes too long, or rows cannot be chosen; the snapshot's end, or the next chunk,
            # shows why.
            cut = None
    connection.limit_selects(0)
    return cut

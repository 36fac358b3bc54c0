"""A table that several readers read at once: who reads which range of it, and where a range is cut in two.

Nobody takes from a range that another one reads. Its reader itself gives away what lies further behind than it has read, between two of its windows,
where another reader is free and no table waits. So a window never reads past the end of its range, and no range is read by two. # I9

Where to cut is found without a scan of the table. Keys of one integer column that are dense by the server's estimate are halved by value. Of any other
key so many rows are walked in the index, bounded in time, and the last one's key is the cut: then skewed and sparse keys make no difference. Where
neither gives a key, the range stays whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dblog.core.dumps import Key
from dblog.errors import DefiniteError, ServerChangedError, TableChangedError, TransientError
from dblog.model import TableId
from dblog.ports import DumpConnection
from dblog.readers.proof import snapshot

CHUNKS_KEPT = (16, 2)
"""How many chunks a reader keeps for itself where it walks; fewer where there are not so many."""

WALK_S = 0.5
"""The server ends a walk that takes longer. A snapshot of it keeps an ALTER of the table waiting."""

SPARSE_MAX = 4
"""Integers are dense if one of so many is a key."""


@dataclass(slots=True, eq=False)
class Share:
    """What one reader reads of a table: the range that ends at ``upto``, or None: the whole table, which nobody else reads. ``lane``: of its windows."""

    table: TableId
    lane: int = 0
    upto: Key | None = None
    splits: bool = True
    """Whether a cut may still be found."""


class Sharing(Protocol):
    """Who else could read (``dumping.Dumping``)."""

    def wants_part(self, share: Share) -> bool:
        """Whether another reader is free for a part of the table."""

    def give_part(self, share: Share, at: Key) -> None:
        """Leave to others what lies behind ``at``: the share ends there from now on."""

    def cannot_be_split(self, share: Share) -> None:
        """No cut is found in the range, so nobody need wait for a part of it."""


def halved(after: Key, upto: Key, *, rows_left: int | None, rows_min: int) -> Key | None:
    """The middle of a range of dense integers that leaves at least ``rows_min`` keys to both halves."""
    if rows_left is None or len(upto) != 1 or type(after[0]) is not int or type(upto[0]) is not int:
        return None
    span = upto[0] - after[0]
    if span > rows_left * SPARSE_MAX or span < 2 * rows_min:
        return None
    return (after[0] + span // 2,)


def walked(connection: DumpConnection, key_at: Callable[[int], Key | None], *, rows_asked: int) -> Key | None:
    """A key so many rows further on; ``key_at`` finds one in the snapshot that is open. None where the server does not come to it in time."""
    connection.limit_selects(WALK_S)
    with snapshot(connection):
        try:
            cut = next((found for chunks in CHUNKS_KEPT if (found := key_at(chunks * rows_asked)) is not None), None)
        except (ServerChangedError, TableChangedError):
            raise
        except (TransientError, DefiniteError):
            cut = None  # it takes too long, or rows cannot be chosen: the snapshot's end, or the next chunk, shows what is the matter
    connection.limit_selects(0)
    return cut

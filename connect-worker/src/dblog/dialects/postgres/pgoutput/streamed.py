"""Keeps transactions that the server sends before they have ended (``dblog.log.streaming``) until
they commit; then they are decoded like any other.

Without streaming the server keeps a large transaction on its own disk, and begins to send it when
it commits. With streaming (protocol version 2) pieces of it come in between other transactions,
each piece between Stream Start and Stream Stop. At the end comes Stream Commit or Stream Abort, for
the whole or for a subtransaction. Pieces go to a spool. At the commit the decoder gets what it
would get without streaming: Begin, the changes, Commit. Records, their order and their numbers are
the same, and so is an offset in the middle of them. # I1

A run that ends loses its spools: the server sends everything again that was not confirmed. Source
of the rules: PostgreSQL manual, 55.5 "Logical Streaming Replication Protocol", 55.9 "Logical
Replication Message Formats".
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from dblog.dialects.postgres.pgoutput._fast import next_border, of_transaction, with_unshown
from dblog.dialects.postgres.pgoutput.messages import HEADER, XLOG_DATA
from dblog.errors import DamagedLogError, TransientError

PIECE_BYTES_MAX = 1 << 20
"""Number of bytes that the decoder gets at once, unless a single piece is larger: one receive can
give such a piece.
"""

_START, _STOP, _COMMIT, _ABORT = b"SEcA"
_PIECE = struct.Struct("<I")
_XID = struct.Struct(">I")
_ENDED = struct.Struct(">IBQQq")
_ABORTED = struct.Struct(">II")
_BEGIN_MESSAGE = struct.Struct(">cQqI")
_COMMIT_MESSAGE = struct.Struct(">cBQQq")


@dataclass(slots=True)
class _UnderWay:
    """A transaction under way: its pieces, each after its length, and the subtransactions that were
    rolled back.
    """

    spool: BinaryIO
    aborted: set[int] = field(default_factory=set)


class StreamedTransactions:
    """The transactions under way of one connection. ``spool`` opens a file for one transaction,
    which is deleted when it is closed.
    """

    def __init__(self, spool: Callable[[], BinaryIO]) -> None:
        self._spool = spool
        self._under_way: dict[int, _UnderWay] = {}
        self._open: _UnderWay | None = None
        self._unshown: dict[int, bytes] = {}
        """Relation messages of rolled-back subtransactions, by the tables' numbers. The server does
        not send them again, and a row may need them.
        """

    def take(self, data: bytes) -> Iterator[bytes]:
        """Take copy messages as they arrived and yield copy messages for the decoder. Raise
        TransientError if the disk has no room for a transaction.
        """
        at, size = 0, len(data)
        while at < size:
            start, end, letter = next_border(data, at)
            if start > at:
                part = data[at:start]
                if self._open is None:
                    yield with_unshown(part, self._unshown) if self._unshown else part
                else:
                    self._keep(self._open, part)
            body = data[start + HEADER.size + XLOG_DATA.size + 1 : end]
            at = end
            try:
                if letter == _START:
                    self._open = self._begun(_XID.unpack_from(body)[0])
                elif letter == _STOP:
                    self._open = None
                elif letter == _ABORT:
                    self._abort(*_ABORTED.unpack_from(body))
                elif letter == _COMMIT:
                    yield from self._committed(*_ENDED.unpack_from(body))
            except struct.error as e:
                message = "the server sent a message of a transaction under way that is cut off"
                raise DamagedLogError(message) from e

    def close(self) -> None:
        """Drop all transactions and their files. Any thread may call this."""
        for one in list(self._under_way.values()):
            _close(one.spool)
        self._under_way.clear()
        self._open = None

    def _begun(self, xid: int) -> _UnderWay:
        found = self._under_way.get(xid)
        if found is None:
            try:
                found = self._under_way[xid] = _UnderWay(self._spool())
            except (OSError, ValueError) as e:
                raise _no_room(e) from e
        return found

    def _keep(self, one: _UnderWay, part: bytes) -> None:
        try:
            one.spool.write(_PIECE.pack(len(part)))
            one.spool.write(part)
        except (OSError, ValueError) as e:
            raise _no_room(e) from e

    def _abort(self, xid: int, subtransaction: int) -> None:
        if xid != subtransaction:
            self._begun(xid).aborted.add(subtransaction)
        elif (one := self._under_way.pop(xid, None)) is not None:
            _close(one.spool)

    def _committed(self, xid: int, flags: int, commit_lsn: int, end_lsn: int, ts: int) -> Iterator[bytes]:
        one = self._under_way.pop(xid, None)
        if one is None:
            message = "the server sent the commit of a transaction of which it has sent nothing"
            raise DamagedLogError(message)
        try:
            yield _copy_message(_BEGIN_MESSAGE.pack(b"B", commit_lsn, ts, xid))
            aborted = frozenset(one.aborted)
            for piece in self._pieces(one.spool):
                yield of_transaction(piece, aborted, self._unshown)
            yield _copy_message(_COMMIT_MESSAGE.pack(b"C", flags, commit_lsn, end_lsn, ts))
        finally:
            _close(one.spool)

    @staticmethod
    def _pieces(spool: BinaryIO) -> Iterator[bytes]:
        try:
            spool.seek(0)
            gathered = bytearray()
            while header := spool.read(_PIECE.size):
                gathered += spool.read(_PIECE.unpack(header)[0])
                if len(gathered) >= PIECE_BYTES_MAX:
                    yield bytes(gathered)
                    gathered.clear()
        except (OSError, ValueError) as e:
            raise _no_room(e) from e
        if gathered:
            yield bytes(gathered)


def _close(spool: BinaryIO) -> None:
    """Close a spool. Its last buffered bytes may find no room on the disk, but nobody needs them
    any more.
    """
    with contextlib.suppress(OSError):
        spool.close()


def _copy_message(content: bytes) -> bytes:
    return HEADER.pack(XLOG_DATA.size + len(content)) + XLOG_DATA.pack(b"w", 0, 0, 0) + content


def _no_room(error: OSError | ValueError) -> TransientError:
    if isinstance(error, ValueError):  # another thread has closed the file
        return TransientError("the log connection is closed")
    return TransientError(
        f"a transaction under way cannot be kept in the directory for temporary files (TMPDIR): {error.strerror}; have room there for the "
        "largest transactions, or set dblog.log.streaming=false"
    )

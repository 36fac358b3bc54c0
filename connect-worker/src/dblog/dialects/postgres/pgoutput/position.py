"""Positions of a PostgreSQL log: LSNs, and D7's two numbers of them.

A transaction's rows come when it commits, so a row's order is its transaction's commit LSN and its number therein; the LSN at which a row was written is older
than rows of transactions that committed meanwhile. WAL records begin at multiples of eight bytes (MAXALIGN, xlogrecord.h), so the lowest three bits of a
commit LSN say nothing, and the second number has room for a transaction of 2^34 rows:

    high = epoch << 32 | the LSN's upper half        low = the LSN's lower half / 8 << 34 | number in the transaction
"""

from __future__ import annotations

NUMBER_BITS = 34
_HALF = 0xFFFFFFFF
_ALIGNED_BITS = 3


def sequence_of(*, epoch: int, lsn: int, number: int = 0) -> tuple[int, int]:
    """D7's two numbers. ``number``: of the row in its transaction, from 1 on; 0 is in front of them all. An LSN between two records counts as the next
    one's.
    """
    aligned = lsn + (1 << _ALIGNED_BITS) - 1 >> _ALIGNED_BITS << _ALIGNED_BITS
    return epoch << 32 | aligned >> 32, (aligned & _HALF) >> _ALIGNED_BITS << NUMBER_BITS | number


def lsn_text(lsn: int) -> str:
    """As the server writes it: two halves in hexadecimal digits (PostgreSQL manual, 8.20 "pg_lsn Type")."""
    return f"{lsn >> 32:X}/{lsn & _HALF:X}"


def lsn_of(text: str) -> int:
    """From the server's text; ValueError for any other."""
    upper, _, lower = text.partition("/")
    return int(upper, 16) << 32 | int(lower, 16)


SEGMENT_BYTES = 16 << 20


def wal_file(timeline: int, lsn: int) -> str:
    """The name of the WAL file that has an LSN, of a server with segments of the usual size (PostgreSQL manual, 30.6 "WAL Internals")."""
    segment = lsn // SEGMENT_BYTES
    per_id = (1 << 32) // SEGMENT_BYTES
    return f"{timeline:08X}{segment // per_id:08X}{segment % per_id:08X}"

"""Converts positions of a PostgreSQL log: LSNs, and the two sequence numbers (D7).

A transaction's rows come when it commits, so rows are ordered by their transaction's commit LSN and
their number in it. The LSN at which a row was written gives no order, because transactions that
committed meanwhile have newer rows before it. WAL records begin at multiples of eight bytes
(MAXALIGN, xlogrecord.h), so the lowest three bits of a commit LSN are always zero. The second
number therefore has room for a transaction of 2^34 rows:

    high = epoch << 32 | the LSN's upper half
    low = the LSN's lower half / 8 << 34 | number in the transaction
"""

from __future__ import annotations

NUMBER_BITS = 34
_HALF = 0xFFFFFFFF
_ALIGNED_BITS = 3


def sequence_of(*, epoch: int, lsn: int, number: int = 0) -> tuple[int, int]:
    """Return the two sequence numbers (D7) of a row.

    ``number`` is the row's number in its transaction, from 1 on; 0 comes before all rows. An LSN
    between two records counts as that of the next one.
    """
    aligned = lsn + (1 << _ALIGNED_BITS) - 1 >> _ALIGNED_BITS << _ALIGNED_BITS
    return epoch << 32 | aligned >> 32, (aligned & _HALF) >> _ALIGNED_BITS << NUMBER_BITS | number


def lsn_text(lsn: int) -> str:
    """Return an LSN as the server writes it: two halves in hexadecimal digits (PostgreSQL manual,
    8.20 "pg_lsn Type").
    """
    return f"{lsn >> 32:X}/{lsn & _HALF:X}"


def lsn_of(text: str) -> int:
    """Return the LSN of the server's text. Raise ValueError for any other text."""
    upper, _, lower = text.partition("/")
    return int(upper, 16) << 32 | int(lower, 16)


SEGMENT_BYTES = 16 << 20


def wal_file(timeline: int, lsn: int) -> str:
    """Return the name of the WAL file that contains an LSN, for a server with segments of the
    default size (PostgreSQL manual, 30.6 "WAL Internals").
    """
    segment = lsn // SEGMENT_BYTES
    per_id = (1 << 32) // SEGMENT_BYTES
    return f"{timeline:08X}{segment // per_id:08X}{segment % per_id:08X}"

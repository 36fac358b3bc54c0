"""Makes SQL of D7's two numbers for records of PostgreSQL's log, from dblog or Debezium.

Both writers put two numbers into ``source.sequence``, in one form with two meanings:

- dblog: D7's numbers. These are the transaction's commit LSN and the change's number in it
  (schemas/README.md); for a dumped row those of the low watermark.
- Debezium: the LSN of the last commit that it has read, and the record's own LSN, as in
  ``source.lsn``; either may be null (its class SourceInfo, ``sequence()``).

So a record is Debezium's if its second number equals its ``lsn`` or is missing. A dumped row of
dblog has no ``lsn``. Another row of dblog could have its ``lsn`` there only as the nth row of a
transaction, n bytes after a multiple of 16 GiB, with the lower half of the commit's LSN eight times
that multiple: once in some 10^10 transactions that cross one. ``source.version`` proves nothing,
because everybody who builds Debezium chooses a version.

Debezium's records get numbers of the same scale, from the greater of their two LSNs, so that rows
of both writers compare. That LSN is never after the transaction's own commit. Of two transactions
that changed one row, the later one's is after the commit of the earlier one, because it waited for
the row's lock. The row's LSN alone would suffice for that. But if its transaction was open during a
snapshot, it may be older than the snapshot, which lacks the row; the last commit is not older.
Within a transaction the rows' own LSNs decide:

    high = epoch | upper half of the LSN        low = its lower half / 8 << 34 | 2^34 - 1 - (bytes from the row to it) / 8

A row of an incremental snapshot has no LSN, so it never replaces a row of the log. Pure.
"""

from __future__ import annotations

NUMBER_BITS = 34
"""Bits of the change's number in the second number, below the lower half of an LSN in units of
eight bytes (``pgoutput/position.py`` of the worker).
"""
_ALIGNED_BITS = 3
_HALF = 0xFFFFFFFF
_LAST = (1 << NUMBER_BITS) - 1


def is_numbered(v: str) -> str:
    """Return SQL that is true if the record carries D7's numbers. It is never NULL."""
    own = quoted_part(f"{v}.source.sequence", 3)
    return f"coalesce({own} <> coalesce({v}.source.lsn, -1L), false)"


def position_sql(v: str, *, sequence: bool, epoch: str = "") -> tuple[str, str]:
    """Return SQL of both numbers; NULL for a record that did not decode.

    ``sequence`` is True if the source block has that field; ``epoch`` is SQL of the epoch of a
    derived position.
    """
    lsn, at = f"{v}.source.lsn", _commit_at_least(v, sequence=sequence)
    high = f"shiftrightunsigned({at}, 32)"
    high = f"({epoch} | {high})" if epoch else high
    number = f"greatest(1L, {_LAST}L - shiftright({at} - {lsn}, {_ALIGNED_BITS}))"
    low = f"IF({lsn} IS NULL, 0L, shiftleft(shiftright({at} & {_HALF}L, {_ALIGNED_BITS}), {NUMBER_BITS}) | {number})"
    if not sequence:
        return f"IF({v}.op IS NULL, NULL, {high})", f"IF({v}.op IS NULL, NULL, {low})"
    given, numbered = f"{v}.source.sequence", is_numbered(v)
    # As with MySQL's records, the parts of the text come first, since every row needs them.
    return (
        f"IF({numbered}, {quoted_part(given, 1)}, IF({v}.op IS NULL, NULL, {high}))",
        f"IF({numbered}, {quoted_part(given, 3)}, IF({v}.op IS NULL, NULL, {low}))",
    )


def lsn_sql(v: str, *, sequence: bool) -> str:
    """Return SQL of the LSN of a record's position.

    It is the LSN of the transaction's commit, or if that is unknown, one that is not after the
    commit.
    """
    at = _commit_at_least(v, sequence=sequence)
    if not sequence:
        return at
    given = f"{v}.source.sequence"
    upper, lower = quoted_part(given, 1), quoted_part(given, 3)
    commit = f"(shiftleft({upper} & {_HALF}L, 32) | shiftleft(shiftrightunsigned({lower}, {NUMBER_BITS}), {_ALIGNED_BITS}))"
    return f"IF({is_numbered(v)}, {commit}, {at})"


def _commit_at_least(v: str, *, sequence: bool) -> str:
    lsn = f"{v}.source.lsn"
    if not sequence:
        return f"coalesce({lsn}, 0L)"
    given = f"{v}.source.sequence"
    last_commit = f"IF({quoted_part(given, 3)} = {lsn}, {quoted_part(given, 1)}, 0L)"
    return f"greatest(coalesce({lsn}, 0L), coalesce({last_commit}, 0L))"


def lsn_of(position: tuple[int, int]) -> int:
    """Return the LSN of a position."""
    high, low = position
    return (high & _HALF) << 32 | low >> NUMBER_BITS << _ALIGNED_BITS


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it (its manual, "pg_lsn Type")."""
    return f"{lsn >> 32:X}/{lsn & _HALF:X}"


def quoted_part(path: str, quotes: int) -> str:
    """Return SQL of the number after the nth quote.

    It reads ``["<high>","<low>"]`` without a JSON parser for each row.
    """
    return f"try_cast(get(split({path}, '\"'), {quotes}) AS BIGINT)"

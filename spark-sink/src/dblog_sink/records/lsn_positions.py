"""D7's two numbers of a record of PostgreSQL's log, and whether it carries them itself.

In ``source.sequence`` both writers have two numbers, in one form, with two meanings:

- dblog: D7's. The transaction's commit LSN and the change's number in it (schemas/README.md); of a dumped row, the low watermark's.
- Debezium: the LSN of the last commit that it has read, and the record's own LSN once more, as in ``source.lsn``; either may be null (its class SourceInfo,
  ``sequence()``).

So a record is Debezium's if its second number is its ``lsn``, or is not there. A dumped row of dblog has no ``lsn``. Any other row would have its ``lsn`` there
only if it were the nth of a transaction, n bytes behind a multiple of 16 GiB, and if the lower half of the commit's LSN were eight times that multiple: once
in some 10^10 transactions that cross one. ``source.version`` shows nothing that holds, for whoever builds a Debezium gives it a version.

Debezium's records get numbers of the same scale, so that rows of both writers compare, from the greater one of their two LSNs. None is behind the
transaction's own commit and, of two transactions that changed one row, the later one's are behind the commit of the earlier: it waited for the row's lock. The
row's LSN alone would do for that, but where its transaction was open during a snapshot it may be older than the snapshot's, which does not have the row; the
last commit is not. Within a transaction the rows' own LSNs decide:

    high = epoch | upper half of the LSN        low = its lower half / 8 << 34 | 2^34 - 1 - (bytes from the row to it) / 8

A row of an incremental snapshot has no LSN, so it never replaces a row of the log.

Pure: SQL.
"""

from __future__ import annotations

NUMBER_BITS = 34
"""Of the second number, below the lower half of an LSN in units of eight bytes (``pgoutput/position.py`` of the worker)."""
_ALIGNED_BITS = 3
_HALF = 0xFFFFFFFF
_LAST = (1 << NUMBER_BITS) - 1


def is_numbered(v: str) -> str:
    """SQL: the record carries D7's numbers. Never NULL."""
    own = quoted_part(f"{v}.source.sequence", 3)
    return f"coalesce({own} <> coalesce({v}.source.lsn, -1L), false)"


def position_sql(v: str, *, sequence: bool, epoch: str = "") -> tuple[str, str]:
    """SQL of both numbers; NULL for a record that did not decode. ``sequence``: the source block has it; ``epoch``: SQL of a derived position's."""
    lsn, at = f"{v}.source.lsn", _commit_at_least(v, sequence=sequence)
    high = f"shiftrightunsigned({at}, 32)"
    high = f"({epoch} | {high})" if epoch else high
    number = f"greatest(1L, {_LAST}L - shiftright({at} - {lsn}, {_ALIGNED_BITS}))"
    low = f"IF({lsn} IS NULL, 0L, shiftleft(shiftright({at} & {_HALF}L, {_ALIGNED_BITS}), {NUMBER_BITS}) | {number})"
    if not sequence:
        return f"IF({v}.op IS NULL, NULL, {high})", f"IF({v}.op IS NULL, NULL, {low})"
    given, numbered = f"{v}.source.sequence", is_numbered(v)
    # As of the records of MySQL, the parts of the text come first, where every row needs them.
    return (
        f"IF({numbered}, {quoted_part(given, 1)}, IF({v}.op IS NULL, NULL, {high}))",
        f"IF({numbered}, {quoted_part(given, 3)}, IF({v}.op IS NULL, NULL, {low}))",
    )


def lsn_sql(v: str, *, sequence: bool) -> str:
    """SQL of the LSN that a record's position stands for: its transaction's commit, or where that is unknown, one that is not behind it."""
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
    """The LSN of a position."""
    high, low = position
    return (high & _HALF) << 32 | low >> NUMBER_BITS << _ALIGNED_BITS


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it (its manual, "pg_lsn Type")."""
    return f"{lsn >> 32:X}/{lsn & _HALF:X}"


def quoted_part(path: str, quotes: int) -> str:
    """SQL of the number between the nth quote and the next: ``["<high>","<low>"]`` without a JSON parser a row."""
    return f"try_cast(get(split({path}, '\"'), {quotes}) AS BIGINT)"

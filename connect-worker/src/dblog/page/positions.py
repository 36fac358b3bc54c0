"""Writes a stored source offset in words. Pure.

The fields are Debezium's: of the binlog (``file``, ``pos``, ``gtids``) or of PostgreSQL's log
(``lsn``). What is not known stays in the JSON beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.page.formats import clock, count

_MICRO = 1_000_000
_LSN_HALF_BITS = 32


def in_words(offset: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return pairs of a label and a text, most important first."""
    out: list[tuple[str, str]] = []

    def add(label: str, text: object) -> None:
        if text not in (None, "", False):
            out.append((label, str(text)))

    if "file" in offset:
        add("Position", f"{offset['file']}, byte {_count(offset.get('pos'))}")
    if isinstance(lsn := offset.get("lsn"), int):
        add("Position", f"LSN {lsn >> _LSN_HALF_BITS:X}/{lsn & 0xFFFFFFFF:X}")
    if isinstance(commit := offset.get("lsn_commit"), int):
        add("Last commit", f"LSN {commit >> _LSN_HALF_BITS:X}/{commit & 0xFFFFFFFF:X}")
    add("GTIDs executed", offset.get("gtids"))
    if isinstance(skipped := offset.get("event"), int) and skipped:
        add("Inside a transaction", f"{count(skipped)} events and {_count(offset.get('row') or 0)} rows of the next one are sent")
    add("Server", offset.get("dblog_server") or (f"server_id {offset['server_id']}" if offset.get("server_id") else None))
    add("Transaction", offset.get("txId") or offset.get("transaction_id"))
    if isinstance(at_us := offset.get("ts_usec"), int):
        add("Source's time", clock(at_us / _MICRO))
    elif isinstance(at_s := offset.get("ts_sec"), int):
        add("Source's time", clock(at_s))
    snapshot = offset.get("snapshot")
    if snapshot:
        add("Snapshot", "not complete" if not offset.get("snapshot_completed") else "complete")
    return out


def _count(value: object) -> str:
    return count(value) if isinstance(value, int | float) else str(value)

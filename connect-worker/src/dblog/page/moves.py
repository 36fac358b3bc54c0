"""Says what setting a stored position would do, in numbers, before it is set: what is read again, and
what is skipped. Pure.

A position back is read again: every change after it is sent a second time. A position ahead skips:
the changes between are in no topic, and only a dump brings their rows. What the server still keeps
bounds both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dblog.cluster.requests import bad_request
from dblog.page.fleet import Facts
from dblog.page.formats import count, size

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_HALF_BITS = 32
_POS_DIGITS_MAX = 19
_INSIDE = ("event", "dblog_event", "row", "ts_sec", "dblog_xa", "transaction_id")
"""Fields of an offset that are about the transaction at the former position."""
_INSIDE_LSN = (
    *("txId", "ts_usec", "xmin", "messageType", "lsn_events_processed", "transaction_id"),
    *("dblog_commit", "dblog_event", "dblog_change_lsn", "dblog_change"),
)
_COUNTED = "transaction_data_collection_order_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The effect of setting a position."""

    title: str
    lines: tuple[str, ...]
    offset: Mapping[str, Any]
    """The offset that is stored."""
    is_dangerous: bool
    """True if changes are skipped."""


def has_lsn(offset: Mapping[str, Any]) -> bool:
    """Return True for an offset of PostgreSQL."""
    return "lsn" in offset


def lsn_text(lsn: int) -> str:
    """Return a position of PostgreSQL's log as the server writes it."""
    return f"{lsn >> _HALF_BITS:X}/{lsn & 0xFFFFFFFF:X}"


def wanted_offset(stored: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offset that a form asks for, made from the stored one. Raise RequestError 400."""
    if has_lsn(stored):
        text = str(fields.get("lsn") or "").strip()
        match = _LSN.fullmatch(text)
        if match is None:
            raise bad_request(f"{text[:40] or 'Nothing'} is no LSN; write it as PostgreSQL does, 16/B374D848 (SELECT pg_current_wal_lsn())")
        lsn = int(match[1], 16) << _HALF_BITS | int(match[2], 16)
        kept = _without(stored, _INSIDE_LSN)
        return {**kept, "lsn": lsn, **{name: lsn for name in ("lsn_proc", "lsn_commit") if name in stored}}
    file, pos, gtids = (str(fields.get(name) or "").strip() for name in ("file", "pos", "gtids"))
    if not file:
        raise bad_request("The name of the log file is missing; SHOW BINARY LOGS lists those that the server has")
    if not (pos.isascii() and pos.isdigit() and len(pos) <= _POS_DIGITS_MAX):
        raise bad_request(f"{pos[:40] or 'Nothing'} is no number of bytes; the first event of a file is at 4")
    kept = _without(stored, (*_INSIDE, "gtids"))
    return {**kept, "file": file, "pos": int(pos), **({"gtids": "".join(gtids.split())} if gtids else {})}


def _without(stored: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if name not in names and not name.startswith(_COUNTED)}


def move_of(stored: Mapping[str, Any], wanted: Mapping[str, Any], facts: Facts, *, topics: int) -> Move:
    """Return what setting ``wanted`` would do."""
    distance, text = _distance_lsn(stored, wanted) if has_lsn(stored) else _distance_file(stored, wanted)
    lines: list[str] = []
    match distance:
        case 0 if stored.get("gtids") == wanted.get("gtids"):
            title = "The position stays where it is"
            lines.append("A start goes on where it would go on anyway.")
        case int() if distance < 0:
            title = f"Read {text} again"
            lines += [
                f"Every change in it is sent again to {_topics(topics)}, after newer ones: consumers see old values until the newest come again.",
                "A sink keeps the newest state of each row by its position, whatever comes twice.",
                "A replication slot does not go back: what it has confirmed is not sent again by the server."
                if has_lsn(stored)
                else _kept(facts),
            ]
        case _:
            title = f"Skip {text}"
            lines.append(
                "The changes in it are sent to no topic, now or later. Only a dump brings their rows, and one of mode repair removes deleted rows."
            )
            in_bytes = has_lsn(stored) or stored.get("file") == wanted["file"]
            if in_bytes and facts.behind_bytes is not None and distance > facts.behind_bytes:
                left = size(facts.behind_bytes)
                lines.append(
                    f"This is beyond the end of the server's log, which had {left} after the stored position when it was asked last."
                )
    if distance != 0 and wanted.get("gtids") and wanted["gtids"] == stored.get("gtids"):
        lines.insert(0, "The GTIDs are as before, and a start goes by them, not by file and byte: change them too, or leave them empty.")
    if "gtids" in stored and "gtids" not in wanted:
        lines.append("No GTIDs are stored with it: the start finds its position by file and byte, on this server alone.")
    elif stored.get("gtids") != wanted.get("gtids"):
        was, will = stored.get("gtids") or "none", wanted.get("gtids") or "none"
        lines.append(f"GTIDs executed: {was} → {will}. Where a position has GTIDs the start goes by them, not by file and byte.")
    if distance != 0 and any(stored.get(name) for name in ("event", "row", "dblog_event")):
        lines.append("The stored position is inside a transaction; the new one is taken as the beginning of one.")
    return Move(title=title, lines=tuple(line for line in lines if line), offset=wanted, is_dangerous=distance != 0)


def _topics(topics: int) -> str:
    return f"{count(topics)} topic{'' if topics == 1 else 's'}"


def _kept(facts: Facts) -> str:
    if facts.margin_bytes is None:
        return "The server must still have it: SHOW BINARY LOGS lists what it keeps."
    return f"The server kept {size(facts.margin_bytes)} before the stored position when it was asked last; what is older cannot be read."


def _distance_lsn(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[int, str]:
    distance = int(wanted["lsn"]) - int(stored["lsn"])
    return distance, f"{size(abs(distance))} of the log ({lsn_text(stored['lsn'])} to {lsn_text(wanted['lsn'])})"


def _distance_file(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[int, str]:
    was, will = str(stored.get("file", "")), str(wanted["file"])
    pos = stored.get("pos")
    before = pos if isinstance(pos, int) else 0
    if was == will:
        distance = wanted["pos"] - before
        return distance, f"{size(abs(distance))}"
    number, then = _number(was), _number(will)
    if was.rpartition(".")[0] != will.rpartition(".")[0] or number is None or then is None:
        return 1, f"an unknown part of the log: {will} is no later or earlier file of {was}"
    files = abs(then - number)
    ends = f"{was}, byte {count(before)}, to {will}, byte {count(wanted['pos'])}"
    return then - number, f"{count(files)} log file{'' if files == 1 else 's'} ({ends})"


def _number(file: str) -> int | None:
    text = file.rpartition(".")[2]
    return int(text) if text.isascii() and text.isdigit() else None

"""What two connectors made of the same statements, record by record and field by field; what lies in the nature of two runs is left out.

Left out: the moments (`ts_*`, in `source` too), the connector's version, our `source.sequence`, in dumped rows the position in the log, which each took at another time,
the order in which a transaction's END names its tables (the peer's is that of a hash map), and transactions of before one of the two began to read the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from topics import PREFIX, Decoded

MOMENTS = frozenset({"ts_ms", "ts_us", "ts_ns"})
OWN = MOMENTS | {"version", "sequence"}
PLACE = frozenset({"file", "pos", "row", "gtid", "server_id", "thread", "snapshot", "txId", "lsn", "xmin"})
ABSENT = "(absent)"
TRANSACTIONS = f"{PREFIX}.transaction"
NULL_ROW = 999
"""The id of the row of a typed table that is NULL in its first column; its logged counterpart has the number that is added to the others."""


@dataclass(slots=True)
class Difference:
    """One kind of difference in one topic: where in the record, what each wrote, how often."""

    phase: str
    topic: str
    where: str
    ours: Any
    peer: Any
    record: str
    count: int = 1
    accepted: str | None = field(default=None)


class Differences:
    """Collects; the same two values in the same place of the same topic are counted, not repeated."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.found: dict[tuple[str, str, str, str], Difference] = {}
        self.compared = 0

    def note(self, topic: str, where: str, ours: Any, peer: Any, record: str) -> None:
        kind = (topic, where, repr(ours), repr(peer))
        known = self.found.get(kind)
        if known is None:
            self.found[kind] = Difference(self.phase, topic, where, ours, peer, record)
        else:
            known.count += 1

    def compare_logs(self, ours: dict[str, list[Decoded]], peer: dict[str, list[Decoded]]) -> None:
        """Topics of the log phase: the same records in the same order."""
        for topic in sorted({*ours, *peer}):
            mine, theirs = ours.get(topic, []), peer.get(topic, [])
            pairs = _aligned([_signature(r) for r in mine], [_signature(r) for r in theirs])
            if topic == TRANSACTIONS:  # two at the same index have nothing to do with each other
                pairs = _apart_unless(pairs, lambda left, right, a=mine, b=theirs: _signature(a[left]) == _signature(b[right]))
            for left, right in pairs:
                if left is None or right is None:
                    record = theirs[right] if left is None else mine[left]
                    self.note(
                        topic, "record", ABSENT if left is None else _described(record), ABSENT if right is None else _described(record), ""
                    )
                else:
                    self._pair(topic, mine[left], theirs[right], OWN)

    def compare_dumps(self, ours: dict[str, list[Decoded]], peer: dict[str, list[Decoded]]) -> None:
        """Topics of the dump phase: a record a row, in any order."""
        for topic in sorted({*ours, *peer}):
            mine, theirs = ({_row(r): r for r in side.get(topic, [])} for side in (ours, peer))
            for row in sorted({*mine, *theirs}):
                if row not in mine or row not in theirs:
                    self.note(
                        topic,
                        "record",
                        _described(mine[row]) if row in mine else ABSENT,
                        _described(theirs[row]) if row in theirs else ABSENT,
                        row,
                    )
                else:
                    self._pair(topic, mine[row], theirs[row], OWN | PLACE)

    def compare_dump_with_log(self, ours: dict[str, list[Decoded]], peer: dict[str, list[Decoded]], *, add: int) -> None:
        """Our dumped rows against what the peer read from the log for the same values, in rows whose id is higher by ``add``."""
        for topic, records in sorted(ours.items()):
            logged = {
                r.key["id"]: r
                for r in peer.get(topic, [])
                if r.key and "id" in r.key and isinstance(r.value, dict) and r.value.get("op") == "c"
            }
            for mine in records:
                theirs = logged.get(mine.key["id"] + add if mine.key and "id" in mine.key and mine.key["id"] != NULL_ROW else add)
                if theirs is None:
                    continue
                self.compared += 1
                left, right = ({name: item for name, item in r.value["after"].items() if name != "id"} for r in (mine, theirs))
                for where, a, b in _unlike(left, right, "value.after"):
                    self.note(topic, where, a, b, _described(mine))

    def _pair(self, topic: str, mine: Decoded, theirs: Decoded, not_in_source: frozenset[str]) -> None:
        self.compared += 1
        record = _described(theirs)
        for name, left, right in (
            ("key schema", mine.key_schema, theirs.key_schema),
            ("value schema", mine.value_schema, theirs.value_schema),
        ):
            if left == right:
                continue
            both = (None if left is None else json.loads(left), None if right is None else json.loads(right))
            found = list(_unlike(*both, name))
            for where, a, b in found:
                self.note(topic, where, a, b, record)
            if not found:
                self.note(topic, f"{name}, order of its properties", left, right, record)
        for where, a, b in _unlike(mine.key, theirs.key, "key"):
            self.note(topic, where, a, b, record)
        for where, a, b in _unlike(_bare(mine.value, not_in_source), _bare(theirs.value, not_in_source), "value"):
            self.note(topic, where, a, b, record)
        for where, a, b in _unlike(_named(mine.headers), _named(theirs.headers), "headers"):
            self.note(topic, where, a, b, record)
        if mine.partition != theirs.partition:
            self.note(topic, "partition", mine.partition, theirs.partition, record)


def split(topics: dict[str, list[Decoded]]) -> tuple[dict[str, list[Decoded]], dict[str, list[Decoded]]]:
    """Records of the dump and records of the log; schema changes belong to the log unless they are marked as the snapshot's."""
    dumped: dict[str, list[Decoded]] = {}
    logged: dict[str, list[Decoded]] = {}
    for topic, records in topics.items():
        for r in records:
            (dumped if is_dumped(r) else logged).setdefault(topic, []).append(r)
    return dumped, logged


def keep_common_transactions(ours: dict[str, list[Decoded]], peer: dict[str, list[Decoded]]) -> None:
    """Leave out what only one has for it began earlier, or was read later."""
    mine, theirs = ours.get(TRANSACTIONS, []), peer.get(TRANSACTIONS, [])
    common = {r.key["id"] for r in mine if r.value["status"] == "END"} & {r.key["id"] for r in theirs if r.value["status"] == "END"}
    for topics, records in ((ours, mine), (peer, theirs)):
        indexes = [at for at, r in enumerate(records) if r.key["id"] in common]
        if records:
            topics[TRANSACTIONS] = records[indexes[0] : indexes[-1] + 1] if indexes else []


def is_dumped(r: Decoded) -> bool:
    """Read by SELECT."""
    if not isinstance(r.value, dict):
        return False
    return r.value.get("op") == "r" or ("tableChanges" in r.value and r.value["source"]["snapshot"] not in {None, "false"})


def _row(r: Decoded) -> str:
    if isinstance(r.value, dict) and "tableChanges" in r.value:
        return str(r.value["ddl"])
    return json.dumps(r.key if r.key is not None else r.value["after"], default=repr)


def _bare(value: Any, not_in_source: frozenset[str]) -> Any:
    if not isinstance(value, dict):
        return value
    bare = {name: item for name, item in value.items() if name not in MOMENTS}
    if isinstance(bare.get("source"), dict):
        bare["source"] = {name: item for name, item in bare["source"].items() if name not in not_in_source}
    if bare.get("data_collections"):
        bare["data_collections"] = sorted(bare["data_collections"], key=lambda counted: counted["data_collection"])
    return bare


def _signature(r: Decoded) -> str:
    value = r.value if isinstance(r.value, dict) else {}
    kind = value.get("op") or value.get("status") or ("tombstone" if r.value is None else "other")
    return json.dumps([r.key, kind, value.get("ddl")], default=repr)


def _aligned(left: list[str], right: list[str]) -> Iterator[tuple[int | None, int | None]]:
    for _, a0, a1, b0, b1 in SequenceMatcher(a=left, b=right, autojunk=False).get_opcodes():
        for at in range(max(a1 - a0, b1 - b0)):
            yield (a0 + at if a0 + at < a1 else None), (b0 + at if b0 + at < b1 else None)


def _apart_unless(
    pairs: Iterator[tuple[int | None, int | None]], alike: Callable[[int, int], bool]
) -> Iterator[tuple[int | None, int | None]]:
    for left, right in pairs:
        if left is None or right is None or alike(left, right):
            yield left, right
        else:
            yield left, None
            yield None, right


def _named(headers: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """By name and in order; the run's number is another one in every run."""
    named = {name: "(a run)" if name.endswith(".runId") else value for name, value in headers}
    assert len(named) == len(headers), headers
    return named


def _described(r: Decoded) -> str:
    value = r.value if isinstance(r.value, dict) else {}
    return f"{value.get('op') or value.get('status') or value.get('ddl') or ('tombstone' if r.value is None else '')} {json.dumps(r.key, default=repr)}"


def _by_name(items: Any) -> dict[str, Any]:
    """A list of things that have names of their own, such as fields; empty for anything else."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return {}
    named = {item["name"]: item for item in items}
    return named if len(named) == len(items) else {}


def _unlike(left: Any, right: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Places where two trees differ; -0.0 is not 0.0, and 1 is not 1.0 or true."""
    if isinstance(left, dict) and isinstance(right, dict):
        if list(left) != list(right) and set(left) == set(right):
            yield f"{where}, order of names", list(left), list(right)
        for name in dict.fromkeys([*left, *right]):
            yield from _unlike(left.get(name, ABSENT), right.get(name, ABSENT), f"{where}.{name}")
    elif (mine := _by_name(left)) and (theirs := _by_name(right)) and list(mine) != list(theirs):
        if set(mine) == set(theirs):
            yield f"{where}, order", list(mine), list(theirs)
        for name in dict.fromkeys([*mine, *theirs]):
            yield from _unlike(mine.get(name, ABSENT), theirs.get(name, ABSENT), f"{where}[{name}]")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (a, b) in enumerate(zip(left, right, strict=True)):
            label = a.get("name", at) if isinstance(a, dict) else at
            yield from _unlike(a, b, f"{where}[{label}]")
    elif type(left) is not type(right) or repr(left) != repr(right):
        yield where, left, right

"""Cases of the fuzzer: recorded packets and rows, mutated by number; each names a decoder, what to feed it, and what may come of it.

A case is a stretch of a real log without checksums: the events in front of the mutated one that it needs (its transaction's beginning, its table map),
the mutated one, and the next one. Everything follows from (seed, number), so a finding is had again by its number.
"""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backports import zstd
from dblog.codecs import tableplan, topic_naming
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import ReferencePlan
from dblog.config.plugins import CONNECTORS  # noqa: F401 - the dialects' registration comes with it
from dblog.dialects.mysql.binlog import events, row_image
from dblog.dialects.mysql.binlog._fast import FastPlan, LogDecoder
from dblog.dialects.mysql.binlog.items import LogRows
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema
from dblog.dialects.mysql.binlog.table_map_schema import Charsets, seen_of
from dblog.dialects.mysql.values.types import TypeModes
from dblog.errors import DblogError
from dblog.model import Table
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from support.dialects import dialect_of

SEEDS = Path(__file__).with_name("seeds.json.zst")
HEADER, CHECKSUM, FORMAT, TABLE_MAP = 19, 4, 15, 19
ENDS = frozenset({16, 33, 34, 42, 162})
"""XID and GTIDs: a case does not reach back beyond these."""
CONTEXT = BinlogContext(file="b.000001", pos=4, server_id=1, source_ts_us=1, now_us=2, sequence_high=3, sequence_low=4)
PRELUDE = (19 + 600 + 1).to_bytes(3, "little") + b"\0\0" + struct.pack("<IBIIIH", 0, 3, 1, 619, 0, 0) + bytes(600)
"""An event of no meaning. It makes the input longer than what Python keeps in pools of its own, so that the sanitizer guards its end."""
INTERESTING = [0x00, 0x01, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF]
MODES = [
    TypeModes(),
    TypeModes(
        time_precision_mode="connect", decimal_handling_mode="string", bigint_unsigned_handling_mode="precise", binary_handling_mode="hex"
    ),
]


@dataclass
class Seed:
    """One mutable thing with what it needs."""

    flavor: str
    before: list[bytes]
    target: bytes
    after: list[bytes]


@dataclass
class Corpus:
    """All seeds, and the plans of the recorded tables."""

    seeds: list[Seed] = field(default_factory=list)
    chunks: list[tuple[TablePlan, bytes]] = field(default_factory=list)
    plans: dict[tuple[str, bytes], list[TablePlan]] = field(default_factory=dict)
    """By flavor and the part of a table map that names the table."""


def corpus() -> Corpus:
    """From the recorded file."""
    out = Corpus()
    for recorded in json.loads(zstd.decompress(SEEDS.read_bytes())):
        flavor = recorded["flavor"]
        charsets = Charsets(collations={int(n): tuple(pair) for n, pair in recorded["collations"].items()}, widths=recorded["widths"])
        raw = [bare(base64.b64decode(packet)) for packet in recorded["packets"]]
        logged = [event for event in raw if event is not None]
        for event in logged:
            for inner in [event, *packed_events(event)]:
                if inner[4] == TABLE_MAP:
                    learn(out, flavor, inner[HEADER:], charsets)
        for at, event in enumerate(logged):
            begin = at
            while begin > 0 and logged[begin][4] not in ENDS and at - begin < 6:
                begin -= 1
            out.seeds.append(Seed(flavor, logged[begin:at], event, logged[at + 1 : at + 2]))
        for chunk in recorded["chunks"]:
            known = [
                plans for (kind, name), plans in out.plans.items() if kind == flavor and name.endswith(chunk["table"].encode() + b"\0")
            ]
            rows = base64.b64decode(chunk["rows"])
            out.chunks += [(plan, rows) for plans in known for plan in plans]
    return out


def bare(packet: bytes) -> bytes | None:
    """An event without its packet's first byte and its checksum; None for what the sender made up, and for the format."""
    event = packet[1:]
    if packet[0] or event[4] == FORMAT or not int.from_bytes(event[13:17], "little"):
        return None
    return event[:9] + struct.pack("<I", len(event) - CHECKSUM) + event[13:-CHECKSUM]


def packed_events(event: bytes) -> list[bytes]:
    """The events inside a compressed transaction."""
    if event[4] != 40:
        return []
    at = event.index(b"\x28\xb5\x2f\xfd")
    raw, out = zstd.decompress(event[at:]), []
    while raw:
        size = int.from_bytes(raw[9:13], "little")
        out.append(raw[:size])
        raw = raw[size:]
    return out


def name_of(table_map: bytes) -> bytes:
    """Database and table, as they stand in a table map's body."""
    end = 8 + table_map[8] + 2
    return table_map[8 : end + table_map[end] + 2]


def learn(out: Corpus, flavor: str, table_map: bytes, charsets: Charsets) -> None:
    read = events.read_table_map(table_map)
    seen = seen_of(read, charsets)
    assert seen.named, "the servers write full metadata"
    table = Table(id=read.table, columns=tuple(seen.columns), key=seen.key or (), primary_key=bool(seen.key))
    out.plans[flavor, name_of(table_map)] = [
        tableplan.build_table_plan(
            table,
            [dialect_of(flavor).column_plan(c, modes, table.id) for c in table.columns],
            settings=tableplan.PlanSettings(
                connector=flavor, source=source_schema(flavor), version="3", naming=topic_naming.TopicNaming(prefix="p")
            ),
            key_columns=table.key,
            key_prefix=lambda _topic, _schema: b"\0\0\0\0\1",
            value_prefix=lambda _topic, _schema: b"\0\0\0\0\2",
        )
        for modes in MODES
    ]


def mutated(raw: bytes, chance: random.Random, *, low: int) -> bytes:
    """Some bytes changed, left out, put in or repeated from ``low`` on; or the end cut off."""
    out = bytearray(raw)
    pick = chance.random
    for _ in range(1 + int(pick() * pick() * 6)):
        size = len(out) - low
        if size <= 0:
            break
        at = low + int(pick() * size)
        kind = int(pick() * 16)
        if kind < 4:
            out[at] = int(pick() * 256)
        elif kind < 8:
            out[at] = INTERESTING[int(pick() * 10)]
        elif kind < 10:
            out[at] ^= 1 << int(pick() * 8)
        elif kind < 12:
            del out[at:]
        elif kind == 12:
            del out[at : at + 1 + int(pick() * 8)]
        elif kind == 13:
            out[at:at] = bytes([int(pick() * 256)]) * (1 + int(pick() * 8))
        elif kind == 14:
            out[at:at] = out[at : at + 1 + int(pick() * 64)]
        else:
            out[at : at + 4] = struct.pack("<I", int(pick() * (1 << 32)))
    return bytes(out)


def packets(all_events: list[bytes]) -> bytes:
    """As the server would send them."""
    out = bytearray()
    for event in all_events:
        out += (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event
    return bytes(out)


def sized(event: bytes) -> bytes:
    """The header shows how long the event is."""
    return event[:9] + struct.pack("<I", len(event)) + event[13:]


class Fuzzer:
    """Runs cases by number; ``last`` is the input of the one that runs, for a crash to be had again."""

    def __init__(self, seed: int, *, keep: Callable[[bytes], None] = lambda _: None) -> None:
        self.corpus = corpus()
        self.seed = seed
        self._keep = keep
        self._fast = {name: [FastPlan(plan, row_image) for plan in plans] for name, plans in self.corpus.plans.items()}
        self._slow = {name: [ReferencePlan(plan, row_image) for plan in plans] for name, plans in self.corpus.plans.items()}
        self._fast_chunks = [FastPlan(plan, row_image) for plan, _ in self.corpus.chunks]
        self._slow_chunks = [ReferencePlan(plan, row_image) for plan, _ in self.corpus.chunks]
        self._decoders: dict[tuple[str, int], Any] = {}
        self._used = 0

    def run(self, number: int, *, compare: bool) -> None:
        """One case. AssertionError, or whatever else comes out of the code, is a finding."""
        chance = random.Random(self.seed * 1_000_003 + number)
        if chance.random() < 0.15:
            self._chunk(chance, compare=compare)
        else:
            self._log(chance, compare=compare)

    def _chunk(self, chance: random.Random, *, compare: bool) -> None:
        index = int(chance.random() * len(self.corpus.chunks))
        raw = mutated(self.corpus.chunks[index][1], chance, low=0)
        self._keep(raw)
        view = memoryview(bytearray(600) + raw)[600:]  # long, for the same reason as the prelude
        found = outcome(lambda: self._fast_chunks[index].encode_chunk(view, CONTEXT, frozenset()))
        if compare:
            agree(found, outcome(lambda: self._slow_chunks[index].encode_chunk(raw, CONTEXT, frozenset())))

    def _log(self, chance: random.Random, *, compare: bool) -> None:
        seed = self.corpus.seeds[int(chance.random() * len(self.corpus.seeds))]
        target = mutated(seed.target, chance, low=HEADER if chance.random() < 0.9 else 0)
        if chance.random() < 0.05:
            target = target[:4] + bytes([int(chance.random() * 256)]) + target[5:]
        if len(target) >= HEADER and chance.random() < 0.97:
            target = sized(target)
        after = seed.after if chance.random() < 0.2 else []  # mostly at the very end, where reading too far is seen
        raw = PRELUDE + packets([*seed.before, target, *after])
        mode = int(chance.random() * len(MODES))
        cut = int(chance.random() * len(raw)) if chance.random() < 0.2 else len(raw)
        self._keep(raw)
        if compare:  # one that knows as little as its reference
            self._decoders.clear()
        found = outcome(lambda: self._drained(self._decoder(seed.flavor, mode), raw, cut))
        if compare:
            resolve = self._resolver(self._slow, seed.flavor, mode)
            slow = ReferenceLogDecoder(flavor=seed.flavor, resolve=resolve, checksum=False, records_max=3, transactions=mode % 2 == 1)
            agree(found, outcome(lambda: self._drained(slow, raw, cut)))

    def _decoder(self, flavor: str, mode: int) -> Any:
        self._used += 1
        if self._used % 2000 == 0:
            self._decoders.clear()  # what it has learnt of mutated tables and servers is nobody's
        made = self._decoders.get((flavor, mode))
        if made is None:
            resolve = self._resolver(self._fast, flavor, mode)
            made = LogDecoder(flavor=flavor, resolve=resolve, checksum=False, records_max=3, transactions=mode % 2 == 1)
            self._decoders[flavor, mode] = made
        return made

    def _resolver(self, encoders: Any, flavor: str, mode: int) -> Callable[..., Any]:
        def resolve(table_map: bytes, _position: Any) -> Any:
            known = encoders.get((flavor, name_of(table_map)))
            return None if known is None else known[mode]

        return resolve

    def _drained(self, decoder: Any, raw: bytes, cut: int) -> list[Any]:
        decoder.start("b.000001", 4, now_us=_now)
        items: list[Any] = []
        for part in (raw[:cut], raw[cut:]):
            items += decoder.feed(part)
            while decoder.held:
                items += decoder.feed(b"")
        return [plain(item) for item in items + decoder.flush()]


def _now() -> int:
    return 5


def plain(item: Any) -> Any:
    if isinstance(item, LogRows):
        return [s[1:] for s in item.segments], item.records, item.bytes, item.source_ts_us, item.position, item.borders
    return item


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    """What came out: a value, or an error of the kind that dblog raises on purpose."""
    try:
        return "value", run()
    except DblogError as error:
        return "error", str(error)


def agree(fast: tuple[str, Any], slow: tuple[str, Any]) -> None:
    """Both fail, or both give the same."""
    assert fast[0] == slow[0], (fast, slow)
    if fast[0] == "value":
        assert fast[1] == slow[1], (fast, slow)

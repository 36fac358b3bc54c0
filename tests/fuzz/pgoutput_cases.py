"""Cases of the fuzzer for PostgreSQL: recorded messages of a log and lines of COPY, damaged by number, into the compiled decoder and encoders.

As in `cases.py`, everything follows from (seed, number), and what comes out of the compiled code is what comes out of its reference implementation, or an
error that dblog raises on purpose.
"""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backports import zstd
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.postgres.pgoutput._fast import FastPlan, LogDecoder
from dblog.dialects.postgres.pgoutput.items import LogOffset
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.dialects.postgres.pgoutput.streamed import StreamedTransactions
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.errors import BadRowsError
from dblog.model import Column
from dblog.readers.items import LogRows
from fuzz.cases import agree, mutated, outcome
from reference_decoders.postgres.decoder_reference import ReferenceLogDecoder
from support.pgoutput_log import copy_message, logged
from support.pgoutput_tables import plan_of

SEEDS = Path(__file__).with_name("pgoutput_seeds.json.zst")
LETTER = 25
"""Where a copy message has the letter of its message of the log."""
LENGTH = 4
PAD = bytes(600)
"""Behind it the input is longer than what Python keeps in pools of its own, so that the sanitizer guards its end."""
SMALL = (
    Column(name="id", type="int4", type_text="integer", nullable=False), Column(name="a", type="text", type_text="text", nullable=True),
    Column(name="n", type="numeric", type_text="numeric(9,2)", nullable=True, length=9, scale=2),
    Column(name="long", type="text", type_text="text", nullable=True), Column(name="e", type="int4", type_text="integer", nullable=True),
)  # fmt: skip
CONTEXT = PostgresContext(
    database="shop", xid=771, lsn=0x1_0000_0A28, source_ts_us=1_700_000_000_123_456, now_us=1, sequence_high=1, sequence_low=5 << 34
)


class PostgresFuzzer:
    """Runs cases by number."""

    def __init__(self, seed: int, *, keep: Callable[[bytes], None] = lambda _: None) -> None:
        recorded = json.loads(zstd.decompress(SEEDS.read_bytes()))
        self.seed = seed
        self._keep = keep
        self._whole, self._under_way = (
            [logged(base64.b64decode(data), lsn) for lsn, data in recorded[kind]] for kind in ("whole", "under_way")
        )
        self.letters = {message[LENGTH + LETTER : LENGTH + LETTER + 1] for message in (*self._whole, *self._under_way)}
        """The kinds of messages that there are."""
        modes = TypeModes()
        image = PostgresImage(modes)
        plans = {("small", width): plan_of(list(SMALL[:width]), key=("id",), name="small", modes=modes) for width in (4, 5)}
        self._lines = []
        for table in recorded["tables"]:
            columns = [SMALL[0], *(Column(**{**column, "members": tuple(column["members"])}) for column in table["columns"])]
            plan = plan_of(columns, key=("id",), name=table["name"], modes=modes)
            plans[table["name"], len(columns)] = plan
            self._lines.append((FastPlan(plan, image), ReferencePlan(plan, image), base64.b64decode(table["rows"])))
        self._fast = {name: FastPlan(plan, image) for name, plan in plans.items()}
        self._slow = {name: ReferencePlan(plan, image) for name, plan in plans.items()}
        self._relations: dict[bytes, bytes] = {}
        self._described: list[list[bytes]] = []
        for message in self._whole:  # for each message the newest description of its table before it
            content = message[LENGTH + LETTER :]
            if content[:1] == b"R":
                self._relations[content[1:5]] = message
            known = self._relations.get(content[1:5]) if content[:1] in (b"I", b"U", b"D") else None
            self._described.append([] if known is None else [known])

    def run(self, number: int, *, compare: bool) -> None:
        """One case. AssertionError, or whatever else comes out of the code, is a finding."""
        chance = random.Random(self.seed * 1_000_003 + number)
        kind = chance.random()
        if kind < 0.3:
            self._chunk(chance, compare=compare)
        elif kind < 0.5:
            self._pieces(chance)
        else:
            self._log(chance, compare=compare)

    def _chunk(self, chance: random.Random, *, compare: bool) -> None:
        fast, slow, rows = chance.choice(self._lines)
        raw = mutated(rows, chance, low=0)
        self._keep(raw)
        view = memoryview(bytearray(PAD) + raw)[len(PAD) :]
        rows_max, start = chance.choice((1, 2, 1 << 40)), int(chance.random() * (len(raw) + 1))
        found = outcome(lambda: fast.encode_chunk(view, CONTEXT, frozenset()))
        prints = outcome(lambda: fast.fingerprint_chunk(view, frozenset()))
        end = outcome(lambda: fast.end_of_rows(view, start, rows_max, 1 << 40))
        if compare:
            agree(found, outcome(lambda: slow.encode_chunk(raw, CONTEXT, frozenset())))
            agree(prints, outcome(lambda: slow.fingerprint_chunk(raw, frozenset())))
            agree(end, outcome(lambda: slow.end_of_rows(raw, start, rows_max, 1 << 40)))

    def _log(self, chance: random.Random, *, compare: bool) -> None:
        at = int(chance.random() * len(self._whole))
        content = mutated(self._whole[at][LENGTH:], chance, low=LETTER if chance.random() < 0.9 else 0)
        before = self._whole[max(0, at - 3) : at]
        begin = next((one for one in reversed(self._whole[:at]) if one[LENGTH + LETTER : LENGTH + LETTER + 1] == b"B"), None)
        after = self._whole[at + 1 : at + 2] if chance.random() < 0.2 else []
        described = dict.fromkeys(one for known in self._described[max(0, at - 3) : at + 2] for one in known)
        messages = [*([] if begin is None else [begin]), *described, *before, copy_message(content), *after]
        raw = b"".join([copy_message(b"k" + bytes(8 + 8 + 1) + PAD), *messages])
        self._keep(raw)
        found = outcome(lambda: self._drained(LogDecoder, self._fast, raw))
        # Positions of before and after could be numbers that no server has and no record can show.
        if compare and content[LETTER : LETTER + 1] not in (b"B", b"C", b"O") and content[1:2] < b"\x40":
            agree(found, outcome(lambda: self._drained(ReferenceLogDecoder, self._slow, raw)))

    def _pieces(self, chance: random.Random) -> None:
        """A transaction under way, one of whose messages is damaged: pieces are put together without a decoder."""
        begin = int(chance.random() * len(self._under_way)) // 40 * 40
        messages = self._under_way[:3] + self._under_way[begin : begin + 40] + self._under_way[-5:]
        at = int(chance.random() * len(messages))
        messages[at] = copy_message(mutated(messages[at][LENGTH:], chance, low=LETTER))
        raw = b"".join(messages)
        self._keep(raw)
        outcome(lambda: [bytes(piece) for piece in StreamedTransactions(io.BytesIO).take(raw)])

    def _drained(self, made: Any, encoders: Any, raw: bytes) -> list[Any]:
        decoder = made(
            resolve=lambda relation, *_: encoders.get((relation.name, len(relation.columns))),
            committed=lambda *_: None,
            database="shop",
            records_max=3,
        )
        decoder.start(LogOffset(lsn=7), epoch=3, now_us=lambda: 5)
        items: list[Any] = []
        data = raw
        while True:
            try:
                items += decoder.feed(data)
            except BadRowsError as e:
                items.append(str(e))
                decoder.leave_out()
            data = b""
            if not decoder.held:
                break
        return [_plain(item) for item in [*items, *decoder.flush()]]


def _plain(item: Any) -> Any:
    if isinstance(item, LogRows):
        return [s[1:] for s in item.segments], item.records, item.bytes, item.source_ts_us, item.position, item.borders, item.lacking
    return item

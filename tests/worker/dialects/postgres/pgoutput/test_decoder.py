"""The compiled log decoder and its reference implementation on made-up logs: alike whole, split, cut short and damaged; and right by hand."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.postgres.pgoutput._fast import FastPlan, LogDecoder
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset, SignalRow
from dblog.dialects.postgres.pgoutput.messages import Message, Relation, Truncate
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage, with_values
from dblog.dialects.postgres.task.old_keys import OldKeys
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError, TransientError
from dblog.model import Column, Index, TableId
from dblog.readers.items import IGNORED_FOR_NOW, ROWS_PARKED, LogRows
from dblog.readers.log.schemas import EventCount, PassedOver
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_decoders.postgres.decoder_reference import ReferenceLogDecoder
from support.pgoutput_log import Stream, copy_message, logged
from support.pgoutput_tables import UNSENT, decoded, plan_of

NOW = 1_700_000_009_000_000
ID, NAME, SIZE = (
    Column(name="id", type="int4", type_text="integer", nullable=False),
    Column(name="name", type="text", type_text="text", nullable=True),
    Column(name="size", type="int4", type_text="integer", nullable=True),
)
COLUMNS = ["id:int4", "name:text"]
IMAGE = PostgresImage(TypeModes())
PLANS = {
    (name, width): plan_of([ID, NAME, SIZE][:width], key=("id",), name=name, **more)
    for width in (2, 3)
    for name, more in (
        ("t$", {}),  # the topic of these two is one: their names differ in a character that no topic may have
        ("t#", {}),
        ("t2", {"tombstones": False, "skip_unchanged": True}),
        ("t3", {"skipped_operations": frozenset({"u"})}),
        ("moving", {}),
    )
}
for (name, _), plan in PLANS.items():
    if name == "moving":
        object.__setattr__(plan, "table", replace(plan.table, indexes=(Index(name="PRIMARY", columns=("id",), unique=False),)))
FAST = {name: FastPlan(plan, IMAGE) for name, plan in PLANS.items()}
SLOW = {name: ReferencePlan(plan, IMAGE) for name, plan in PLANS.items()}
SIGNALS = TableId("shop", "signals")
TABLES = ["t$", "t#", "t2", "t3", "signals", "parked", "later", "other"]


class Watched:
    """A decoder, and in order all that it gives and asks."""

    def __init__(self, made: Any, encoders: Any, **options: Any) -> None:
        self.seen: list[Any] = []
        self.encoders = encoders
        self.options = options
        self.ignored = 0
        self.failures: list[Exception] = []
        options.setdefault("signal_tables", frozenset({SIGNALS}))
        self.decoder = made(resolve=self.resolve, committed=lambda *told: self.seen.append(("committed", *told)), database="db", **options)

    def resolve(self, relation: Relation, position: tuple[int, int], offset: LogOffset) -> Any:
        if self.failures:
            raise self.failures.pop()
        self.seen.append(("resolve", relation.name, position, offset))
        if relation.name == "parked":
            return ROWS_PARKED
        if relation.name == "later":
            self.ignored += 1
            return IGNORED_FOR_NOW if self.ignored < 3 else None
        return self.encoders.get((relation.name, len(relation.columns)))

    def feed(self, data: bytes) -> None:
        """All of it. Rows that no record can be made of are left out; any other error ends it."""
        try:
            self.note(self.decoder.feed(data))
        except BadRowsError as e:
            self.seen.append(str(e))
            self.decoder.leave_out()
        while self.decoder.held:
            self.feed(b"")

    def drain(self, data: bytes, *, ends: list[int] | None = None, at: LogOffset | None = None, epoch: int = 3) -> list[Any]:
        """``ends`` are the offsets to split the bytes at."""
        self.decoder.start(at or LogOffset(lsn=7), epoch=epoch, now_us=lambda: NOW)
        try:
            for low, high in itertools.pairwise([0, *(ends or []), len(data)]):
                self.feed(data[low:high])
            self.note(self.decoder.flush())
        except DefiniteError as e:
            self.seen.append((type(e), str(e)))
        self.seen.append(self.decoder.counts)
        return self.seen

    def note(self, items: list[Any]) -> None:
        for item in items:
            if isinstance(item, LogRows):
                segments = [(encoder.plan.table.id, *rest) for encoder, *rest in item.segments]
                self.seen.append((segments, item.records, item.bytes, item.source_ts_us, item.position, item.borders, item.lacking))
            else:
                self.seen.append(item)


def envelopes(seen: list[Any]) -> list[dict[str, Any]]:
    plans = {(plan.table.id, width): plan for (_, width), plan in PLANS.items()}
    return [
        decoded(plans[name, 2], value)
        for item in seen
        if isinstance(item, tuple) and isinstance(item[0], list)
        for name, _, values, _ in item[0]
        for value in values
        if value is not None
    ]


def events(seen: list[Any]) -> list[LogEvent]:
    return [item for item in seen if isinstance(item, LogEvent)]


@pytest.fixture(params=["fast", "reference", "fast with a slow encoder"])
def make(request: pytest.FixtureRequest) -> Callable[..., Watched]:
    def made(**options: Any) -> Watched:
        if request.param == "reference":
            return Watched(ReferenceLogDecoder, SLOW, **options)
        return Watched(LogDecoder, FAST if request.param == "fast" else SLOW, **options)

    return made


def table(stream: Stream, number: int = 5, name: str = "t$", columns: list[str] | None = None) -> Stream:
    return stream.relation(number, name, columns or COLUMNS)


def inserts(stream: Stream, *ids: int, number: int = 5) -> Stream:
    for one in ids:
        stream.insert(number, [b"%d" % one, b"x"])
    return stream


# --- random logs -----------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Some transactions, with all that may stand in them."""
    stream = Stream(draw(st.sampled_from([0x1_0000_0000, 0xFFFF_FFF0, 8])))
    widths: dict[int, int] = {}
    text = st.sampled_from([b"x", b"y", None, "ü".encode(), b"\xff"])

    def row(width: int) -> list[Any]:
        return [b"%d" % draw(st.integers(1, 3)), draw(text), b"7"][:width]

    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            stream.keepalive(draw(st.sampled_from([None, 1, stream.lsn + 100])))
        if draw(st.integers(0, 5)) == 0:
            stream.message("other", b"outside", transactional=False)
        stream.begin(draw(st.sampled_from([None, None, stream.lsn + 3])), xid=draw(st.sampled_from([700, 1, (1 << 32) - 1])))
        if draw(st.integers(0, 3)) == 0:
            stream.origin(draw(st.sampled_from(["there", ""])), draw(st.integers(0, 1 << 40)))
        for _ in range(draw(st.integers(0, 8))):
            at = draw(st.integers(0, len(TABLES) - 1))
            number = at + (256 if at == 1 else 1)  # two numbers of one slot
            width = widths.get(number)
            if width is None or draw(st.integers(0, 9)) == 0:
                width = widths[number] = draw(st.sampled_from([2, 2, 3]))
                columns = ["id:text", "type:text", "data:text"] if TABLES[at] == "signals" else ["id:int4", "name:text", "size:int4"]
                stream.relation(number, TABLES[at], columns[:width])
            match draw(st.integers(0, 13)):
                case 0:
                    stream.truncate(number, 999)
                case 1:
                    stream.message("dblog", b"[]", transactional=draw(st.booleans()))
                case 2:
                    stream.type_().keepalive(stream.lsn + 100)
                case 3:
                    stream.insert(number, [b"one", None, None][:width])  # no number
                case 4:
                    stream.insert(number, [b"1"])  # of another width
                case 5 | 6:
                    old = row(width)
                    stream.update(number, draw(st.sampled_from([old, None])), draw(st.sampled_from([old, [*row(width)[:-1], UNSENT]])))
                case 7 | 8:
                    stream.update(number, [*row(width)[:1], None, None][:width], row(width), letter=b"K")
                case 9 | 10:
                    stream.delete(number, [*row(width)[:1], None, None][:width])
                case _:
                    stream.insert(number, row(width))
        stream.commit()
    return stream


@settings(max_examples=120)
@given(st.data())
def test_random_logs_are_decoded_alike_in_any_parts_and_from_any_offset(data: st.DataObject) -> None:
    stream = data.draw(streams())
    raw = stream.bytes()
    boundaries = list(itertools.accumulate(map(len, stream.messages)))
    ends = sorted(data.draw(st.lists(st.sampled_from(boundaries), max_size=4)))
    options = {
        "records_max": data.draw(st.sampled_from([1, 2, 1000])),
        "bytes_max": data.draw(st.sampled_from([1, 500, 1 << 20])),
        "transactions": data.draw(st.booleans()),
        "signal_tables": data.draw(st.sampled_from([frozenset(), frozenset({SIGNALS})])),
    }

    slow = Watched(ReferenceLogDecoder, SLOW, **options).drain(raw, ends=ends)

    assert Watched(LogDecoder, FAST, **options).drain(raw, ends=ends) == slow
    assert Watched(LogDecoder, SLOW, **options).drain(raw, ends=ends) == slow
    positions = [item[4] for item in slow if isinstance(item, tuple) and isinstance(item[0], list)]
    for position in positions[:: max(len(positions) // 4, 1)]:
        again = Watched(ReferenceLogDecoder, SLOW, **options).drain(raw, at=position)
        assert Watched(LogDecoder, FAST, **options).drain(raw, at=position) == again


@settings(max_examples=60)
@given(st.data())
def test_a_message_that_is_cut_off_or_damaged_is_refused_alike(data: st.DataObject) -> None:
    stream = data.draw(streams())
    at = data.draw(st.integers(0, len(stream.messages) - 1))
    content = stream.messages[at][4:]
    damaged = [content[:cut] for cut in range(len(content))] + [content + b"\0"]
    for _ in range(30):
        place = data.draw(st.integers(25 if len(content) > 25 else 0, len(content) - 1))
        other = content[:place] + bytes([data.draw(st.integers(0, 255))]) + content[place + 1 :]
        if other == content or other[25:26] not in (b"B", b"C", b"O"):  # those could have numbers that no server has and no record can show
            damaged.append(other)

    for one in damaged:
        raw = b"".join([*stream.messages[:at], copy_message(one), *stream.messages[at + 1 :]])
        assert Watched(LogDecoder, FAST).drain(raw) == Watched(ReferenceLogDecoder, SLOW).drain(raw)


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_rows_get_their_source_block_and_their_number_in_the_transaction(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin(0x1_0000_1001, xid=771, ts_us=1_700_000_000_123_456).origin("there", 99)), 1, 2).commit()

    first, second = envelopes(make().drain(stream.bytes()))

    high, low = sequence_of(epoch=3, lsn=0x1_0000_1001, number=1)
    assert first["after"] == {"id": 1, "name": "x"}
    assert first["op"] == "c"
    assert first["ts_us"] == NOW
    assert first["source"] == {
        "version": "3.6.1.Final", "connector": "postgresql", "name": "p", "ts_ms": 1_700_000_000_123, "snapshot": "false", "db": "db",
        "sequence": f'["{high}","{low}"]', "ts_us": 1_700_000_000_123_456, "ts_ns": 1_700_000_000_123_456_000, "schema": "shöp", "table": "t$",
        "txId": 771, "lsn": 0x1_0000_0018, "xmin": None, "origin": "there", "origin_lsn": 99,
    }  # fmt: skip
    assert second["source"]["sequence"] == f'["{high}","{low + 1}"]'


def test_a_transaction_without_origin_has_none_of_the_one_before(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin().origin("there", 99)), 1).commit()
    inserts(stream.begin(), 2).commit()

    assert [one["source"]["origin"] for one in envelopes(make().drain(stream.bytes()))] == ["there", None]


def test_every_split_between_messages_gives_the_same_records(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin()), 1, 2).commit().keepalive()
    inserts(stream.begin(), 3).delete(5, [b"1", None]).commit()
    whole = envelopes(make().drain(stream.bytes()))

    for end in itertools.accumulate(map(len, stream.messages)):
        assert envelopes(make().drain(stream.bytes(), ends=[end])) == whole
    every = list(itertools.accumulate(map(len, stream.messages)))
    assert envelopes(make().drain(stream.bytes(), ends=every)) == whole


def test_a_buffer_that_ends_inside_a_message_is_damage(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin()), 1).commit()
    raw = stream.bytes()

    for cut in set(range(1, len(raw))) - set(itertools.accumulate(map(len, stream.messages))):
        watched = make()
        watched.decoder.start(LogOffset(lsn=7), epoch=0, now_us=lambda: NOW)
        with pytest.raises(DamagedLogError, match="cut off"):
            watched.decoder.feed(raw[:cut])


def test_a_restart_inside_a_transaction_passes_over_what_was_taken(make: Callable[..., Watched]) -> None:
    stream = table(Stream().begin())
    inserts(stream, 1, 2).truncate(5).message("m", b"")
    inserts(stream, 3).commit()
    inserts(stream.begin(), 4).commit()
    raw = stream.bytes()
    seen = make(records_max=1).drain(raw)
    offsets = [item[4] for item in seen if isinstance(item, tuple) and isinstance(item[0], list)] + [one.position for one in events(seen)]
    within = [offset for offset in offsets if offset.lsn == 7]  # the server sends what ended behind it

    assert [one["after"]["id"] for one in envelopes(seen)] == [1, 2, 3, 4]
    assert sorted({offset.event for offset in within}) == [0, 1, 2, 3, 4, 5]
    for offset in within:
        left = [[1, 2, 3], [2, 3], [3], [3], [3], []][offset.event]
        assert [one["after"]["id"] for one in envelopes(make().drain(raw, at=offset))] == [*left, 4]


def test_an_update_that_shows_its_old_key_gets_the_values_that_the_log_does_not_have(make: Callable[..., Watched]) -> None:
    stream = table(Stream().begin())
    stream.update(5, [b"1", None], [b"2", UNSENT], letter=b"K").update(5, None, [b"2", UNSENT]).commit()
    asked: list[tuple[str, bool]] = []

    def fill(plan: TablePlan, body: bytes, xid: int) -> bytes:
        asked.append((plan.table.id.name, xid > 0))
        return with_values(body, {1: "ü".encode()})

    seen = envelopes(make(fill=fill).drain(stream.bytes()))

    assert asked == [("t$", True)]
    assert [one["after"] for one in seen if one["after"]] == [
        {"id": 2, "name": "ü"},
        {"id": 2, "name": "__debezium_unavailable_value"},
    ]


def test_an_update_that_lacks_values_is_completed_or_its_key_is_reported(make: Callable[..., Watched]) -> None:
    stream = table(Stream().begin())
    for number in (b"1", b"2", b"3"):
        stream.update(5, None, [number, UNSENT if number != b"3" else b"x"])
    stream.commit()
    asked: list[str] = []

    def complete(plan: TablePlan, body: bytes, xid: int) -> bytes | None:
        asked.append(f"{plan.table.id.name} {xid > 0}")
        return with_values(body, {1: b"y"}) if len(asked) == 1 else None

    items = make(complete=complete).drain(stream.bytes())

    assert asked == ["t$ True"] * 2
    assert [one["after"]["name"] for one in envelopes(items)] == ["y", "__debezium_unavailable_value", "x"]


def test_changes_of_a_table_whose_schema_is_not_known_are_passed_over(make: Callable[..., Watched]) -> None:
    stream = table(Stream().begin(), columns=["one"]).insert(5, [b"1"]).update(5, None, [b"1"]).update(5, None, [UNSENT]).delete(5, [b"1"])
    counted = EventCount()
    watched = make(settle=OldKeys(RowsNow()), complete=lambda *_: None)  # type: ignore[arg-type]
    watched.encoders = {("t$", 1): PassedOver(TableId("public", "t$"), counted)}

    items = watched.drain(stream.commit().bytes())

    assert envelopes(items) == []
    assert counted.total == 4


class RowsNow:
    """The table that is asked for a key."""

    def __init__(self, *keys: bytes) -> None:
        self.keys = keys
        self.asked: list[bytes] = []

    def row(self, table: Any, key: Any, xid: int) -> list[bytes | None] | None:
        del table, xid
        self.asked += key
        return [key[0], b"now"] if key[0] in self.keys else None


@pytest.mark.parametrize("records_max", [1, 1000])
def test_a_key_that_another_row_of_the_transaction_has_taken_is_not_deleted(make: Callable[..., Watched], records_max: int) -> None:
    stream = table(Stream().begin(), name="moving")
    for one in (1, 2, 3):
        stream.update(5, [b"%d" % one, b"row %d" % one], [b"%d" % (one + 1), b"row %d" % one])
    stream.update(5, [b"4", b"row 3"], [b"5", UNSENT]).update(5, [b"2", b"row 1"], [b"6", b"row 1"]).delete(
        5, [b"9", b"row 9"], letter=b"O"
    )
    raw = stream.commit().bytes()
    now = RowsNow(b"4")

    seen = make(settle=OldKeys(now), records_max=records_max).drain(raw)  # type: ignore[arg-type]

    wanted = [("d", 1), ("c", 2), ("c", 3), ("c", 4), ("u", 4), ("c", 5), ("d", 2), ("c", 6), ("d", 9)]
    assert [(one["op"], (one["after"] or one["before"])["id"]) for one in envelopes(seen)] == wanted
    assert now.asked == [b"4"]
    assert next(one["after"]["name"] for one in envelopes(seen) if one["op"] == "u") == "now"
    offsets = [item[4] for item in seen if isinstance(item, tuple) and isinstance(item[0], list) and item[4].in_transaction]
    for offset in offsets:
        again = envelopes(make(settle=OldKeys(RowsNow(b"4"))).drain(raw, at=offset))  # type: ignore[arg-type]
        assert [(one["op"], (one["after"] or one["before"])["id"]) for one in again] == wanted[len(wanted) - len(again) :]


@pytest.mark.parametrize(("before", "after"), [("t$ t2", "t2"), ("t$ t2", "t$"), ("t2", "t$ t2"), ("t$", "t$ t2")])
def test_a_restart_with_another_publication_goes_on_behind_the_last_change_that_was_taken(
    make: Callable[..., Watched], before: str, after: str
) -> None:
    """Places of the log, each with rows of one table: a multi-row insert is one record of the log."""
    places = [(100, "t$", [1, 2, 3]), (200, "t2", [4, 5]), (300, "t$", [6]), (400, "t2", [7, 8]), (500, "t$", [9])]

    def log_of(published: str) -> bytes:
        stream = Stream()
        stream.begin(0x9000)
        seen: set[str] = set()
        for lsn, name, ids in places:
            number = 5 if name == "t$" else 7
            if name in published.split() and name not in seen:
                table(stream, number, name)
                seen.add(name)
            for one in ids if name in published.split() else []:
                stream.insert(number, [b"%d" % one, b"x"], lsn=lsn)
        return stream.commit().bytes()

    def rows_of(published: str) -> list[int]:
        return [one for _, name, ids in places if name in published.split() for one in ids]

    seen = make(records_max=1).drain(log_of(before))
    offsets = [item[4] for item in seen if isinstance(item, tuple) and isinstance(item[0], list) if item[4].in_transaction]
    numbers = [one["source"]["sequence"] for one in envelopes(seen)]

    assert len(offsets) == len(rows_of(before))
    for at, offset in enumerate(offsets):
        last = rows_of(before)[at]
        rest = envelopes(make().drain(log_of(after), at=offset))
        assert sorted(one["after"]["id"] for one in rest) == [one for one in rows_of(after) if one > last]
        assert all(one["source"]["sequence"] > numbers[at] for one in rest)


def test_a_position_that_moves_on_in_front_of_a_transaction_that_comes_again_still_shows_how_far_it_was_taken(
    make: Callable[..., Watched],
) -> None:
    stream = inserts(table(Stream().begin(0x1_0000_9000)), 1, 2).commit()
    offset = next(item[4] for item in make(records_max=1).drain(stream.bytes()) if isinstance(item, tuple) and isinstance(item[0], list))
    before = Stream().keepalive(0x1_0000_0500).message("app", b"outside", transactional=False)

    seen = make().drain(before.bytes(), at=offset)

    positions = [events(seen)[0].position, seen[-2][4]]
    assert [(one.lsn, one.commit_lsn, one.event) for one in positions] == [(0x1_0000_0500, 0x1_0000_9000, 1)] * 2
    left = make().drain(stream.bytes(), at=positions[-1])
    assert [one["after"]["id"] for one in envelopes(left)] == [2]


def test_a_relation_comes_out_also_when_it_is_as_before_and_stops_the_decoder(make: Callable[..., Watched]) -> None:
    watched = make()
    watched.decoder.start(LogOffset(lsn=7), epoch=0, now_us=lambda: NOW)
    stream = inserts(table(Stream().begin()), 1)
    inserts(table(stream), 2)  # once more, as it was
    inserts(table(stream, columns=[*COLUMNS, "size:int4"]), number=5).insert(5, [b"3", b"x", b"9"]).commit()

    items = watched.decoder.feed(stream.bytes())
    assert [type(item.message) for item in items] == [Relation]
    for _ in range(2):
        items = watched.decoder.feed(b"")
        assert [type(item) for item in items] == [LogRows, LogEvent]
        assert items[0].records == 1
        assert watched.decoder.held
    assert [item[1] for item in watched.seen if item[0] == "resolve"] == ["t$"]
    watched.decoder.feed(b"")
    (last,) = watched.decoder.flush()
    assert [segment[0].plan.table.columns[-1].name for segment in last.segments] == ["size"]


def test_every_topic_gets_its_records_in_the_order_of_the_log(make: Callable[..., Watched]) -> None:
    stream = table(table(table(Stream().begin()), 6, "t#"), 7, "t2")
    for number in (5, 6, 5, 5, 7, 6, 7):
        inserts(stream, number, number=number)

    seen = make().drain(stream.commit().bytes())

    ((segments, records, *_),) = [item for item in seen if isinstance(item, tuple) and isinstance(item[0], list)]
    assert [(name.name, len(keys)) for name, keys, _, _ in segments] == [("t$", 1), ("t#", 1), ("t$", 2), ("t2", 2), ("t#", 1)]
    assert records == 7


def test_a_commit_tells_its_number_and_the_tables_that_it_has_changed(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin(0x9000, xid=5)), 1, 2).commit()
    table(stream.begin(0xA000, xid=6), 261, "t2").insert(261, [b"1", b"x"])
    inserts(stream, 1).insert(261, [b"2", b"x"]).truncate(77).commit()
    stream.begin(0xB000, xid=7).commit()

    seen = make().drain(stream.bytes())

    assert [item[1:] for item in seen if isinstance(item, tuple) and item[0] == "committed"] == [
        (5, 0x9000, frozenset({5})),
        (6, 0xA000, frozenset({5, 261, 77})),
        (7, 0xB000, frozenset()),
    ]


def test_a_keepalive_moves_the_position_outside_of_transactions_only(make: Callable[..., Watched]) -> None:
    for messages, lsn in (
        (Stream().keepalive(0x500), 0x500),
        (Stream().keepalive(0x500).keepalive(0x400), 0x500),
        (inserts(table(Stream().keepalive(0x500).begin()), 1).keepalive(0x900_0000_0000), 0x500),
    ):
        seen = make().drain(messages.bytes())
        assert seen[-2][4].lsn == lsn


def test_truncates_and_messages_come_out_in_order_with_their_positions(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin(0x9000)), 1).truncate(5, 6).message("app", b"inside")
    inserts(stream, 2).commit().message("app", b"outside", transactional=False)

    seen = make().drain(stream.bytes())

    found = events(seen)[1:]
    assert [type(one.message) for one in found] == [Truncate, Message, Message]
    assert found[0].message.relations == (5, 6)
    assert [(one.number, one.position.event, one.position.kind) for one in found] == [
        (2, 2, "TRUNCATE"),
        (3, 3, "MESSAGE"),
        (1, 0, "MESSAGE"),
    ]
    assert found[2].commit_lsn == found[2].lsn


def test_rows_of_a_signal_table_are_signals(make: Callable[..., Watched]) -> None:
    stream = Stream().begin().relation(9, "signals", ["id:text", "type:text", "data:text"])
    stream.insert(9, [b"1", b"log", None]).update(9, None, [b"1", b"x", b"y"]).delete(9, [b"1", None, None])
    stream.relation(9, "signals", ["id:text"]).insert(9, [b"1"]).commit()

    found = [one.message for one in events(make().drain(stream.bytes())) if isinstance(one.message, SignalRow)]

    assert found[0] == SignalRow(("1", "log", None))
    assert len(found) == 2
    assert "three columns" in str(found[1].fault)


def test_a_row_that_cannot_be_written_can_be_left_out(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin(xid=8)), 1).insert(5, [b"one", None])
    inserts(stream, 2).commit()

    seen = make().drain(stream.bytes())

    assert [one["after"]["id"] for one in envelopes(seen)] == [1, 2]
    assert next(item for item in seen if isinstance(item, str)).startswith("shöp.t$.id: ")


def test_a_registry_that_is_away_for_a_while_loses_nothing(make: Callable[..., Watched]) -> None:
    watched = make(records_max=1)
    watched.decoder.start(LogOffset(lsn=7), epoch=0, now_us=lambda: NOW)
    watched.note(watched.decoder.feed(table(Stream().begin()).bytes()))
    watched.note(watched.decoder.feed(inserts(Stream(), 1).relation(6, "t2", COLUMNS).bytes()))
    watched.failures = [TransientError("away"), TransientError("away")]

    watched.note(watched.decoder.feed(inserts(inserts(Stream(), 2), 3, number=6).commit().bytes()))
    with pytest.raises(TransientError):
        watched.decoder.feed(b"")
    while watched.decoder.held:
        watched.note(watched.decoder.feed(b""))

    assert [one["after"]["id"] for one in envelopes(watched.seen)] == [1, 2, 3]


def test_tables_are_asked_for_again_when_they_are_forgotten(make: Callable[..., Watched]) -> None:
    watched = make()
    stream = inserts(table(Stream().begin()), 1)
    watched.decoder.start(LogOffset(lsn=7), epoch=0, now_us=lambda: NOW)
    watched.feed(stream.bytes())

    watched.decoder.forget_tables()
    watched.feed(inserts(Stream(), 2, 3).commit().bytes())
    watched.note(watched.decoder.flush())

    assert [item[1] for item in watched.seen if isinstance(item, tuple) and item[0] == "resolve"] == ["t$", "t$"]
    assert [len(item[0]) for item in watched.seen if isinstance(item, tuple) and isinstance(item[0], list)] == [1]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "unknown kind"),
        (b"x", "unknown kind"),
        (b"k\0\0", "cut off"),
        (logged(b"")[4:], "without content"),
        (logged(b"Z")[4:], "unknown kind b'Z'"),
        (logged(b"S" + bytes(5))[4:], "unknown kind b'S'"),
        (logged(struct.pack(">cI", b"I", 5) + b"N\0\0")[4:], "outside of a transaction"),
        (logged(struct.pack(">cBQQq", b"C", 0, 1, 1, 1))[4:], "without a transaction"),
        (logged(b"B\0")[4:], "cut off"),
        (logged(b"I\0\0")[4:], "cut off"),
        (logged(b"R\0\0\0\5shop")[4:], "cut off"),
        (logged(b"M\0" + bytes(8) + b"app\0" + struct.pack(">I", 9) + b"short")[4:], "cut off"),
        (logged(b"T\xff\xff\xff\xff\0")[4:], "cut off"),
    ],
)
def test_damage_is_named(make: Callable[..., Watched], content: bytes, what: str) -> None:
    seen = make().drain(copy_message(content))

    assert seen[-2][0] is DamagedLogError
    assert what in seen[-2][1]
    assert "behind 0/7" in seen[-2][1]


def test_a_row_without_its_relation_is_damage_and_what_precedes_it_is_given_out(make: Callable[..., Watched]) -> None:
    stream = inserts(inserts(table(Stream().begin()), 1), 2, number=261)

    seen = make().drain(stream.bytes())

    assert len(envelopes(seen)) == 1
    assert "table number 261" in seen[-2][1]


def test_transactions_are_counted_over_a_restart(make: Callable[..., Watched]) -> None:
    stream = inserts(table(Stream().begin(0x9000, xid=5)), 1, 2)
    inserts(stream.update(5, [b"1", None], [b"3", b"y"], letter=b"K"), 4).commit()
    raw = stream.bytes()
    seen = make(records_max=2, transactions=True).drain(raw)
    position = next(item[4] for item in seen if isinstance(item, tuple) and isinstance(item[0], list) and item[4].event == 2)

    whole = [(one["transaction"]["total_order"], one["transaction"]["data_collection_order"]) for one in envelopes(seen)]
    again = make(records_max=2, transactions=True).drain(raw, at=position)

    assert whole == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert [one["transaction"]["total_order"] for one in envelopes(again)] == [3, 4, 5]
    borders = [border for item in again if isinstance(item, tuple) and isinstance(item[0], list) for border in item[5]]
    assert [(border.id, border.tables) for border in borders] == [("5:36864", {"shöp.t$": 5})]

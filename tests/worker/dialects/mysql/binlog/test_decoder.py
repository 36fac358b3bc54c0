"""The compiled log decoder and its reference implementation on made-up binlogs: alike whole, split, cut short and damaged; and right by hand."""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import random
import struct
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.mysql.binlog import row_image as mysql_image
from dblog.dialects.mysql.binlog._fast import FastPlan, LogDecoder, crc32, md5_head
from dblog.dialects.mysql.binlog.items import (
    EOF_PACKET,
    ERR_PACKET,
    EVENT_BYTES_MAX,
    IGNORED_FOR_NOW,
    LOOK_AHEAD,
    ROWS_PARKED,
    LogEvent,
    LogRows,
)
from dblog.dialects.mysql.binlog.undone import Undone
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError, TransientError
from dblog.model import Column
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from support.mysql_log import (
    ARTIFICIAL,
    CHECKPOINT,
    DELETE,
    GTID_LIST,
    HEARTBEAT,
    MARIADB_GTID,
    PREVIOUS_GTIDS,
    QUERY,
    ROTATE,
    ROWS_QUERY,
    STOP,
    TRANSACTION_PAYLOAD,
    UPDATE,
    UPDATE_V1,
    WRITE,
    WRITE_V1,
    XA_PREPARE,
    XID,
    Stream,
    image,
    payload_body,
)
from support.mysql_tables import decoded, decoded_key, plan_of

UUID = "11111111-2222-3333-4444-555555555555"
OTHER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
FILE = "binlog.000007"
COLUMNS = [
    Column(name="id", type="int", type_text="int", nullable=False),
    Column(name="name", type="varchar", type_text="varchar(9)", length=9, charset="utf8mb4", nullable=True),
]
TYPES, META = bytes([3, 15]), struct.pack("<H", 36)
PLAN = plan_of(COLUMNS, key=("id",))
SHARED = [plan_of(COLUMNS, key=("id",), name=name) for name in ("t$", "t#", "t2")]
"""The topic of the first two is one: their names differ in a character that no topic may have. The third has its own."""
FAST, SLOW = FastPlan(PLAN, mysql_image), ReferencePlan(PLAN, mysql_image)
NOW = 1_700_000_009_000_000


def row(number: int, name: str = "x") -> bytes:
    raw = name.encode()
    return image([struct.pack("<i", number), bytes([len(raw)]) + raw])


def mapped(stream: Stream, table: str = "t", table_id: int = 5, database: str = "shop") -> Stream:
    return stream.table_map(table_id, database, table, TYPES, META)


def transaction(stream: Stream, numbers: list[int], *, number: int = 1, **begin: Any) -> Stream:
    stream.begin(number=number, **begin)
    mapped(stream)
    return stream.rows(WRITE_V1 if stream.flavor == "mariadb" else WRITE, 5, 2, b"".join(map(row, numbers))).xid()


def resolver(encoder: Any) -> Callable[..., Any]:
    """Tables whose names begin with t are captured."""
    return lambda body, _position: encoder if body[8 + body[8] + 3 : 8 + body[8] + 4] == b"t" else None


def decoder(flavor: str = "mysql", *, reference: bool = False, encoder: Any = None, **options: Any) -> Any:
    made = ReferenceLogDecoder if reference else LogDecoder
    options.setdefault("resolve", resolver(encoder or (SLOW if reference else FAST)))
    options.setdefault("pass_through", frozenset({("dblog", "watermark")}))
    return made(flavor=flavor, **options)


def drain(
    made: Any, data: bytes, *, parts: list[int] | None = None, file: str = FILE, pos: int = 4, flush: bool = True, **start: Any
) -> list[Any]:
    """All items; ``parts`` are the offsets to split the bytes at."""
    made.start(file, pos, now_us=lambda: NOW, **start)
    items: list[Any] = []
    ends = [0, *(parts or []), len(data)]
    for low, high in itertools.pairwise(ends):
        items += made.feed(data[low:high])
        while made.held:
            items += made.feed(b"")
    return items + (made.flush() if flush else [])


def plain(items: list[Any]) -> list[Any]:
    """Items without the encoders' identity."""
    return [(([s[1:] for s in i.segments]), i.records, i.bytes, i.source_ts_us, i.position) if isinstance(i, LogRows) else i for i in items]


def rows_of(items: list[Any]) -> list[int]:
    """The ids of created rows, in order."""
    return [decoded(PLAN, v)["after"]["id"] for i in items if isinstance(i, LogRows) for s in i.segments for v in s[2]]


def envelopes(items: list[Any]) -> list[dict[str, Any]]:
    return [decoded(PLAN, v) for i in items if isinstance(i, LogRows) for s in i.segments for v in s[2] if v is not None]


@pytest.fixture(params=["fast", "reference", "fast with a slow encoder"])
def make(request) -> Callable[..., Any]:
    def made(flavor: str = "mysql", **options: Any) -> Any:
        if request.param == "fast with a slow encoder":
            options.setdefault("encoder", SLOW)
        return decoder(flavor, reference=request.param == "reference", **options)

    made.compiled = (
        (lambda plan: FastPlan(plan, mysql_image)) if request.param == "fast" else (lambda plan: ReferencePlan(plan, mysql_image))
    )
    made.encoder = made.compiled(PLAN)
    return made


# --- what is counted -------------------------------------------------------------------------------------------------


def test_rows_are_counted_by_what_became_of_them(make) -> None:
    answers = {"t": None, "other": None, "parked": ROWS_PARKED}

    def resolve(body: bytes, _position: Any) -> Any:
        at = 8 + 1 + body[8] + 1
        return answers[body[at + 1 : at + 1 + body[at]].decode()]

    made = make(resolve=resolve)
    answers["t"] = make.encoder
    stream = Stream().hello().begin()
    mapped(stream).rows(WRITE, 5, 2, row(1) + row(2)).rows(UPDATE, 5, 2, row(1) + row(1, "y") + row(2) + row(3)).rows(DELETE, 5, 2, row(1))
    mapped(stream, "other", 6).rows(WRITE, 6, 2, b"nonsense")
    mapped(stream, "parked", 7).rows(WRITE, 7, 2, b"nonsense").rows(DELETE, 7, 2, b"nonsense").xid()
    stream.begin(number=2).query("ROLLBACK")
    drain(made, stream.bytes())

    counts = made.counts
    assert (counts.created, counts.updated, counts.deleted) == (2, 2, 1)
    assert (counts.other_tables, counts.parked, counts.commits, counts.rollbacks) == (1, 2, 1, 1)


def test_bytes_of_the_log_are_counted_and_heartbeats_are_none(make) -> None:
    made = make()
    stream = transaction(Stream().hello(), [1])
    drain(made, stream.bytes())
    read = made.counts.bytes
    made.feed(Stream().event(HEARTBEAT, FILE.encode(), pos=stream.pos).bytes())

    assert read > 0
    assert made.counts.bytes == read


def test_events_that_options_leave_out_are_counted(make) -> None:
    plan = dataclasses.replace(PLAN, skipped_operations=frozenset({"c"}))
    made = make(encoder=make.compiled(plan), gtid_included=lambda uuid: uuid == UUID)
    stream = transaction(Stream().hello(), [1, 2])
    transaction(stream, [3], number=1, uuid=OTHER)
    drain(made, stream.bytes())

    assert (made.counts.skipped_operations, made.counts.other_sources, made.counts.created) == (1, 1, 0)


# --- what comes out --------------------------------------------------------------------------------------------------


def test_rows_carry_gtid_position_and_commit_time(make) -> None:
    stream = Stream().hello().gtid(UUID, 41, commit_us=1_700_000_000_123_456).query("BEGIN", thread=77)
    mapped(stream)
    start = stream.pos
    stream.rows(WRITE, 5, 2, row(1) + row(2)).xid()

    items = drain(make(), stream.bytes(), epoch=3)

    assert [type(i) for i in items] == [LogRows]
    sources = [e["source"] for e in envelopes(items)]
    assert [s["row"] for s in sources] == [0, 1]
    assert sources[0]["gtid"] == f"{UUID}:41"
    assert sources[0]["ts_us"] == 1_700_000_000_123_456
    assert sources[0]["pos"] == start
    assert sources[0]["file"] == FILE
    assert sources[0]["server_id"] == 11
    assert sources[0]["thread"] == 77
    assert sources[1]["sequence"] == f'["{(3 << 32) + 7}","{(start << 23) + 1}"]'
    assert envelopes(items)[0]["ts_us"] == NOW
    position = items[0].position
    assert (position.file, position.pos, position.event, position.in_transaction) == (FILE, stream.pos, 0, False)
    assert position.gtids_delta == [(UUID, "", 41, 41)]
    assert items[0].records == 2
    assert items[0].bytes == sum(len(part) for s in items[0].segments for parts in s[1:3] for part in parts)
    assert items[0].source_ts_us == 1_700_000_000_123_456


def test_the_time_of_the_first_server_wins_over_the_replicas(make) -> None:
    stream = Stream().hello().gtid(UUID, 1, commit_us=1_700_000_005_000_000, original_us=1_600_000_000_000_001).query("BEGIN")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()

    assert envelopes(drain(make(), stream.bytes()))[0]["source"]["ts_us"] == 1_600_000_000_000_001


def test_without_gtids_the_header_has_the_time(make) -> None:
    stream = Stream(timestamp=1_234_567).hello().query("BEGIN")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    source = envelopes(drain(make(), stream.bytes()))[0]["source"]

    assert source["gtid"] is None
    assert source["ts_us"] == 1_234_567_000_000


def test_an_anonymous_transaction_has_a_commit_time_but_no_gtid(make) -> None:
    stream = Stream().hello().anonymous_gtid(commit_us=1_700_000_001_000_000).query("BEGIN")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    items = drain(make(), stream.bytes())

    assert envelopes(items)[0]["source"]["ts_us"] == 1_700_000_001_000_000
    assert envelopes(items)[0]["source"]["gtid"] is None
    assert items[0].position.gtids_delta == []


@pytest.mark.parametrize("number", [1, 63, 64, 8191, 8192, 2**40])
def test_a_tagged_gtid_is_read(make, number: int) -> None:
    stream = Stream().hello().tagged_gtid(OTHER, "batch_1", number, commit_us=1_700_000_000_000_007).query("BEGIN")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    items = drain(make(), stream.bytes())

    assert envelopes(items)[0]["source"]["gtid"] == f"{OTHER}:batch_1:{number}"
    assert envelopes(items)[0]["source"]["ts_us"] == 1_700_000_000_000_007
    assert items[0].position.gtids_delta == [(OTHER, "batch_1", number, number)]


def test_finished_transactions_are_reported_as_ranges_once(make) -> None:
    stream = Stream().hello()
    for uuid, number in ((UUID, 1), (UUID, 2), (OTHER, 9), (UUID, 3), (UUID, 4), (UUID, 6)):
        transaction(stream, [number], number=number, uuid=uuid)
    made = make()
    items = drain(made, stream.bytes())

    assert items[0].position.gtids_delta == [(UUID, "", 1, 2), (OTHER, "", 9, 9), (UUID, "", 3, 4), (UUID, "", 6, 6)]
    stream.out.clear()
    items = made.feed(transaction(stream, [7], number=7).bytes()) + made.flush()
    assert items[0].position.gtids_delta == [(UUID, "", 7, 7)]


def test_mariadb_shows_the_last_transaction_of_each_domain(make) -> None:
    stream = Stream(flavor="mariadb").hello()
    for domain, number in ((0, 5), (3, 8), (0, 6)):
        transaction(stream, [number], number=number, domain=domain)
    items = drain(make("mariadb"), stream.bytes())

    assert items[0].position.gtids_delta == [(0, 11, 6), (3, 11, 8)]
    assert [e["source"]["gtid"] for e in envelopes(items)] == ["0-11-5", "3-11-8", "0-11-6"]
    assert envelopes(items)[0]["source"]["thread"] is None


def test_an_open_transaction_keeps_the_position_of_its_beginning(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1], number=1)
    begin = stream.pos
    stream.begin(number=2)
    mapped(stream).rows(WRITE, 5, 2, row(2))

    position = drain(make(), stream.bytes())[-1].position

    assert (position.pos, position.event, position.in_transaction) == (begin, 3, True)
    assert position.gtids_delta == [(UUID, "", 1, 1)]


def test_in_mariadb_the_gtid_event_counts_as_the_beginning(make) -> None:
    stream = Stream(flavor="mariadb").hello().begin(number=2)
    mapped(stream).rows(WRITE_V1, 5, 2, row(2)).xid()

    assert drain(make("mariadb", records_max=1), stream.bytes())[0].position.event == 3


def test_an_item_is_cut_at_the_event_that_fills_it(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream)
    for number in range(5):
        stream.rows(WRITE, 5, 2, row(number) + row(100 + number))
    items = drain(make(records_max=4), stream.xid().bytes())

    assert [i.records for i in items] == [4, 4, 2]
    assert [i.position.event for i in items] == [4, 6, 0]
    assert [i.records for i in drain(make(bytes_max=1), stream.bytes())] == [2] * 5 + [0]


def test_rows_of_one_table_stay_together_in_an_item(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).table_map(6, "shop", "t2", TYPES, META)
    for number in range(3):
        stream.rows(WRITE, 5, 2, row(number)).rows(WRITE, 6, 2, row(10 + number))
    items = drain(make(), stream.xid().bytes())

    assert len(items) == 1
    assert rows_of(items) == [0, 10, 1, 11, 2, 12]


@pytest.mark.parametrize("encoder", [FastPlan, ReferencePlan])
@pytest.mark.parametrize("reference", [False, True])
def test_a_row_that_moves_to_another_table_of_its_topic_keeps_its_place(reference: bool, encoder: Any) -> None:
    stream = Stream().hello()
    changes(stream, 1, [(0, WRITE, 1)])
    changes(stream, 2, [(1, WRITE, 7)])
    changes(stream, 3, [(1, DELETE, 7), (0, WRITE, 7)])
    items = drain(shared_decoder(encoder, reference=reference), stream.bytes())

    assert len(items) == 1
    assert sent(items) == {"p.sh_p.t_": [("t$", "c", 1), ("t#", "c", 7), ("t#", "d", 7), ("t#", None, 7), ("t$", "c", 7)]}


@pytest.mark.parametrize("reference", [False, True])
def test_rows_of_tables_with_a_topic_each_stay_together_in_an_item(reference: bool) -> None:
    stream = Stream().hello()
    changes(stream, 1, [(2, WRITE, 1), (0, WRITE, 2), (2, WRITE, 3), (1, WRITE, 4), (2, WRITE, 5), (1, WRITE, 6), (0, WRITE, 7)])
    (item,) = drain(shared_decoder(FastPlan, reference=reference), stream.bytes())

    segments = [(encoder.plan.table.id.name, len(keys)) for encoder, keys, _, _ in item.segments]
    assert segments == [("t2", 3), ("t$", 1), ("t#", 2), ("t$", 1)]


@settings(max_examples=40)
@given(st.data())
def test_every_topic_gets_its_records_in_the_order_of_the_log(data: st.DataObject) -> None:
    """I2: whatever tables share it, and wherever items and the parts of the stream end."""
    made = st.tuples(st.integers(0, 2), st.sampled_from([WRITE, DELETE, UPDATE]), st.integers(0, 3))
    transactions = data.draw(st.lists(st.tuples(st.booleans(), st.lists(made, max_size=6)), min_size=1, max_size=6))
    stream = Stream().hello()
    expected: dict[str, list[tuple[str, str | None, int]]] = {}
    for number, (compressed, rows) in enumerate(transactions, 1):
        if compressed:
            stream.packed(lambda inner, rows=rows: changes(inner, None, rows), gno=number)
        else:
            changes(stream, number, rows)
        for table, op, key in rows:
            plan = SHARED[table]
            every = {WRITE: [("c", key)], DELETE: [("d", key), (None, key)], UPDATE: [("d", key), (None, key), ("c", key + 1)]}[op]
            expected.setdefault(plan.topic, []).extend((plan.table.id.name, *one) for one in every)
    options = {"records_max": data.draw(st.integers(1, 40)), "transactions": data.draw(st.booleans())}
    parts = sorted(data.draw(st.lists(st.integers(0, len(stream.bytes())), max_size=3)))

    items = [
        drain(shared_decoder(encoder, reference=reference, **options), stream.bytes(), parts=parts)
        for encoder, reference in ((FastPlan, False), (ReferencePlan, False), (ReferencePlan, True))
    ]

    assert sent(items[0]) == expected
    assert plain(items[0]) == plain(items[1]) == plain(items[2])
    assert [i.borders for i in items[0]] == [i.borders for i in items[1]] == [i.borders for i in items[2]]
    for item in items[0]:
        for topic in expected:
            encoders = [encoder for encoder, *_ in item.segments if encoder.plan.topic == topic]
            assert all(one is not other for one, other in itertools.pairwise(encoders)), "segments that could be one"


def shared_decoder(encoder: Any, *, reference: bool, **options: Any) -> Any:
    """Of the tables ``SHARED``."""
    encoders = {plan.table.id.name.encode(): encoder(plan, mysql_image) for plan in SHARED}

    def resolve(body: bytes, _position: Any) -> Any:
        at = 8 + 1 + body[8] + 1
        return encoders[body[at + 1 : at + 1 + body[at]]]

    return decoder(reference=reference, resolve=resolve, **options)


def changes(stream: Stream, number: int | None, rows: list[tuple[int, int, int]]) -> None:
    """A transaction of changes by (table of ``SHARED``, type, key); an update gives the row the next key. Without a number it has no GTID."""
    if number is None:
        stream.query("BEGIN")
    else:
        stream.begin(number=number)
    for table, type_code, key in rows:
        mapped(stream, SHARED[table].table.id.name, table_id=5 + table)
        stream.rows(type_code, 5 + table, 2, row(key) + (row(key + 1) if type_code == UPDATE else b""))
    stream.xid()


def sent(items: list[Any]) -> dict[str, list[tuple[str, str | None, int]]]:
    """By topic: (table, op or None for a tombstone, key) of every record, in the order in which they go out."""
    found: dict[str, list[tuple[str, str | None, int]]] = {}
    for encoder, keys, values, _ in (segment for item in items if isinstance(item, LogRows) for segment in item.segments):
        plan = encoder.plan
        for key, value in zip(keys, values, strict=True):
            op = None if value is None else decoded(plan, value)["op"]
            found.setdefault(plan.topic, []).append((plan.table.id.name, op, decoded_key(plan, key)["id"]))
    return found


def test_tables_that_are_not_captured_are_passed_over(make) -> None:
    stream = Stream().hello().begin()
    stream.table_map(6, "shop", "other", TYPES, META).rows(WRITE, 6, 2, b"nonsense").xid()
    items = drain(make(), stream.bytes())

    assert [(i.segments, i.records, i.source_ts_us) for i in items] == [([], 0, None)]
    assert items[0].position.pos == stream.pos
    assert items[0].position.gtids_delta == [(UUID, "", 1, 1)]


def test_rows_of_a_passed_through_table_come_in_log_order(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).table_map(9, "dblog", "watermark", TYPES, META)
    stream.rows(WRITE, 5, 2, row(1))
    position = stream.pos
    stream.rows(UPDATE, 9, 2, row(2) + row(3))
    after = stream.pos
    stream.rows(WRITE, 5, 2, row(4)).xid()
    items = drain(make(), stream.bytes(), epoch=1)

    assert [type(i) for i in items] == [LogRows, LogEvent, LogRows]
    event = items[1]
    assert (event.type_code, event.start_pos, event.next_pos, event.file) == (UPDATE, position, after, FILE)
    assert event.gtid == f"{UUID}:1"
    assert event.body.endswith(row(2) + row(3))
    assert event.table[:6] == (9).to_bytes(6, "little")
    assert b"watermark" in event.table
    assert (event.sequence_high, event.sequence_low) == ((1 << 32) + 7, position << 23)
    assert (event.position.event, event.position.in_transaction) == (5, True)


def test_rows_that_only_the_table_can_complete_come_out_in_log_order_if_asked_for(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).rows(WRITE, 5, 2, row(1))
    partial = (5).to_bytes(6, "little") + b"\x01\0\x02\0\x02\x01\x02" + image([struct.pack("<i", 1)]) + image([b"\x01y"])
    stream.event(UPDATE, partial).rows(WRITE, 5, 2, row(4)).xid()

    first, event, last = drain(make(gives_partial=True), stream.bytes())

    assert (rows_of([first]), rows_of([last])) == ([1], [4])
    assert (event.type_code, event.body, event.thread, event.position.event) == (UPDATE, partial, 77, 4)
    assert event.encoder.plan is PLAN
    assert event.table.startswith((5).to_bytes(6, "little"))
    with pytest.raises(BadRowsError, match="binlog_row_image"):
        drain(make(), stream.bytes(), flush=False)


def test_ddl_comes_out_and_holds_back_what_follows(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1], number=1)
    stream.gtid(UUID, 2).query("ALTER TABLE t ADD c int")
    transaction(stream, [2], number=3)
    made = make()
    made.start(FILE, 4, now_us=lambda: NOW)
    first = made.feed(stream.bytes())

    assert [type(i) for i in first] == [LogRows, LogEvent]
    assert made.held
    assert first[1].body.endswith(b"ALTER TABLE t ADD c int")
    assert first[1].gtid == f"{UUID}:2"
    assert first[1].source_ts_us == 1_700_000_000_123_456
    assert first[1].position.gtids_delta == [(UUID, "", 2, 2)]
    assert not first[1].position.in_transaction
    made.forget_tables()
    rest = made.feed(b"")
    assert not made.held
    assert rows_of(rest + made.flush()) == [2]


def test_a_table_that_is_ignored_for_now_is_asked_about_at_each_table_map_and_its_rows_come_from_the_answer_on(make) -> None:
    answers = [IGNORED_FOR_NOW, IGNORED_FOR_NOW, FAST]
    stream = Stream().hello()
    for number in (1, 2, 3, 4):
        transaction(stream, [number], number=number)
    made = make(resolve=lambda *_: answers.pop(0))

    assert rows_of(drain(made, stream.bytes())) == [3, 4]
    assert answers == []


def test_tables_are_resolved_once_until_they_are_forgotten(make) -> None:
    asked = []

    def resolve(body: bytes, begin: Any) -> Any:
        asked.append((bytes(body), begin.pos))
        return FAST

    stream = Stream().hello()
    transaction(stream, [1], number=1)
    begin = stream.pos
    transaction(stream, [2], number=2)
    made = make(resolve=resolve)
    assert rows_of(drain(made, stream.bytes())) == [1, 2]
    assert len(asked) == 1
    made.forget_tables()
    stream.out.clear()
    made.feed(transaction(stream, [3], number=3).bytes())

    assert len(asked) == 2
    assert asked[0][0][:6] == (5).to_bytes(6, "little")
    assert asked[1][1] > begin


def test_a_table_number_may_name_another_table_later(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1], number=1)
    stream.begin(number=2).table_map(5, "shop", "other", TYPES, META).rows(WRITE, 5, 2, row(2)).xid()
    transaction(stream, [3], number=3)

    assert rows_of(drain(make(), stream.bytes())) == [1, 3]


def test_two_tables_whose_numbers_meet_in_a_slot(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).table_map(5 + 256, "shop", "t2", TYPES, META).table_map(5 + 512, "shop", "other", TYPES, META)
    stream.rows(WRITE, 5, 2, row(1)).rows(WRITE, 5 + 256, 2, row(2)).rows(WRITE, 5 + 512, 2, row(3)).rows(WRITE, 5, 2, row(4)).xid()

    assert sorted(rows_of(drain(make(), stream.bytes()))) == [1, 2, 4]


def test_savepoints_are_not_reported_and_a_rollback_is(make) -> None:
    stream = Stream().hello().begin().query("SAVEPOINT a").query("RELEASE SAVEPOINT a").query("ROLLBACK TO a").query("ROLLBACK")
    items = drain(make(), stream.bytes())

    assert [i.body.rsplit(b"\0", 1)[1] for i in items] == [b"ROLLBACK TO a", b"ROLLBACK"]
    assert [i.position.in_transaction for i in items] == [True, False]
    assert [i.position.event for i in items] == [4, 0]


def test_a_commit_statement_ends_a_transaction(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).rows(WRITE, 5, 2, row(1)).query("COMMIT")
    items = drain(make(), stream.bytes())

    assert items[-1].position.gtids_delta == [(UUID, "", 1, 1)]
    assert not items[-1].position.in_transaction


def test_create_table_as_select_is_reported_inside_its_transaction(make) -> None:
    stream = Stream().hello().begin().query("CREATE TABLE t (id int) START TRANSACTION")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    stream.query("CREATE TABLE u (id int)")
    items = drain(make(), stream.bytes())

    assert [type(i) for i in items] == [LogEvent, LogRows, LogEvent]
    assert (items[0].thread, items[2].thread) == (77, None)
    assert items[0].position.in_transaction
    assert items[0].position.event == 2


@pytest.mark.parametrize("code", [0, 5, 13, 26, 164, 165, 166, 200])
def test_an_event_that_nobody_knows_is_reported(make, code: int) -> None:
    stream = Stream().hello().begin().event(code, b"what is this").xid()
    items = drain(make(), stream.bytes())

    assert items[0].type_code == code
    assert items[0].body == b"what is this"
    assert items[0].position.event == 2
    assert not items[-1].position.in_transaction


def test_a_prepared_transaction_is_reported_and_over(make) -> None:
    stream = Stream().hello().gtid(UUID, 5)
    stream.query("XA START X'61',X'',1").event(XA_PREPARE, b"payload")
    items = drain(make(), stream.bytes())

    assert items[-1].type_code == XA_PREPARE
    assert items[-1].gtid == f"{UUID}:5"
    assert items[-1].position.gtids_delta == [(UUID, "", 5, 5)]
    assert not items[-1].position.in_transaction


def test_events_without_meaning_are_silent_but_move_the_position(make) -> None:
    stream = Stream().hello().event(PREVIOUS_GTIDS, bytes(8)).event(CHECKPOINT, b"x").event(GTID_LIST, bytes(4)).event(STOP, b"")
    stream.event(HEARTBEAT, FILE.encode(), pos=stream.pos)
    items = drain(make(), stream.bytes())

    assert [type(i) for i in items] == [LogRows]
    assert items[0].position.pos == stream.starts[-2][2]


def test_statements_are_kept_on_request(make) -> None:
    stream = Stream().hello().begin().event(ROWS_QUERY, b"\x05INSERT ...\xff")
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    transaction(stream, [2], number=2)

    assert [e["source"]["query"] for e in envelopes(drain(make(), stream.bytes()))] == [None, None]
    assert [e["source"]["query"] for e in envelopes(drain(make(keep_query=True), stream.bytes()))] == ["INSERT ...\ufffd", None]


def test_a_rotation_is_reported_once_and_the_numbers_rise(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1], number=1)
    stream.rotate("binlog.000008")
    transaction(stream, [2], number=2)
    items = drain(make(), stream.bytes())

    assert [type(i) for i in items] == [LogRows, LogEvent, LogRows]
    assert items[1].type_code == ROTATE
    assert (items[1].position.file, items[1].position.pos) == ("binlog.000008", 4)
    assert (items[2].position.file, items[2].position.pos) == ("binlog.000008", stream.pos)
    first, second = envelopes(items)
    assert first["source"]["sequence"] < second["source"]["sequence"]
    assert second["source"]["file"] == "binlog.000008"


def test_an_artificial_rotation_names_the_file_of_a_start_by_gtid(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1])
    items = drain(make(), stream.bytes(), file="")

    assert items[0].type_code == ROTATE
    assert items[1].position.file == FILE
    assert envelopes(items)[0]["source"]["file"] == FILE


@pytest.mark.parametrize("announced", [True, False])
def test_an_artificial_rotation_may_have_a_checksum_or_not(make, announced: bool) -> None:
    bare = Stream(checksum=False).event(ROTATE, struct.pack("<Q", 4) + FILE.encode(), artificial=True)
    stream = Stream().format()
    transaction(stream, [1])

    assert rows_of(drain(make(checksum=announced), bare.bytes() + stream.bytes(), file="")) == [1]
    assert rows_of(drain(make(checksum=announced), Stream().hello().bytes() + transaction(Stream(), [1]).bytes(), file="")) == [1]


def test_without_checksums_nothing_is_taken_off(make) -> None:
    stream = Stream(checksum=False).hello()
    transaction(stream, [1])

    assert rows_of(drain(make(checksum=False), stream.bytes())) == [1]


def test_positions_beyond_four_gigabytes_are_followed(make) -> None:
    high = (1 << 32) - 150
    stream = Stream(pos=high).begin()
    mapped(stream).rows(WRITE, 5, 2, row(1)).xid()
    assert stream.pos > 1 << 32
    items = drain(make(), stream.bytes(), pos=high)

    assert items[-1].position.pos == stream.pos
    position = next(start for code, start, _ in stream.starts if code == WRITE)
    assert envelopes(items)[0]["source"]["pos"] == position


def test_an_event_of_several_packets_is_put_together(make) -> None:
    columns = [Column(name="b", type="longblob", type_text="longblob", nullable=False)]
    plan = plan_of(columns, key=())
    big = random.Random(7).randbytes((1 << 24) + 1000)
    stream = Stream().hello().begin().table_map(5, "shop", "t", bytes([252]), b"\x04")
    stream.rows(WRITE, 5, 1, b"\0" + struct.pack("<I", len(big)) + big).xid()
    transaction(stream, [], number=2)
    encoder = FastPlan(plan, mysql_image) if isinstance(make(), LogDecoder) else ReferencePlan(plan, mysql_image)
    data = stream.bytes()

    for parts in ([], [100, 1 << 20, 1 << 24, (1 << 24) + 200]):
        made = make(resolve=lambda body, _: encoder if body[-4:] != b"\0" * 4 and b"\x01\xfc" in body else None)
        items = drain(made, data, parts=parts)
        assert decoded(plan, items[0].segments[0][2][0])["after"]["b"] == big


@pytest.mark.parametrize("begin", [b"\0", b"\0" + bytes(4) + bytes([TRANSACTION_PAYLOAD])], ids=["plain", "compressed"])
def test_an_event_without_end_is_refused_before_its_packets_are_kept(make, begin: bytes) -> None:
    stream = transaction(Stream().hello(), [1])
    endless = (b"\xff\xff\xff\0" + begin.ljust(0xFFFFFF, b"\0")) * 2
    spooled: list[int] = []

    class Spooled(io.BytesIO):
        def write(self, data: Any) -> int:
            spooled.append(len(data))
            return len(data)

    made = make(event_bytes_max=20 << 20, spool=Spooled)

    assert rows_of(drain(made, stream.bytes() + endless[:1000])) == [1]  # all that came before is given
    with pytest.raises(DamagedLogError, match=rf"{FILE}:{stream.pos} holds an event of more than 20971520 bytes") as damage:
        made.feed(endless[1000:])
    assert damage.value.event_at is None
    assert sum(spooled) <= 0xFFFFFF


def test_an_event_inside_a_compressed_transaction_is_bounded_like_any_other(make) -> None:
    inner = Stream(checksum=False)
    raw = b"".join(packet[5:] for packet in filled(inner).out)
    position = Stream().hello().pos
    longer = raw[:9] + struct.pack("<I", EVENT_BYTES_MAX + 1) + raw[13:]
    stream = Stream().hello().event(TRANSACTION_PAYLOAD, payload_body(longer))

    with pytest.raises(DamagedLogError, match=rf"{FILE}:{position} holds an event of more than {EVENT_BYTES_MAX} bytes"):
        drain(make(), stream.bytes())


@pytest.mark.parametrize(
    ("packet", "code"), [(b"\xff\xd4\x04#HY000Could not find", ERR_PACKET), (b"\xfe\x00\x00\x02\x00", EOF_PACKET)], ids=["ERR", "EOF"]
)
def test_the_end_of_the_stream_is_reported(make, packet: bytes, code: int) -> None:
    stream = Stream().hello()
    transaction(stream, [1]).packet(packet)
    items = drain(make(), stream.bytes())

    assert [type(i) for i in items] == [LogRows, LogEvent]
    assert (items[1].type_code, items[1].body) == (code, packet)
    assert items[1].position.pos == stream.pos


# --- compressed parts ------------------------------------------------------------------------------------------------


def filled(inner: Stream, events: int = 3) -> Stream:
    """A transaction without GTID: as many rows events, of two rows each."""
    mapped(inner.query("BEGIN", thread=78))
    for number in range(events):
        inner.rows(WRITE, 5, 2, row(2 * number) + row(2 * number + 1))
    return inner.xid()


@pytest.mark.parametrize(("frames", "compressed"), [(1, True), (3, True), (1, False)])
def test_a_compressed_transaction_gives_its_rows_at_its_own_position(make, frames: int, compressed: bool) -> None:
    stream = Stream().hello().gtid(UUID, 5)
    begin, position = stream.starts[-1][1:]
    stream.packed(filled, frames=frames, compressed=compressed)
    after = stream.pos
    transaction(stream, [90], number=6)
    items = drain(make(), stream.bytes(), epoch=3)

    assert rows_of(items) == [0, 1, 2, 3, 4, 5, 90]
    sources = [e["source"] for e in envelopes(items)]
    assert {(s["file"], s["pos"], s["gtid"], s["thread"]) for s in sources[:6]} == {(FILE, position, f"{UUID}:5", 78)}
    lows = [int(s["sequence"].split('"')[3]) for s in sources]
    assert lows == sorted(set(lows))
    assert position << 23 < lows[0] < lows[5] < after << 23 < lows[6]
    assert items[-1].position.gtids_delta == [(UUID, "", 5, 6)]
    assert items[-1].position.pos == stream.pos
    assert begin < position


def test_inside_a_compressed_transaction_the_offset_counts_its_events_apart(make) -> None:
    stream = Stream().hello()
    begin = stream.pos
    stream.packed(filled, gno=5)
    items = drain(make(records_max=2), stream.bytes())

    positions = [i.position for i in items]
    assert [(p.pos, p.event, p.packed_event, p.in_transaction) for p in positions] == [
        (begin, 0, 3, True),
        (begin, 0, 4, True),
        (begin, 0, 5, True),
        (stream.pos, 0, 0, False),
    ]


def test_a_restart_inside_a_compressed_transaction_goes_on_behind_what_was_given(make) -> None:
    stream = Stream().hello().packed(filled, gno=5)
    transaction(stream, [90], number=6)
    every = [0, 1, 2, 3, 4, 5, 90]
    # BEGIN, map, rows, rows, rows, XID
    for skip, missing in {0: 0, 2: 0, 3: 2, 4: 4, 5: 6, 6: 6}.items():
        again = drain(make(), stream.bytes(), skip_events=skip)
        assert rows_of(again) == every[missing:], skip
        lows = {decoded(PLAN, v)["source"]["sequence"] for i in again for s in i.segments for v in s[2]}
        assert lows <= {e["source"]["sequence"] for e in envelopes(drain(make(), stream.bytes()))}


def test_a_compressed_transaction_is_given_out_an_item_at_a_time(make) -> None:
    """I6: few bytes may hold any number of rows; whoever feeds the decoder is asked after each item."""
    stream = Stream().hello().packed(lambda inner: filled(inner, 40), gno=5)
    made = make(records_max=4)
    made.start(FILE, 4, now_us=lambda: NOW)

    first = made.feed(stream.bytes())

    assert [i.records for i in first] == [4]
    assert made.held
    assert [i.records for i in made.feed(b"")] == [4]
    rest = []
    while made.held:
        rest += made.feed(b"")
    assert sum(i.records for i in rest + made.flush()) == 72


def test_a_compressed_transaction_of_many_megabytes_is_unpacked_in_pieces(make) -> None:
    wide = b"".join(row(n, "x" * 200)[:5] + b"\x09" + b"y" * 9 for n in range(400))
    stream = Stream().hello()

    def fill(inner: Stream) -> None:
        mapped(inner.query("BEGIN"))
        for _ in range(30):
            inner.rows(WRITE, 5, 2, wide)
        inner.xid()

    items = drain(make(), stream.packed(fill, gno=5).bytes())

    assert sum(i.records for i in items) == 12_000
    assert len(stream.bytes()) < 10_000


def many_packets() -> Stream:
    """A compressed transaction of 17 MiB, most of it of no captured table, and one behind it."""

    def fill(inner: Stream) -> None:
        mapped(inner.query("BEGIN")).rows(WRITE, 5, 2, row(1))
        inner.table_map(8, "shop", "other", TYPES, META)
        for _ in range(17):
            inner.rows(WRITE, 8, 2, bytes(1 << 20))
        mapped(inner).rows(WRITE, 5, 2, row(2)).xid()

    return transaction(Stream().hello().packed(fill, gno=5, compressed=False), [3], number=6)


def test_a_compressed_transaction_of_several_packets_lies_in_a_file_meanwhile(make) -> None:
    data = many_packets().bytes()
    files: list[Any] = []

    def spool() -> Any:
        files.append(tempfile.TemporaryFile())  # noqa: SIM115 - the decoder closes it
        return files[-1]

    at_once, split = drain(make(spool=spool), data), drain(make(spool=spool), data, parts=[1000, 1 << 20, 0xFFFFFF + 300, len(data) - 90])

    assert rows_of(at_once) == rows_of(split) == [1, 2, 3]
    assert plain(at_once) == plain(drain(decoder(), data))
    assert all(file.closed for file in files)


def test_a_file_of_packets_with_a_wrong_checksum_gives_nothing(make) -> None:
    stream = many_packets()
    data = bytearray(stream.bytes())
    data[1 << 20] ^= 1

    with pytest.raises(DamagedLogError, match="an event of type 40 whose checksum is wrong"):
        drain(make(spool=tempfile.TemporaryFile), bytes(data))


def broken_payloads() -> dict[str, bytes]:
    inner = Stream(checksum=False)
    raw = b"".join(packet[5:] for packet in filled(inner).out)
    rotated = Stream(checksum=False).event(ROTATE, struct.pack("<Q", 4) + b"x.000001").out[0][5:]
    return {
        "header is too short": b"\x02",
        "cannot be unpacked": b"\x02\x01\x00\x00" + raw,
        "compressed in a way that dblog does not know": b"\x02\x01\x07\x00" + raw,
        "does not have the length it claims": payload_body(raw, unpacked=len(raw) + 1),
        "ends inside an event": payload_body(raw[:-3]),
        "event of type 4 inside": payload_body(rotated),
        "that claims": payload_body(raw)[:-1],
    }


@pytest.mark.parametrize("what", broken_payloads())
def test_a_broken_compressed_transaction_names_its_position(make, what: str) -> None:
    stream = Stream().hello()
    position = stream.pos
    stream.event(TRANSACTION_PAYLOAD, broken_payloads()[what])

    with pytest.raises(DefiniteError, match=rf"{FILE}:{position} holds .*{what}"):
        drain(make(), stream.bytes())


def test_compressed_events_of_mariadb_are_read_like_plain_ones(make) -> None:
    plain, packed_ = (Stream(flavor="mariadb").hello().begin(number=5) for _ in range(2))
    images = row(1) + row(2)
    mapped(plain).rows(WRITE_V1, 5, 2, images).rows(UPDATE_V1, 5, 2, row(1) + row(3)).query("COMMIT")
    mapped(packed_).compressed_rows(WRITE_V1, 5, 2, images).compressed_rows(UPDATE_V1, 5, 2, row(1) + row(3)).compressed_query("COMMIT")
    wanted, found = (envelopes(drain(make("mariadb"), s.bytes())) for s in (plain, packed_))

    assert [(e["op"], e["before"], e["after"]) for e in found] == [(e["op"], e["before"], e["after"]) for e in wanted]
    assert len(found) == 4  # two creates, and an update of the key: a delete, whose tombstone has no envelope, and a create
    assert found[0]["source"]["pos"] == packed_.starts[3][1]


def test_a_compressed_event_that_is_broken_names_its_position(make) -> None:
    stream = mapped(Stream(flavor="mariadb").hello().begin(number=5))
    position = stream.pos
    stream.event(166, (5).to_bytes(6, "little") + b"\1\0\2\3\x82\0\5xx").xid()

    with pytest.raises(DefiniteError, match=rf"{FILE}:{position} holds a compressed event that cannot be unpacked"):
        drain(make("mariadb"), stream.bytes())


# --- what the log takes back -----------------------------------------------------------------------------------------


def rolled_back(flavor: str, statements: list[str | int], *, end: str = "XID") -> Stream:
    """A transaction of rows (by their ids) and statements, and one after it."""
    stream = Stream(flavor=flavor).hello()
    stream = stream.begin() if flavor == "mariadb" else stream.gtid(UUID, 1, rows_only=False).query("BEGIN")
    for statement in statements:
        if isinstance(statement, int):
            mapped(stream).rows(WRITE_V1, 5, 2, row(statement))
        else:
            stream.query(statement)
    stream = stream.xid() if end == "XID" else stream.query(end) if end else stream.rotate("binlog.000008")
    return transaction(stream, [99], number=2)


TAKEN_BACK: list[tuple[list[str | int], str, list[int]]] = [
    ([1, 2], "XID", [1, 2]),
    ([1, 2], "COMMIT", [1, 2]),
    ([1, 2], "ROLLBACK", []),
    ([1, 2], "", []),
    ([1, "SAVEPOINT `a`", 2], "", []),
    ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3], "XID", [1, 3]),
    ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO `a`", 3], "ROLLBACK", []),
    ([1, "SAVEPOINT `a`", 2, "ROLLBACK TO SAVEPOINT a", 3, "ROLLBACK TO `A`", 4], "XID", [1, 4]),
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b``x`", 3, "ROLLBACK TO `b``x`", 4, "ROLLBACK TO `a`", 5], "XID", [1, 5]),
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO `b`", 4], "XID", [1, 2, 4]),
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `a`", 3, "ROLLBACK TO `a`", 4], "XID", [1, 2, 4]),
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, "RELEASE SAVEPOINT `b`", "ROLLBACK TO `a`", 4], "XID", [1, 4]),
    (["SAVEPOINT `a`", 1, "ROLLBACK TO `a`", 2, "SAVEPOINT `c`", 3, "ROLLBACK TO `c`"], "XID", [2]),
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, 'ROLLBACK TO "a"', 4], "XID", [1, 4]),  # sql_mode=ANSI_QUOTES, set in between
    ([1, 'SAVEPOINT "a""x"', 2, "SAVEPOINT `b`", 3, 'ROLLBACK TO `a"x`', 4], "XID", [1, 4]),
    ([1, "SAVEPOINT `\u00c9t\u00e9`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO ete", 4], "XID", [1, 4]),
    ([1, "SAVEPOINT `ma\u00df`", 2, "SAVEPOINT `b`", 3, "ROLLBACK TO `MAS`", 4], "XID", [1, 4]),
    ([1, "SAVEPOINT `\u00c6`", 2, "ROLLBACK TO `\u1d2d`", 3], "XID", [1, 3]),  # the one that is open
    ([1, "SAVEPOINT `a`", 2, "SAVEPOINT `b`", 3, 'RELEASE SAVEPOINT "B"', "ROLLBACK TO A", 4], "XID", [1, 4]),
]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize(("statements", "end", "wanted"), TAKEN_BACK)
def test_rows_that_their_log_takes_back_are_never_given_out(
    make, flavor: str, statements: list[str | int], end: str, wanted: list[int]
) -> None:
    data = rolled_back(flavor, statements, end=end).bytes()

    for parts in ([], [len(data) // 2], list(range(1, len(data), 7))):
        assert rows_of(drain(make(flavor), data, parts=parts)) == [*wanted, 99]
    items = drain(make(flavor, records_max=1), data)
    assert rows_of(items) == [*wanted, 99]
    assert items[-1].position.gtids_delta == [(0, 11, 2)] if flavor == "mariadb" else [(UUID, "", 2, 2)]


@pytest.mark.parametrize(("statements", "end", "wanted"), TAKEN_BACK)
def test_reading_on_inside_a_transaction_that_takes_rows_back_gives_each_row_once(
    make, statements: list[str | int], end: str, wanted: list[int]
) -> None:
    stream = rolled_back("mariadb", statements, end=end)
    whole = drain(make("mariadb", records_max=1), stream.bytes())
    stored = [item.position for item in whole]

    for count, position in enumerate(stored, 1):
        if position.file != FILE or not position.in_transaction:
            continue
        begin = next(i for i, (_, start, _) in enumerate(stream.starts, 1) if start == position.pos)  # packet 0 is in no file
        data = Stream(flavor="mariadb").hello().bytes() + b"".join(stream.out[begin:])
        rest = drain(make("mariadb"), data, pos=position.pos, skip_events=position.event)
        assert rows_of(whole[:count]) + rows_of(rest) == [*wanted, 99]


@pytest.mark.parametrize(("statements", "end", "wanted"), TAKEN_BACK)
def test_of_a_transaction_that_is_too_long_to_wait_for_its_end_is_asked(
    make, statements: list[str | int], end: str, wanted: list[int]
) -> None:
    data = rolled_back("mariadb", statements, end=end).bytes()
    made, asked, items = make("mariadb", look_ahead_bytes_max=20), 0, []
    made.start(FILE, 4, now_us=lambda: NOW)
    for low in range(0, len(data), 100):
        new = made.feed(data[low : low + 100])
        while new or made.held:
            items += new
            for item in new:
                if isinstance(item, LogEvent) and item.type_code == LOOK_AHEAD:
                    assert not made.held
                    asked += 1
                    made.told(told_by(data, item))
            new = made.feed(b"") if made.held else []
    items += made.flush()

    assert rows_of(items) == [*wanted, 99]
    assert asked == 2


def told_by(data: bytes, asked: LogEvent) -> list[tuple[int, int]]:
    """What a second reading finds out, by what a decoder reports that looks for ends."""
    undone = Undone(asked.position.pos)
    for item in drain(decoder("mariadb", ends=True), data):
        if not isinstance(item, LogEvent) or (item.file, item.start_pos) < (asked.file, asked.position.pos):
            continue
        if item.file != asked.file:
            undone.cut()
        elif item.type_code == QUERY and not undone.statement(item.body.rsplit(b"\0", 1)[1], item.start_pos):
            continue
        break
    return undone.parts


def test_rows_of_pass_through_tables_that_are_taken_back_are_not_passed_through(make) -> None:
    stream = mapped(Stream(flavor="mariadb").hello().begin(), "watermark", database="dblog").rows(WRITE_V1, 5, 2, row(1)).query("ROLLBACK")

    assert [i.type_code for i in drain(make("mariadb"), stream.bytes())] == [QUERY]


def test_a_statement_in_a_transaction_that_is_rolled_back_is_reported(make) -> None:
    stream = Stream(flavor="mariadb").hello().begin().query("DROP TABLE IF EXISTS `a`").query("ROLLBACK")

    assert [i.body.rsplit(b"\0", 1)[1] for i in drain(make("mariadb"), stream.bytes())] == [b"DROP TABLE IF EXISTS `a`", b"ROLLBACK"]


def test_a_savepoint_that_was_never_set_is_damage_and_no_row_is_given_out(make) -> None:
    stream = mapped(Stream(flavor="mariadb").hello().begin()).rows(WRITE_V1, 5, 2, row(1)).query("ROLLBACK TO `a`").xid()

    with pytest.raises(DamagedLogError, match="holds a ROLLBACK TO a savepoint that its transaction has not set"):
        drain(make("mariadb"), stream.bytes())

    stream = mapped(Stream(flavor="mariadb").hello().begin()).query("SAVEPOINT `b`").rows(WRITE_V1, 5, 2, row(1)).query("SAVEPOINT `c`")
    with pytest.raises(DamagedLogError, match="holds a ROLLBACK TO a savepoint that its transaction has not set"):
        drain(make("mariadb"), stream.query("ROLLBACK TO `a`").xid().bytes())


def test_an_end_whose_type_is_damaged_takes_no_rows_back(make) -> None:
    stream = transaction(Stream(flavor="mariadb").hello(), [1])
    data = bytearray(transaction(stream, [2], number=2).bytes())
    end = next(start for kind, start, _ in stream.starts if kind == XID)
    at = bytes(data).index(struct.pack("<IBI", 1_700_000_000, XID, 11))
    assert end
    data[at + 4] = 200
    items: list[Any] = []
    made = make("mariadb")
    made.start(FILE, 4, now_us=lambda: NOW)

    items += made.feed(bytes(data))
    with pytest.raises(DamagedLogError, match="whose checksum is wrong"):
        items += made.feed(b"")
    assert rows_of(items) == [1]


def test_a_connection_that_ends_before_the_transaction_gives_none_of_its_rows(make) -> None:
    stream = mapped(Stream(flavor="mariadb").hello().begin(number=7)).rows(WRITE_V1, 5, 2, row(1))
    begin = stream.starts[1][1]
    items = drain(make("mariadb"), stream.packet(b"\xfe\0\0\0\0").bytes(), flush=False)

    assert [i.type_code for i in items] == [EOF_PACKET]
    assert (items[0].position.pos, items[0].position.event) == (begin, 1)


@pytest.mark.parametrize("group", [False, True])
def test_of_an_alter_in_two_phases_only_the_commit_is_reported(make, group: bool) -> None:
    """MariaDB, binlog_alter_two_phase: START ALTER, then COMMIT ALTER or ROLLBACK ALTER, each with the statement's text."""
    stream = Stream(flavor="mariadb").hello()
    for number, extra in enumerate((2, 4, 2, 8, 0), 1):
        body = struct.pack("<QIB", number, 0, 0x29 | 2 * group) + struct.pack("<Q", 1) * group + bytes([extra]) + struct.pack("<Q", 1)
        stream.event(MARIADB_GTID, body).query(f"ALTER TABLE t ADD c{number} INT")
    items = drain(make("mariadb"), stream.bytes())

    assert [i.body.rsplit(b" ", 2)[1] for i in items if isinstance(i, LogEvent)] == [b"c2", b"c5"]
    assert items[0].position.gtids_delta == [(0, 11, 2)]


def test_a_transaction_that_a_crash_has_cut_leaves_nothing_in_the_position(make) -> None:
    stream = mapped(Stream(flavor="mariadb").hello().begin(number=7)).rows(WRITE_V1, 5, 2, row(1)).rotate("binlog.000008")

    position = drain(make("mariadb"), stream.bytes())[-1].position

    assert (position.file, position.event, position.in_transaction) == ("binlog.000008", 0, False)
    assert position.pos < 400
    assert position.gtids_delta == []


# --- restarts --------------------------------------------------------------------------------------------------------


def test_skipped_events_and_rows_are_not_given_again(make) -> None:
    stream = Stream().hello().begin()
    for block in range(3):
        mapped(stream).rows(WRITE, 5, 2, row(10 * block) + row(10 * block + 1) + row(10 * block + 2))
    stream.xid()
    transaction(stream, [90, 91], number=2)
    # BEGIN, map, rows, map, rows, map, rows, XID
    expected = {0: 0, 2: 0, 3: 3, 4: 3, 5: 6, 7: 9, 8: 9, 50: 9}
    every = [0, 1, 2, 10, 11, 12, 20, 21, 22, 90, 91]
    for skip, missing in expected.items():
        assert rows_of(drain(make(), stream.bytes(), skip_events=skip)) == every[missing:], skip
    assert rows_of(drain(make(), stream.bytes(), skip_events=4, skip_rows=2)) == every[5:]
    assert rows_of(drain(make(), stream.bytes(), skip_events=2, skip_rows=3)) == every[3:]


@settings(max_examples=60)
@given(st.data())
def test_reading_on_from_any_position_gives_each_row_once(data: st.DataObject) -> None:
    """I1: the position of any item, taken as a new start, leads to exactly the rows that were not in it or before it."""
    flavor = data.draw(st.sampled_from(["mysql", "mariadb"]))
    stream, counter = history(data, flavor)
    head = Stream(flavor=flavor).hello().bytes()
    body = stream.bytes()
    made = decoder(flavor, records_max=data.draw(st.integers(1, 6)))
    items = drain(made, body)
    seen: list[int] = []
    ends = {start: sum(len(p) for p in stream.out[:i]) for i, start in enumerate(offsets(stream))}
    for item in items:
        seen += rows_of([item])
        position = item.position
        if position.file != FILE:
            continue
        rest = head + body[ends[position.pos] :]
        again = decoder(flavor, records_max=3)
        skip = position.event + position.packed_event
        assert seen + rows_of(drain(again, rest, pos=position.pos, skip_events=skip)) == list(range(counter))


def offsets(stream: Stream) -> list[int]:
    """The log position at which each packet of the stream begins, and the end."""
    return [start for _, start, _ in stream.starts] + [stream.pos]


def history(data: st.DataObject, flavor: str) -> tuple[Stream, int]:
    """Transactions of random shape over tables that are and are not captured; inserted ids count up."""
    stream = Stream(flavor=flavor)
    write = WRITE_V1 if flavor == "mariadb" else WRITE
    counter = 0
    for number in range(1, data.draw(st.integers(1, 5)) + 1):
        outer = None
        if flavor == "mysql" and data.draw(st.booleans()):
            outer, stream = stream.gtid(UUID, number), Stream(checksum=False)
            stream.query("BEGIN")
        elif data.draw(st.booleans()):
            stream.begin(number=number)
        elif flavor == "mysql":
            stream.query("BEGIN")
        else:
            stream.begin(number=number, domain=4)
        for _ in range(data.draw(st.integers(0, 4))):
            match data.draw(st.integers(0, 4)):
                case 0:
                    stream.table_map(6, "shop", "other", TYPES, META).rows(write, 6, 2, row(7))
                case 1:
                    stream.event(ROWS_QUERY, b"\x01x")
                case _:
                    size = data.draw(st.integers(1, 3))
                    images = b"".join(row(counter + i) for i in range(size))
                    if flavor == "mariadb" and data.draw(st.booleans()):
                        mapped(stream).compressed_rows(write, 5, 2, images)
                    else:
                        mapped(stream).rows(write, 5, 2, images)
                    counter += size
        stream.xid()
        if outer is not None:
            raw = b"".join(packet[5:] for packet in stream.out)
            stream = outer.event(
                TRANSACTION_PAYLOAD, payload_body(raw, frames=data.draw(st.integers(1, 2)), compressed=data.draw(st.booleans()))
            )
    return stream, counter


# --- splits, damage --------------------------------------------------------------------------------------------------


def busy(flavor: str) -> Stream:
    """A little of everything."""
    stream = Stream(flavor=flavor).hello()
    write = WRITE_V1 if flavor == "mariadb" else WRITE
    transaction(stream, [1, 2], number=1)
    stream.begin(number=2)
    mapped(stream).table_map(9, "dblog", "watermark", TYPES, META).rows(write, 5, 2, row(3)).rows(write, 9, 2, row(1))
    if flavor == "mysql":
        stream.rows(UPDATE, 5, 2, row(3) + row(4)).rows(DELETE, 5, 2, row(4))
        stream.xid().tagged_gtid(OTHER, "tag", 70, commit_us=1_700_000_000_000_000, original_us=5).query("CREATE TABLE t3 (id int)")
        stream.packed(lambda inner: mapped(inner.query("BEGIN")).rows(write, 5, 2, row(30) + row(31)).xid(), gno=71)
    else:
        stream.compressed_rows(write, 5, 2, row(32) + row(33)).compressed_rows(UPDATE_V1, 5, 2, row(33) + row(34))
        stream.compressed_rows(write, 9, 2, row(35)).compressed_query("SAVEPOINT x")
        stream.xid().mariadb_gtid(0, 3, standalone=True).query("CREATE TABLE t3 (id int)")
    stream.rotate("binlog.000008")
    transaction(stream, [5], number=4)
    return stream


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_decoder_and_reference_agree_wherever_the_bytes_are_split(flavor: str) -> None:
    data = busy(flavor).bytes()
    whole = plain(drain(decoder(flavor, reference=True), data))
    assert len(whole) >= 5

    assert plain(drain(decoder(flavor), data)) == whole
    for at in range(1, len(data)):
        assert plain(drain(decoder(flavor), data, parts=[at])) == whole, at
    assert plain(drain(decoder(flavor), data, parts=list(range(1, len(data))))) == whole
    assert plain(drain(decoder(flavor, reference=True), data, parts=list(range(1, len(data), 7)))) == whole


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_stream_that_ends_anywhere_gives_what_was_whole(flavor: str) -> None:
    data = busy(flavor).bytes()
    for at in range(len(data)):
        assert plain(drain(decoder(flavor), data[:at])) == plain(drain(decoder(flavor, reference=True), data[:at])), at


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_an_event_cut_short_inside_its_packet_is_refused_with_its_position(flavor: str) -> None:
    packets = busy(flavor).out
    for index, packet in enumerate(packets):
        for size in range(1, len(packet) - 4):
            event = packet[5 : 4 + size]
            if len(event) >= 19:
                event = event[:9] + struct.pack("<I", len(event)) + event[13:]
                event = event[:-4] + struct.pack("<I", crc32(event[:-4])) if len(event) >= 23 else event
            cut = b"".join(packets[:index]) + (1 + len(event)).to_bytes(3, "little") + packet[3:4] + b"\0" + event
            both = []
            for reference in (False, True):
                made = decoder(flavor, reference=reference)
                try:
                    both.append(plain(drain(made, cut)))
                except DefiniteError as e:
                    both.append(str(e))
                    assert "binlog.00000" in both[-1]
            assert both[0] == both[1], (index, size)


@settings(max_examples=40)
@given(st.data())
def test_damage_never_ends_in_anything_but_an_error_that_reports_it(data: st.DataObject) -> None:
    flavor = data.draw(st.sampled_from(["mysql", "mariadb"]))
    stream = busy(flavor)
    raw = bytearray(stream.bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    for reference in (False, True):
        with contextlib.suppress(DefiniteError):
            drain(decoder(flavor, reference=reference), bytes(raw))


@settings(max_examples=120)
@given(st.data())
def test_damage_with_a_right_checksum_is_met_alike(data: st.DataObject) -> None:
    flavor = data.draw(st.sampled_from(["mysql", "mariadb"]))
    stream = busy(flavor)
    index = data.draw(st.integers(2, len(stream.out) - 1))
    event = bytearray(stream.out[index][5:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        event[data.draw(st.integers(19, len(event) - 1))] = data.draw(st.integers(0, 255))
    packet = stream.out[index][:5] + bytes(event) + struct.pack("<I", crc32(bytes(event)))
    raw = b"".join([*stream.out[:index], packet, *stream.out[index + 1 :]])

    results = []
    for reference in (False, True):
        try:
            results.append(plain(drain(decoder(flavor, reference=reference), raw)))
        except DefiniteError as e:
            results.append(str(e))
    assert results[0] == results[1]


def test_a_wrong_checksum_names_file_and_position(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1])
    raw = bytearray(stream.bytes())
    raw[-1] ^= 1
    position = stream.starts[-1][1]
    made = make()
    made.start(FILE, 4, now_us=lambda: NOW)

    given_ = made.feed(bytes(raw))  # what stands before the damage comes first

    assert rows_of(given_) == [1]
    assert made.held
    with pytest.raises(DefiniteError, match=rf"{FILE}:{position} holds an event of type 16 whose checksum is wrong"):
        made.feed(b"")


def test_an_error_in_a_row_names_the_event(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream)
    position = stream.pos
    stream.rows(WRITE, 5, 2, row(1) + row(2)[:-1])
    with pytest.raises(DefiniteError, match=rf"column name: a row ends too early.*event at {FILE}:{position}"):
        drain(make(), stream.bytes())


def test_a_resolver_that_fails_may_be_asked_again(make) -> None:
    failures = [TransientError("the registry is away")]

    def resolve(_body: bytes, _position: Any) -> Any:
        if failures:
            raise failures.pop()
        return FAST

    stream = Stream().hello()
    transaction(stream, [1])
    made = make(resolve=resolve)
    made.start(FILE, 4, now_us=lambda: NOW)
    with pytest.raises(TransientError):
        made.feed(stream.bytes())

    assert made.held
    assert rows_of(made.feed(b"") + made.flush()) == [1]


def test_a_damaged_row_leaves_the_rows_before_it(make) -> None:
    stream = Stream().hello().begin()
    mapped(stream).rows(WRITE, 5, 2, row(1)).rows(WRITE, 5, 2, row(2) + b"\0")
    made = make()
    made.start(FILE, 4, now_us=lambda: NOW)

    items = made.feed(stream.bytes())

    assert rows_of(items) == [1]
    assert items[0].position.event == 3
    with pytest.raises(DefiniteError):
        made.feed(b"")


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_damaged_rows_event_can_be_left_out_by_its_position_and_takes_no_other_with_it(make, flavor) -> None:
    code = WRITE_V1 if flavor == "mariadb" else WRITE
    stream = Stream(flavor).hello().begin()
    mapped(stream).rows(code, 5, 2, row(1))
    position, first = stream.pos, len(stream.bytes())
    stream.rows(code, 5, 2, row(2)).rows(code, 5, 2, row(3)).xid()
    transaction(stream, [4], number=2)
    spoilt = bytearray(stream.bytes())
    spoilt[first + 40] ^= 1

    items, error = until_damage(make(flavor), bytes(spoilt))
    assert rows_of(items) == [1]
    assert error.event_at == (FILE, position)
    whole = drain(make(flavor), bytes(spoilt), unreadable=frozenset({error.event_at}))

    assert rows_of(whole) == [1, 3, 4]
    assert [e["source"]["pos"] for e in envelopes(whole)] == [
        e["source"]["pos"] for e in envelopes(drain(make(flavor), stream.bytes())) if e["after"]["id"] != 2
    ]
    assert whole[-1].position == drain(make(flavor), stream.bytes())[-1].position


def test_after_a_damaged_table_map_no_row_is_read_by_an_older_one(make) -> None:
    stream = Stream().hello()
    transaction(stream, [1])
    stream.begin(number=2)
    position, first = stream.pos, len(stream.bytes())
    mapped(stream).rows(WRITE, 5, 2, row(2)).xid()
    transaction(stream, [3], number=3)
    spoilt = bytearray(stream.bytes())
    spoilt[first + 40] ^= 1
    unreadable: frozenset[tuple[str, int]] = frozenset()
    positions = []
    while (left := until_damage(make(), bytes(spoilt), unreadable=unreadable))[1] is not None:
        assert len(positions) < 2
        positions.append(left[1].event_at)
        unreadable = frozenset(positions)

    assert positions[0] == (FILE, position)
    assert rows_of(left[0]) == [1, 3]


def test_a_damaged_event_of_another_kind_cannot_be_left_out(make) -> None:
    for add in (lambda s: s.begin(), lambda s: s.query("ALTER TABLE t ADD c INT"), lambda s: s.begin().xid()):
        stream = Stream().hello()
        add(stream)
        spoilt = bytearray(stream.bytes())
        spoilt[-5] ^= 1
        _, error = until_damage(make(), bytes(spoilt))
        assert error.event_at is None
        assert until_damage(make(), bytes(spoilt), unreadable=frozenset({(FILE, p) for p in range(4, 1000)}))[1] is not None


def until_damage(made: Any, data: bytes, **start: Any) -> tuple[list[Any], DamagedLogError | None]:
    """What comes before the damage, and the damage."""
    made.start(FILE, 4, now_us=lambda: NOW, **start)
    items: list[Any] = []
    try:
        items += made.feed(data)
        while made.held:
            items += made.feed(b"")
    except DamagedLogError as error:
        return items, error
    return items + made.flush(), None


def test_an_artificial_flag_does_not_move_the_position(make) -> None:
    stream = Stream().hello().begin()
    position = stream.pos
    stream.event(STOP, b"", artificial=True)

    assert drain(make(), stream.bytes())[-1].position.event == 2
    assert stream.pos == position
    assert ARTIFICIAL == 0x20


def test_a_long_silence_moves_the_position_without_rows(make) -> None:
    stream = Stream().hello().begin().table_map(6, "shop", "other", TYPES, META)
    for _ in range(18):
        stream.rows(WRITE, 6, 2, bytes(1 << 20))
    made = make()
    items = drain(made, stream.bytes(), flush=False)

    assert [(type(i), i.records) for i in items] == [(LogRows, 0)]
    assert items[0].position.event > 10


@given(st.binary(max_size=600), st.integers(0, 2**32 - 1))
def test_the_checksum_is_zlibs(data: bytes, seed: int) -> None:
    import zlib

    assert crc32(data, seed) == zlib.crc32(data, seed)


def test_the_first_bytes_of_md5_are_hashlibs() -> None:
    for size in (*range(200), 4096, 100_000):
        data = bytes(n * 7 % 251 for n in range(size))

        assert md5_head(data) == hashlib.md5(data, usedforsecurity=False).digest()[:8], size

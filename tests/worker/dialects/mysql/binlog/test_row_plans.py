"""Both row encoders on random tables: alike byte for byte, and right by an Avro reader that is not ours."""

import dataclasses
import datetime as dt
import io
import itertools
import json
import struct
import sys
import zlib
from decimal import Decimal
from hashlib import md5

import fastavro
import pytest
from dblog.codecs.fingerprint import verified_schemas
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import ReferencePlan
from dblog.codecs.transactions import TransactionOrder
from dblog.dialects.mysql.binlog import row_image
from dblog.dialects.mysql.binlog._fast import FastPlan, compile_plan, scan_rows
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.values.types import TypeModes
from dblog.dialects.mysql.wire.protocol import walk_rows
from dblog.errors import DefiniteError, TransientError
from dblog.model import Column
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mysql_columns import integers, kinds, uuids
from support.mysql_log import DELETE, UPDATE, WRITE, WRITE_V1, result_row, rows_body
from support.mysql_tables import Made, contexts, decoded, decoded_key, every_mode, plan_of, rewrites, rows_of, tables, undecorated

CONTEXT = BinlogContext(
    file="binlog.000007", pos=1234, server_id=5, source_ts_us=1_700_000_000_123_456, now_us=1_700_000_001_000_001, sequence_high=7,
    sequence_low=1234 << 23, gtid="u:5", thread=9,
)  # fmt: skip


def both(made: Made) -> tuple[FastPlan, ReferencePlan]:
    return compile_plan(made.plan, row_image), ReferencePlan(made.plan, row_image)


@settings(max_examples=60)
@given(st.data())
def test_inserts_are_alike_and_state_what_was_stored(data: st.DataObject) -> None:
    made = data.draw(tables())
    rows = data.draw(st.lists(rows_of(made), max_size=5))
    context = data.draw(contexts())
    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))

    fast, slow = both(made)
    fast.check_table_map(made.table_map)
    records = fast.encode_rows("c", body, context)

    assert records == slow.encode_rows("c", body, context)
    assert fast.encode_rows("c", body, context, version=2) == records
    for number, (row, key, value) in enumerate(zip(rows, *records[:2], strict=True)):
        envelope = decoded(made.plan, value)
        struct_ = made.struct(row)
        assert envelope["after"] == struct_
        assert envelope["before"] is None
        assert envelope["op"] == "c"
        assert envelope["source"]["row"] == number
        assert envelope["source"]["sequence"] == f'["{context.sequence_high}","{context.sequence_low + number}"]'
        assert envelope["source"]["snapshot"] == "false"
        assert envelope["source"]["ts_ms"] == context.source_ts_us // 1000
        assert envelope["source"]["ts_ns"] == context.source_ts_us * 1000
        assert envelope["source"]["gtid"] == context.gtid
        assert envelope["source"]["thread"] == context.thread
        assert envelope["source"]["query"] == context.query
        assert envelope["source"]["table"] == "t"
        assert envelope["source"]["db"] == "shöp"
        order = context.transaction
        assert envelope["transaction"] == (
            None
            if order is None
            else {"id": order.id, "total_order": order.total + number + 1, "data_collection_order": order.of_table + number + 1}
        )
        assert envelope["ts_us"] == context.now_us
        names = [made.plan.columns[i].name for i in made.plan.key]
        assert (None if key is None else decoded_key(made.plan, key)) == ({n: struct_[n] for n in names} if names else None)


@settings(max_examples=40)
@given(st.data())
def test_updates_and_deletes_are_alike(data: st.DataObject) -> None:
    made = data.draw(tables(columns_max=6))
    pairs = data.draw(st.lists(st.tuples(rows_of(made), rows_of(made)), max_size=4))
    if pairs and data.draw(st.booleans()):
        pairs = [(old, [o if i in made.plan.key else n for i, (o, n) in enumerate(zip(old, new, strict=True))]) for old, new in pairs]
    context = data.draw(contexts())
    fast, slow = both(made)

    for op, code, images in (
        ("u", UPDATE, [made.image(old) + made.image(new) for old, new in pairs]),
        ("d", DELETE, [made.image(old) for old, _ in pairs]),
    ):
        body = rows_body(code, 5, len(made.kinds), b"".join(images))
        assert fast.encode_rows(op, body, context) == slow.encode_rows(op, body, context)
        for skip in range(len(pairs) + 1):
            assert fast.encode_rows(op, body, context, skip_rows=skip) == slow.encode_rows(op, body, context, skip_rows=skip)


def test_records_are_numbered_in_their_transaction_a_changed_key_twice_and_tombstones_not_at_all(encoder_of) -> None:
    plan = plan_of([Column(name="c", type="tinyint", type_text="tinyint", nullable=False)], key=("c",))
    context = dataclasses.replace(CONTEXT, transaction=TransactionOrder("u:5", 8190, 63))
    one, two = b"\0\1", b"\0\2"

    def numbers(op: str, code: int, images: bytes, **more: int) -> list[tuple[int, int] | None]:
        _, values, _ = encoder_of(plan).encode_rows(op, rows_body(code, 5, 1, images), context, **more)
        blocks = [None if value is None else decoded(plan, value)["transaction"] for value in values]
        assert {block["id"] for block in blocks if block} == {"u:5"}
        return [block and (block["total_order"], block["data_collection_order"]) for block in blocks]

    assert numbers("c", WRITE, one + two) == [(8191, 64), (8192, 65)]
    assert numbers("u", UPDATE, one + one + one + two + two + two) == [(8191, 64), (8192, 65), None, (8193, 66), (8194, 67)]
    assert numbers("u", UPDATE, one + one + one + two, skip_rows=1) == [(8191, 64), None, (8192, 65)]
    assert numbers("d", DELETE, one + two) == [(8191, 64), None, (8192, 65), None]


@settings(max_examples=40)
@given(st.data())
def test_chunk_rows_are_alike_and_equal_the_log(data: st.DataObject) -> None:
    made = data.draw(tables())
    rows = data.draw(st.lists(rows_of(made), max_size=5))
    context = data.draw(contexts(snapshot="incremental"))
    packets = b"".join(made.result_row(row) for row in rows)
    fast, slow = both(made)
    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))
    keys = fast.encode_rows("c", body, context)[0]
    dropped = frozenset(data.draw(st.sets(st.sampled_from(keys)))) if keys and made.plan.key else frozenset()

    chunk = fast.encode_chunk(packets, context, dropped)

    assert chunk == slow.encode_chunk(packets, context, dropped)
    assert fast.encode_chunk(memoryview(packets + b"\x05\0\0\x01\xfe\0\0\x02\0"), context, dropped) == chunk
    assert chunk[0] == [key for key in keys if key not in dropped]
    assert chunk[2] == len(keys) - len(chunk[0])
    kept = [row for row, key in zip(rows, keys, strict=True) if key not in dropped]
    assert [decoded(made.plan, value)["after"] for value in chunk[1]] == [made.struct(row) for row in kept]
    assert all(decoded(made.plan, value)["op"] == "r" for value in chunk[1])
    assert all(decoded(made.plan, value)["source"]["snapshot"] == "incremental" for value in chunk[1])
    outside = dataclasses.replace(context, transaction=None)  # as those of a chunk are
    whole = fast.encode_chunk(packets, outside, dropped)
    for rows_max, bytes_max in ((1, sys.maxsize), (2, sys.maxsize), (sys.maxsize, 1), (3, len(packets) // 2)):
        keys, values, start, left_out, digest = [], [], 0, 0, 0
        while start < len(packets):
            stop = fast.end_of_rows(packets, start, rows_max, bytes_max)
            assert stop == slow.end_of_rows(packets, start, rows_max, bytes_max)
            part = fast.encode_chunk(packets[start:stop], outside, dropped)
            keys, values, left_out, digest, start = keys + part[0], values + part[1], left_out + part[2], digest + part[3], stop
        assert (keys, values, left_out, digest % 2**64) == whole
    if made.plan.key:
        prints = fast.fingerprint_chunk(memoryview(packets + b"\x05\0\0\x01\xfe\0\0\x02\0"), dropped)
        assert prints == slow.fingerprint_chunk(packets, dropped)
        assert prints == (recomputed(made.plan, chunk[0], chunk[1]), chunk[2], chunk[3])


@pytest.mark.parametrize("tail", [0, 1, 3, 4, 5, 9])
def test_rows_of_several_packets_end_alike_also_where_they_are_cut_off(tail: int) -> None:
    fast, slow = both(Made([], frozenset(), plan_of([Column(name="c", type="int", type_text="int", nullable=True)], key=())))
    long = b"\xff\xff\xff\x01" + bytes(0xFFFFFF) + b"\x02\0\0\x02" + bytes(2)
    for rows, ends in (
        (long + b"\x01\0\0\x03\0", [len(long), len(long) + 5]),
        (long[: 0xFFFFFF + 4 + tail], [min(len(long), 0xFFFFFF + 4 + tail)]),
        (b"\x05\0\0\x01" + bytes(tail), [4 + min(tail, 5), 4 + tail]),
    ):
        at = 0
        for end in ends:
            if at < len(rows):
                assert fast.end_of_rows(rows, at, 1, sys.maxsize) == slow.end_of_rows(rows, at, 1, sys.maxsize) == end
            at = end


def recomputed(plan: TablePlan, keys: list[bytes | None], values: list[bytes | None]) -> bytes:
    """Fingerprints from records, by the schemas that a marker has: frames and the envelope's parts are cut off."""
    key_text, row_text = verified_schemas(plan)
    out = b""
    for key, value in zip(keys, values, strict=True):
        assert key is not None
        assert value is not None
        assert value[5:7] == b"\0\2", "no image before, and one after"
        row = io.BytesIO(value[7:])
        fastavro.schemaless_reader(row, fastavro.parse_schema(json.loads(row_text)))
        whole_key = io.BytesIO(key[5:])
        fastavro.schemaless_reader(whole_key, fastavro.parse_schema(json.loads(key_text)))
        assert whole_key.read() == b""
        out += md5(key[5:], usedforsecurity=False).digest()[:8] + md5(value[7 : 7 + row.tell()], usedforsecurity=False).digest()[:8]
    return out


def test_the_schemas_of_a_marker_tell_how_many_digits_of_a_second_a_timestamp_has() -> None:
    columns = [
        Column(name=name, type="timestamp", type_text=f"timestamp({digits})", length=digits, nullable=nullable)
        for name, digits, nullable in (("a", 6, False), ("b", 3, True), ("c", 0, True))
    ]
    columns.append(Column(name="d", type="datetime", type_text="datetime(6)", length=6, nullable=True))
    texts = verified_schemas(plan_of(columns, key=("a",)))

    key, row = ({field["name"]: field["type"] for field in json.loads(text)["fields"]} for text in texts)

    def digits(kind) -> str | None:
        kind = kind[1] if isinstance(kind, list) else kind
        return kind.get("connect.parameters", {}).get("io.dblog.fraction")

    assert digits(key["a"]) == "6"
    assert [digits(row[name]) for name in "abcd"] == ["6", "3", "0", None]


@settings(max_examples=40)
@given(st.data())
def test_every_handling_mode_is_alike_and_log_and_chunk_agree(data: st.DataObject) -> None:
    made = data.draw(tables(of=st.one_of(kinds(), kinds(), st.just(uuids())), modes=every_mode()))
    rows = data.draw(st.lists(rows_of(made), max_size=4))
    context = data.draw(contexts())
    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))
    packets = b"".join(made.result_row(row) for row in rows)
    fast, slow = both(made)

    logged = outcome(lambda: fast.encode_rows("c", body, context))
    dumped = outcome(lambda: fast.encode_chunk(packets, context, frozenset()))

    assert logged == outcome(lambda: slow.encode_rows("c", body, context))
    assert dumped == outcome(lambda: slow.encode_chunk(packets, context, frozenset()))
    if DefiniteError in (logged, dumped):  # a TIME beyond a day in a column that has no NULL for it
        assert logged is dumped
        return
    assert logged[0] == dumped[0]
    assert [undecorated(made.plan, v)["after"] for v in logged[1]] == [undecorated(made.plan, v)["after"] for v in dumped[1]]


@settings(max_examples=50)
@given(st.data())
def test_masks_hashes_cuts_and_exclusions_are_alike_and_leave_the_key_alone(data: st.DataObject) -> None:
    modes = st.builds(lambda mode, rewrite: dataclasses.replace(mode, column_rewrite=rewrite), every_mode(), rewrites())
    made = data.draw(tables(modes=modes, without_key=True))
    rows = data.draw(st.lists(rows_of(made), min_size=2, max_size=4))
    plan = made.plan
    fast, slow = both(made)
    whole = plan_of(list(plan.table.columns), key=plan.table.key, modes=dataclasses.replace(made.modes, column_rewrite=None))

    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))
    logged = outcome(lambda: fast.encode_rows("c", body, CONTEXT))
    assert logged == outcome(lambda: slow.encode_rows("c", body, CONTEXT))
    for op, code in (("u", UPDATE), ("d", DELETE)):
        changes = rows_body(code, 5, len(made.kinds), b"".join(made.image(row) for row in rows[: len(rows) // 2 * 2]))
        assert outcome(lambda: fast.encode_rows(op, changes, CONTEXT)) == outcome(lambda: slow.encode_rows(op, changes, CONTEXT))  # noqa: B023
    packets = b"".join(made.result_row(row) for row in rows)
    dumped = outcome(lambda: fast.encode_chunk(packets, CONTEXT, frozenset()))
    assert dumped == outcome(lambda: slow.encode_chunk(packets, CONTEXT, frozenset()))
    if DefiniteError in (logged, dumped):  # a TIME beyond a day in a column that has no NULL for it
        assert logged is dumped
        return
    assert logged[0] == dumped[0]
    unmasked = outcome(lambda: compile_plan(whole, row_image).encode_rows("c", body, CONTEXT))
    assert unmasked is DefiniteError or logged[0] == unmasked[0]
    assert [undecorated(plan, v)["after"] for v in logged[1]] == [undecorated(plan, v)["after"] for v in dumped[1]]


MODES = [
    ("time(6)", {"length": 6}, {"time_precision_mode": "isostring"}, b"\x80\xa1\x42\x01\xe2\x40", "10:05:02.123456Z"),
    ("time", {"length": 0}, {"time_precision_mode": "isostring"}, b"\x7f\xff\xff", None),
    ("time", {"length": 0}, {"time_precision_mode": "isostring"}, b"\x81\x80\x00", "00:00:00Z"),
    ("time", {"length": 0}, {"time_precision_mode": "connect"}, b"\x81\x80\x01", None),
    ("time", {"length": 0}, {"time_precision_mode": "connect", "event_converting_failure_handling_mode": "skip"}, b"\x7f\xff\xff", None),
    ("time(6)", {"length": 6}, {"time_precision_mode": "connect"}, b"\x80\xa1\x42\x01\xe2\x40", dt.time(10, 5, 2, 123000)),
    ("time(6)", {"length": 6}, {"time_precision_mode": "nanoseconds"}, b"\x80\xa1\x42\x01\xe2\x40", 36302123456000),
    ("datetime", {"length": 0}, {"time_precision_mode": "nanoseconds"}, b"\xfe\xf3\xff\x7e\xfb", 253402300799 * 10**9 - (14 << 64)),
    ("date", {}, {"time_precision_mode": "isostring"}, (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little"), "2024-02-29Z"),
    ("datetime(3)", {"length": 3}, {"time_precision_mode": "isostring"}, b"\x99\x9a\x94\x92\x83\x13\x88", "2016-10-10T09:10:03.5Z"),
    ("decimal(5,2)", {"length": 5, "scale": 2}, {"decimal_handling_mode": "string"}, b"\x80\x0c\x05", "12.05"),
    ("decimal(5,2)", {"length": 5, "scale": 2}, {"decimal_handling_mode": "double"}, b"\x7f\xf3\xfa", -12.05),
    ("bigint unsigned", {"unsigned": True}, {"bigint_unsigned_handling_mode": "precise"}, b"\xff" * 8, Decimal(2**64 - 1)),
    ("blob", {}, {"binary_handling_mode": "hex"}, b"\x02\x00\xfb\xef", "fbef"),
    ("blob", {}, {"binary_handling_mode": "base64"}, b"\x02\x00\xfb\xef", "++8="),
    ("blob", {}, {"binary_handling_mode": "base64-url-safe"}, b"\x02\x00\xfb\xef", "--8="),
]


@pytest.mark.parametrize(
    ("type_text", "more", "modes", "field", "value"), MODES, ids=[f"{m[0]} {next(iter(m[2].values()))}" for m in MODES]
)
def test_a_handling_mode_gives_its_form(encoder_of, type_text, more, modes, field, value) -> None:
    name = type_text.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    column = Column(name="c", type=name, type_text=type_text, nullable=True, **more)
    plan = plan_of([column], key=(), modes=TypeModes(**modes))

    _, values, _ = encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 1, b"\0" + field), CONTEXT)

    assert decoded(plan, values[0])["after"] == {"c": value}


@pytest.mark.parametrize(("nullable", "mode"), [(False, "warn"), (False, "skip"), (True, "fail")])
def test_a_time_beyond_a_day_that_nothing_can_stand_for_is_refused(encoder_of, nullable, mode) -> None:
    modes = TypeModes(time_precision_mode="connect", event_converting_failure_handling_mode=mode)
    plan = plan_of([Column(name="c", type="time", type_text="time", nullable=nullable, length=0)], key=(), modes=modes)

    with pytest.raises(DefiniteError, match=r"shöp\.t, column c: a TIME .* time\.precision\.mode"):
        encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 1, b"\0\x7f\xff\xff"), CONTEXT)
    with pytest.raises(DefiniteError, match="column c: a TIME"):
        encoder_of(plan).encode_chunk(result_row([b"\x08\x01\0\0\0\0\0\0\x01"]), CONTEXT, frozenset())


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans(), st.integers(0, 60))
def test_scanning_rows_finds_what_is_whole(bodies: list[bytes], ended: bool, missing: int) -> None:
    packets = [b"\0" + body for body in bodies]
    raw = b"".join(len(p).to_bytes(3, "little") + bytes([i]) + p for i, p in enumerate(packets))
    starts = list(itertools.accumulate((4 + len(p) for p in packets), initial=0))
    full = raw + (b"\x05\0\0\x09\xfe\0\0\x02\0" if ended else b"")
    part = full[: max(0, len(full) - missing)]
    whole = max(i for i, start in enumerate(starts) if start <= len(part))
    complete = ended and len(part) == len(full)

    found = scan_rows(part)

    assert found == (complete, whole, starts[whole - 1] if whole else -1, len(full) if complete else starts[whole])
    assert found == walk_rows(part)
    if whole:
        assert scan_rows(part, starts[whole]) == (complete, 0, -1, found[3])


def test_scanning_counts_a_row_of_several_packets_once() -> None:
    raw = result_row([b"\xfe" + (1 << 24).to_bytes(8, "little") + bytes(1 << 24)]) + result_row([b"\x01x"])

    assert scan_rows(raw)[1] == 2
    assert scan_rows(raw[:-1])[:3] == (False, 1, 0)
    assert scan_rows(raw[: 1 << 24]) == (False, 0, -1, 0)


def test_an_error_among_the_rows_is_transient() -> None:
    with pytest.raises(TransientError, match="1317"):
        scan_rows(b"\x03\0\0\x01\0ab" + b"\x09\0\0\x02\xff\x25\x05#70100")


@settings(max_examples=40)
@given(st.data())
def test_any_cut_or_changed_byte_ends_in_an_error_or_in_the_same_records(data: st.DataObject) -> None:
    made = data.draw(tables(columns_max=6))
    rows = data.draw(st.lists(rows_of(made), min_size=1, max_size=3))
    fast, slow = both(made)
    body = rows_body(WRITE, 5, len(made.kinds), b"".join(made.image(row) for row in rows))
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    packets = bytearray(b"".join(made.result_row(row) for row in rows))
    packets[data.draw(st.integers(0, len(packets) - 1))] = data.draw(st.integers(0, 255))

    assert outcome(lambda: fast.encode_rows("c", cut, CONTEXT)) == outcome(lambda: slow.encode_rows("c", cut, CONTEXT))
    for op in ("c", "u"):
        quick = outcome(lambda op=op: fast.encode_rows(op, bytes(changed), CONTEXT))
        assert quick is not AssertionError
    outcome(lambda: fast.encode_chunk(bytes(packets), CONTEXT, frozenset()))


def outcome(work):
    try:
        return work()
    except DefiniteError:
        return DefiniteError


KEYED = [
    Column(name="id", type="int", type_text="int", nullable=False),
    Column(name="name", type="varchar", type_text="varchar(9)", length=9, charset="utf8mb4", nullable=True),
]


def keyed_row(number: int, name: str | None) -> bytes:
    raw = None if name is None else name.encode()
    return bytes([2 if raw is None else 0]) + struct.pack("<i", number) + (b"" if raw is None else bytes([len(raw)]) + raw)


@pytest.fixture(params=["fast", "slow"])
def encoder_of(request):
    return (lambda plan: compile_plan(plan, row_image)) if request.param == "fast" else (lambda plan: ReferencePlan(plan, row_image))


def test_a_delete_is_followed_by_a_tombstone(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    keys, values, headers = encoder_of(plan).encode_rows("d", rows_body(DELETE, 5, 2, keyed_row(1, "a")), CONTEXT)

    assert keys == [b"\0\0\0\0\x01\x02"] * 2
    assert decoded(plan, values[0])["before"] == {"id": 1, "name": "a"}
    assert decoded(plan, values[0])["after"] is None
    assert values[1] is None
    assert headers == {}


def test_without_a_key_there_are_null_keys_and_no_tombstones(encoder_of) -> None:
    plan = plan_of(KEYED, key=())
    keys, values, _ = encoder_of(plan).encode_rows("d", rows_body(DELETE, 5, 2, keyed_row(1, "a")), CONTEXT)

    assert keys == [None]
    assert decoded(plan, values[0])["op"] == "d"


def test_a_changed_key_is_a_delete_and_a_create_with_headers(encoder_of) -> None:
    plan = plan_of(KEYED, key=("name", "id"))
    body = rows_body(UPDATE, 5, 2, keyed_row(1, 'a"') + keyed_row(2, None))
    keys, values, headers = encoder_of(plan).encode_rows("u", body, CONTEXT)

    assert [decoded_key(plan, key) for key in keys] == [{"name": 'a"', "id": 1}, {"name": 'a"', "id": 1}, {"name": None, "id": 2}]
    assert [None if v is None else decoded(plan, v)["op"] for v in values] == ["d", None, "c"]
    assert headers == {
        0: [("__debezium.newkey", b'{"name":null,"id":2}')],
        1: [("__debezium.newkey", b'{"name":null,"id":2}')],
        2: [("__debezium.oldkey", b'{"name":"a\\"","id":1}')],
    }
    assert decoded(plan, values[0])["source"] == decoded(plan, values[2])["source"]


def test_a_key_from_before_our_era_fits_into_a_header(encoder_of) -> None:
    column = Column(name="d", type="datetime", type_text="datetime", nullable=False, length=0)
    plan = plan_of([column], key=("d",), modes=TypeModes(time_precision_mode="connect", enable_time_adjuster=False))
    body = rows_body(UPDATE, 5, 1, b"\0\x80\x00\x42\x00\x00" + b"\0\x99\x9a\x94\x92\x83")

    _, _, headers = encoder_of(plan).encode_rows("u", body, CONTEXT)

    assert headers[2] == [("__debezium.oldkey", b'{"d":00:00:00.000Z}')]


def test_skipped_operations_and_unchanged_rows_give_nothing(encoder_of) -> None:
    same = rows_body(UPDATE, 5, 2, keyed_row(1, "a") * 2 + keyed_row(2, "a") + keyed_row(2, "b"))

    assert encoder_of(plan_of(KEYED, key=("id",), skipped_operations=frozenset({"u"}))).encode_rows("u", same, CONTEXT) == ([], [], {})
    keys, _, _ = encoder_of(plan_of(KEYED, key=("id",), skip_unchanged=True)).encode_rows("u", same, CONTEXT)
    assert [decoded_key(plan_of(KEYED, key=("id",)), key)["id"] for key in keys] == [2]


@pytest.mark.parametrize(
    ("skipped", "same_key", "other_key"),
    [
        ("u", [], ["d", None, "c"]),
        ("d", ["u"], ["c"]),
        ("c", ["u"], ["d", None]),
        ("ud", [], ["c"]),
        ("uc", [], ["d", None]),
        ("ucd", [], []),
    ],
)
def test_an_update_of_a_key_is_left_out_as_the_delete_and_the_create_that_it_is(
    encoder_of, skipped: str, same_key: list[str], other_key: list[str | None]
) -> None:
    plan = plan_of(KEYED, key=("id",), skipped_operations=frozenset(skipped))

    def ops(images: bytes) -> list[str | None]:
        keys, values, headers = encoder_of(plan).encode_rows("u", rows_body(UPDATE, 5, 2, images), CONTEXT)
        assert len(keys) == len(values)
        assert len(headers) == (len(values) if images == moved else 0)
        return [None if value is None else decoded(plan, value)["op"] for value in values]

    moved = keyed_row(1, "a") + keyed_row(2, "a")
    assert ops(keyed_row(1, "a") + keyed_row(1, "b")) == same_key
    assert ops(moved) == other_key


def test_an_excluded_column_does_not_make_a_row_changed(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",), left_out=frozenset({1}), skip_unchanged=True)
    body = rows_body(UPDATE, 5, 2, keyed_row(1, "a") + keyed_row(1, "b"))

    assert encoder_of(plan).encode_rows("u", body, CONTEXT) == ([], [], {})


def test_version_one_events_have_no_extra_data(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    body = rows_body(WRITE_V1, 5, 2, keyed_row(1, "a"))

    assert encoder_of(plan).encode_rows("c", body, CONTEXT) == encoder_of(plan).encode_rows("c", body, CONTEXT, version=1)
    extra = rows_body(WRITE, 5, 2, keyed_row(1, "a"), extra=b"\x00\x05abc")
    assert encoder_of(plan).encode_rows("c", extra, CONTEXT) == encoder_of(plan).encode_rows("c", body, CONTEXT)


def partial_update(before: bytes, after: bytes, images: bytes) -> bytes:
    """An update of KEYED with these columns in its images."""
    return (5).to_bytes(6, "little") + b"\x01\0\x02\0\x02" + before + after + images


def test_a_partial_image_names_the_setting(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    body = partial_update(b"\x01", b"\x02", b"\0" + struct.pack("<i", 1) + b"\0\x01a")

    with pytest.raises(DefiniteError, match=r"shöp\.t.*binlog_row_image=FULL.*dblog\.row\.image\.missing=reread"):
        encoder_of(plan).encode_rows("u", body, CONTEXT)


def test_an_image_after_is_completed_from_a_whole_one_before(encoder_of) -> None:
    """MariaDB's FULL_NODUP, and every table without a key."""
    plan = plan_of(KEYED, key=("id",))
    images = keyed_row(1, "old") + b"\0\x03new" + keyed_row(2, None) + b"\x01"

    assert encoder_of(plan).encode_rows("u", partial_update(b"\xff", b"\x02", images), CONTEXT) == encoder_of(plan).encode_rows(
        "u", rows_body(UPDATE, 5, 2, keyed_row(1, "old") + keyed_row(1, "new") + keyed_row(2, None) + keyed_row(2, None)), CONTEXT
    )


@pytest.mark.parametrize("default", [None, "é7"])
def test_a_column_that_an_insert_leaves_out_has_its_default(encoder_of, default: str | None) -> None:
    plan = plan_of([KEYED[0], dataclasses.replace(KEYED[1], has_default=True, default=default)], key=("id",))
    body = rows_body(WRITE, 5, 2, b"\0" + struct.pack("<i", 1), present=b"\x01")

    _, values, _ = encoder_of(plan).encode_rows("c", body, CONTEXT)

    assert decoded(plan, values[0])["after"] == {"id": 1, "name": default}


def test_rows_that_were_read_again_are_numbered_and_have_no_image_before() -> None:
    plan = plan_of(KEYED, key=("id",))
    packets = b"".join(result_row([struct.pack("<i", n), b"\x01a"]) for n in range(12))

    fast = compile_plan(plan, row_image).encode_chunk(packets, CONTEXT, frozenset(), "u")

    assert fast == ReferencePlan(plan, row_image).encode_chunk(packets, CONTEXT, frozenset(), "u")
    found = [decoded(plan, value) for value in fast[1]]
    assert [(r["op"], r["before"], r["source"]["row"]) for r in found] == [("u", None, n) for n in range(12)]
    assert found[11]["source"]["sequence"] == f'["7","{(1234 << 23) + 11}"]'


def test_another_number_of_columns_is_refused(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))

    with pytest.raises(DefiniteError, match="rows of 3 columns where the known schema has 2"):
        encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 3, b"\0"), CONTEXT)


def test_an_unknown_enum_member_is_refused_without_its_value(encoder_of) -> None:
    columns = [Column(name="e", type="enum", type_text="enum('a')", nullable=False, members=("a",), charset="utf8mb4")]
    plan = plan_of(columns, key=())

    with pytest.raises(DefiniteError, match=r"column e.*ENUM member 2"):
        encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 1, b"\0\x02"), CONTEXT)


def test_an_unknown_character_set_is_named_when_the_plan_is_made(encoder_of) -> None:
    columns = [Column(name="c", type="varchar", type_text="varchar(3)", nullable=False, length=3, charset="klingon")]

    with pytest.raises(DefiniteError, match=r"shöp\.t, column c: character set klingon"):
        encoder_of(plan_of(columns, key=()))


@pytest.mark.parametrize(
    ("raw", "text"), [(b"\xff", "\ufffd"), (b"a\xc3", "a\ufffd"), (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"), (b"\xf4\x90\x80\x80x", "\ufffd\ufffd\ufffd\ufffdx")]
)  # fmt: skip
def test_damaged_utf8_is_mended_as_java_does(encoder_of, raw: bytes, text: str) -> None:
    plan = plan_of([KEYED[1]], key=())
    body = rows_body(WRITE, 5, 1, bytes([0, len(raw)]) + raw)

    _, values, _ = encoder_of(plan).encode_rows("c", body, CONTEXT)

    assert decoded(plan, values[0])["after"] == {"name": text}


def test_a_table_map_of_another_shape_is_refused(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    made = Made([integers("int", unsigned=False)] * 2, frozenset(), plan)

    with pytest.raises(DefiniteError, match=r"column name: the log stores it as type 3"):
        encoder_of(plan).check_table_map(made.table_map)


def test_a_row_longer_than_a_packet_is_put_together(encoder_of) -> None:
    columns = [Column(name="b", type="longblob", type_text="longblob", nullable=False)]
    plan = plan_of(columns, key=())
    big = bytes(range(256)) * 66_000
    packets = result_row([b"\xfe" + len(big).to_bytes(8, "little") + big]) + result_row([b"\x01x"])

    _, values, _, _ = encoder_of(plan).encode_chunk(packets, CONTEXT, frozenset())

    assert [decoded(plan, value)["after"]["b"] for value in values] == [big, b"x"]


def test_the_digest_is_the_sum_of_the_rows_checksums(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    packets = result_row([struct.pack("<i", 1), b"\x01a"]) + result_row([struct.pack("<i", 2), None])

    keys, _, dropped, digest = encoder_of(plan).encode_chunk(packets, CONTEXT, {b"\0\0\0\0\x01\x02"})

    assert digest == zlib.crc32(b"\x02\x02\x02a") + zlib.crc32(b"\x04\x00")
    assert dropped == 1
    assert len(keys) == 1


def test_a_fingerprint_is_eight_bytes_of_the_key_and_eight_of_the_row_and_a_dropped_row_has_none(encoder_of) -> None:
    plan = plan_of(KEYED, key=("id",))
    packets = result_row([struct.pack("<i", 1), b"\x01a"]) + result_row([struct.pack("<i", 2), None])

    prints, dropped, digest = encoder_of(plan).fingerprint_chunk(packets, {b"\0\0\0\0\x01\x02"})

    assert prints == md5(b"\x04", usedforsecurity=False).digest()[:8] + md5(b"\x04\x00", usedforsecurity=False).digest()[:8]
    assert dropped == 1
    assert digest == zlib.crc32(b"\x02\x02\x02a") + zlib.crc32(b"\x04\x00"), "of every row that was read"
    assert encoder_of(plan).fingerprint_chunk(b"", frozenset()) == (b"", 0, 0)


def test_an_impossible_date_of_a_dump_is_not_taken_for_a_date_of_the_log(encoder_of) -> None:
    """DATE 0900-01-01 of the log and 2081-07-00 of a result set are the same number: 900 << 9 | 1 << 5 | 1 and 2081 | 7 << 16."""
    encoder = encoder_of(plan_of([Column(name="d", type="date", type_text="date", nullable=True)], key=()))

    _, logged, _ = encoder.encode_rows("c", rows_body(WRITE, 5, 1, b"\0" + (900 << 9 | 1 << 5 | 1).to_bytes(3, "little")), CONTEXT)
    _, dumped, _, _ = encoder.encode_chunk(result_row([b"\x04" + (2081).to_bytes(2, "little") + b"\x07\0"]), CONTEXT, frozenset())

    assert decoded(encoder.plan, logged[0])["after"]["d"] == (dt.date(900, 1, 1) - dt.date(1970, 1, 1)).days
    assert decoded(encoder.plan, dumped[0])["after"]["d"] is None


def test_a_binary_of_no_bytes_is_empty(encoder_of) -> None:
    plan = plan_of([Column(name="b", type="binary", type_text="binary(0)", length=0, nullable=True)], key=())

    _, logged, _ = encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 1, b"\0\0"), CONTEXT)
    _, dumped, _, _ = encoder_of(plan).encode_chunk(result_row([b"\0"]), CONTEXT, frozenset())

    assert [decoded(plan, value)["after"]["b"] for value in (logged[0], dumped[0])] == [b"", b""]


@pytest.mark.parametrize(("number", "truth"), [(0, False), (1, True), (2, True), (-1, True)])
def test_a_tinyint_that_a_converter_makes_boolean_is_true_unless_it_is_zero_in_log_and_chunk(encoder_of, number: int, truth: bool) -> None:
    modes = TypeModes(boolean_column=lambda name, width: (name, width) == ("shöp.t.c", 1))
    plan = plan_of([Column(name="c", type="tinyint", type_text="tinyint(1)", nullable=True, length=1)], key=(), modes=modes)
    byte = struct.pack("<b", number)

    _, logged, _ = encoder_of(plan).encode_rows("c", rows_body(WRITE, 5, 1, b"\0" + byte), CONTEXT)
    _, dumped, _, _ = encoder_of(plan).encode_chunk(result_row([byte]), CONTEXT, frozenset())

    assert decoded(plan, logged[0])["after"] == decoded(plan, dumped[0])["after"] == {"c": truth}

"""Both row encoders on random tables of PostgreSQL: alike byte for byte, in records and in errors, and right by an Avro reader that is not ours."""

from __future__ import annotations

import dataclasses
import itertools
import random
import struct
import sys
from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest
from dblog.codecs.rowplan import ReferencePlan
from dblog.codecs.transactions import TransactionOrder
from dblog.dialects.postgres.pgoutput._fast import FastPlan
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.errors import BadRowsError, DefiniteError
from dblog.model import Column
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pgoutput_tables import (
    UNSENT,
    Made,
    change_of,
    contexts,
    decoded,
    decoded_key,
    float_text,
    line_of,
    plan_of,
    rows_of,
    tables,
)

CONTEXT = PostgresContext(
    database="shop", xid=771, lsn=0x1_0000_0A28, source_ts_us=1_700_000_000_123_456, now_us=1_700_000_001_000_001, sequence_high=1, sequence_low=5 << 34
)  # fmt: skip


def both(made: Made) -> tuple[FastPlan, ReferencePlan]:
    image = PostgresImage(made.modes)
    return FastPlan(made.plan, image), ReferencePlan(made.plan, image)


def of(*columns: Column, modes: TypeModes | None = None, **more: Any) -> Made:
    return Made([], plan_of(list(columns), modes=modes, **more), modes or TypeModes())


def column(name: str, type_: str, *, nullable: bool = True, **more: Any) -> Column:
    return Column(name=name, type=type_, type_text=type_, nullable=nullable, **more)


def outcome(call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """What a call gives, or its error."""
    try:
        return call(*args, **more)
    except DefiniteError as e:
        return type(e), str(e)


@settings(max_examples=60)
@given(st.data())
def test_changes_are_alike(data: st.DataObject) -> None:
    made = data.draw(tables())
    fast, slow = both(made)
    context = data.draw(contexts())

    for _ in range(3):
        before, after = data.draw(rows_of(made, unsent=True)), data.draw(rows_of(made, unsent=True))
        if data.draw(st.booleans()):
            after = [old if at in made.plan.key else new for at, (old, new) in enumerate(zip(before, after, strict=True))]
        if data.draw(st.booleans()):
            after = list(before)
        keys = {name.lower() for name in made.plan.table.key}
        replica = [text if made.plan.table.columns[at].name in keys else None for at, text in enumerate(before)]
        for op, body in (
            ("c", change_of(None, after)),
            ("u", change_of(None, after)),
            ("u", change_of(before, after)),
            ("u", change_of(replica, after, letter=b"K")),
            ("d", change_of(before, None)),
            ("d", change_of(replica, None, letter=b"K")),
        ):
            expected = outcome(slow.encode_rows, op, body, context)
            assert outcome(fast.encode_rows, op, body, context) == expected
            assert outcome(fast.encode_rows, op, body, context, skip_rows=1) == outcome(slow.encode_rows, op, body, context, skip_rows=1)


@settings(max_examples=40)
@given(st.data())
def test_chunk_rows_are_alike_and_equal_the_log(data: st.DataObject) -> None:
    made = data.draw(tables(skipped_operations=frozenset("t")))
    rows = data.draw(st.lists(rows_of(made), max_size=4))
    context = data.draw(contexts(snapshot="incremental"))
    lines = b"".join(line_of(row) for row in rows)
    fast, slow = both(made)
    op = data.draw(st.sampled_from(["r", "r", "c", "u"]))

    whole = outcome(slow.encode_chunk, lines, context, frozenset(), op)

    assert outcome(fast.encode_chunk, lines, context, frozenset(), op) == whole
    if made.plan.key:
        assert outcome(fast.fingerprint_chunk, lines, frozenset()) == outcome(slow.fingerprint_chunk, lines, frozenset())
    if isinstance(whole[0], type):
        return
    if op == "r":
        logged = [fast.encode_rows("c", change_of(None, row), dataclasses.replace(context, transaction=None)) for row in rows]
        assert whole[0] == [keys[0] for keys, _, _ in logged]
        assert [decoded(made.plan, value)["after"] for value in whole[1]] == [
            decoded(made.plan, values[0])["after"] for _, values, _ in logged
        ] or any(b"NaN" in text for row in rows for text in row if isinstance(text, bytes))
    dropped = frozenset(data.draw(st.sets(st.sampled_from(whole[0])))) if rows and made.plan.key else frozenset()
    chunk = fast.encode_chunk(memoryview(lines + b"a line that is not whole"), context, dropped, op)
    assert chunk == slow.encode_chunk(lines, context, dropped, op)
    assert chunk[2] == len(rows) - len(chunk[0])
    if made.plan.key:
        prints = fast.fingerprint_chunk(bytearray(lines), dropped)
        assert prints == slow.fingerprint_chunk(lines, dropped)
        assert prints[1:] == chunk[2:]
        assert prints[0][::1][:8] == (md5(chunk[0][0][5:], usedforsecurity=False).digest()[:8] if chunk[0] else b"")
    for rows_max, bytes_max in ((1, sys.maxsize), (2, sys.maxsize), (sys.maxsize, 1), (3, len(lines) // 2)):
        start = left_out = digest = 0
        while start < len(lines):
            stop = fast.end_of_rows(lines, start, rows_max, bytes_max)
            assert stop == slow.end_of_rows(lines, start, rows_max, bytes_max)
            assert stop > start
            part = fast.encode_chunk(lines[start:stop], context, dropped, op)
            left_out, digest, start = left_out + part[2], digest + part[3], stop
        assert (left_out, digest % 2**64) == chunk[2:]


@settings(max_examples=40)
@given(st.data())
def test_damaged_changes_and_lines_are_refused_alike(data: st.DataObject) -> None:
    made = data.draw(tables(columns_max=4, skipped_operations=frozenset("t")))
    row, other = data.draw(rows_of(made, unsent=True)), data.draw(rows_of(made, unsent=True))
    fast, slow = both(made)

    for op, body in (("c", change_of(None, row)), ("u", change_of(other, row)), ("d", change_of(row, None, letter=b"K"))):
        damaged = [body[:cut] for cut in range(len(body))] + [body + b"\0", b"", body[1:], change_of([*row, None], [*row, b"1"])]
        for _ in range(10):
            at, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
            damaged.append(body[:at] + bytes([byte]) + body[at + 1 :])
        for one in damaged:
            assert outcome(fast.encode_rows, op, one, CONTEXT) == outcome(slow.encode_rows, op, one, CONTEXT)
    line = line_of(row)
    for at in range(len(line)):
        for piece in (b"", b"\t", b"\\", b"\n", b"\\N", b"\xff"):
            one = line[:at] + piece + line[at + 1 :]
            assert outcome(fast.encode_chunk, one, CONTEXT, frozenset()) == outcome(slow.encode_chunk, one, CONTEXT, frozenset())


EVERY_DAY: list[tuple[Column, bytes, Any]] = [
    (column("c", "int2"), b"-32768", -32768),
    (column("c", "int4"), b"2147483647", 2147483647),
    (column("c", "int8"), b"-9223372036854775808", -(1 << 63)),
    (column("c", "int8"), b"9223372036854775807", (1 << 63) - 1),
    (column("c", "oid"), b"4294967295", 4294967295),
    (column("c", "bool"), b"t", True),
    (column("c", "bool"), b"f", False),
    (column("c", "float8"), b"0.14285714285714285", 1 / 7),
    (column("c", "float8"), b"-1.7976931348623157e+308", -sys.float_info.max),
    (column("c", "float8"), b"5e-324", 5e-324),
    (column("c", "float8"), b"Infinity", float("inf")),
    (column("c", "float4"), b"0.1", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    (column("c", "float4"), b"3.4028235e+38", struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]),
    (column("c", "numeric", length=12, scale=2), b"-12.34", (-1234).to_bytes(2, "big", signed=True)),
    (column("c", "numeric", length=12, scale=2), b"0.00", b"\0"),
    (column("c", "numeric", length=40, scale=10), b"123456789012345678901234567890.0123456789", 1234567890123456789012345678900123456789 .to_bytes(17, "big")),
    (column("c", "numeric", length=90, scale=0), b"-" + b"9" * 90, (-int("9" * 90)).to_bytes(38, "big", signed=True)),
    (column("c", "text"), "grün".encode(), "grün"),
    (column("c", "text"), b"gr\xfcn", "gr�n"),
    (column("c", "bytea"), rb"\x00ff10", b"\x00\xff\x10"),
    (column("c", "bytea"), rb"\x", b""),
    (column("c", "date"), b"1970-01-02", 1),
    (column("c", "date"), b"0001-01-01", -719162),
    (column("c", "time"), b"23:59:59.5", 86_399_500_000),
    (column("c", "time", length=3), b"24:00:00", 86_400_000),
    (column("c", "timestamp", length=3), b"1969-12-31 23:59:59.999", -1),
    (column("c", "timestamp"), b"2024-02-29 00:00:00.000001", 1_709_164_800_000_001),
    (column("c", "timestamptz", length=3), b"2024-02-29 23:59:59.12+00", "2024-02-29T23:59:59.120Z"),
    (column("c", "timestamptz"), b"2024-02-29 23:59:59+00", "2024-02-29T23:59:59.000000Z"),
    (column("c", "timestamptz", length=0), b"9999-12-31 23:59:59+00", "9999-12-31T23:59:59Z"),
    (column("c", "uuid"), b"7c9e6679-7425-40de-944b-e07fc1f90ae7", "7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    (column("c", "jsonb"), b'{"a": 1}', '{"a": 1}'),
]  # fmt: skip


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize(("declared", "text", "value"), EVERY_DAY, ids=[f"{c.type}:{text!r}" for c, text, _ in EVERY_DAY])
def test_a_value_is_what_the_server_has_printed(declared: Column, text: bytes, value: Any, nullable: bool) -> None:
    made = of(dataclasses.replace(declared, nullable=nullable), key=("c",))
    fast, slow = both(made)

    keys, values, headers = fast.encode_rows("c", change_of(None, [text]), CONTEXT)
    chunk = fast.encode_chunk(line_of([text]), CONTEXT, frozenset())

    assert (keys, values, headers) == slow.encode_rows("c", change_of(None, [text]), CONTEXT)
    envelope = decoded(made.plan, values[0])
    assert envelope["after"] == {"c": value}
    assert envelope["before"] is None
    assert envelope["op"] == "c"
    assert envelope["ts_us"] == CONTEXT.now_us
    assert envelope["source"] == {
        "version": "3.6.1.Final", "connector": "postgresql", "name": "p", "ts_ms": 1_700_000_000_123, "snapshot": "false", "db": "shop",
        "sequence": f'["1","{5 << 34}"]', "ts_us": 1_700_000_000_123_456, "ts_ns": 1_700_000_000_123_456_000, "schema": "shöp", "table": "t",
        "txId": 771, "lsn": 0x1_0000_0A28, "xmin": None, "origin": None, "origin_lsn": None,
    }  # fmt: skip
    assert decoded_key(made.plan, keys[0]) == {"c": value}
    assert decoded(made.plan, chunk[1][0])["after"] == {"c": value}


def test_a_number_of_any_digits_is_the_nearest_double() -> None:
    chance = random.Random(7)
    texts = [float_text(struct.unpack("<d", chance.randbytes(8))[0]) for _ in range(20_000)]
    for digits in range(1, 22):
        texts += [f"{chance.randrange(10**digits)}e{chance.randrange(-330, 310)}" for _ in range(500)]
        texts += [f"{chance.randrange(10**digits)}.{chance.randrange(10**6)}" for _ in range(500)]
    texts += [str((1 << bits) + offset) for bits in range(50, 64) for offset in range(-3, 4)]  # halfway between two doubles, and beside it
    texts += [f"{(2 * mantissa + 1) << shift}" for mantissa in ((1 << 52) + 1, (1 << 53) - 1) for shift in range(4)]
    lines = b"".join(line_of([text.encode()]) for text in texts)

    for type_ in ("float8", "numeric"):
        fast, slow = both(of(column("c", type_), modes=TypeModes(decimal_handling_mode="double")))
        assert fast.encode_chunk(lines, CONTEXT, frozenset())[3] == slow.encode_chunk(lines, CONTEXT, frozenset())[3]
    singles = b"".join(line_of([float_text(struct.unpack("<f", chance.randbytes(4))[0]).encode()]) for _ in range(20_000))
    fast, slow = both(of(column("c", "float4")))
    assert fast.encode_chunk(singles, CONTEXT, frozenset())[:3] == slow.encode_chunk(singles, CONTEXT, frozenset())[:3]


def test_a_row_of_the_log_has_its_number_in_its_transaction_however_long_that_is() -> None:
    made = of(column("c", "int4"), key=("c",))
    fast, slow = both(made)
    lows = [8, 9, 10, 99, 100, 98, 99, 999_999, 1_000_000, (1 << 62) - 1, 1 << 62, 0]

    for low in lows:
        context = dataclasses.replace(CONTEXT, sequence_low=low, lsn=None if low == 99 else low)
        assert fast.encode_rows("c", change_of(None, [b"1"]), context) == slow.encode_rows("c", change_of(None, [b"1"]), context)


def test_a_value_that_was_not_sent_is_the_old_one_or_its_placeholder() -> None:
    made = of(column("id", "int4", nullable=False), column("body", "text"), column("size", "int4"), key=("id",))
    fast, slow = both(made)

    def after(body: bytes) -> Any:
        keys, values, headers = fast.encode_rows("u", body, CONTEXT)
        assert (keys, values, headers) == slow.encode_rows("u", body, CONTEXT)
        return decoded(made.plan, values[0])["after"]

    assert after(change_of(None, [b"1", UNSENT, b"5"])) == {"id": 1, "body": "__debezium_unavailable_value", "size": 5}
    assert after(change_of([b"1", b"old", None], [b"1", UNSENT, b"5"])) == {"id": 1, "body": "old", "size": 5}
    assert after(change_of([b"1", None, None], [b"1", UNSENT, UNSENT], letter=b"K")) == {
        "id": 1, "body": "__debezium_unavailable_value", "size": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("place", "refused"),
    [
        (column("place", "numeric", nullable=False, length=38, scale=2), True),
        (column("place", "numeric", length=38, scale=2), False),
        (column("place", "text", nullable=False), False),
        (column("place", "_timestamp", nullable=False), False),
        (column("place", "geometry", nullable=False), False),
    ],
)
@pytest.mark.parametrize("failures", ["warn", "fail"])
def test_a_value_that_was_not_sent_and_that_nothing_can_stand_for_is_refused_where_no_null_may_be(
    place: Column, refused: bool, failures: str
) -> None:
    modes = TypeModes(event_converting_failure_handling_mode=failures)
    made = of(column("id", "int4", nullable=False), place, key=("id",), modes=modes)

    for encoder in both(made):
        if refused or (failures == "fail" and place.type == "numeric"):
            with pytest.raises(BadRowsError, match=r"\.place: .*REPLICA IDENTITY FULL"):
                encoder.encode_rows("u", change_of(None, [b"1", UNSENT]), CONTEXT)
        else:
            assert len(encoder.encode_rows("u", change_of(None, [b"1", UNSENT]), CONTEXT)[0]) == 1


def test_a_row_whose_message_key_was_not_sent_is_refused() -> None:
    made = of(column("id", "int4", nullable=False), column("name", "text"), key=("id",), message_key=("name",))

    for encoder in both(made):
        with pytest.raises(BadRowsError, match=r"\.name: .*REPLICA IDENTITY FULL"):
            encoder.encode_rows("u", change_of(None, [b"1", UNSENT]), CONTEXT)


def test_a_changed_key_is_a_delete_and_a_create_with_headers() -> None:
    made = of(column("id", "int4", nullable=False), column("name", "text"), key=("id",))
    fast, slow = both(made)
    context = dataclasses.replace(CONTEXT, transaction=TransactionOrder("771:9", 8190, 63))
    body = change_of([b"1", None], [b"2", b"b"], letter=b"K")

    keys, values, headers = fast.encode_rows("u", body, context)

    assert (keys, values, headers) == slow.encode_rows("u", body, context)
    assert [decoded(made.plan, value)["op"] if value is not None else None for value in values] == ["d", None, "c"]
    assert headers == {
        0: [("__debezium.newkey", b'{"id":2}')], 1: [("__debezium.newkey", b'{"id":2}')], 2: [("__debezium.oldkey", b'{"id":1}')]
    }  # fmt: skip
    blocks = [decoded(made.plan, value)["transaction"] for value in values if value is not None]
    assert [(block["total_order"], block["data_collection_order"]) for block in blocks] == [(8191, 64), (8192, 65)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"2024-02-29 12:00:00.5", b"2024-02-29T12:00:00.500Z"),
        (b"9999-12-31 00:00:00", b"9999-12-31"),
        (b"12345-03-01 00:00:00", b"12345-03-01"),
        (b"294276-12-31 23:59:59", b"294276-12-31T23:59:59.000Z"),
        (b"1970-01-01 01:02:03", b"01:02:03.000Z"),
    ],
)
def test_a_timestamp_of_any_year_in_a_header_is_as_connect_prints_it(text: bytes, shown: bytes) -> None:
    fast, _ = both(of(column("at", "timestamp", nullable=False), key=("at",), modes=TypeModes(time_precision_mode="connect")))

    _, _, headers = fast.encode_rows("u", change_of([b"2000-01-01 00:00:00"], [text]), CONTEXT)

    assert headers[0] == [("__debezium.newkey", b'{"at":' + shown + b"}")]


def test_a_delete_without_its_key_names_the_remedy() -> None:
    made = of(column("id", "int4", nullable=False), column("name", "text"), key=("id",), message_key=("name",))
    fast, _ = both(made)

    with pytest.raises(BadRowsError, match="REPLICA IDENTITY FULL"):
        fast.encode_rows("d", change_of([b"1", None], None, letter=b"K"), CONTEXT)


def test_an_error_names_the_column_and_leaves_the_plan_usable() -> None:
    made = of(column("id", "int4", nullable=False), column("name", "text"), key=("id",))
    fast, _ = both(made)

    for body in (change_of(None, [b"one", b"a"]), change_of(None, [b"1"]), b"?"):
        with pytest.raises(DefiniteError):
            fast.encode_rows("c", body, CONTEXT)
    with pytest.raises(BadRowsError, match="t.id: the server"):
        fast.encode_chunk(b"1\ta\none\tb\n", CONTEXT, frozenset())

    assert len(fast.encode_rows("c", change_of(None, [b"1", b"a"]), CONTEXT)[0]) == 1


def test_a_line_has_what_stands_behind_its_backslashes() -> None:
    made = of(column("a", "text"), column("b", "text"), column("c", "text"))
    fast, slow = both(made)
    fields = [rb"\N", rb"\NN", rb"x\N", rb"\\N", rb"a\tb\nc", rb"\b\f\v\r", rb"\x\y\'", rb"\\", b"", rb"\N\N", "ü\\\\ö".encode(), b"\\"]

    for chosen in itertools.product(fields, repeat=3):
        line = b"\t".join(chosen) + b"\n"
        assert fast.encode_chunk(line, CONTEXT, frozenset()) == slow.encode_chunk(line, CONTEXT, frozenset())


def test_fields_of_megabytes_and_rows_of_many_columns_are_alike() -> None:
    long = of(column("a", "text"), column("b", "bytea"), column("c", "text", nullable=False))
    wide = of(*[column(f"c{at}", "int4" if at % 2 else "text", nullable=at % 3 > 0) for at in range(1600)])

    for made, row in (
        (long, ["ä".encode() * 700_000, rb"\x" + b"ab" * 900_000, b"\xff" * 300_000]),
        (wide, [b"%d" % at if at % 5 else None for at in range(1600)]),
    ):
        fast, slow = both(made)
        assert fast.encode_rows("u", change_of(row, row), CONTEXT) == slow.encode_rows("u", change_of(row, row), CONTEXT)
        assert fast.encode_chunk(line_of(row) * 2, CONTEXT, frozenset()) == slow.encode_chunk(line_of(row) * 2, CONTEXT, frozenset())


def test_a_plan_that_two_threads_share_says_so() -> None:
    made = of(column("a", "_int4"))
    again: list[Any] = []

    class Image(PostgresImage):
        def reader(self, plan: Any, column: Any) -> Any:
            read = super().reader(plan, column)
            return lambda raw: (again.append(outcome_of_a_call()), read(raw))[1]

    fast = FastPlan(made.plan, Image(made.modes))

    def outcome_of_a_call() -> str:
        with pytest.raises(AssertionError) as error:
            fast.encode_rows("c", change_of(None, [b"{1}"]), CONTEXT)
        return str(error.value)

    fast.encode_rows("c", change_of(None, [b"{1}"]), CONTEXT)

    assert again == ["a row plan was called while it is at work: two threads share it"]


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
    skipped: str, same_key: list[str], other_key: list[str | None]
) -> None:
    made = of(column("id", "int4", nullable=False), column("name", "text"), key=("id",), skipped_operations=frozenset(skipped))

    for encoder in both(made):

        def ops(before: list[Any] | None, after: list[Any], letter: bytes = b"O", encoder: Any = encoder) -> list[str | None]:
            _, values, _ = encoder.encode_rows("u", change_of(before, after, letter=letter), CONTEXT)
            return [None if value is None else decoded(made.plan, value)["op"] for value in values]

        assert ops(None, [b"1", b"b"]) == same_key
        assert ops([b"1", b"a"], [b"1", b"b"]) == same_key
        assert ops([b"1", None], [b"2", b"a"], b"K") == other_key
        assert ops([b"1", b"a"], [b"2", b"a"]) == other_key


def test_an_update_that_is_not_written_may_lack_a_value_that_a_record_would_need() -> None:
    made = of(column("id", "int4", nullable=False), column("shape", "int4", nullable=False), key=("id",), skipped_operations=frozenset("u"))

    for encoder in both(made):
        assert encoder.encode_rows("u", change_of(None, [b"1", UNSENT]), CONTEXT) == ([], [], {})

"""Transactions reported by both log decoders: borders in log order, records numbered without holes, and a restart anywhere that changes neither. # I1"""

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest
from dblog.codecs.rowplan import ReferencePlan
from dblog.codecs.transactions import TransactionBorder, TransactionCounts, TransactionOrder
from dblog.dialects.mysql.binlog import row_image as mysql_image
from dblog.dialects.mysql.binlog._fast import FastPlan, LogDecoder
from dblog.dialects.mysql.binlog.items import LogEvent, LogRows
from dblog.model import Column
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from support.mysql_log import (
    DELETE,
    MARIADB_GTID,
    TRANSACTION_PAYLOAD,
    UPDATE,
    UPDATE_V1,
    WRITE,
    WRITE_V1,
    XA_PREPARE,
    Stream,
    image,
    payload_body,
)
from support.mysql_tables import decoded, plan_of

UUID = "11111111-2222-3333-4444-555555555555"
FILE = "binlog.000007"
COLUMNS = [
    Column(name="id", type="int", type_text="int", nullable=False),
    Column(name="name", type="varchar", type_text="varchar(9)", length=9, charset="utf8mb4", nullable=True),
]
TYPES, META = bytes([3, 15]), struct.pack("<H", 36)
PLANS = [plan_of(COLUMNS, key=("id",), name=name) for name in ("t1", "t2")]
NOW = 1_700_000_009_000_000
COMMIT_US = 1_700_000_000_123_456
"""Of every transaction that ``Stream.begin`` makes on MySQL."""


def row(number: int, name: str = "x") -> bytes:
    return image([struct.pack("<i", number), bytes([len(name)]) + name.encode()])


def mapped(stream: Stream, table: int = 0) -> Stream:
    """The map of a captured table, 0 or 1; of one that nobody captures, 2."""
    return stream.table_map(5 + table, "shop", f"t{table + 1}", TYPES, META)


def made_decoder(flavor: str = "mysql", *, reference: bool = False, slow_encoders: bool = False, **options: Any) -> Any:
    encoders = [ReferencePlan(plan, mysql_image) if reference or slow_encoders else FastPlan(plan, mysql_image) for plan in PLANS]
    by_name = {plan.table.id.name.encode(): encoder for plan, encoder in zip(PLANS, encoders, strict=True)}

    def resolve(body: bytes, _position: Any) -> Any:
        at = 8 + 1 + body[8] + 1
        return by_name.get(body[at + 1 : at + 1 + body[at]])

    return (ReferenceLogDecoder if reference else LogDecoder)(flavor=flavor, resolve=resolve, transactions=True, **options)


def drain(made: Any, data: bytes, *, parts: list[int] | None = None, pos: int = 4, **start: Any) -> list[Any]:
    made.start(FILE, pos, now_us=lambda: NOW, **start)
    items: list[Any] = []
    for low, high in itertools.pairwise([0, *(parts or []), len(data)]):
        items += made.feed(data[low:high])
        while made.held:
            items += made.feed(b"")
    return items + made.flush()


def plain(items: list[Any]) -> list[Any]:
    """Items without the encoders' identity."""
    return [
        ([s[1:] for s in i.segments], i.records, i.bytes, i.source_ts_us, i.position, i.borders) if isinstance(i, LogRows) else i
        for i in items
    ]


def borders_of(items: list[Any]) -> list[TransactionBorder]:
    return [border for i in items if isinstance(i, LogRows) for border in i.borders]


def changes_of(items: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """Table and envelope of every record that is no tombstone."""
    found = []
    for item in items:
        for encoder, _, values, _ in item.segments if isinstance(item, LogRows) else ():
            found += [(str(encoder.plan.table.id), decoded(encoder.plan, value)) for value in values if value is not None]
    return found


def blocks_of(items: list[Any]) -> list[tuple[str, str, int, int] | None]:
    """(id, table, total_order, data_collection_order), in the first one's order within each item."""
    blocks = [(table, envelope["transaction"]) for table, envelope in changes_of(items)]
    return [block and (block["id"], table, block["total_order"], block["data_collection_order"]) for table, block in blocks]


@pytest.fixture(params=["fast", "reference", "fast with slow encoders"])
def make(request) -> Callable[..., Any]:
    return lambda flavor="mysql", **options: made_decoder(
        flavor, reference=request.param == "reference", slow_encoders=request.param == "fast with slow encoders", **options
    )


# --- what is reported ----------------------------------------------------------------------------------------------------


def test_a_transaction_over_several_tables_is_counted_and_reported(make) -> None:
    stream = Stream().hello().begin(number=41)
    mapped(mapped(mapped(stream), 1), 2)
    stream.rows(WRITE, 5, 2, row(1) + row(2)).rows(WRITE, 6, 2, row(7)).rows(WRITE, 7, 2, row(9))
    stream.rows(DELETE, 5, 2, row(1)).rows(UPDATE, 6, 2, row(7) + row(8)).xid()

    items = drain(make(), stream.bytes())

    name = f"{UUID}:41"
    assert borders_of(items) == [
        TransactionBorder(name, COMMIT_US),
        TransactionBorder(name, COMMIT_US, {"shöp.t1": 3, "shöp.t2": 3}),
    ]
    assert sorted(blocks_of(items)) == [
        (name, "shöp.t1", 1, 1),
        (name, "shöp.t1", 2, 2),
        (name, "shöp.t1", 4, 3),
        (name, "shöp.t2", 3, 1),
        (name, "shöp.t2", 5, 2),
        (name, "shöp.t2", 6, 3),
    ]
    assert sum(i.records for i in items) == 6 + 2 + 2  # tombstones of the delete and of the changed key, two borders
    assert items[-1].position.transaction is None


def test_a_transaction_that_captures_nothing_is_reported_with_nothing(make) -> None:
    stream = mapped(Stream().hello().begin(), 2).rows(WRITE, 7, 2, row(1)).xid()

    items = drain(make(), stream.bytes())

    assert borders_of(items) == [TransactionBorder(f"{UUID}:1", COMMIT_US), TransactionBorder(f"{UUID}:1", COMMIT_US, {})]
    assert (items[-1].records, items[-1].source_ts_us) == (2, COMMIT_US)


def test_without_gtids_a_transaction_is_named_by_the_position_of_its_begin(make) -> None:
    stream = Stream().hello().anonymous_gtid(commit_us=5)
    begin = stream.pos
    mapped(stream.query("BEGIN")).rows(WRITE, 5, 2, row(1)).query("COMMIT")

    items = drain(make(), stream.bytes())

    name = f"file={FILE},pos={begin}"
    assert [border.id for border in borders_of(items)] == [name, name]
    assert blocks_of(items) == [(name, "shöp.t1", 1, 1)]


def test_in_mariadb_a_transaction_begins_with_its_gtid_unless_that_stands_alone(make) -> None:
    stream = Stream(flavor="mariadb").hello().mariadb_gtid(0, 6, standalone=True).query("CREATE TABLE u (id int)")
    mapped(stream.begin(number=7)).compressed_rows(WRITE_V1, 5, 2, row(1)).rows(UPDATE_V1, 5, 2, row(1) + row(1, "y")).xid()

    items = drain(make("mariadb"), stream.bytes())

    assert [(border.id, border.tables) for border in borders_of(items)] == [("0-11-7", None), ("0-11-7", {"shöp.t1": 2})]
    assert blocks_of(items) == [("0-11-7", "shöp.t1", 1, 1), ("0-11-7", "shöp.t1", 2, 2)]


def test_ddl_has_no_transaction(make) -> None:
    stream = Stream().hello().gtid(UUID, 1).query("TRUNCATE TABLE t1").gtid(UUID, 2).query("CREATE TABLE u (id int)")

    items = drain(make(), stream.bytes())

    assert [type(i) for i in items] == [LogEvent, LogEvent]
    assert {i.position.transaction for i in items} == {None}


def test_rows_of_an_xa_transaction_of_mysql_belong_to_none(make) -> None:
    stream = mapped(Stream().hello().gtid(UUID, 5).query("XA START X'61',X'',1")).rows(WRITE, 5, 2, row(1))
    stream.event(XA_PREPARE, b"payload").gtid(UUID, 6).query("XA COMMIT X'61',X'',1")

    items = drain(make(), stream.bytes())

    assert borders_of(items) == []
    assert [envelope["transaction"] for _, envelope in changes_of(items)] == [None]


def test_what_begins_in_mariadbs_xa_ends_with_its_prepare_before_the_reader_sees_that(make) -> None:
    """The servers' XA COMMIT stands alone; one that does not would have its END too."""
    stream = Stream(flavor="mariadb").hello().event(MARIADB_GTID, struct.pack("<QIB", 7, 0, 64 | 12) + bytes(6))
    mapped(stream.query("XA START X'61',X'',1")).rows(WRITE_V1, 5, 2, row(1)).event(XA_PREPARE, b"payload")
    stream.begin(number=8).query("XA COMMIT X'61',X'',1")

    items = drain(make("mariadb"), stream.bytes())

    reported = [
        border for item in items for border in getattr(item, "borders", [f"event {item.type_code}" if isinstance(item, LogEvent) else ""])
    ]
    assert reported == [
        TransactionBorder("0-11-7", 1_700_000_000_000_000), "event 162", "event 2",
        TransactionBorder("0-11-7", 1_700_000_000_000_000, {"shöp.t1": 1}), "event 38",
        TransactionBorder("0-11-8", 1_700_000_000_000_000), TransactionBorder("0-11-8", 1_700_000_000_000_000, {}), "event 2",
    ]  # fmt: skip
    assert blocks_of(items) == [("0-11-7", "shöp.t1", 1, 1)]


def test_a_rollback_ends_what_it_did_not_take_back(make) -> None:
    stream = mapped(Stream().hello().begin()).rows(WRITE, 5, 2, row(1)).query("ROLLBACK")

    items = drain(make(), stream.bytes())

    assert borders_of(items)[-1] == TransactionBorder(f"{UUID}:1", COMMIT_US, {"shöp.t1": 1})
    assert [type(i) for i in items] == [LogRows, LogEvent]
    assert items[0].position.transaction == TransactionCounts(f"{UUID}:1", {"shöp.t1": 1})
    assert items[1].position.transaction is None


def test_a_transaction_of_a_source_that_is_not_wanted_is_reported_without_its_rows(make) -> None:
    stream = mapped(Stream().hello().begin()).rows(WRITE, 5, 2, row(1)).xid()

    items = drain(make(gtid_included=lambda _source: False), stream.bytes())

    assert [border.tables for border in borders_of(items)] == [None, {}]
    assert changes_of(items) == []


def test_a_compressed_transaction_is_counted_like_a_plain_one(make) -> None:
    stream = Stream().hello().packed(lambda inner: mapped(inner.query("BEGIN")).rows(WRITE, 5, 2, row(1) + row(2)).xid(), gno=5)

    items = drain(make(records_max=2), stream.bytes())

    assert [(border.id, border.tables) for border in borders_of(items)] == [(f"{UUID}:5", None), (f"{UUID}:5", {"shöp.t1": 2})]
    assert [block[2:] for block in blocks_of(items)] == [(1, 1), (2, 2)]


def test_small_transactions_fill_an_item_by_their_borders(make) -> None:
    stream = Stream().hello()
    for number in range(1, 8):
        stream.begin(number=number).xid()

    items = drain(make(records_max=4), stream.bytes())

    assert [len(i.borders) for i in items] == [4, 4, 4, 2]


def test_rows_that_the_reader_makes_are_counted_when_it_reports_how_many(make) -> None:
    stream = mapped(Stream().hello().begin()).rows(WRITE, 5, 2, row(1))
    partial = (5).to_bytes(6, "little") + b"\x01\0\x02\0\x02\x01\x02" + image([struct.pack("<i", 1)]) + image([b"\x01y"])
    stream.event(UPDATE, partial).rows(WRITE, 5, 2, row(4)).xid()
    made = make(gives_partial=True)
    made.start(FILE, 4, now_us=lambda: NOW)

    event = made.feed(stream.bytes())[-1]

    assert event.transaction == TransactionOrder(f"{UUID}:1", 1, 1)
    assert made.held
    assert made.count(event.encoder, 3) == TransactionCounts(f"{UUID}:1", {"shöp.t1": 4})
    rest = made.feed(b"") + made.flush()
    assert blocks_of(rest) == [(f"{UUID}:1", "shöp.t1", 5, 5)]
    assert borders_of(rest)[-1].tables == {"shöp.t1": 5}


# --- restarts --------------------------------------------------------------------------------------------------------


def test_a_run_that_begins_inside_a_transaction_goes_on_counting_and_shows_no_begin(make) -> None:
    stream = Stream().hello().begin(number=3)
    mapped(mapped(stream), 1).rows(WRITE, 5, 2, row(1) + row(2)).rows(WRITE, 6, 2, row(3)).rows(WRITE, 5, 2, row(4)).xid()
    name = f"{UUID}:3"

    items = drain(make(), stream.bytes(), skip_events=4, transaction=TransactionCounts(name, {"shöp.t1": 2}))

    assert borders_of(items) == [TransactionBorder(name, COMMIT_US, {"shöp.t1": 3, "shöp.t2": 1})]
    assert sorted(blocks_of(items)) == [(name, "shöp.t1", 4, 3), (name, "shöp.t2", 3, 1)]


@pytest.mark.parametrize("transaction", [None, TransactionCounts(f"{UUID}:2", {"shöp.t1": 2})], ids=["none", "of another"])
def test_a_run_that_begins_inside_a_transaction_whose_counts_nobody_kept_shows_its_begin_and_counts_from_one(make, transaction) -> None:
    stream = mapped(Stream().hello().begin(number=3)).rows(WRITE, 5, 2, row(1)).rows(WRITE, 5, 2, row(4)).xid()

    items = drain(make(), stream.bytes(), skip_events=3, transaction=transaction)

    assert [border.tables for border in borders_of(items)] == [None, {"shöp.t1": 1}]
    assert [block[2:] for block in blocks_of(items)] == [(1, 1)]


def history(data: st.DataObject, flavor: str) -> Stream:
    """Transactions of random shape over two captured tables and one that is not."""
    stream = Stream(flavor=flavor)
    write, update = (WRITE_V1, UPDATE_V1) if flavor == "mariadb" else (WRITE, UPDATE)
    for number in range(1, data.draw(st.integers(1, 5)) + 1):
        outer = None
        if flavor == "mysql" and data.draw(st.booleans()):
            outer, stream = stream.gtid(UUID, number), Stream(checksum=False)
            stream.query("BEGIN")
        elif flavor == "mysql" and data.draw(st.booleans()):
            stream.query("BEGIN")
        else:
            stream.begin(number=number)
        for _ in range(data.draw(st.integers(0, 4))):
            table = data.draw(st.integers(0, 2))
            images = b"".join(row(i) for i in range(2 * data.draw(st.integers(1, 2))))
            mapped(stream, table).rows(data.draw(st.sampled_from([write, update])), 5 + table, 2, images)
        if data.draw(st.integers(0, 9)):
            stream.xid()
        else:
            stream.query("ROLLBACK")
        if outer is not None:
            stream = outer.event(TRANSACTION_PAYLOAD, payload_body(b"".join(packet[5:] for packet in stream.out)))
    return stream


@settings(max_examples=60)
@given(st.data())
def test_decoder_and_reference_report_alike_and_every_transaction_is_whole(data: st.DataObject) -> None:
    flavor = data.draw(st.sampled_from(["mysql", "mariadb"]))
    raw = history(data, flavor).bytes()
    records_max = data.draw(st.integers(1, 9))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=3)))

    items = drain(made_decoder(flavor, records_max=records_max), raw, parts=cuts)

    assert plain(items) == plain(drain(made_decoder(flavor, reference=True, records_max=records_max), raw))
    assert plain(items) == plain(drain(made_decoder(flavor, slow_encoders=True, records_max=records_max), raw))
    check(items)


def check(items: list[Any]) -> None:
    """BEGIN and END alternate, and an END has counted exactly the records with its id, numbered from 1 without holes."""
    blocks = blocks_of(items)
    begins, ends = borders_of(items)[::2], borders_of(items)[1::2]
    assert [b.id for b in begins] == [e.id for e in ends]
    assert all(b.tables is None for b in begins)
    for end in ends:
        mine = [block for block in blocks if block[0] == end.id]
        assert sorted(block[2] for block in mine) == list(range(1, len(mine) + 1))
        assert sum(end.tables.values()) == len(mine)
        for table, records in end.tables.items():
            assert [block[3] for block in mine if block[1] == table] == list(range(1, records + 1))
    assert {block[0] for block in blocks} <= {end.id for end in ends}


@settings(max_examples=40)
@given(st.data())
def test_reading_on_from_any_position_shows_exactly_the_rest(data: st.DataObject) -> None:
    """I1: whichever item is the last that was acknowledged, the two runs together reported what one would have reported."""
    flavor = data.draw(st.sampled_from(["mysql", "mariadb"]))
    stream = history(data, flavor)
    head, body = Stream(flavor=flavor).hello().bytes(), stream.bytes()
    items = drain(made_decoder(flavor, records_max=data.draw(st.integers(1, 6))), body)
    ends = {start: sum(len(p) for p in stream.out[:i]) for i, start in enumerate([*(s for _, s, _ in stream.starts), stream.pos])}
    borders, blocks = borders_of(items), sorted(blocks_of(items))

    for taken in range(1, len(items) + 1):
        position = items[taken - 1].position
        rest = drain(
            made_decoder(flavor, records_max=3, reference=data.draw(st.booleans())),
            head + body[ends[position.pos] :],
            pos=position.pos,
            skip_events=position.event + position.packed_event,
            transaction=position.transaction,
        )
        reported = [*borders_of(items[:taken]), *borders_of(rest)]
        # What ends with an event for the reader (ROLLBACK) is reported just before it: a run that ends between the two reports it again.
        assert [b for b, before in zip(reported, [None, *reported], strict=False) if b != before] == borders
        assert sorted(blocks_of(items[:taken]) + blocks_of(rest)) == blocks

"""Which dump thread reads which table: each table one thread at a time, and none is forgotten. # I3"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from dblog.clock import SystemClock
from dblog.core.changes import TruncateTable
from dblog.core.chunk_size import ChunkLimits
from dblog.core.dumprequests import INITIAL, parse_request
from dblog.core.dumps import Dump, dump_from_text, dump_of, dump_to_text
from dblog.core.unrequested_repairs import UnrequestedRepairs
from dblog.errors import DefiniteError
from dblog.model import TableId
from dblog.readers.dump.dumping import Dumping
from dblog.readers.dump.sharing import Share
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.options import DumpRule
from dblog.readers.queue import BlockingQueue
from dblog.readers.standing_warnings import StandingWarnings
from support.task_parts import WHOLE_TABLES, TaskParts

ORDERS = TableId("shop", "orders")


@pytest.fixture
def parts() -> TaskParts:
    """With a dump of one table."""
    parts = TaskParts(queue=BlockingQueue(records_max=10, bytes_max=0), keys_max=10, encoders={}, markers=[])
    parts.progress.change_own(lambda _: dump_of("d", [ORDERS]))
    return parts


@pytest.fixture
def dumping(parts: TaskParts) -> Dumping:
    """Without any thread: those that it starts do nothing."""
    return dumping_of(parts)


def dumping_of(
    parts: TaskParts,
    *,
    dumps: Callable[[TableId], bool] = lambda _: True,
    unrequested_repairs: UnrequestedRepairs | None = None,
    schemas: Any = None,
    modes: Any = WHOLE_TABLES,
    warnings: StandingWarnings | None = None,
) -> Dumping:
    """The same, of these parts."""
    options: Any = SimpleNamespace(
        dump=DumpRule(mode="initial", dumps=dumps, goes_on=False),
        selection=Mock(includes=lambda _: True),
        redumps=True,
        unrequested_repairs=unrequested_repairs or UnrequestedRepairs(keeps_deletes=False, keeps_removals=True),
        run="run",
        dump_threads=2,
        watermark_name="p/c",
        chunk_limits=ChunkLimits(rows_max=10, bytes_max=1000),
        retry_policy=None,
    )
    unused: Any = Mock()
    return Dumping(
        progress=parts.progress,
        windows=parts.windows,
        notes=parts.notes,
        tally=parts.tally,
        server=unused,
        schemas=schemas or Mock(joined_numbers=dict, removals=dict),
        options=options,
        stopped=threading.Event(),
        threads=unused,
        task=unused,
        modes=modes,
        estimates=RowEstimates(),
        clock=SystemClock(),
        warnings=warnings,
    )


def taken(dumping: Dumping, number: int) -> Share:
    share = dumping.next_share(number)
    assert share is not None
    assert share.table == ORDERS
    return share


def test_a_table_that_is_dumped_again_waits_for_the_reader_that_is_not_through_with_it(dumping: Dumping, parts: Any) -> None:
    """It has read the table to its end, and does not know yet that there is more."""
    share = taken(dumping, 0)
    parts.progress.change_own(lambda d: d.started(ORDERS, key=("id",), upto=(1,)).advanced(ORDERS, after=(1,), rows=1, done=True))

    dumping.dump_again({ORDERS: "a column was added"})

    assert dumping.next_share(1) is None
    dumping.put_back(share)
    share = taken(dumping, 0)


def test_a_table_that_took_another_s_name_waits_for_the_reader_that_is_not_through_with_it(dumping: Dumping, parts: Any) -> None:
    new = TableId("shop", "orders_new")
    share = taken(dumping, 0)
    parts.progress.change_own(lambda d: d.dropped(ORDERS))

    dumping.renamed([(new, ORDERS)])

    assert dumping.next_share(1) is None
    dumping.put_back(share)
    share = taken(dumping, 0)


def test_who_reads_for_a_request_that_is_forgotten_opens_no_window_for_the_connectors_own_dump(parts: TaskParts) -> None:
    request = parse_request(
        {"tables": ["shop.*"], "predicate": {"shop.*": "v = 1"}}, id="1" * 12, connector="c", created_ms=1, requested_by="rest"
    )
    parts.progress.change_requests(lambda requests: requests.added(request, [ORDERS]))
    parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    resets = parts.windows.settled(ORDERS)
    assert not parts.progress.is_paused(ORDERS)

    parts.progress.change_requests(lambda requests: requests.forgotten(request.id))

    assert parts.progress.is_paused(ORDERS)
    assert parts.windows.declare(ORDERS, keyed=True, resets=resets, windows_max=2) is None
    parts.progress.change(lambda book: book.read_for(ORDERS, INITIAL))
    assert not parts.progress.is_paused(ORDERS)


def test_who_reads_for_a_request_goes_back_where_another_table_has_taken_the_name_between_two_windows(
    parts: TaskParts, dumping: Dumping
) -> None:
    parts.progress.change_own(lambda _: None)  # the connector has dumped nothing: snapshot.mode=no_data
    request = parse_request({"tables": ["shop.orders"]}, id="1" * 12, connector="c", created_ms=1, requested_by="rest")
    parts.progress.change_requests(lambda requests: requests.added(request, [ORDERS]))
    parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    parts.progress.change_table(
        ORDERS, lambda d: d.started(ORDERS, key=("id",), upto=(99,)).advanced(ORDERS, after=(39,), rows=40, done=False)
    )
    resets = parts.windows.settled(ORDERS)

    dumping.renamed(((ORDERS, TableId("shop", "old")), (TableId("shop", "new"), ORDERS)))

    progress = parts.progress.table(ORDERS)
    assert progress is not None
    assert (progress.started, progress.rows) == (False, 0)
    assert parts.windows.declare(ORDERS, keyed=True, resets=resets, windows_max=2) is None


def test_a_table_whose_key_sorts_otherwise_begins_again_in_each_dump_that_has_begun_it(parts: TaskParts, dumping: Dumping) -> None:
    request = parse_request({"tables": ["shop.orders"]}, id="1" * 12, connector="c", created_ms=1, requested_by="rest")
    parts.progress.change_requests(lambda requests: requests.added(request, [ORDERS]))

    def begun(dump: Dump) -> Dump:
        return dump.started(ORDERS, key=("id",), upto=("z",)).advanced(ORDERS, after=("a",), rows=1, done=False)

    parts.progress.change_table(ORDERS, begun)
    parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    parts.progress.change_table(ORDERS, begun)
    resets = parts.windows.settled(ORDERS)

    dumping.tables_changed((), {}, [ORDERS])

    requested = parts.progress.requests.get(request.id)
    for dump in (parts.progress.own, None if requested is None else requested.dump):
        progress = None if dump is None else dump.table(ORDERS)
        assert progress is not None
        assert (progress.started, progress.rows) == (False, 0)
    assert parts.windows.declare(ORDERS, keyed=True, resets=resets, windows_max=2) is None


@pytest.mark.parametrize(("mode", "begins_again"), [("repair", True), ("verify", True), ("rows", False)])
def test_a_truncate_has_a_table_begin_again_where_what_is_sent_is_taken_for_all_of_it(
    parts: TaskParts, dumping: Dumping, mode: str, begins_again: bool
) -> None:
    request = parse_request({"tables": ["shop.orders"], "mode": mode}, id="1" * 12, connector="c", created_ms=1, requested_by="rest")
    parts.progress.change_requests(lambda requests: requests.added(request, [ORDERS]))

    def begun(dump: Dump) -> Dump:
        return dump.started(ORDERS, key=("id",), upto=(9,)).advanced(ORDERS, after=(3,), rows=3, done=False)

    parts.progress.change_table(ORDERS, begun)
    parts.progress.change(lambda book: book.read_for(ORDERS, request.id))
    parts.progress.change_table(ORDERS, begun)
    resets = parts.windows.settled(ORDERS)

    dumping.tables_changed([TruncateTable(ORDERS)], {})

    requested, own = parts.progress.requests.get(request.id), parts.progress.own
    assert requested is not None
    assert own is not None
    progress = requested.dump.table(ORDERS)
    assert progress is not None
    assert progress.started is not begins_again
    assert own.left[ORDERS].rows == 3, "rows that it has sent are the topic's"
    assert (parts.windows.declare(ORDERS, keyed=True, resets=resets, windows_max=2) is None) is begins_again


@pytest.mark.parametrize(("keeps_removals", "repairs"), [(True, False), (False, True)])
def test_rows_that_a_statement_takes_from_a_table_in_repair_are_taken_away_only_where_they_are_to_go(
    parts: TaskParts, keeps_removals: bool, repairs: bool
) -> None:
    """The rest of its dump goes on as one of rows, and the status names it."""
    warnings = StandingWarnings()
    dumping = dumping_of(
        parts, unrequested_repairs=UnrequestedRepairs(keeps_deletes=False, keeps_removals=keeps_removals), warnings=warnings
    )
    parts.progress.change_own(
        lambda d: None if d is None else d.read_again([ORDERS], repairs=[ORDERS]).started(ORDERS, key=("id",), upto=(9,))
    )
    parts.progress.change_own(lambda d: None if d is None else d.advanced(ORDERS, after=(3,), rows=3, done=False))
    resets = parts.windows.settled(ORDERS)

    dumping.tables_changed([TruncateTable(ORDERS)], {}, removed={ORDERS: "TRUNCATE"})

    own = parts.progress.own
    assert own is not None
    assert own.repairs_table(ORDERS) is repairs
    assert own.left[ORDERS].started is not repairs
    assert parts.windows.declare(ORDERS, keyed=True, resets=resets, windows_max=2) is None, (
        "a chunk that was read for a repair does not count"
    )
    assert bool([text for text in warnings.texts() if "shop.orders" in text]) is keeps_removals


def test_many_tables_are_dumped_again_in_one_step_with_a_list_that_is_stored_first(parts: TaskParts) -> None:
    tables = [TableId("shop", f"t{n}") for n in range(15_000)]
    saved: dict[str, tuple[TableId, ...]] = {}

    def save(identity: str, listed: tuple[TableId, ...]) -> None:
        own = parts.progress.own
        assert own is not None
        assert own.listed is None, "no text refers to it yet"
        saved[identity] = listed

    dumping = dumping_of(parts, schemas=Mock(joined_numbers=dict, removals=dict, table=lambda table: table, save_list=save))
    before = parts.progress.own
    assert before is not None

    dumping.must_dump(tables, "nothing shows what was changed")

    own = parts.progress.own
    assert own is not None
    assert own.arrivals == before.arrivals + 1, "one step"
    text = dump_to_text(own)
    assert len(text) < 300
    known = dump_from_text(text, saved)
    assert set(known.left) == {ORDERS, *tables}
    assert all(known.repairs_table(table) for table in tables)
    assert list(saved) == ["run/1"]


@pytest.mark.parametrize("left_out", [True, False])
def test_the_other_tables_are_dumped_where_some_cannot_be(parts: TaskParts, left_out: bool) -> None:
    keyless = TableId("shop", "keyless")
    dumping = dumping_of(
        parts,
        dumps=lambda table: table != keyless or not left_out,
        schemas=Mock(joined_numbers=dict, removals=dict, table=lambda table: table),
        modes=SimpleNamespace(can_be_repaired=lambda table: table is not keyless),
    )

    with pytest.raises(DefiniteError, match=r"shop\.keyless"):
        dumping.must_dump([keyless, ORDERS], "rows were sent that are gone", repairs=not left_out)

    own = parts.progress.own
    assert own is not None
    assert own.repairs_table(ORDERS)
    assert own.table(keyless) is None

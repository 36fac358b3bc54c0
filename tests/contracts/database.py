"""What every database that fulfils ``readers.contract`` must do: first with a whole task, then protocol by protocol.

A subclass has the fixture ``given``: a ``Given`` without tables. All tables have the columns (id, an integer, and name, a text) and the key (id).
What belongs to one kind of database alone (its types, its statements, the failures of its server) is tested beside it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, Self

import pytest
from dblog.abort import Abort
from dblog.clock import SystemClock
from dblog.codecs.plan import RowContext
from dblog.codecs.rowplan import RowEncoder
from dblog.core.changes import CreateTable, Unknown
from dblog.core.pressure import OF_SERVER, Limit
from dblog.core.selection import Parts
from dblog.core.timeline import Position, Timeline
from dblog.errors import DefiniteError, PositionLostError, ServerChangedError, TransientError
from dblog.model import OffsetMap, Table, TableId
from dblog.observe.declared import OF_TASK
from dblog.ports import DumpConnection
from dblog.readers.contract import Progress, TaskContext
from dblog.readers.items import LogItem, LogRows, Moved, Statement, Watermarks
from support.in_windows import SourceWithWindows
from support.task_follower import TaskFollower

TIMEOUT_S = 120.0
ROWS = 200
EPOCH = 7
SMALL = {"dblog.chunk.rows": "10", "max.batch.size": "20", "max.queue.size": "40"}
"""A dump that is many chunks, and that no poll gets whole."""
WATCHED = {"dblog.metrics.server.interval.ms": "50"}
WINDOWS = pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])
"""How the windows of a dump get their marks."""
NO_DATA = {"snapshot.mode": "no_data"}


class Given(Protocol):
    """A database that a test has to itself. Each statement is a transaction of its own, and committed when it returns; any thread may run it."""

    database: str
    """As table names have it."""
    log_has_statements: bool
    """Whether schema changes are in its log as statements, which the schema-change topic gets."""

    def create(self, table: str) -> None:
        """Make a table."""

    def create_strangely(self, table: str) -> None:
        """Make a table by a statement that the log's reader does not understand."""

    def add_column(self, table: str, column: str) -> None:
        """Add an integer behind the last column."""

    def drop_column(self, table: str, column: str) -> None:
        """Drop a column."""

    def rename(self, table: str, to: str) -> None:
        """Rename a table."""

    def insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        """Insert rows in one transaction."""

    def update(self, table: str, id_: int, name: str) -> None:
        """Change one row's name."""

    def delete(self, table: str, id_: int) -> None:
        """Delete one row."""

    def purge(self) -> None:
        """Drop the log up to now."""

    def rest(self) -> None:
        """Have the server log what it would still log by itself."""

    def of_another_server(self, offset: OffsetMap) -> OffsetMap:
        """The offset as if it belonged to the log of another server."""

    def follow(self, **config: str) -> TaskFollower:
        """A connector of this database alone, not started."""


class Writes:
    """Changes beside a reader, in a thread of their own."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            number = 0
            while not self._stop.wait(0.0005):
                id_ = number * 7 % ROWS
                match number % 3:
                    case 0:
                        self._given.update("t", id_, f"change {number}")
                    case 1:
                        self._given.delete("t", id_)
                    case _:
                        self._given.insert("t", ((number - 1) * 7 % ROWS, f"again {number}"))
                number += 1
        except BaseException as e:  # noqa: BLE001 - raised where the test waits for the thread
            self._failure = e


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record that the log's reader has made."""

    table: TableId
    key: bytes | None
    value: dict[str, Any]

    @property
    def sequence(self) -> Position:
        """D7's numbers of the row."""
        high, low = json.loads(self.value["source"]["sequence"])
        return int(high), int(low)


class Opened:
    """The protocols of one database as the reader layer holds them, opened without a task: every table is decoded as the server has it now."""

    def __init__(self, follower: TaskFollower, database: str) -> None:
        self.database = database
        parts = follower.parts()
        self.source = parts.source
        self.records = parts.records
        self.server = self.source.connect(again=False)
        self.server.check([], watermarks=None, named=[(database, None)])
        self.server.begin()
        timeline = Timeline(captured=self.includes)
        timeline.databases.update(self.server.read_databases())
        context = TaskContext(
            run="run",
            watermark_name="suite",
            selection=SimpleNamespace(includes=self.includes),
            stopped=threading.Event(),
            retrying=lambda work: work(),
            clock=SystemClock(),
        )
        self.schemas = self.server.schemas(timeline, context, epoch=EPOCH)
        self.log = self.server.log(self.schemas, self.resolve, context)
        self.met: dict[TableId, tuple[Position, Any]] = {}
        """Where the log has met a table first: what ``LogSchemas.read_table`` is asked about."""

    def includes(self, table: TableId) -> bool:
        return table.database == self.database

    def resolve(self, table_map: Any, position: Position, begin: Any) -> RowEncoder | None:
        table, _, _ = self.schemas.read_table_map(table_map)
        if not self.includes(table):
            return None
        self.met.setdefault(table, (position, begin))
        return self.records.encoder(self.table(table.name))

    def table(self, name: str) -> Table:
        (table,) = self.server.read_tables(lambda id_: id_ == TableId(self.database, name))
        return table

    def now(self) -> Progress:
        progress = self.server.now()
        progress.epoch = EPOCH
        return progress

    def make_watermark_table(self) -> None:
        self.server.check([], watermarks=self.source.watermark_table, named=[(self.database, None)])

    def take(self, at: Progress, enough: Callable[[list[LogItem]], Any]) -> list[LogItem]:
        """Items of the log from ``at`` on, which moves on with them, until there are enough. The position never goes back."""
        items: list[LogItem] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        with closing(self.log.open(at, unreadable=frozenset())) as reader:
            while not enough(items):
                assert time.monotonic() < deadline_s, f"the log does not show it; items {items}"
                reader.receive(0.2)
                for more in (reader.items, reader.flush):
                    for item in more():
                        items.append(item)
                        if isinstance(item, LogRows | Statement | Watermarks | Moved) and getattr(item, "moves", True):
                            before = at.sequence
                            at.advance(item.position)
                            assert at.sequence == at.sequence_of(item.position) >= before
        return items

    def rows(self, at: Progress, count: int) -> list[LoggedRecord]:
        """So many records from ``at`` on, or more where they are there."""
        return list(_records(self.take(at, lambda items: len(list(_records(items))) >= count)))

    def rest(self, at: Progress) -> list[LoggedRecord]:
        """The records from ``at`` to where the log ends now."""
        end = self.log.end(epoch=EPOCH)
        return list(_records(self.take(at, lambda _: at.sequence >= end)))


def wait_until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never became true"
        time.sleep(0.02)


def _records(items: list[LogItem]) -> Iterator[LoggedRecord]:
    for item in items:
        for encoder, keys, values, _ in item.segments if isinstance(item, LogRows) else ():
            for key, value in zip(keys, values, strict=True):
                if value is not None:
                    yield LoggedRecord(table=encoder.plan.table.id, key=key, value=json.loads(value))


def _ids(records: list[LoggedRecord]) -> list[int]:
    return [(record.value["after"] or record.value["before"])["id"] for record in records]


class DatabaseContract:
    @pytest.fixture
    def follow(self, given: Given) -> Iterator[Callable[..., TaskFollower]]:
        """Makes connectors of the database, small in all that has a size."""
        followers: list[TaskFollower] = []

        def make(**config: str) -> TaskFollower:
            followers.append(given.follow(**{**SMALL, **config}))
            return followers[-1]

        yield make
        for follower in followers:
            follower.task.stop()

    @pytest.fixture
    def table(self, given: Given) -> TableId:
        """A table of a few rows."""
        given.create("t")
        given.insert("t", *((n, f"row {n}") for n in range(5)))
        return TableId(given.database, "t")

    @pytest.fixture
    def long_table(self, given: Given) -> None:
        """One of many chunks."""
        given.create("t")
        given.insert("t", *((n, f"row {n}") for n in range(ROWS)))

    @pytest.fixture
    def opened(self, given: Given, table: TableId) -> Iterator[Opened]:
        opened = Opened(given.follow(), given.database)
        yield opened
        opened.server.close()

    @pytest.fixture
    def chunks(self, opened: Opened) -> Iterator[DumpConnection]:
        opened.make_watermark_table()
        with closing(opened.server.open_chunks()) as chunks:
            yield chunks

    # ---- a whole task: the dump beside the log

    @WINDOWS
    @pytest.mark.usefixtures("long_table")
    def test_a_dump_beside_writes_ends_equal_to_the_table(self, given: Given, follow: Any, windows: dict[str, str]) -> None:
        follower = follow(**windows).start()

        with Writes(given):
            follower.until_dumped()

        follower.until_equal_by_name("t")
        assert "r" in follower.ops("t")
        assert follower.task.metrics()["dump_tables_done"] == 1

    @WINDOWS
    @pytest.mark.usefixtures("long_table")
    def test_a_change_inside_a_chunk_s_window_wins_over_the_chunk_s_row(self, given: Given, follow: Any, windows: dict[str, str]) -> None:
        changed = 0

        def change(last_key: tuple[int]) -> None:
            nonlocal changed
            changed += 2
            given.delete("t", last_key[0])
            given.update("t", last_key[0] - 1, "newer")

        follower = follow(**windows)
        follower.wrapped = lambda source: SourceWithWindows(source, change)
        follower.restart()
        follower.until_dumped()

        follower.until_equal_by_name("t")
        assert changed >= 4
        assert follower.ops("t").count("r") == ROWS - changed, "each window has lost two of its rows to the log"

    @WINDOWS
    @pytest.mark.usefixtures("long_table")
    def test_a_run_that_is_killed_in_the_dump_goes_on_from_its_stored_offset(
        self, given: Given, follow: Any, windows: dict[str, str]
    ) -> None:
        follower = follow(**windows).start()

        with Writes(given):
            follower.until(lambda: follower.ops("t").count("r") > ROWS // 4)
            follower.restart()
            follower.until_dumped()

        follower.until_equal_by_name("t")
        assert follower.ops("t").count("r") < 2 * ROWS - ROWS // 4, "the dump went on and did not begin again"

    @WINDOWS
    @pytest.mark.usefixtures("long_table")
    def test_a_schema_change_beside_the_dump_ends_equal_to_the_table(self, given: Given, follow: Any, windows: dict[str, str]) -> None:
        follower = follow(**windows).start()

        follower.until(lambda: follower.ops("t").count("r") > 20)
        given.add_column("t", "more")
        given.insert("t", (1001, "behind", 5))
        follower.until_dumped()

        follower.until_equal_by_name("t")

    # ---- a whole task: the log

    @pytest.mark.usefixtures("table")
    def test_rows_logged_while_nobody_read_come_after_a_restart_and_nothing_is_dumped_again(self, given: Given, follow: Any) -> None:
        follower = follow().start()
        follower.until_dumped()
        follower.task.stop()

        given.update("t", 1, "while nobody read")
        given.delete("t", 2)
        follower.restart()

        follower.until_equal_by_name("t")
        assert follower.ops("t") == ["r"] * 5 + ["u", "d"]

    @pytest.mark.usefixtures("table")
    def test_rows_before_and_behind_a_schema_change_are_decoded_each_with_its_own_schema_also_after_a_restart(
        self, given: Given, follow: Any
    ) -> None:
        follower = follow(**NO_DATA).start()
        follower.task.stop()
        given.insert("t", (1000, "before"))
        given.add_column("t", "more")
        given.insert("t", (1001, "behind", 5))
        given.drop_column("t", "name")
        given.insert("t", (1002, 6))

        follower.restart()
        follower.until(lambda: len(follower.rows.get("t", {})) == 3)

        assert list(follower.rows["t"].values()) == [
            {"id": 1000, "name": "before"},
            {"id": 1001, "name": "behind", "more": 5},
            {"id": 1002, "more": 6},
        ]
        if given.log_has_statements:
            assert ["more" in follower.reported[-2]["ddl"], "name" in follower.reported[-1]["ddl"]] == [True, True]

    @pytest.mark.usefixtures("table")
    def test_a_statement_that_is_not_understood_has_its_table_read_from_the_server(self, given: Given, follow: Any) -> None:
        follower = follow().start()
        follower.until_dumped()

        given.create_strangely("u")
        given.insert("u", (1, "behind"))

        follower.until(lambda: follower.rows.get("u"))
        assert list(follower.rows["u"].values()) == [{"id": 1, "name": "behind"}]

    @pytest.mark.usefixtures("table")
    def test_a_table_that_is_made_and_one_that_is_renamed_are_followed_and_the_old_rows_come_under_the_new_name(
        self, given: Given, follow: Any
    ) -> None:
        follower = follow().start()
        follower.until_dumped()

        given.create("u")
        given.insert("u", (1, "x"), (2, "y"))
        given.rename("u", "v")
        given.update("v", 1, "z")
        given.insert("v", (3, "z"))

        follower.until_equal_by_name("v")
        assert follower.ops("u") == ["c", "c"]

    @pytest.mark.usefixtures("table")
    def test_a_column_that_is_left_out_is_in_no_record_of_dump_or_log(self, given: Given, follow: Any) -> None:
        follower = follow(**{"column.exclude.list": f"{given.database}.t.name"}).start()
        follower.until_dumped()

        given.insert("t", (6, "new"))
        follower.until(lambda: "c" in follower.ops("t"))

        assert {tuple(record["after"]) for _, record in follower.values} == {("id",)}

    # ---- a whole task: a position that is lost

    @pytest.mark.usefixtures("table")
    def test_a_position_that_is_purged_is_answered_by_a_new_dump_where_that_is_wished(self, given: Given, follow: Any) -> None:
        follower = follow(**{"snapshot.mode": "when_needed"}).start()
        follower.until_dumped()
        follower.task.stop()
        given.insert("t", (1001, "lost"))
        given.purge()

        follower.restart()
        follower.until_dumped()

        follower.until_equal_by_name("t")

    @pytest.mark.usefixtures("table")
    def test_a_position_that_is_purged_ends_the_task_where_no_dump_may_begin(self, given: Given, follow: Any) -> None:
        follower = follow().start()
        follower.until_dumped()
        follower.task.stop()
        given.insert("t", (1001, "lost"))
        given.purge()

        with pytest.raises(PositionLostError):
            follower.restart()

    # ---- a whole task: its numbers

    def test_a_task_s_numbers_are_declared_and_count_what_went_through(self, given: Given, follow: Any, long_table: None) -> None:
        connector = follow(**WATCHED).start()
        connector.until_dumped()
        given.insert("t", (1000, "x"), (1001, "y"))
        given.update("t", 1000, "z")
        given.delete("t", 1001)
        connector.until_equal("t")
        connector.until(lambda: connector.task.metrics().get("log_behind_bytes") == 0)

        numbers = connector.task.metrics()
        undeclared = {flat for flat in numbers if not flat.startswith("jmx:") and flat.partition("|")[0] not in OF_TASK}
        assert undeclared == set()
        assert [numbers[f"events_total|{op}"] for op in ("create", "update", "delete")] == [2, 1, 1]
        assert (numbers["dump_rows_total"], numbers["dump_running"], numbers["jmx:rows_scanned|" + f"{given.database}.t"]) == (
            ROWS,
            0,
            ROWS,
        )
        assert numbers["windows_closed_total"] == numbers["dump_chunks_total"] > 0
        topic = f"{connector.config['topic.prefix']}.{given.database}.t"
        assert numbers[f"topic_records_total|{topic}"] >= ROWS + 4
        assert numbers["event_latency_seconds|read|+Inf"] > 0
        assert (numbers["windows_open"], numbers["window_keys"], numbers["tables_captured"]) == (0, 0, 1)

    def test_the_speed_of_a_dump_and_its_end_are_estimated_while_it_runs(self, given: Given, follow: Any, long_table: None) -> None:
        connector = follow(**WATCHED, **{"max.queue.size": "2", "max.batch.size": "1"}).start()
        seen: dict[str, float] = {}
        wait_until(lambda: "dump_rows_estimated" in connector.task.metrics())  # the queue is full meanwhile

        def estimated() -> bool:
            seen.update(connector.task.metrics())
            return "dump_eta_seconds" in seen

        connector.until(estimated)

        assert seen["dump_rows_per_second"] > 0
        assert seen["dump_rows_estimated"] > 0
        connector.until_dumped()
        assert "dump_eta_seconds" not in connector.task.metrics()

    def test_a_log_that_is_read_to_its_end_is_no_bytes_behind(self, given: Given, follow: Any, table: TableId) -> None:
        connector = follow(**WATCHED, **NO_DATA).start()
        given.insert("t", (100, "x"))
        connector.until(lambda: len(connector.ops("t")) == 1)
        connector.until(lambda: connector.task.metrics().get("log_behind_bytes") == 0)

        numbers = connector.task.metrics()
        connector.until(lambda: connector.task.metrics().get("log_stored_behind_files") == 0)
        assert (numbers["log_behind_files"], numbers["log_purged"], numbers["log_silent"], numbers["connected"]) == (0, 0, 0, 1)

    def test_a_file_that_ends_and_goes_while_nothing_is_written_leaves_no_bytes_behind(
        self, given: Given, follow: Any, table: TableId
    ) -> None:
        connector = follow(**WATCHED, **NO_DATA).start()

        def at_the_end(since_s: float) -> bool:
            numbers = connector.task.metrics()
            found = [numbers.get(name) for name in ("log_behind_bytes", "log_behind_files", "log_stored_behind_files", "log_purged")]
            return numbers.get("server_log_asked_timestamp_seconds", 0.0) > since_s and found == [0, 0, 0, 0]

        given.rest()
        rested_s = time.time()
        connector.until(lambda: at_the_end(rested_s))

        given.purge()
        purged_s = time.time()

        connector.until(lambda: at_the_end(purged_s))

    # ---- Progress

    def test_a_progress_comes_back_from_its_offset(self, opened: Opened) -> None:
        progress = opened.now()

        again = opened.source.progress(json.loads(json.dumps(progress.to_map())))

        assert again.epoch == EPOCH
        assert again.sequence == progress.sequence
        assert again.resume_point == progress.resume_point
        assert again.to_map() == progress.to_map()

    def test_an_offset_without_an_epoch_has_epoch_0_and_one_without_a_position_is_refused(self, opened: Opened) -> None:
        assert opened.source.progress(opened.server.now().to_map()).epoch == 0
        with pytest.raises(DefiniteError):
            opened.source.progress({"unrelated": 1})

    def test_a_copy_of_a_progress_stays_where_it_was(self, given: Given, opened: Opened) -> None:
        progress = opened.now()
        copy, before = progress.copy(), (progress.sequence, progress.resume_point, progress.to_map())

        given.insert("t", (100, "x"))
        opened.rows(progress, 1)

        assert (copy.sequence, copy.resume_point, copy.to_map()) == before
        assert progress.sequence > copy.sequence
        assert progress.resume_point != copy.resume_point

    def test_a_higher_epoch_sorts_behind_every_position_of_a_lower_one(self, given: Given, opened: Opened) -> None:
        later = opened.now()
        first = later.copy()
        given.insert("t", (100, "x"))
        opened.rows(later, 1)

        first.epoch += 1

        assert first.sequence > later.sequence

    def test_a_progress_is_the_source_block_s_position_and_has_words_and_numbers_for_people(self, opened: Opened) -> None:
        progress = opened.now()

        context = progress.row_context(now_us=5)

        assert (context.sequence_high, context.sequence_low) == progress.sequence
        assert context.now_us == 5
        assert str(progress)
        assert json.dumps(progress.note())
        assert all(isinstance(number, float) for number in progress.metrics().values())

    # ---- Positions

    def test_the_log_begins_no_later_than_it_ends(self, opened: Opened) -> None:
        oldest, now = opened.server.oldest(), opened.server.now()

        assert (oldest.epoch, now.epoch) == (0, 0)
        assert oldest.sequence <= now.sequence

    def test_from_the_oldest_position_on_the_log_shows_all_that_is_not_purged(self, given: Given, opened: Opened) -> None:
        given.purge()
        given.insert("t", (100, "x"))
        oldest = opened.server.oldest()
        oldest.epoch = EPOCH

        assert _ids(opened.rows(oldest, 1)) == [100]

    def test_a_server_goes_on_at_its_own_position(self, opened: Opened) -> None:
        progress = opened.source.progress(opened.now().to_map())
        before = progress.sequence

        assert opened.server.resume(progress) is False
        assert progress.sequence == before

    def test_a_position_in_the_log_of_another_server_is_lost_or_begins_a_new_epoch(self, given: Given, opened: Opened) -> None:
        progress = opened.source.progress(given.of_another_server(opened.now().to_map()))

        try:
            begins_epoch = opened.server.resume(progress)
        except PositionLostError:
            return
        assert begins_epoch

    def test_a_position_that_is_purged_is_lost(self, given: Given, opened: Opened) -> None:
        progress = opened.source.progress(opened.now().to_map())
        given.insert("t", (100, "x"))
        given.purge()

        with pytest.raises(PositionLostError):
            opened.server.resume(progress)

    # ---- LogWatch

    def test_the_server_shows_how_far_its_log_is_ahead_and_what_it_can_drop(self, given: Given, opened: Opened) -> None:
        at = opened.now()
        with closing(opened.server.open_watch(Abort())) as watch:
            level = watch.look(at, at)
            given.insert("t", (100, "x"))
            ahead = watch.look(at, at)
            given.purge()
            purged = watch.look(opened.now(), at)
            kept = watch.look(opened.now(), opened.now())

        assert (level.behind_bytes, level.behind_files, level.stored_behind_files, level.purged) == (0, 0, 0, False)
        assert ahead.behind_bytes > 0
        assert ahead.needed_bytes >= ahead.behind_bytes
        assert level.stored_age_s is None or level.stored_age_s >= 0
        assert (purged.purged, purged.behind_bytes) == (True, 0)
        assert (kept.purged, kept.stored_behind_files) == (False, 0)
        assert kept.margin_files in (None, 0), "None: the server drops nothing that the connector needs"

    def test_rows_are_estimated_for_tables_that_are_there(self, given: Given, opened: Opened, table: TableId) -> None:
        with closing(opened.server.open_watch(Abort())) as watch:
            found = watch.row_estimates([table, TableId(given.database, "missing")])

        assert list(found) == [table]

    # ---- LoadWatch

    def test_each_kind_of_load_is_measured_or_said_to_be_missing_again_and_again(self, opened: Opened) -> None:
        with closing(opened.server.open_load(Abort())) as watch:
            for wanted in (OF_SERVER, OF_SERVER[:2], OF_SERVER):
                load = watch.measure(wanted)

                assert set(load.measured) | set(load.missing) <= set(wanted)
                assert set(wanted) - set(load.measured) - set(load.missing) <= {Limit.STATEMENT_P95}
                assert all(value >= 0 for value in load.measured.values())

    # ---- LogSource and LogReader

    def test_a_log_opened_at_its_end_shows_each_row_from_there_on_once_in_order(self, given: Given, opened: Opened) -> None:
        at = opened.now()

        given.insert("t", (100, "x"), (101, "y"))
        given.update("t", 100, "z")
        given.delete("t", 101)
        records = opened.rest(at)

        assert [record.value["op"] for record in records] == ["c", "c", "u", "d"]
        assert _ids(records) == [100, 101, 100, 101]
        sequences = [record.sequence for record in records]
        assert sequences == sorted(set(sequences)), "sequences rise strictly, also within a transaction"

    def test_a_log_opened_again_behind_what_was_taken_shows_only_what_follows(self, given: Given, opened: Opened) -> None:
        at = opened.now()
        given.insert("t", (100, "x"))
        opened.rows(at, 1)
        given.insert("t", (101, "y"))

        again = opened.source.progress(at.to_map())

        assert _ids(opened.rest(again)) == [101]

    def test_the_log_s_end_is_not_in_front_of_what_was_committed(self, given: Given, opened: Opened) -> None:
        before = opened.log.end(epoch=EPOCH)
        given.insert("t", (100, "x"))
        end = opened.log.end(epoch=EPOCH)
        at = opened.now()

        assert before < end <= at.sequence

    def test_rows_of_a_table_without_an_encoder_move_the_position_and_give_nothing(self, given: Given, opened: Opened) -> None:
        at = opened.now()
        given.insert("t", (100, "x"))
        opened.database = "another"

        assert opened.rest(at) == []

    def test_a_watermark_comes_out_of_the_log_between_the_rows_around_it(
        self, given: Given, opened: Opened, chunks: DumpConnection
    ) -> None:
        at = opened.now()

        given.insert("t", (100, "x"))
        chunks.write_watermark("suite", "token")
        given.insert("t", (101, "y"))
        items = opened.take(at, lambda items: len(list(_records(items))) == 2)

        seen = [[("suite", "token")] if isinstance(item, Watermarks) else _ids(list(_records([item]))) for item in items]
        assert [what for what in seen if what] == [[100], [("suite", "token")], [101]]
        marks = [item for item in items if isinstance(item, Watermarks)]
        first, second = (record.sequence for record in _records(items))
        assert first < (marks[0].at.sequence_high, marks[0].at.sequence_low) < second

    def test_closing_a_log_from_another_thread_ends_its_wait(self, opened: Opened) -> None:
        reader = opened.log.open(opened.now(), unreadable=frozenset())
        assert not reader.is_silent
        ended: list[TransientError] = []
        waits = threading.Event()

        def wait() -> None:
            try:
                while True:
                    waits.set()
                    reader.receive(TIMEOUT_S)
            except TransientError as e:
                ended.append(e)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert waits.wait(TIMEOUT_S)
        reader.close()
        thread.join(TIMEOUT_S / 2)

        assert len(ended) == 1

    def test_a_log_is_not_opened_at_a_position_in_another_server_s_log(self, given: Given, opened: Opened) -> None:
        other = opened.source.progress(given.of_another_server(opened.now().to_map()))

        with pytest.raises(ServerChangedError):
            opened.log.open(other, unreadable=frozenset())

    # ---- SchemaSource and LogSchemas

    def test_tables_are_read_as_far_as_they_are_wanted(self, given: Given, opened: Opened, table: TableId) -> None:
        given.create("u")

        own = opened.server.read_tables(opened.includes)

        assert [found.id for found in own] == [table, TableId(given.database, "u")]
        assert opened.server.read_tables(lambda id_: id_ == table) == own[:1]
        assert opened.server.read_tables(lambda _: False) == []
        assert [column.name for column in own[0].columns] == ["id", "name"]
        assert own[0].key == ("id",)

    def test_a_database_that_fits_passes_the_check(self, opened: Opened, table: TableId) -> None:
        named: Parts = [(table.database, None)]

        opened.server.check(opened.server.read_tables(opened.includes), watermarks=opened.source.watermark_table, named=named)

    def test_a_table_that_a_statement_has_altered_since_is_touched(self, given: Given, opened: Opened, table: TableId) -> None:
        at = opened.now()
        given.insert("t", (100, "x"))
        opened.rows(at, 1)
        position, begin = opened.met[table]

        given.add_column("t", "more")
        reading = opened.schemas.read_table(table, position, begin)

        assert reading.touched
        assert reading.table is not None
        assert reading.table.column("more")

    def test_a_table_that_is_not_there_is_read_as_none(self, given: Given, opened: Opened, table: TableId) -> None:
        at = opened.now()
        given.insert("t", (100, "x"))
        opened.rows(at, 1)
        position, begin = opened.met[table]

        assert opened.schemas.read_table(TableId(given.database, "nowhere"), position, begin).table is None

    # ---- ChunkSource and RowPlans

    def test_a_row_of_a_chunk_and_of_the_log_is_the_same_record_but_for_op_and_source(
        self, given: Given, opened: Opened, chunks: DumpConnection
    ) -> None:
        given.create("u")
        at = opened.now()
        given.insert("u", (1, "x"), (2, "ä"), (3, None), (4, ""))
        logged = opened.rows(at, 4)
        table = opened.table("u")
        sql = opened.server.chunk_sql

        chunks.begin_snapshot()
        statement, parameters = sql.chunk_select(table, None, None, 10)
        found = chunks.select(statement, parameters, key=sql.key_indexes(table), table=table.id)
        rows = chunks.complete(found, table, None)
        chunks.end_snapshot()
        context: RowContext = at.row_context(now_us=0)
        keys, values, _, _ = opened.records.encoder(table).encode_chunk(rows.rows, context, frozenset())

        assert found.last_key == (4,)
        assert keys == [record.key for record in logged]
        made = [json.loads(value or b"") for value in values]
        assert [_plain(value) for value in made] == [_plain(record.value) for record in logged]
        assert {value["op"] for value in made} == {"r"}
        assert {value["source"]["connector"] for value in made} == {opened.source.plans.name}


def _plain(value: dict[str, Any]) -> str:
    """What remains of a record without op, source and the time of its making; fields keep their order."""
    return json.dumps({name: part for name, part in value.items() if name not in {"op", "source", "ts_ms", "ts_us", "ts_ns"}})


class StatementLogContract(DatabaseContract):
    """Of a database whose log has schema changes as statements, which the schema-change topic gets."""

    def test_a_statement_is_valid_behind_the_rows_before_it_and_in_front_of_those_after_it(self, given: Given, opened: Opened) -> None:
        at = opened.now()

        given.insert("t", (100, "x"))
        given.create("u")
        given.insert("u", (101, "y"))
        items = opened.take(at, lambda items: len(list(_records(items))) == 2)

        first, second = (record.sequence for record in _records(items))
        statements = [item for item in items if isinstance(item, Statement) and " u " in item.text]
        assert [first < item.valid_from <= second for item in statements] == [True], [item.text for item in statements]
        (made,) = statements
        changes = list(opened.schemas.parse_statement(made.statement, made.text, made.valid_from))
        assert changes == [CreateTable(opened.table("u"))]
        assert opened.schemas.rewritten(changes, lambda _: None) == {}
        assert opened.schemas.row_change(made.statement, made.text) is None

    def test_a_statement_that_is_not_understood_names_its_table(self, given: Given, opened: Opened) -> None:
        at = opened.now()

        given.create_strangely("u")
        items = opened.take(at, lambda items: any(isinstance(item, Statement) and " u " in item.text for item in items))

        (made,) = (item for item in items if isinstance(item, Statement) and " u " in item.text)
        (change,) = opened.schemas.parse_statement(made.statement, made.text, made.valid_from)
        assert isinstance(change, Unknown)
        assert change.ids == (TableId(given.database, "u"),)

    def test_the_database_of_a_table_is_among_the_databases(self, given: Given, opened: Opened) -> None:
        assert given.database in opened.server.read_databases()

    def test_without_a_schema_history_of_debezium_s_nothing_is_taken_over(self, opened: Opened) -> None:
        timeline = Timeline(captured=opened.includes)

        assert opened.server.take_over([], timeline, prefix="p", offset=opened.now().to_map()) == 0
        assert list(timeline.tables()) == []

    def test_a_table_that_nothing_has_altered_since_is_read_as_it_was_at_a_position(
        self, given: Given, opened: Opened, table: TableId
    ) -> None:
        given.create("u")
        at = opened.now()
        given.insert("t", (100, "x"))
        opened.rows(at, 1)
        position, begin = opened.met[table]

        given.add_column("u", "more")
        reading = opened.schemas.read_table(table, position, begin)

        assert reading.table == opened.table("t")
        assert not reading.touched
        assert reading.position >= position

    @pytest.mark.usefixtures("table")
    def test_a_first_start_reports_the_tables_that_are_there(self, given: Given, follow: Any) -> None:
        follower = follow().start()

        follower.until(lambda: any(r["databaseName"] == given.database and "CREATE TABLE" in r["ddl"] for r in follower.reported))

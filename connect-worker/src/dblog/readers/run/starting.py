"""A starting task: turns a stored offset into everything that a running task needs. No thread runs
yet.

``prepare`` decides by readers/start.py whether to continue or to begin, recovers the schemas (or
reads them from the catalog, at a position that no DDL crossed), and decides which tables are
dumped. It makes a ``Running``; a start that fails leaves nothing open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import structlog

from dblog.clock import Clock
from dblog.config.options import Settings
from dblog.core.dumprequests import DumpRequest
from dblog.core.dumps import Dump, dump_of, list_of_text
from dblog.core.removals import RETURNED
from dblog.core.requested import Requests, StoredRequests, requests_from_text, resumed, tables_of
from dblog.core.table_dump import Key, KeyRange, TableDump, UnderWay
from dblog.core.takeover import Unfinished
from dblog.core.timeline import JOINED, MISSED, Parked, Position, Timeline
from dblog.core.unmatched_columns import describe_unmatched_columns
from dblog.core.unmatched_tables import NO_TABLE
from dblog.errors import LOST_REMEDY, DefiniteError, PositionLostError, TransientError
from dblog.model import OffsetMap, Table, TableId
from dblog.readers.contract import Progress, Server, Source
from dblog.readers.dump.unrepaired import warn_of_left_out, warn_of_unrepaired
from dblog.readers.log.history import SchemaHistory, StoredHistory
from dblog.readers.options import ReaderOptions
from dblog.readers.records import Records
from dblog.readers.run.offset import UNREPORTED, WINDOWS
from dblog.readers.run.running import LOST, Beginning, Running
from dblog.readers.run.unmatched import key_of_check
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.start import LOST_POSITION, From, StartPlan, may_start_over, start_plan
from dblog.readers.topics import refused_topics

log = structlog.get_logger(__name__)

CATALOG_TRIES_MAX = 20
"""Maximum number of catalog reads until two agree. With more DDL than that during a start, it is
better to wait than to guess.
"""

EPOCH_START_S = 1_704_067_200
"""2024-01-01 in seconds since 1970. A first start takes the minutes since then as its epoch, so
that it sorts after everything that earlier runs of the connector wrote (D7).
"""

TABLES_NAMED_MAX = 20

ITS_TABLES = "tables"
"""Id of the list of the connector's tables, if it takes no new ones. Other lists have the id of a
run.
"""


def epoch_of(position: Position) -> int:
    """Return the epoch of a position in the log."""
    return position[0] >> 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recovered:
    """Position to read from, with the schemas there."""

    progress: Progress
    timeline: Timeline
    joined: Mapping[TableId, tuple[int, Position]]
    """Tables that joined after the connector had started."""
    expected: tuple[tuple[Table, Position], ...]
    """Tables that join at a later position and whose rows no dump brings."""
    reports: tuple[Any, ...]
    """Reports that the schema-change topic gets first."""
    log_end: Position
    """End of the log, read during the start."""


class Starting:
    """Start of a connector's only task."""

    def __init__(
        self,
        *,
        connector: str,
        run: str,
        settings: Settings,
        source: Source,
        records: Records,
        history: StoredHistory,
        clock: Clock,
        tables_max: int,
        warnings: StandingWarnings,
        signal_topic: SignalTopicSettings | None = None,
        signal_file: SignalFileSettings | None = None,
    ) -> None:
        self._warnings = warnings
        self._signal_topic = signal_topic
        self._signal_file = signal_file
        self._tables_max = tables_max
        self._connector = connector
        self._run = run
        self._settings = settings
        self._source = source
        self._records = records
        self._history = history
        self._clock = clock

    def prepare(self, offset: OffsetMap | None, requests: Sequence[DumpRequest] = ()) -> Running:
        """Connect, check and recover. ``requests`` are the requested dumps.

        Raise the error if the database, Kafka or the configuration make the start impossible.
        """
        server = self._source.connect(again=offset is not None, warnings=self._warnings)
        try:
            options = ReaderOptions.from_settings(
                self._settings,
                connector=self._connector,
                run=self._run,
                watermark_table=server.watermark_table,
                builtin_databases=self._source.builtin_databases,
                signal_tables=server.signal_tables,
            )
            history = self._history.open()
            try:
                if options.keeps_to_its_tables:
                    options = self._with_its_tables(server, history, options, first=offset is None)
                start = _Start(self._source, server, history, options, self._settings, self._clock, self._warnings)
                beginning = start.beginning(offset, requests)
                return Running(
                    server=server,
                    history=history,
                    beginning=beginning,
                    options=options,
                    records=self._records,
                    clock=self._clock,
                    tables_max=self._tables_max,
                    warnings=self._warnings,
                    signal_topic=self._signal_topic,
                    signal_file=self._signal_file,
                )
            except BaseException:
                history.close()
                raise
        except BaseException:
            server.close()
            raise

    def _with_its_tables(self, server: Server, history: SchemaHistory, options: ReaderOptions, *, first: bool) -> ReaderOptions:
        """Narrow the selection to the tables that the connector has.

        These are the tables that existed when it began, or when it was configured to take no new
        ones. Their names are stored, because a name stays the connector's while its table does not
        exist: between DROP and CREATE, or in the middle of a swap.
        """
        selection = options.selection
        tables = None if first else history.lists().get(ITS_TABLES)
        if tables is None:
            known = Timeline(captured=selection.includes)
            if first or not history.recover(known):
                tables = tuple(table.id for table in server.read_tables(selection.includes))
            else:
                tables = tuple(table for table in known.tables() if selection.includes(table))
            history.save_list(ITS_TABLES, tables)
        return replace(options, selection=replace(selection, only=frozenset(tables)))


class _Start:
    """Steps of one start that ask the server and the history."""

    def __init__(
        self,
        source: Source,
        server: Server,
        history: SchemaHistory,
        options: ReaderOptions,
        settings: Settings,
        clock: Clock,
        warnings: StandingWarnings,
    ) -> None:
        self._source = source
        self._server = server
        self._history = history
        self._options = options
        self._settings = settings
        self._clock = clock
        self._warnings = warnings
        self._checked: list[str] = []
        self._recovery: dict[str, float] = {}
        self._lost = False
        """True if the stored state is lost, so that the connector starts over."""

    def beginning(self, offset: OffsetMap | None, requests: Sequence[DumpRequest] = ()) -> Beginning:
        """Return everything that has to be ready before the first thread runs."""
        mode = self._options.dump.mode
        plan = self._plan(mode, offset)
        reads_chunks = (
            plan.new_dump or plan.dumps_new_tables or (plan.dump is not None and not plan.dump.done) or bool(requests or plan.unfinished)
        )
        self._check(watermarks=reads_chunks or self._source.log_writes_watermarks)
        epoch_above = 0 if offset is None else self._source.progress(offset).epoch
        if plan.log_from is From.OFFSET:
            assert offset is not None, "only a stored offset makes this plan"
            try:
                if isinstance(lost := offset.get(LOST_POSITION), str):
                    raise PositionLostError(lost)
                found = self._resume(offset, joins=0 if plan.dump is None else plan.dump.joins)
            except PositionLostError as e:
                if not may_start_over(mode):
                    raise
                self._warn_of_loss("the stored position is lost", mode, e)
                plan = start_plan("when_needed", None)
                found = self._begin(plan, epoch_above=epoch_above)
        else:
            found = self._begin(plan, epoch_above=epoch_above)
        if self._lost:
            self._warn_of_left_out(found.timeline)
        dump = self._listed(self._dump(plan, found, after_gap=offset is not None and plan.log_from is From.NOW), offset)
        known, all_requests = self._requests(offset, requests, found.timeline)
        windows = None if offset is None else offset.get(WINDOWS)
        return Beginning(
            progress=found.progress,
            timeline=found.timeline,
            dump=dump,
            dump_is_new=dump != plan.dump,
            joined=found.joined,
            expected=found.expected,
            reports=found.reports,
            ends_after_dump=plan.ends_after_dump,
            requests=all_requests,
            requests_known=known,
            windows=windows if isinstance(windows, int) else 0,
            log_end=found.log_end,
            checked=tuple(self._checked),
            recovery=self._recovery,
        )

    def _plan(self, mode: str, offset: OffsetMap | None) -> StartPlan:
        """Return the plan of the start.

        If the offset's dump refers to a list of tables, that list is read first.
        """
        refers = offset is not None and list_of_text(offset.get("dblog_dump")) is not None
        try:
            return start_plan(mode, offset, self._history.lists() if refers else {})
        except PositionLostError as e:
            if not may_start_over(mode):
                raise
            self._warn_of_loss("the stored dump is lost", mode, e)
            return start_plan("when_needed", None)

    def _warn_of_loss(self, what: str, mode: str, error: PositionLostError) -> None:
        log.warning("the stored position is lost, dumping again", lost=what, mode=mode, reason=str(error))
        self._lost = True
        deleted = (
            "Rows that were deleted in between stay at the consumers, for skipped.operations leaves out deletes"
            if self._options.unrequested_repairs.keeps_deletes
            else "The sink removes rows that were deleted in between once a table's dump has arrived whole, if it reads the topic of chunk markers; "
            "other consumers keep them"
        )
        text = f"{what}, so the tables are dumped again (snapshot.mode={mode}). {deleted}: {error}"
        self._warnings.raise_warning(LOST, text, lasting=True)

    def _warn_of_left_out(self, timeline: Timeline) -> None:
        """Warn of the tables that the dump after a loss leaves out. # I5

        The end of that dump does not help them; a repair of each table does.
        """
        left_out = sorted(table.id for table in timeline.captured_tables() if not self._options.dump.dumps(table.id))
        if left_out:
            log.warning(
                "tables that no dump brings after a loss", count=len(left_out), tables=[str(t) for t in left_out[:TABLES_NAMED_MAX]]
            )
            warn_of_left_out(self._warnings, left_out)

    def _listed(self, dump: Dump | None, offset: OffsetMap | None) -> Dump | None:
        """Return the dump, with its tables in a stored list if they are many.

        The list is stored before any offset that refers to it.
        """
        if dump is not None and dump.list_is_due:
            dump = dump.with_list(self._options.run)
            self._history.save_list(self._options.run, tuple(dump.left))
        stored = None if offset is None else list_of_text(offset.get("dblog_dump"))
        its_tables = ITS_TABLES if self._options.keeps_to_its_tables else None
        self._history.keep_lists({stored, its_tables, None if dump is None or dump.listed is None else dump.listed.id})
        return dump

    def _requests(self, offset: OffsetMap | None, requests: Sequence[DumpRequest], timeline: Timeline) -> tuple[Requests, Requests]:
        """Return the requested dumps as far as the offset knows them, and all of them with their
        progress.
        """
        text = None if offset is None else offset.get("dblog_dumps")
        return resumed(
            requests,
            requests_from_text(text) if isinstance(text, str) else StoredRequests(),
            tables=lambda request: tables_of(request, (table.id for table in timeline.captured_tables())),
            captured=self._options.selection.includes,
        )

    def _check(self, *, watermarks: bool) -> None:
        tables = self._server.read_tables(self._options.selection.includes)
        table = self._options.watermark_table if watermarks and not self._options.read_only else None
        for warning in self._server.check(tables, watermarks=table, named=self._options.named):
            log.warning("server setting", warning=warning)
            self._raise_checked(warning)
        for warning in describe_unmatched_columns(self._settings.originals, tables):
            log.warning("list of columns", warning=warning)
            self._warnings.raise_warning(f"list of columns: {warning}", warning)

    def _raise_checked(self, text: str) -> None:
        if text not in self._checked:
            self._checked.append(text)
        self._warnings.raise_warning(key_of_check(text), text)

    def _dump(self, plan: StartPlan, found: _Recovered, *, after_gap: bool) -> Dump | None:
        """Return the dump that continues or begins. # I3

        ``after_gap`` is True if an earlier run has sent rows, and deletes since then are in no log.
        """
        rule, run = self._options.dump, self._options.run
        dump = None if plan.dump is None else plan.dump.only(self._options.selection.includes)
        if dump is not None:
            pending = [table for table, progress in dump.left.items() if progress.repairs]
            dump = dump.without_repair(set(pending) - self._repaired(pending, found.timeline))
        if plan.new_dump:
            dump = self._new_dump(plan, found, after_gap=after_gap)
        elif plan.dumps_new_tables:
            known = 0 if dump is None else dump.joins
            if added := rule.of(table for table, (number, _) in found.joined.items() if number > known):
                named = [str(table) for table in added[:TABLES_NAMED_MAX]]
                log.info("tables that were new, parked or not in the log are dumped", count=len(added), tables=named)
                missed = found.timeline.missed().intersection(added)
                dump = (dump or dump_of(run, ())).with_new(added, repairs=self._repaired(sorted(missed), found.timeline))
        if plan.unfinished and not plan.new_dump:
            dump = (dump or dump_of(run, ())).with_progress(self._taken_over(plan.unfinished, found.timeline))
        if dump is not None and plan.dumps_new_tables:
            dump = replace(dump, joins=max([dump.joins, *(number for number, _ in found.joined.values())]))
        return dump

    def _new_dump(self, plan: StartPlan, found: _Recovered, *, after_gap: bool) -> Dump:
        """Return a new dump of all tables. # I3

        The configuration cannot exclude rows that the log has lost. The new dump also brings what
        an earlier dump was to bring and had not brought.
        """
        tables = self._options.dump.of(table.id for table in found.timeline.captured_tables())
        before = {} if plan.earlier is None else plan.earlier.left
        known = 0 if plan.earlier is None else plan.earlier.joins
        joined = {t for t, (number, _) in found.joined.items() if number > known} if plan.log_from is From.OFFSET else set()
        whole = {t for t, progress in before.items() if not progress.chosen} | joined
        missed = joined & found.timeline.missed()
        pending = tables if after_gap else [t for t in tables if t in missed or (t in before and before[t].repairs)]
        repaired = self._repaired(pending, found.timeline)

        def is_chosen(table: TableId) -> bool:
            return not (self._lost or table in whole or table in repaired) and self._server.own_condition(table) is not None

        # Tables to be repaired come first, so that they form few stretches of a list.
        in_order = [*(t for t in tables if t in repaired), *(t for t in tables if t not in repaired)]
        fresh = (before[t].fresh if t in before else TableDump(table=t) for t in in_order)
        return dump_of(self._options.run, (replace(t, chosen=is_chosen(t.table), repairs=t.table in repaired) for t in fresh))

    def _repaired(self, tables: Sequence[TableId], timeline: Timeline) -> set[TableId]:
        """Return the tables, of these with a gap in the log, that the dump repairs unasked; warn of
        the others.
        """
        rule, removed = self._options.unrequested_repairs, timeline.removals()
        repaired = {table for table in tables if rule.allows(table, removed)}
        if not rule.keeps_deletes:
            warn_of_unrepaired(self._warnings, (table for table in tables if table not in repaired))
        return repaired

    def _taken_over(self, unfinished: Iterable[Unfinished], timeline: Timeline) -> list[TableDump]:
        """Return the progress at which incremental snapshots of Debezium continue.

        A table continues after the last row that was sent, if that is a key of the present table.
        """
        known = {table.id: table for table in timeline.captured_tables()}
        out = []
        for left in unfinished:
            table = known.get(left.table)
            if table is None:
                log.warning("a table of Debezium's incremental snapshot is not captured, and is left out", table=str(left.table))
                continue
            after = None if left.sent_upto is None else self._bound(table, left.sent_upto)
            upto = None if left.ends_at is None else self._bound(table, left.ends_at)
            if after is None or upto is None:
                log.info("a table of Debezium's incremental snapshot is dumped from its beginning", table=str(table.id))
                out.append(TableDump(table=table.id))
            else:
                log.info("Debezium's incremental snapshot of a table goes on", table=str(table.id))
                out.append(TableDump(table=table.id, state=UnderWay(key=table.key, upto=upto, ranges=(KeyRange(after, upto),))))
        return out

    def _bound(self, table: Table, values: Key) -> Key | None:
        """Return Debezium's values as a bound.

        Return None if they are not a key of the table, or may not show all of it. Java writes large
        integers as decimals.
        """
        values = tuple(int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value for value in values)
        try:
            self._server.check_keys(table, [values])
        except DefiniteError:
            return None
        return self._server.chunk_sql.exact_key(table, values)

    def _begin(self, plan: StartPlan, *, epoch_above: int) -> _Recovered:
        """Start from the present position and schemas, with a new history. # I4

        At the oldest log, the present schemas show nothing of that time. The log's statements and
        metadata do; other facts are taken from the present if no statement in between touches the
        table.
        """
        old = self._new_timeline()
        self._history.recover(old)
        lacking: set[TableId] = set()
        self._server.complete_log(lacking.update)
        before, progress = self._positioned_catalog(self._server.begin)
        progress.epoch = self._next_epoch(max(epoch_above, epoch_of(old.newest)))
        end = self._server.now()
        end.epoch = progress.epoch
        log_end = end.sequence
        expected: tuple[tuple[Table, Position], ...] = ()
        refused = self._refused_topics(old, before)
        if plan.log_from is From.OLDEST:
            expected = tuple((table, progress.sequence) for table in before if table.id not in refused)
            oldest = self._server.oldest()
            oldest.epoch = progress.epoch
            progress = oldest
        timeline = self._new_timeline()
        timeline.databases.update(self._server.read_databases())
        for refused_id, reason in refused.items():
            timeline.park(refused_id, progress.sequence, reason)
        for table in [table for table in before if table.id not in refused] if plan.log_from is From.NOW else ():
            # A log that began earlier does not have all rows of the table.
            joins = {JOINED: 1} if table.id in lacking and plan.new_dump else {}
            timeline.put(table, progress.sequence, note={**progress.note(), **joins})
        gone = old.gone()
        returned = {table.id: RETURNED for table in before if table.id in gone and not old.comes_back(table)}
        for table_id, what in {**old.removals(), **returned}.items():
            timeline.note_removal(table_id, what)
        dropped = [table for table in (*old.tables(), *old.gone()) if not timeline.versions(table)]
        self._history.save(timeline, [*timeline.tables(), *dropped], databases={*timeline.databases, *old.databases})
        self._history.begin_epoch(timeline, progress.sequence)
        if not before:
            log.warning(NO_TABLE)
            self._raise_checked(NO_TABLE)
        log.info("schemas read", tables=len(before), **progress.note())
        return _Recovered(
            progress=progress, timeline=timeline, joined=timeline.joined(), expected=expected, reports=self._reports(), log_end=log_end
        )

    def _reports(self) -> tuple[Any, ...]:
        """Return the reports of a first start for the schema-change topic."""
        return tuple(self._server.at_start(self._options.reports)) if self._options.reports_schemas else ()

    def _positioned_catalog(self, position: Callable[[], Progress]) -> tuple[list[Table], Progress]:
        """Return the captured tables, and a log position at which they were as returned.

        They are read before and after the position until both reads agree.
        """
        includes = self._options.selection.includes
        for _ in range(CATALOG_TRIES_MAX):
            before = self._server.read_tables(includes)
            progress = position()
            if before == self._server.read_tables(includes):
                return before, progress
        message = "tables keep being altered while the connector starts; it starts once they are left alone for a moment"
        raise TransientError(message)

    def _resume(self, offset: OffsetMap, *, joins: int) -> _Recovered:
        """Continue at a stored offset. Tables that are new to the connector join now.

        A table that joined in an earlier run counts as new again: that run may have been killed
        after the history had the table and before the offset had its dump. If the offset has the
        dump, nothing is dumped twice. Schemas that a first run could not report are reported as
        they are now; later changes of them are in the log, and reported after that.
        """
        progress, rule = self._source.progress(offset), self._options.dump
        stored, unknown_epoch = progress.copy(), progress.epoch == 0
        other_log = self._server.resume(progress)
        timeline = self._new_timeline()
        if not self._recover(timeline) and not timeline.databases and not self._take_over(timeline, offset):
            message = (
                f"the schema history topic {self._options.history_topic} has no record of {self._options.prefix}, so rows logged since "
                f"the stored offset cannot be decoded safely; restore the topic; {LOST_REMEDY}"
            )
            raise PositionLostError(message)
        newest_epoch = epoch_of(timeline.newest)
        stored.epoch = stored.epoch or epoch_of(timeline.began) or newest_epoch  # an epoch begins after everything that is saved of it
        committed = stored.sequence
        taken_back = frozenset() if self._server.log_has_statements else frozenset(timeline.take_back(committed))
        altered = set(taken_back)  # saved together with the joining tables: a start killed in between would not roll back again
        altered.update(timeline.prune(committed))
        now, end = self._positioned_catalog(self._server.now)
        before = {table.id: timeline.current_table(table.id) for table in now}
        begins = other_log or unknown_epoch or progress.epoch < newest_epoch
        if begins:
            progress.epoch = self._next_epoch(max(stored.epoch, newest_epoch))
        end.epoch = progress.epoch
        joined = end.sequence
        if begins:
            # The log has the statements after the offset again, at positions of a new epoch. Rows
            # before them come with the earlier schema.
            altered.update(timeline.forget_behind(committed, awaited_until=joined))
        if unknown_epoch:
            progress.taken_over()
        number = max([joins, *(earlier for earlier, _ in timeline.joined().values())]) + 1
        if unknown_epoch and stored.epoch:
            altered.update(self._doubt(timeline, now, before, progress.sequence))
        parked = timeline.in_state(Parked)
        numbers = {table.number for table in timeline.captured_tables()} - {None}
        expected: list[tuple[Table, Position]] = []
        gone = timeline.gone()
        refused = self._refused_topics(timeline, now)
        # Before the history is saved, which no longer calls them parked after that.
        rule.of_parked(table.id for table in now if table.id in parked and table.id not in refused)
        for table in now:
            if not timeline.versions(table.id) and table.number in numbers:
                # Known under another name: it is renamed when the log, or what is detected after
                # it, reaches that.
                pass
            elif table.id in refused:
                timeline.park(table.id, joined, refused[table.id])
                altered.add(table.id)
            elif not timeline.versions(table.id) and not rule.dumps_new(table.id):
                # Followed from the stored offset, not from here, because nothing else brings its
                # rows.
                expected.append((table, joined))
            elif not timeline.versions(table.id):
                # If an earlier run had the table after the offset, its topic has rows. Their
                # deletes are still to come, of whatever table has the name there.
                known_from = progress.sequence if table.id in taken_back else joined
                comes_back = timeline.comes_back(table)
                timeline.put(table, known_from, note={**end.note(), JOINED: number, **({MISSED: True} if comes_back else {})})
                if table.id in gone and not comes_back:
                    timeline.note_removal(table.id, RETURNED)
                altered.add(table.id)
            elif table.id in parked:
                # The log may not reach the parking's end again, because it stands there already.
                # Then the table joins, and is dumped by the number of its joining.
                rejoins = {JOINED: number, MISSED: True} if joined <= progress.sequence else {}
                timeline.put(table, joined, note={**end.note(), **rejoins})
        self._history.save(timeline, sorted(altered.union(parked)))
        if begins:
            # After everything is rolled back or doubted: a run killed before this does it again.
            self._history.begin_epoch(timeline, progress.sequence)
        self._server.complete_log(lambda tables: self._join_again(timeline, tables, number))
        reports = self._reports() if offset.get(UNREPORTED) else ()
        return _Recovered(
            progress=progress, timeline=timeline, joined=timeline.joined(), expected=tuple(expected), reports=reports, log_end=end.sequence
        )

    def _refused_topics(self, known: Timeline, now: Iterable[Table]) -> dict[TableId, str]:
        """Return the tables that are parked because of another one's topic, with the reason.

        A topic stays with the table that ``known`` follows; one that is new or parked there came
        later.
        """
        parked = known.in_state(Parked)
        came_late = {table.id: table.id in parked or not known.versions(table.id) for table in now}
        first, late = ([table for table, is_late in came_late.items() if is_late is wanted] for wanted in (False, True))
        return refused_topics(self._settings, first, late)

    def _join_again(self, timeline: Timeline, tables: list[TableId], number: int) -> None:
        """Let tables join again whose rows the log did not contain until now, so that they are
        dumped. # I3

        The history has that before the server's setting makes them look like any other table. So
        neither a start that is killed after the setting nor an offset without their dump forgets
        one.
        """
        known = [table for table in tables if timeline.versions(table)]
        # For a new table that nothing dumps, no record is missing.
        if not self._options.dump.goes_on:
            self._options.dump.refuse_left_out(known, "the log has not held the rows of some tables until now")
        for table in known:
            newest = timeline.versions(table)[-1]
            timeline.note_joined(table, newest.position, number, missed=newest.note.get(JOINED) != number)
        self._history.save(timeline, known)

    def _recover(self, timeline: Timeline) -> int:
        """Fill the timeline from the history, and return the number of tables in it."""
        began_us, began_s = self._clock.now_us(), self._clock.monotonic_s()
        tables = self._history.recover(timeline)
        self._recovery = {
            "schema_history_recovered_tables": float(tables - len(timeline.gone())),
            "schema_history_recovery_seconds": self._clock.monotonic_s() - began_s,
            "schema_history_recovered_timestamp_seconds": began_us / 1_000_000,
        }
        return tables

    def _take_over(self, timeline: Timeline, offset: OffsetMap) -> int:
        """Start our own history from Debezium's at the offset; return the number of its records
        used.
        """
        used = self._server.take_over(self._history.others(), timeline, prefix=self._history.server, offset=offset)
        if used:
            for name, defaults in self._server.read_databases().items():
                timeline.databases.setdefault(name, defaults)
            self._history.save_all(timeline)
            log.info("Debezium's schema history taken over", records=used, tables=len(timeline.tables()))
        return used

    def _next_epoch(self, above: int) -> int:
        """Return an epoch that sorts after everything the connector wrote before (D7).

        It is greater than the known epoch, and than those that earlier runs took from the clock.
        """
        return max(above + 1, (self._clock.now_us() // 1_000_000 - EPOCH_START_S) // 60)

    def _doubt(self, timeline: Timeline, now: list[Table], before: Mapping[TableId, Table | None], at: Position) -> list[TableId]:
        """Park tables that may have been altered unnoticed, and return them. # I4

        The offset was written by a person, or by Debezium, which kept the DDL of that time to
        itself. So a table that differs on the server from every version that we know was altered
        unnoticed. ``before`` also covers versions after the offset, whose statements come again.
        Such a table is parked, and dumped where the catalog was read. If nothing dumps it, its
        schema is read at its first row, if no statement touches it after that.
        """
        why = "the stored offset was not written by this connector, and the table is not what it was"
        found = [t.id for t in now if timeline.current_table(t.id) is not None and before[t.id] not in (None, t)]
        for table in found:
            if self._options.dump.dumps(table):
                timeline.park(table, at, why)
            else:
                timeline.mark_stale(table, at, why)
        return found

    def _new_timeline(self) -> Timeline:
        return Timeline(captured=self._options.selection.includes)

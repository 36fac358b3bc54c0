"""The dump that runs while the log is read: assigns tables to dump threads, and applies statements
of the log to dumps under way.

Chunk threads take one table of the dump after the other. If more threads than tables are wanted,
several threads read one large table, each in a range of its own (``sharing.py``). No table is
forgotten: releasing a table, or ordering it to be dumped again, starts readers for what waits. # I3
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Protocol

import structlog

from dblog.clock import Clock
from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, TruncateTable
from dblog.core.dumprequests import INITIAL, WHOLE, DumpRequest
from dblog.core.dumps import LISTED_FROM_TABLES, Dump, TableList, dump_of
from dblog.core.pressure import Pace
from dblog.core.requested import next_table, readers_max, readers_wanted
from dblog.core.table_dump import Key
from dblog.errors import DefiniteError
from dblog.model import TableId
from dblog.readers.contract import Server
from dblog.readers.dump.chunk import ChunkReader
from dblog.readers.dump.chunknotes import ChunkNotes
from dblog.readers.dump.marks import MarkExchange
from dblog.readers.dump.modes import Modes
from dblog.readers.dump.open_windows import OpenWindows
from dblog.readers.dump.sharing import Share
from dblog.readers.dump.table_restarts import TableRestarts
from dblog.readers.dump.unrepaired import warn_of_sent_rows, warn_of_unrepaired
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.log.logwatch import RowEstimates
from dblog.readers.log.schemas import Schemas
from dblog.readers.options import TABLES_NAMED_MAX, ReaderOptions
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.tally import Tally
from dblog.readers.task_threads import TaskThreads

log = structlog.get_logger(__name__)

REPORT_INTERVAL_S = 10.0
PUT_OFF_S = 120.0
"""Seconds for which other tables come before one that cannot be read for now. A try may take a
minute, the limit of a wait for a lock.
"""

_WITH_OTHERS = ""
"""Identity for a table that is read together with others, which is no dump's."""


class OwnDumpEnds(Protocol):
    """Task whose own dump ends (``running.Running``)."""

    def own_dump_ended(self, dump: Dump | None) -> None:
        """Note that the connector's own dump has ended, or that there is none, and that no further
        one follows.
        """


class Dumping:
    """Dumps of one task.

    ``threads`` runs the readers; an error of one ends the task. ``task`` gets to know that the
    connector's own dump has ended. ``exchange`` gives windows their marks in read-only mode; None
    writes watermarks. ``warnings`` collects warnings for an operator; None discards them.
    """

    def __init__(
        self,
        *,
        progress: DumpProgress,
        windows: OpenWindows,
        notes: ChunkNotes,
        tally: Tally,
        server: Server,
        schemas: Schemas,
        options: ReaderOptions,
        stopped: threading.Event,
        threads: TaskThreads,
        task: OwnDumpEnds,
        modes: Modes,
        estimates: RowEstimates,
        clock: Clock,
        exchange: MarkExchange | None = None,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._warnings = warnings or StandingWarnings()
        self._lists = 0
        """Number of lists of tables stored for the dump during this run."""
        self._modes = modes
        self._exchange = exchange
        self._estimates = estimates
        self._progress = progress
        self._windows = windows
        self._notes = notes
        self._tally = tally
        self._restarts = TableRestarts(progress=progress, windows=windows)
        self._server = server
        self._schemas = schemas
        self._options = options
        self._stopped = stopped
        self._threads = threads
        self._task = task
        self._clock = clock
        self._lock = threading.Condition()
        self._readers: dict[int, ChunkReader] = {}
        self._taken: dict[TableId, str] = {}
        """Tables that are now read on their own, with the dump that each is read for."""
        self._shares: dict[TableId, list[Share]] = {}
        """Shares of a table that readers read: several parts, or the whole table."""
        self._together: dict[int, set[TableId]] = {}
        """Tables of the connector's own dump that each reader, by number, reads together."""
        self._put_off: dict[TableId, float] = {}
        """Tables that cannot be read for now, with the time until which other tables come first."""
        self._alone: set[TableId] = set()
        """Tables that must not be read together with others."""
        self._end_reported = False
        self._report_due_s = clock.monotonic_s() + REPORT_INTERVAL_S

    # ---- threads

    def start(self) -> None:
        """Start readers for the tables that the dumps have left."""
        dump = self._progress.own
        if dump is None or dump.ended:
            self._task.own_dump_ended(dump)
        self.start_readers()

    def start_readers(self) -> None:
        """Start as many readers as the dumps want, including those that run already."""
        with self._lock:
            if self._stopped.is_set():
                return
            self._lock.notify_all()
            book, pace = self._progress.book, self._progress.pace
            wanted = readers_wanted(
                book.own, book.requests, own_readers_max=self._options.dump_threads, readers=pace.readers, parts=self._parts()
            )
            free = [n for n in range(max(wanted, len(self._readers))) if n not in self._readers]
            for number in free[: max(0, wanted - len(self._readers))]:
                if self._next() is None:
                    break
                self._end_reported = False
                reader = self._readers[number] = ChunkReader(
                    number,
                    shares=self,
                    server=self._server,
                    progress=self._progress,
                    windows=self._windows,
                    notes=self._notes,
                    tally=self._tally,
                    schemas=self._schemas,
                    modes=self._modes,
                    estimates=self._estimates,
                    watermark_name=f"{self._options.watermark_name}/{number}",
                    limits=self._options.chunk_limits,
                    exchange=self._exchange,
                    retry_policy=self._options.retry_policy,
                    clock=self._clock,
                )
                self._threads.spawn(f"dump-{number}", lambda reader=reader: self._read(reader))  # type: ignore[misc]

    def stop(self) -> None:
        """Tell every reader to end soon."""
        with self._lock:
            readers = list(self._readers.values())
            self._lock.notify_all()
        for reader in readers:
            reader.stop()

    def next_share(self, number: int) -> Share | None:
        """Return a table that no other reader has taken, or a part of one; None ends the reader
        ``number``.

        Wait while some reader may give a part away.
        """
        with self._lock:
            while (share := self._taken_share()) is None:
                if self._stopped.is_set() or self._progress.stopping or not self._may_give():
                    self._readers.pop(number, None)
                    self._together.pop(number, None)
                    return None
                self._lock.wait()
            more = bool(self._free_parts(share.table))
        if more:
            self.start_readers()
        return share

    def _taken_share(self) -> Share | None:
        """Take the next table or part and return it; None if there is none. The lock is held."""
        found = self._next()
        if found is None:
            return None
        identity, table = found
        others = self._shares.get(table)
        if others is not None:
            parts, lanes = self._free_parts(table), {other.lane for other in others}
            if not parts:
                return None  # the log is restarting the table at this moment
            share = Share(table, next(lane for lane in range(len(lanes) + 1) if lane not in lanes), parts[0])
            others.append(share)
            return share
        self._taken[table] = identity
        self._alone.discard(table)
        self._progress.change(lambda book: book.read_for(table, identity))
        progress = self._progress.table(table)
        ranges = () if progress is None else progress.ranges
        share = Share(table, upto=ranges[0].upto if len(ranges) > 1 else None)
        self._shares[table] = [share]
        return share

    # ---- parts of tables

    def wants_part(self, share: Share) -> bool:
        """Return True if the dump may have another reader, and no other table waits for it."""
        with self._lock:
            return self._may_have_more(self._taken[share.table]) and self._next() is None

    def give_part(self, share: Share, at: Key) -> None:
        """Leave the keys after ``at`` to another reader."""
        with self._lock:
            table = share.table

            def split(dump: Dump) -> Dump:
                progress = dump.table(table)
                left = None if progress is None or progress.ended else progress.range_to(share.upto)
                if left is None:
                    return dump  # the table restarts, or has ended: its reader finds out
                share.upto = at
                return dump.split(table, upto=left.upto, at=at)

            self._progress.change_table(table, split)
            self._lock.notify_all()
        self.start_readers()

    def cannot_be_split(self, share: Share) -> None:
        """Mark the share as not divisible, so that no reader waits for a part of it."""
        with self._lock:
            share.splits = False
            self._lock.notify_all()

    def _free_parts(self, table: TableId) -> list[Key]:
        """Return the ends of the ranges that nobody reads, of a table that is being read."""
        shares = self._shares.get(table, ())
        progress = self._progress.table(table)
        if progress is None or progress.ended or not shares or any(share.upto is None for share in shares):
            return []
        taken = {share.upto for share in shares}
        return [one.upto for one in progress.ranges if one.upto not in taken]

    def _parts(self) -> dict[str, int]:
        """Return by dump the number of possible readers beyond the first of each table."""
        out: dict[str, int] = {}
        for table, shares in self._shares.items():
            identity = self._taken[table]
            out[identity] = out.get(identity, 0) + len(shares) - 1 + len(self._free_parts(table))
        return out

    def _may_have_more(self, identity: str) -> bool:
        return len(self._readers_of(identity)) < self._readers_max(identity)

    def _readers_of(self, identity: str) -> list[Share | None]:
        """Return the shares of a dump's readers, earliest table first; None stands for small tables
        together.
        """
        taken = (table for table, of in self._all_taken().items() if of == identity)
        return [share for table in taken for share in self._shares.get(table, (None,))]

    def _readers_max(self, identity: str) -> int:
        """Return the number of readers that the dump may have now."""
        most = readers_max(self._progress.requests, identity, own_readers_max=self._options.dump_threads)
        return self._progress.pace.readers(most)

    def _may_give(self) -> bool:
        """Return True if some reader may give a part away later.

        A table that has not been started does not count, because most tables are small.
        """
        for table, shares in self._shares.items():
            if not any(share.splits for share in shares) or not self._may_have_more(self._taken[table]):
                continue
            if self._windows.is_held(table) or self._progress.is_paused(table):
                continue
            progress = self._progress.table(table)
            if progress is not None and len(progress.ranges) > 0:
                return True
        return False

    def pace(self, pace: Pace) -> None:
        """Set how hard dumps may read from now on."""
        before = self._progress.pace
        self._progress.set_pace(pace)
        if pace.step < before.step:
            self.start_readers()
        else:
            with self._lock:
                self._lock.notify_all()

    def gives_way(self, share: Share) -> bool:
        """Return True if too many readers read now, and the share's reader is one of the newest
        that stop.
        """
        if not self._progress.pace.step:
            return False
        with self._lock:
            identity = self._taken.get(share.table)
            return identity is not None and self._readers_of(identity).index(share) >= self._readers_max(identity)

    def lets_others_pass(self, share: Share) -> bool:
        """Return True if the share's reader shall read other tables first, because this one cannot
        be read for now (it is locked, or the log has not come to its change).

        The caller releases the share then. Return False if no other table waits for a reader.
        """
        table, now_s = share.table, self._clock.monotonic_s()
        with self._lock:
            if self._shares.get(table) != [share]:
                return False
            self._put_off = {**{other: until_s for other, until_s in self._put_off.items() if until_s > now_s}, table: now_s + PUT_OFF_S}
            waits = self._next(without=table) is not None
            if not waits:
                del self._put_off[table]
            return waits

    def take_together(self, number: int, tables_max: int) -> list[TableId]:
        """Take tables of the connector's own dump that one reader reads together.

        It takes at most its fair share of the waiting tables. Return [] if that is fewer than two:
        they are read on their own.
        """
        with self._lock:
            own, dump = self._together.setdefault(number, set()), self._progress.own
            if dump is None or (found := self._next(reader=number)) is None or found[0] != INITIAL:
                return []
            taken = self._all_taken()
            waiting = len(dump.left) - sum(table in dump.left for table in taken)
            share = min(max(2, int(tables_max * self._progress.pace.share)), -(-waiting // self._options.dump_threads))
            apart = self._alone | self._put_off_now()
            candidates = (
                table
                for table, progress in dump.left.items()
                if not (progress.started or table in taken or table in apart or self._windows.is_held(table))
            )
            tables = list(islice(candidates, share)) if share > 1 else []
            if len(tables) < 2:  # noqa: PLR2004
                return []
            own.update(tables)
            return tables

    def give_back_together(self, number: int, tables: Iterable[TableId], *, alone: bool) -> None:
        """Release tables that the reader has read together.

        With ``alone``, the next reader reads each one on its own; readers that had ended are
        started for them.
        """
        given_back = set(tables)
        if not given_back:
            return
        with self._lock:
            self._together[number] -= given_back
            if alone:
                self._alone |= given_back
        if alone:
            self.start_readers()

    def put_back(self, share: Share) -> None:
        """Release the share of a reader that has finished it, or whose table is held.

        A reader that releases a share then asks for another one. So if its table is ordered again
        at this moment, this reader reads it, and never two do.
        """
        table = share.table
        with self._lock:
            others = self._shares[table]
            others.remove(share)
            if not others:
                del self._shares[table]
                self._taken.pop(table, None)
                self._progress.change(lambda book: book.read_for(table, INITIAL))
            self._lock.notify_all()

    def _next(self, *, reader: int | None = None, without: TableId | None = None) -> tuple[str, TableId] | None:
        """Return (dump, table) for a free reader, or for one that reads tables together. The lock
        is held.

        A table that is put off comes after all others. With ``without``, return only a table that
        is not put off, for the only reader of that table.
        """
        pace = self._progress.pace
        if pace.held:
            return None
        book, put_off = self._progress.book, self._put_off_now()
        taken = {table: of for table, of in self._all_taken(free=reader).items() if table != without}

        def found(is_held: Callable[[TableId], bool]) -> tuple[str, TableId] | None:
            return next_table(
                book.own,
                book.requests,
                taken=taken,
                held=is_held,
                own_readers_max=self._options.dump_threads,
                readers=pace.readers,
                sharing={table: len(shares) for table, shares in self._shares.items()},
                has_part=lambda table: bool(self._free_parts(table)),
            )

        first = found(lambda table: table in put_off or self._windows.is_held(table))
        if first is not None or without is not None or not put_off:
            return first
        return found(self._windows.is_held)

    def _put_off_now(self) -> set[TableId]:
        now_s = self._clock.monotonic_s()
        return {table for table, until_s in self._put_off.items() if until_s > now_s}

    def _all_taken(self, *, free: int | None = None) -> dict[TableId, str]:
        """Return the tables that are read now, and for which dump.

        The tables that one reader reads together count as one, those of the reader ``free`` as
        none.
        """
        taken = dict(self._taken)
        for number, tables in self._together.items():
            taken |= dict.fromkeys(tables, _WITH_OTHERS)
            if tables and number != free:
                taken[next(iter(tables))] = INITIAL
        return taken

    def _read(self, reader: ChunkReader) -> None:
        reader.run()
        dump = self._progress.own
        if dump is None or not dump.ended or self._stopped.is_set():
            return
        with self._lock:
            reported, self._end_reported = self._end_reported, True
        if not reported:
            self._task.own_dump_ended(dump)

    def report(self) -> None:
        """Log the progress of the connector's own dump every ``REPORT_INTERVAL_S``."""
        now_s = self._clock.monotonic_s()
        if now_s < self._report_due_s:
            return
        self._report_due_s = now_s + REPORT_INTERVAL_S
        dump = self._progress.own
        if dump is None or dump.ended:
            return
        log.info("dump runs", tables_done=dump.tables_done, tables_total=dump.tables_total, rows=dump.rows)

    # ---- what the log brings

    def tables_changed(
        self,
        changes: Iterable[Change],
        rewritten: Mapping[TableId, str],
        reordered: Iterable[TableId] = (),
        removed: Mapping[TableId, str] = MappingProxyType({}),
    ) -> frozenset[TableId]:
        """Apply DDL to the dumps under way. Return the tables whose dump removes rows from the
        lake.

        A dropped table is done, a renamed one is read under its new name, a rewritten one is read
        again. ``reordered`` tables have a key that sorts in another order now, so one under way is
        restarted: keys after its frontier may now be before it. ``removed`` maps tables that lost
        rows without a row event to the cause.
        """
        changes = tuple(changes)
        self._follow(changes)
        self._keep_waiting(changes)
        for table in reordered:
            self._restarts.restart(table, "its key sorts in another order")
        # Rows that went away without events may be in chunks that were sent already.
        emptied = dict.fromkeys(change.id for change in changes if isinstance(change, TruncateTable))
        if not self._options.unrequested_repairs.of_removals:
            self._end_repairs(removed)
        for table in dict.fromkeys((*emptied, *rewritten, *removed)):
            self._restarts.restart(
                table, "rows of it are gone, or have changed, without a trace in the log", only=_is_whole, own_repair=True
            )
        for change in changes:
            if isinstance(change, AlterTable):
                self._restarts.restart(change.table.id, "the column that it is read by may have other values", only=_by_surrogate)
        # A TRUNCATE has a record of its own. If rows are to stay, a repair would remove them
        # unasked.
        repaired = {
            table: what for table, what in removed.items() if self._options.unrequested_repairs.of_removals and table not in emptied
        }
        rewritten = {**repaired, **rewritten}
        if not self._options.redumps:  # the option is about rows dumped before; tables that joined have none
            known, joined = 0 if (dump := self._progress.own) is None else dump.joins, self._schemas.joined_numbers()
            rewritten = {table: why for table, why in rewritten.items() if joined.get(table, 0) > known}
        missed = {change.table.id for change in changes if isinstance(change, AlterTable | CreateTable) and change.misses}
        if rewritten:
            remade = {change.table.id for change in changes if isinstance(change, CreateTable) and change.with_rows}
            waits = missed | (remade - self._schemas.joined_numbers().keys())  # the history knows of those that joined
            repaired_too = self._repaired_unrequested(missed & rewritten.keys(), removed)
            return self.dump_again(rewritten, repairs={*repaired, *repaired_too}, waits=waits)
        return frozenset()

    def _keep_waiting(self, changes: tuple[Change, ...]) -> None:
        """Note in the dump which of its joined tables were altered. # I3

        The history may now drop the table version that shows the joining.
        """
        dump = self._progress.own
        altered = [change.table.id for change in changes if isinstance(change, AlterTable)]
        if dump is None or not any(table in dump.left for table in altered):
            return
        joined = self._schemas.joined_numbers()
        if waits := [table for table in altered if table in joined]:
            self._progress.change_own(lambda d: None if d is None else d.waiting(waits))

    def _end_repairs(self, removed: Mapping[TableId, str]) -> None:
        """Let the connector's own dump bring the rows of these tables without removing any.

        A repair would also remove the rows that the statement removed.
        """
        dump = self._progress.own
        ended = [] if dump is None else [table for table in removed if table in dump.left and dump.repairs_table(table)]
        if dump is not None and ended:
            why = "a statement has taken rows of it that stay in the lake"
            self._restarts.restart_many(ended, why, lambda d: (d or dump).without_repair(ended))
            warn_of_unrepaired(self._warnings, ended)

    def _repaired_unrequested(self, tables: Collection[TableId], removed: Collection[TableId] = ()) -> frozenset[TableId]:
        """Return the tables that may be repaired unasked; warn of the others, whose
        rows may stay.
        """
        rule, known = self._options.unrequested_repairs, {*self._schemas.removals(), *removed}
        allowed = frozenset(table for table in tables if rule.allows(table, known))
        if not rule.keeps_deletes:
            warn_of_unrepaired(self._warnings, [table for table in tables if table not in allowed])
        return allowed

    def tables_back(self, tables: Mapping[TableId, str]) -> None:
        """Dump tables that have a schema again after their rows were skipped. # I3

        This dump is not optional, because it brings the skipped rows.
        """
        for table in tables:
            self._restarts.restart(table, "its definition was in doubt, and with it the column that it is read by", only=_by_surrogate)
        again = {table: tables[table] for table in self._options.dump.of_parked(tables)}
        self.dump_again(again, repairs=self._repaired_unrequested(again))  # deletes were skipped too

    def must_dump(self, tables: Iterable[TableId] | None, why: str, *, repairs: bool = False) -> None:
        """Dump tables whose rows only a dump can bring; ``tables`` None means every captured table.
        # I3

        Raise DefiniteError if the configuration excludes some of them from dumps. ``repairs`` is
        True if only a repair can remove rows; then also raise it for a table that cannot be
        repaired. The other tables are dumped all the same, because the user may have chosen to go
        on after the error.
        """
        wanted = list(self._schemas.captured() if tables is None else tables)
        faulty = frozenset(table for table in wanted if not self._can_be_repaired(table)) if repairs else frozenset[TableId]()
        if repairs:
            warn_of_sent_rows(self._warnings, wanted, why)
        ordered = {table: why for table in wanted if table not in faulty}
        if ordered:
            # Deletes of these tables were skipped with their rows.
            self.dump_again(ordered, repairs=self._repaired_unrequested(ordered))
        refusals = [self._options.dump.refusal(wanted, why), _unrepairable(faulty, why)]
        if any(refusals):
            raise DefiniteError("; ".join(text for text in refusals if text))

    def _can_be_repaired(self, table: TableId) -> bool:
        version = self._schemas.table(table)
        return version is None or self._modes.can_be_repaired(version)

    def dump_again(
        self, rewritten: Mapping[TableId, str], *, repairs: Collection[TableId] = (), waits: Collection[TableId] = ()
    ) -> frozenset[TableId]:
        """Dump tables again whose old rows have changed without events. # I3

        The next batch carries the dump's new state into the offset. ``repairs`` are tables that may
        have lost rows as well; ``waits`` are tables that may have been written to while they were
        in no log. Return the tables of ``repairs`` whose dump is a repair.
        """
        joined = self._schemas.joined_numbers()
        tables = self._options.dump.of(t for t in rewritten if self._schemas.table(t) is not None)
        for table in tables[:TABLES_NAMED_MAX]:
            log.info("the table is dumped again", table=str(table), reason=rewritten[table], tables=len(tables))
        number = max((joined.get(table, 0) for table in tables), default=0)

        def again(dump: Dump | None) -> Dump:
            return (dump or dump_of(self._options.run, ())).read_again(tables, repairs=repairs, waits=waits).with_join(number)

        if tables:
            listed = self._listed(again(self._progress.own))
            self._restarts.restart_many(
                tables, "its rows were rewritten", lambda dump: again(dump) if listed is None else replace(again(dump), listed=listed)
            )
        self.start_readers()
        return frozenset(table for table in tables if table in repairs and self._can_be_repaired(table))

    def _listed(self, dump: Dump) -> TableList | None:
        """Store a list of the dump's tables and return it, if many new ones have been added; else
        None.

        The list is stored before any offset that refers to it.
        """
        if len(dump.left) < LISTED_FROM_TABLES or dump.unlisted < LISTED_FROM_TABLES:
            return None
        self._lists += 1
        made = dump.with_list(f"{self._options.run}/{self._lists}").listed
        assert made is not None, "just made"
        self._schemas.save_list(made.id, made.tables)
        return made

    def _follow(self, changes: Iterable[Change]) -> None:
        for change in changes:
            match change:
                case DropTable(ids):
                    for table in ids:
                        self._progress.drop(table)
                case CreateTable(table) if not change.with_rows:
                    self._progress.create(table.id)
                case RenameTable(pairs):
                    self.renamed(pairs)
                case AlterTable(old, table) if table.id != old:
                    self.renamed(((old, table.id),))
                case _:
                    pass

    def renamed(self, pairs: Iterable[tuple[TableId, TableId]]) -> None:
        """Continue dumps under way under the new names of their tables, whatever dblog.ddl.redump
        is.
        """
        pairs = tuple(pairs)
        self._restarts.rename_of_requests(pairs, self._options.selection.includes)
        dump = self._progress.own
        again: tuple[TableId, ...] = ()
        if dump is not None:
            _, again = dump.renamed(pairs, self._is_dumped)
            self._progress.change_own(lambda d: None if d is None else d.renamed(pairs, self._is_dumped)[0])
        for table in again:
            self._restarts.restart_own(table, "another table has its name", lambda d, t=table: None if d is None else d.restarted(t))  # type: ignore[misc]
        self.start_readers()

    def _is_dumped(self, table: TableId) -> bool:
        return self._options.selection.includes(table) and self._options.dump.dumps(table)


def _unrepairable(tables: Iterable[TableId], why: str) -> str | None:
    faulty = sorted(map(str, tables))
    if not faulty:
        return None
    return (
        f"{why}; {', '.join(faulty[:TABLES_NAMED_MAX])} cannot be repaired (without a key or a topic of its own): compare the rows with "
        "those of the source, and set event.processing.failure.handling.mode=warn to go on"
    )


def _is_whole(request: DumpRequest) -> bool:
    """Return True if the markers of the request's dump claim that a table has exactly the rows
    read.
    """
    return request.mode in WHOLE


def _by_surrogate(request: DumpRequest) -> bool:
    """Return True if the request's tables are read by another column than their keys.

    No log row shows that a statement has changed that column's values.
    """
    return request.surrogate_key is not None


def refuse_incomplete(dump: Dump | None) -> None:
    """Raise DefiniteError if a table could not be dumped, for snapshot.mode=initial_only. # I3

    Nothing else would bring its rows.
    """
    if dump is not None and (failed := dump.failed):
        message = f"snapshot.mode=initial_only, and {len(failed)} tables could not be dumped; the first: {failed[0].fault}"
        raise DefiniteError(message)

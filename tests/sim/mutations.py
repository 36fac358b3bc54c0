"""Protections of core and readers, taken away one by one: each must make some schedule fail, or the simulation has a hole, or nobody needs the protection.

A mutation is a piece of a function's source and what stands there instead. The function is compiled anew and gets the other code; its name, its module and
whoever holds it stay. A piece that the source does not have any more is an error: the list goes with the source.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """``seeds``: within so many some schedule fails."""

    name: str
    where: str
    old: str
    new: str
    seeds: int = 200


WATERMARK, DUMPS, LEDGER, TIMELINE = "dblog.core.watermark", "dblog.core.dumps", "dblog.core.ledger", "dblog.core.timeline"
TABLE_DUMP = "dblog.core.table_dump"
READERS = "dblog.readers."

MUTATIONS = (
    # ---- core/watermark.py
    Mutation("keys of the log are not noted", f"{WATERMARK}:Windows.note", "window.dropped.update(", "set().update("),
    Mutation("a table without a key keeps its window", f"{WATERMARK}:Windows.note", "if not window.keyed:", "if False:", 20_000),
    Mutation("notes have no bound", f"{WATERMARK}:Windows.note", "len(window.dropped) > window.keys_max", "False"),
    Mutation("watermarks of an earlier run count", f"{WATERMARK}:Windows.watermark", "if run != self._run:", "if False:", 5000),
    Mutation(
        "DDL discards only windows that are open",
        f"{WATERMARK}:Windows.table_changed",
        "return None if windows is None else self._discard_all(tuple(windows), reason, why, lane=None)",
        "found = [w for w in windows or () if w.low is not None]\n"
        "    return self._discard_all(found, reason, why, lane=None) if found else None",
        5000,
    ),
    Mutation("lost watermarks are waited for", f"{WATERMARK}:Windows.overdue", "late = self._late(submitted_before_s)", "late = []", 5000),
    # ---- core/table_dump.py, core/dumps.py
    Mutation("the frontier does not move", f"{TABLE_DUMP}:TableDump.read", "(KeyRange(after, progress.upto),)", "progress.ranges", 10_000),
    Mutation(
        "a restarted table keeps its frontier",
        f"{DUMPS}:Dump.restarted",
        "TableDump(table=t.table, repairs=t.repairs and not t.done, waits=waits or (t.waits and not t.done))",
        "t",
        1000,
    ),
    Mutation(
        "a table cut short is forgotten",
        f"{TABLE_DUMP}:TableDump.dropped",
        "CutShort(begun=self.started)",
        "Read(begun=self.started)",
        20_000,
    ),
    Mutation("a table that takes an unfinished one's name is left alone", f"{DUMPS}:Dump.renamed", "or is_pending(new)", "", 20_000),
    Mutation(
        "a renamed table's own state does not go with it", f"{DUMPS}:Dump.renamed", "pending.get(old, is_pending(old)) or", "", 20_000
    ),
    # ---- core/ledger.py
    Mutation(
        "what is not acknowledged is committed",
        f"{LEDGER}:Ledger.take_acknowledged",
        "while self._entries and self._entries[0].outstanding == 0:",
        "while self._entries:",
    ),
    Mutation(
        "acknowledged batches are committed out of order",
        f"{LEDGER}:Ledger.take_acknowledged",
        "while self._entries and self._entries[0].outstanding == 0:\n        taken.append(self._entries.popleft())",
        "for entry in [e for e in self._entries if e.outstanding == 0]:\n        self._entries.remove(entry)\n        taken.append(entry)",
        1000,
    ),
    # ---- core/surrogate.py
    Mutation("rows of one surrogate have no order", "dblog.core.surrogate:keyed_by", "key = (name, *rest)", "key = (name,)", 1000),
    Mutation(
        "a chunk of a table without a key ends between rows of one surrogate",
        f"{READERS}dump.chunk:ChunkReader._select_groups",
        "KEYLESS_ROWS_MAX + 1",
        "rows",
        20_000,
    ),
    Mutation(
        "a chunk of a table without a key is sent though it changed",
        f"{READERS}dump.chunk:ChunkReader._read_from_frontier",
        "keyed=bool(version.key)",
        "keyed=True",
        20_000,
    ),
    # ---- core/timeline.py
    Mutation(
        "rows are decoded with the newest schema",
        f"{TIMELINE}:Timeline.state_at",
        "version = self._version_at(table, position)",
        "version = next(iter(self._versions.get(table, ())[-1:]), None)",
        20_000,
    ),
    Mutation(
        "versions behind the stored offset are let go",
        f"{TIMELINE}:Timeline.prune",
        "valid = bisect_right(versions, committed, key=_position) - 1",
        "valid = len(versions) - 1",
        20_000,
    ),
    # ---- readers/dump/order.py, readers/dump/chunk_rows.py, readers/dump/open_windows.py, core/dump_book.py
    Mutation(
        "rows pass by the windows", f"{READERS}dump.order:RecordOrder.rows", "if self._windows.any_open or self._closed:", "if False:"
    ),
    Mutation(
        "a chunk of other columns is sent",
        f"{READERS}dump.chunk_rows:ChunkRows._records_of",
        "encoder is None or encoder.plan.table != chunk.table",
        "encoder is None",
        20_000,
    ),
    Mutation(
        "noted keys are sent all the same",
        f"{READERS}dump.closed_windows:WindowRecords.make",
        "self.context, noted)",
        "self.context, frozenset())",
    ),
    Mutation(
        "keys that come behind a window whose turn has not come are sent all the same",
        f"{READERS}dump.closed_windows:ClosedWindows.note",
        "window.left_out.update(",
        "set().update(",
        5000,
    ),
    Mutation(
        "keys that come behind rows that are encoded are sent all the same",
        f"{READERS}dump.closed_windows:WindowRecords.part",
        "if noted and not noted.isdisjoint(keys):",
        "if False:",
        5000,
    ),
    Mutation(
        "rows leave part by part though no key tells them apart",
        f"{READERS}dump.order:RecordOrder.watermark",
        "if any(self._chunk_rows.leave_whole(window) for window in closed):",
        "if False:",
        20_000,
    ),
    Mutation(
        "what the log says of tables comes between the parts of a window",
        f"{READERS}log.stream:LogStream._take",
        "if not isinstance(item, _BETWEEN_PARTS):",
        "if False:",
        20_000,
    ),
    Mutation(
        "a dump row has the high position",
        f"{READERS}dump.chunk_rows:ChunkRows._records_of",
        "self._records.chunk_context(closed.low,",
        "self._records.chunk_context(closed.high,",
    ),
    Mutation(
        "the frontier moves ahead of the rows",
        f"{READERS}dump.chunk_rows:ChunkRows.next_part",
        "    keys, values = records.part(",
        "    chunk, own = window.closed.rows, self._progress.own\n"
        "    if own is not None and own.table(chunk.table.id) is not None and not records.at:\n"
        "        early = own.started(chunk.table.id, key=chunk.table.key, upto=chunk.greatest) if chunk.begins else own\n"
        "        early = early.advanced(chunk.table.id, behind=chunk.after, after=chunk.upto, rows=0, done=chunk.final)\n"
        "        self._progress._set(self._progress._book.with_own(early), None)\n"
        "    keys, values = records.part(",
        20_000,
    ),
    Mutation(
        "a window opens though the table was reset",
        f"{READERS}dump.open_windows:OpenWindows.declare",
        "or self._resets_of(table, lane) != resets",
        "",
        20_000,
    ),
    Mutation(
        "a window that has closed wakes nobody",
        f"{READERS}dump_progress:DumpProgress.change",
        "self.changed.notify_all()",
        "pass",
        20_000,
    ),
    Mutation(
        "a range is read again while an older window is open",
        f"{READERS}dump.open_windows:OpenWindows.settled",
        "or not self._is_open(table, lane)",
        "or True",
        20_000,
    ),
    Mutation(
        "a range is read again while an older window closes",
        f"{READERS}dump.open_windows:OpenWindows._is_open",
        "or self._closed.of(table, lane) > 0",
        "",
        20_000,
    ),
    Mutation("a window of a held table opens", f"{READERS}dump.open_windows:OpenWindows.declare", "or table in self._held", "", 20_000),
    Mutation(
        "a window of a dump that rests opens",
        f"{READERS}dump.open_windows:OpenWindows.declare",
        "or self._progress.is_paused(table)",
        "",
        20_000,
    ),
    Mutation(
        "windows have no bound",
        f"{READERS}dump.open_windows:OpenWindows.declare",
        "or self._windows.open_of(table, lane) + max(0, self._closed.of(table, lane) - 1) < windows_max",
        "or True",
    ),
    Mutation(
        "a window that was never opened is waited for",
        f"{READERS}dump.open_windows:OpenWindows.wait_done",
        "or not self._is_open(table, lane)",
        "",
        20_000,
    ),
    Mutation(
        "an end is told before an offset has it",
        f"{READERS}run.dumpdesk:DumpDesk.statuses",
        "end = None if stored is None else stored.end",
        "end = one.end",
        5000,
    ),
    Mutation(
        "a table that is put back is read on for the dump before",
        f"{READERS}dump.dumping:Dumping.put_back",
        "self._progress.change(lambda book: book.read_for(table, INITIAL))",
        "pass",
        20_000,
    ),
    Mutation(
        "the offset does not hear of dumps that were asked for",
        f"{READERS}run.offset:SourceOffset.advance",
        "if step.requests is not None:",
        "if False:",
        1000,
    ),
    Mutation(
        "one table is read for two dumps at once",
        "dblog.core.requested:next_table",
        "and each.table not in taken",
        "",
        5000,
    ),
    Mutation(
        "a dump that was stopped goes on",
        "dblog.core.requested:RequestedDump.with_request",
        "if request.wanted is Wanted.STOPPED:",
        "if False:",
        1000,
    ),
    Mutation(
        "an older revision counts",
        "dblog.core.requested:RequestedDump.with_request",
        "request.revision < self.request.revision or self.end is not None",
        "self.end is not None",
        1000,
    ),
    Mutation(
        "rows that changed inside a window have fingerprints",
        f"{READERS}dump.chunk_rows:ChunkRows._records_of",
        "encoder.fingerprint_chunk(chunk.rows, window.left_out)",
        "encoder.fingerprint_chunk(chunk.rows, frozenset())",
        20_000,
    ),
    Mutation(
        "a failed window stays open",
        f"{READERS}dump.open_windows:OpenWindows.abandon",
        "self._discarded(self._windows.discard(ticket.number, reason))",
        "pass",
        5000,
    ),
    Mutation("a reset wakes nobody", f"{READERS}dump.open_windows:OpenWindows.send_back", "self._changed.notify_all()", "pass"),
    Mutation(
        "a table that is read again keeps its windows",
        f"{READERS}dump.open_windows:OpenWindows.discard_table",
        "self._windows.table_changed(table, reason)",
        "pass",
        20_000,
    ),
    Mutation(
        "whoever reads a table that is read again goes on",
        f"{READERS}dump.open_windows:OpenWindows.discard_table",
        "self.send_back(table, reason)",
        "pass",
        5000,
    ),
    Mutation(
        "DDL discards no window",
        f"{READERS}dump.open_windows:OpenWindows.table_changed",
        "self._discarded(self._windows.table_changed(table, reason))",
        "pass",
        20_000,
    ),
    Mutation(
        "nothing is held", f"{READERS}dump.open_windows:OpenWindows.hold", "for table in tables - before:", "for table in ():", 20_000
    ),
    Mutation(
        "the offset never hears of the dump",
        f"{READERS}dump_progress:DumpProgress.take_moved",
        "own = self._book.own if self._own_moved else None",
        "own = None",
    ),
    # ---- readers/queue.py
    Mutation("the queue has no bound", f"{READERS}queue:BlockingQueue._has_room", "if not self._batches:", "if True:"),
    Mutation("room in the queue wakes nobody", f"{READERS}queue:BlockingQueue.poll", "self._changed.notify_all()", "pass"),
    # ---- readers/dump/proof.py, readers/dump/chunk.py
    Mutation(
        "a window is not proved",
        f"{READERS}dump.proof:read_behind_watermark",
        "if connection.read_watermark(watermark) == token:",
        "if True:",
    ),
    Mutation(
        "a read-only window is not proved",
        f"{READERS}dump.marks:ReadMarks.behind_low",
        "low = self._exchange.low(ticket, self._stopped)",
        "low = self._exchange.low(ticket, self._stopped); low.entries = 0",
    ),
    Mutation(
        "the greatest key is taken outside the snapshot",
        f"{READERS}dump.chunk:ChunkReader._select_chunk",
        "    def read() -> ChunkRead:\n        upto = self._greatest_key(connection, version, where) if wanted.begins else wanted.upto",
        "    early = self._greatest_key(connection, version, where) if wanted.begins else wanted.upto\n\n    def read() -> ChunkRead:\n        upto = early",
        5000,
    ),
    Mutation(
        "tables are read together ahead of their low watermark",
        f"{READERS}dump.small_tables:SmallTables._read_between",
        "        self._reader.behind_watermark(connection, tickets[0], read_each)",
        "        connection.begin_snapshot()\n        read_each()\n        connection.end_snapshot()\n"
        "        self._reader.behind_watermark(connection, tickets[0], lambda: None)",
        5000,
    ),
    Mutation(
        "the high watermark of tables that are read together comes ahead of their rows",
        f"{READERS}dump.small_tables:SmallTables._read_between",
        "        if self._windows.submit_together(tickets, read):",
        "        self._reader.mark_high(connection, tickets[0])\n        if self._windows.submit_together(tickets, read):",
        5000,
    ),
    Mutation(
        "windows of tables that were not read together stay open",
        f"{READERS}dump.open_windows:OpenWindows.submit_together",
        "self._windows.release(ticket.number)",
        "pass",
        5000,
    ),
    Mutation(
        "a held table is read with others",
        f"{READERS}dump.open_windows:OpenWindows.declare_together",
        "and table not in self._held",
        "",
        20_000,
    ),
    Mutation(
        "the high watermark comes ahead of the rows",
        f"{READERS}dump.chunk:ChunkReader._read_from_frontier",
        "            if not self._windows.submit(ticket, read):",
        "            self.mark_high(connection, ticket)\n            if not self._windows.submit(ticket, read):",
        5000,
    ),
    Mutation(
        "the frontier is read before the resets",
        f"{READERS}dump.chunk:ChunkReader._read_table",
        "    resets = self._windows.settled(table, lane)\n        progress = self._progress.table(table)",
        "    progress = self._progress.table(table)\n        resets = self._windows.settled(table, lane)",
        20_000,
    ),
    Mutation(
        "a chunk that was cut short is the last",
        f"{READERS}dump.chunk:ChunkReader._select_chunk",
        "chunk.row_count < rows_asked and not cut_short",
        "chunk.row_count < rows_asked",
        5000,
    ),
    # ---- a table that several read: core/watermark.py, core/dumps.py, readers/
    Mutation(
        "a key is noted in the windows of one lane",
        f"{WATERMARK}:Windows.note",
        "for window in tuple(windows):",
        "for window in [w for w in windows if w.lane == windows[0].lane]:",
        20_000,
    ),
    Mutation(
        "a window that has too many keys has other lanes' windows miss them",
        f"{WATERMARK}:Windows.note",
        "Why.KEYS, smaller=True))",
        "Why.KEYS, smaller=True))\n            break",
        20_000,
    ),
    Mutation("a range that is given away stays its reader's", f"{READERS}dump.dumping:Dumping.give_part", "share.upto = at", "pass", 1000),
    Mutation(
        "a range of a table that one reader reads wholly is taken",
        f"{READERS}dump.dumping:Dumping._free_parts",
        "or any(share.upto is None for share in shares)",
        "",
        5000,
    ),
    Mutation(
        "a table that several read is let go of by the first one",
        f"{READERS}dump.dumping:Dumping.put_back",
        "if not others:",
        "if True:",
        5000,
    ),
    Mutation(
        "the end of a range counts as the table's",
        f"{READERS}dump.chunk_rows:ChunkRows._marker",
        "chunk.final and not chunk.inside",
        "chunk.final",
        1000,
    ),
    Mutation(
        "a range ends with the first chunk of another",
        f"{TABLE_DUMP}:TableDump.read",
        "if one.after != behind:",
        "if one is not progress.ranges[0]:",
        5000,
    ),
    Mutation(
        "the offset has the first range for the whole",
        f"{DUMPS}:_table_to_json",
        'out["upto"] = key_to_json(t.upto)',
        'out["upto"] = key_to_json(t.ranges[0].upto if t.ranges else t.upto)',
        20_000,
    ),
    # ---- readers/dump/dumping.py, readers/run/output.py, readers/log/stream.py
    Mutation(
        "a table that is put back stays taken", f"{READERS}dump.dumping:Dumping.put_back", "self._taken.pop(table, None)", "pass", 5000
    ),
    Mutation(
        "nobody is sent to a table that is dumped again", f"{READERS}dump.dumping:Dumping.dump_again", "self.start_readers()", "pass", 1000
    ),
    Mutation(
        "a table that is dumped again is not begun again",
        f"{READERS}dump.dumping:Dumping.dump_again",
        ".read_again(tables, repairs=repairs, waits=waits)",
        ".with_tables(tables)",
        1000,
    ),
    Mutation("the dump does not follow renames", f"{READERS}dump.dumping:Dumping._follow", "self.renamed(pairs)", "pass", 20_000),
    Mutation(
        "rewritten tables are not dumped again",
        f"{READERS}dump.dumping:Dumping.tables_changed",
        "if rewritten:",
        "if False:",
        1000,
    ),
    Mutation(
        "rows that only a dump brings are left out",
        f"{READERS}dump.dumping:Dumping.must_dump",
        "self.dump_again(ordered, repairs=self._repaired_unrequested(ordered))",
        "pass",
        5000,
    ),
    Mutation(
        "statements pass by the windows",
        f"{READERS}run.output:LogOutput.statement",
        "for table in {*done.touched, *done.rewritten}:",
        "for table in ():",
        5000,
    ),
    Mutation(
        "held tables are not read when they are free",
        f"{READERS}run.output:LogOutput.hold",
        "self._dumping.start_readers()",
        "pass",
        20_000,
    ),
    Mutation(
        "overdue watermarks are never looked for",
        f"{READERS}log.stream:LogStream._duties",
        "self._look_for_watermarks(now_s)",
        "pass",
        5000,
    ),
    # ---- read.only: core/marks.py, readers/dump/marks.py
    Mutation(
        "a window between positions of the log closes at once",
        f"{READERS}dump.marks:MarkExchange.passed",
        "lambda mark: at.has_come_to(mark, quiet=quiet)",
        "lambda mark: True",
        5000,
    ),
    Mutation(
        "the numbers of windows begin again in each run",
        "dblog.core.window_numbers:WindowNumbers.__init__",
        "self._last = self._limit = behind",
        "self._last, self._limit = 0, behind",
        5000,
    ),
    Mutation(
        "the first windows of a run open where the offset stands",
        f"{READERS}dump.marks:MarkExchange.first_behind",
        "self._first, self.may_ask = mark, True",
        "self.may_ask = True",
        20_000,
    ),
)


def function_of(where: str) -> FunctionType:
    """The function that a mutation names."""
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = getattr(found, "__wrapped__", found)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return found


def mutated(mutation: Mutation) -> CodeType:
    """The function's code with the piece replaced."""
    function = function_of(mutation.where)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(mutation.old) != 1:
        raise LookupError(
            f"{mutation.name}: {mutation.where} has {mutation.old!r} {source.count(mutation.old)} times; bring the mutation up to date"
        )
    namespace: dict[str, Any] = {}
    text = f"from __future__ import annotations\n{source.replace(mutation.old, mutation.new)}"
    exec(compile(text, f"<{mutation.name}>", "exec"), dict(function.__globals__), namespace)  # noqa: S102 - the project's own source
    code = namespace[function.__name__].__code__
    assert code.co_freevars == function.__code__.co_freevars, mutation.name
    return code


@contextlib.contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    """The product without that protection, for a while."""
    function = function_of(mutation.where)
    before = function.__code__
    function.__code__ = mutated(mutation)
    try:
        yield
    finally:
        function.__code__ = before

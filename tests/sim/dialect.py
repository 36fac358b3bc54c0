"""The dialect of the simulated source: log reader, chunk connection, encoders. Each class fulfils the protocol that its first line names.

Records are tuples (op, position, column names, row) where others have bytes, so a schedule costs a millisecond; the reader layer never looks inside.
What can be checked where it happens is checked here: rows are decoded with the schema of their position (I4), and a dump row's position is not behind
the snapshot that showed it (I2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from dblog.codecs.envelope import INT64, struct
from dblog.codecs.plan import Form, RowContext
from dblog.core.changes import Change, Unknown, tables_of
from dblog.core.crosscheck import Seen
from dblog.core.dumprequests import DumpRequest, Scope, Wanted
from dblog.core.timeline import Database, Position, Timeline
from dblog.core.watermark import WatermarkPosition
from dblog.dialects.mysql.ddl.rewrites import rewritten
from dblog.errors import TableChangedError, TransientError
from dblog.model import OffsetMap, Segment, Table, TableId
from dblog.ports import ChunkRows
from dblog.readers.chunk_read import ChunkMarker
from dblog.readers.contract import Reading
from dblog.readers.items import (
    IGNORED_FOR_NOW,
    ROWS_PARKED,
    Held,
    LogCounts,
    LogItem,
    LogRows,
    Moved,
    OnlyByDump,
    Statement,
    Watermarks,
)
from sim.source import (
    COMMITTED,
    DATABASE,
    DDL,
    LOST,
    MARK,
    PREPARED,
    ROW_BITS,
    ROWS,
    Row,
    Source,
    in_order,
    is_chosen,
    key_index,
    key_of,
    names_of,
    position_of,
)
from sim.threads import HUB
from support.chunk_context import chunk_context

KEY_SCHEMA = struct("s.Key", ("id", INT64))
VALUE_SCHEMA = struct("s.Envelope", ("after", struct("s.Value", ("id", INT64), optional=True)))
"""What a marker of a dump without rows is made with; nobody reads it here."""
_COLUMN = SimpleNamespace(apart=False, form=Form.INT)
EPOCH = 1
BEHIND_ALL = 1 << 30
"""A key."""
_HIGH = EPOCH << 32
IDLE_S = (0.2, 0.2, 1.5, 7.0, 61.0)
"""How long a log thread with nothing to read is away: as long as it waits, or as long as a slow machine may take."""


class ViolationError(AssertionError):
    """An invariant does not hold. The text names it."""


class Chances:
    """How often what goes wrong."""

    def __init__(self, *, fails: float, loses: float, cuts: float) -> None:
        self.fails = fails
        """Shares of statements of a dump connection,"""
        self.loses = loses
        """of watermarks that are lost from the log,"""
        self.cuts = cuts
        """and of reads of the log that find the connection lost."""
        self.on_statement: Callable[[], None] = lambda: None
        """Called when the log comes to one."""


class SimProgress:
    """A ``Progress``: how many entries were taken."""

    __slots__ = ("entries", "epoch")

    def __init__(self, entries: int, epoch: int = EPOCH) -> None:
        self.entries = entries
        self.epoch = epoch

    source_ts_us = 0

    @property
    def sequence(self) -> Position:
        return _HIGH, self.entries << ROW_BITS

    @property
    def resume_point(self) -> int:
        return self.entries

    def sequence_of(self, position: int) -> Position:
        return _HIGH, position << ROW_BITS

    def advance(self, position: int) -> None:
        if position < self.entries:
            raise ViolationError(f"I1: the position goes back from entry {self.entries} to {position}")
        self.entries = position

    def copy(self) -> SimProgress:
        return SimProgress(self.entries, self.epoch)

    def to_map(self) -> dict[str, Any]:
        return {"entries": self.entries}

    def note(self) -> dict[str, object]:
        return {}

    def row_context(self, *, now_us: int) -> RowContext:
        low = self.entries << ROW_BITS
        return RowContext(source_ts_us=0, now_us=0, sequence_high=_HIGH, sequence_low=low)

    def watermark_position(self) -> WatermarkPosition:
        return WatermarkPosition(file="f", pos=self.entries, sequence_high=_HIGH, sequence_low=self.entries << ROW_BITS)

    is_between = True

    def has_come_to(self, mark: int, *, quiet: bool) -> bool:
        return self.entries >= mark

    def taken_over(self) -> None:
        pass

    def metrics(self) -> dict[str, float]:
        return {}

    def __str__(self) -> str:
        return f"entry {self.entries}"


class SimEncoder:
    """A ``RowEncoder`` of one version of a table."""

    def __init__(self, table: Table, records: SimRecords) -> None:
        at = key_index(table)
        self.table = table
        self.names = names_of(table)
        self.key_at = at
        self.plan = SimpleNamespace(
            table=table,
            topic=table.id.name,
            key=() if at < 0 else (at,),
            columns=[_COLUMN] * len(table.columns),
            key_schema=KEY_SCHEMA,
            value_schema=VALUE_SCHEMA,
            unwritten_schemas=None,
        )
        self._records = records

    def encode_row(self, truth: Table, before: Row | None, after: Row | None, pos: int, keys: list[Any], values: list[Any]) -> None:
        """Records of one row of the log, which had it by the version ``truth``. Indexes are no part of a row, and a table map has none."""
        if self.table is not truth and self.table != truth and self.table != replace(truth, indexes=self.table.indexes):
            raise ViolationError(
                f"I4: a row of {truth.id} at {pos} is decoded with {self.names} {self.table.key}, it has {names_of(truth)}"
            )
        old, new = key_of(truth, before), key_of(truth, after)
        if before is not None and (after is None or old != new):
            keys.append(old)
            values.append(("d", pos, (), ()))
        if after is not None:
            keys.append(new)
            values.append(("c", pos, self.names, after))

    def encode_chunk(self, rows: Any, context: RowContext, dropped_keys: frozenset[bytes]) -> tuple[list[Any], list[Any], int, int]:
        keys: list[Any] = []
        values: list[Any] = []
        dropped = 0
        pos = context.sequence_low
        self._records.shown = rows[0][0] if rows else BEHIND_ALL
        held = self._records.source.states[pos >> ROW_BITS][0].get(self.table.id)
        truth = held[1] if held is not None and names_of(held[0]) == self.names and held[0].key == self.table.key else None
        for shown, names, row in rows:
            if names != self.names:
                raise ViolationError(f"I4: a chunk of {self.table.id} read with {names} is decoded with {self.names}")
            if pos >= position_of(shown):
                raise ViolationError(f"I2: a dump row of {self.table.id} has the position {pos}, behind its snapshot at {shown}")
            key = key_of(self.table, row)
            if key in dropped_keys:
                dropped += 1
                continue
            if truth is not None and self.key_at >= 0 and truth.get(row[self.key_at]) != row:
                raise ViolationError(
                    f"I2: {row} of {self.table.id} is sent with the position {pos}, where it was {truth.get(row[self.key_at])}"
                )
            keys.append(key)
            values.append(("r", pos, names, row))
        return keys, values, dropped, 0

    def end_of_rows(self, rows: Any, start: int, rows_max: int, _bytes_max: int) -> int:
        return min(len(rows), start + rows_max)

    def fingerprint_chunk(self, rows: Any, dropped_keys: frozenset[bytes]) -> tuple[list[tuple[bytes, Row]], int, int]:
        """The rows themselves: the marker is compared with what they were."""
        self._records.shown = rows[0][0] if rows else BEHIND_ALL
        for _, names, _ in rows:
            if names != self.names:
                raise ViolationError(f"I4: a chunk of {self.table.id} read with {names} is verified with {self.names}")
        kept = [(key, row) for _, _, row in rows if (key := key_of(self.table, row)) not in dropped_keys]
        return kept, len(rows) - len(kept), 0


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a request that the task has taken: windows have come to a number before, and to one behind that."""

    request: DumpRequest
    before: int
    behind: int


class SimTopics:
    """The ``SharedTopicWarnings`` of a task: each table has a topic of its own."""

    def captured(self, table: TableId) -> None:
        """Nothing to warn of."""

    def gone(self, table: TableId) -> None:
        """Nothing to withdraw."""

    def is_alone(self, _table: TableId) -> bool:
        return True

    def refusal(self, _table: TableId) -> None:
        """No other table has its topic."""


class SimRecords:
    """The ``Records`` of a task. Each marker is checked against the one before it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sent: dict[tuple[str, TableId], list[tuple[Any, Any]]] = {}
        """The ranges of the chunks of each dump of a table, in this run, since it began."""
        self.chains: dict[tuple[str, TableId], list[ChunkMarker]] = {}
        """The same of all runs."""
        self.ends: dict[tuple[str, TableId], tuple[int, ...]] = {}
        """Where the last chunk of each has ended."""
        self.log_rows: dict[TableId, int] = {}
        """Up to where each table's rows of the log have gone out."""
        self.lows: dict[TableId, set[int]] = {}
        """The low watermarks of the chunks of each table, in this run."""
        self.last_low: dict[TableId, int] = {}
        """The last ones of earlier runs."""
        self.revisions: dict[str, list[Revision]] = {}
        """Of each dump that was asked for, those that this run has taken."""
        self.verified: set[tuple[str, TableId, bytes]] = set()
        """Rows that have left a fingerprint, by the dump."""
        self.shown = BEHIND_ALL
        """The snapshot of the rows that were encoded last."""

    registered_together = True
    stage = None

    def transforms_fault(self, *, whole: bool) -> None:
        """No transforms here."""

    def topic_warnings(self, _warnings: Any) -> SimTopics:
        return SimTopics()

    chunk_context = staticmethod(chunk_context)

    def encoder(self, table: Table) -> SimEncoder:
        return SimEncoder(table, self)

    def encoders(self, tables: Sequence[Table]) -> list[SimEncoder]:
        return [self.encoder(table) for table in tables]

    def schemas(self, table: Table) -> SimpleNamespace:
        return SimEncoder(table, self).plan

    def marker(self, made: ChunkMarker) -> Segment | None:
        chain = (made.dump, made.table)
        if made.scope == Scope.TABLE:
            if made.begins:
                self.sent[chain] = []
            ranges = self.sent.setdefault(chain, [])
            low, upto = made.after or (), (BEHIND_ALL,) if made.upto is None else made.upto
            if made.begins != (made.after is None) or any(low < other_upto and other_low < upto for other_low, other_upto in ranges):
                raise ViolationError(f"I9: a chunk of {made.table} is ({made.after}, {made.upto}], others were {ranges}")
            ranges.append((low, upto))
            if made.begins:
                self.chains[chain] = []
                self.ends.pop(chain, None)
            if made.final:
                self.ends[chain] = upto
            if any(other_upto > self.ends.get(chain, (BEHIND_ALL,)) for _, other_upto in ranges):
                raise ViolationError(f"I9: chunks of {made.table} are {ranges}, the last one ends at {self.ends[chain]}")
            self.chains.setdefault(chain, []).append(made)
        low, high = made.low.pos, made.high.pos
        self._note_low(made)
        self._require_wanted(made)
        if made.fingerprints is not None:
            self._verify(made, made.fingerprints)  # type: ignore[arg-type]  rows here
        if HUB.is_told:
            HUB.note(f"window of {made.table.name} closes: ({made.after}, {made.upto}]{' final' if made.final else ''}")
        held = self.source.states[low][0].get(made.table)
        keyless = made.scope == Scope.TABLE and held is not None and not held[0].key
        for at in range(low, high):
            entry = self.source.log[at]
            if entry[0] == DDL and at >= self.shown and any(made.table in tables_of(change) for change in entry[1]):
                raise ViolationError(f"I2: {made.table} is altered at {at}, inside its window from {low} to {high} and behind its snapshot")
            if keyless and made.rows_read and entry[0] in {ROWS, PREPARED} and any(table.id == made.table for table, *_ in entry[1]):
                raise ViolationError(f"I2: {made.table} has no key and changed at {at}, inside its window")
        if keyless and made.rows_read and self.log_rows.get(made.table, 0) > high:
            raise ViolationError(f"I2: {made.table} has no key, and rows of the log have gone out behind its window and ahead of its rows")
        return None

    def _note_low(self, made: ChunkMarker) -> None:
        """Chunks of a table have low watermarks of their own, and those of a later run have later ones."""
        low, lows = made.low.sequence_low, self.lows.setdefault(made.table, set())
        if low in lows or low <= self.last_low.get(made.table, -1):
            raise ViolationError(
                f"I9: a chunk of {made.table} has the low watermark {low}; others of its run have {lows}, earlier runs came to {self.last_low}"
            )
        lows.add(low)

    def _require_wanted(self, made: ChunkMarker) -> None:
        """No window of a dump opens that rests, or of a table that does."""
        number, behind = int(made.chunk_id.rpartition("/")[2]), BEHIND_ALL
        for revision in reversed(self.revisions.get(made.dump, ())):
            if revision.behind <= number < behind and not (
                revision.request.wanted is Wanted.RUNNING and str(made.table) not in revision.request.tables_wanted
            ):
                raise ViolationError(f"window {number} of {made.table} is read for the dump {made.dump}, which rests: {revision}")
            behind = revision.before

    def begin_run(self, requests: Mapping[str, DumpRequest]) -> None:
        """The task begins again, with these requests."""
        self.revisions = {identity: [Revision(request, 0, 0)] for identity, request in requests.items()}
        self.sent, self.ends = {}, {}
        for table, lows in self.lows.items():
            self.last_low[table] = max(lows)
        self.lows, self.log_rows = {}, {}

    def has_whole_chain(self, dump: str, table: TableId) -> bool:
        """Whether chunks lead from the beginning of the table to its end, as the sink asks."""
        chain = self.chains.get((dump, table), [])
        ahead = [made for made in chain if made.begins]
        met: set[Any] = set()
        while ahead:
            made = ahead.pop()
            if made.final:
                return True
            if made.upto not in met:
                met.add(made.upto)
                ahead += [other for other in chain if not other.begins and other.after == made.upto]
        return False

    def _verify(self, made: ChunkMarker, rows: list[tuple[bytes, Row]]) -> None:
        """What has a fingerprint stood so at the low watermark, and still at the high one."""
        for at in (made.low.sequence_low >> ROW_BITS, made.high.sequence_low >> ROW_BITS):
            held = self.source.states[at][0].get(made.table)
            if held is None:
                continue
            at_then = {key_of(held[0], row): row for row in held[1].values()}
            for key, row in rows:
                if len(row) == len(held[0].columns) and at_then.get(key) != row:
                    raise ViolationError(f"I2: {row} of {made.table} has a fingerprint, and was {at_then.get(key)} at {at}")
        self.verified |= {(made.dump, made.table, key) for key, _ in rows}

    def truncated(self, at: int, encoder: SimEncoder) -> Segment:
        return Segment(encoder.plan.topic, [None], [("t", at, (), ())], encoder.table.id)  # type: ignore[list-item]


class SimReader:
    """A ``LogReader``."""

    is_silent = False

    def __init__(self, source: Source, at: SimProgress, resolve: Any, chances: Chances) -> None:
        self._source = source
        self._next = at.entries
        self._arrived = at.entries
        self._resolve = resolve
        self._chances = chances
        self._encoders: dict[TableId, Any] = {}
        self._held: frozenset[TableId] | None = None
        self._rows: list[tuple[SimEncoder, list[Any], list[Any], dict[int, Any]]] = []
        self._sent = at.entries
        self._waiting: list[Any] = []
        self._woken = False
        self._closed = False
        self.counts = LogCounts()

    def receive(self, timeout_s: float) -> int:
        hub, source = HUB, self._source
        hub.pause()
        if self._closed:
            raise TransientError("the connection is closed")
        if hub.random() < self._chances.cuts:
            raise TransientError("the connection was killed")
        there = len(source.log)
        if there == self._next:
            if self._held is None:
                self._arrived = there
                return 1
            if not self._woken:
                hub.park(self._waiting, hub.now_s + IDLE_S[int(hub.random() * len(IDLE_S))])
            self._woken = False
            return 0
        self._arrived = min(there, self._next + 1 + int(hub.random() * 5))
        return 1

    def items(self) -> Iterator[LogItem]:
        source = self._source
        log, held = source.log, source.held
        if self._held is None:
            self._held = held[self._next]
            yield Held(tables=self._held, reason="it is prepared")
        while self._next < self._arrived:
            at = self._next
            entry = log[at]
            kind = entry[0]
            self._next = at + 1
            if kind in (ROWS, PREPARED):
                if kind == PREPARED:
                    if self._rows:
                        yield from self._flush(at)
                    self._held = held[at + 1]
                    yield Held(tables=self._held, reason="it is prepared")
                if entry[2]:
                    self._add(at, entry[1])
                else:
                    if self._rows:
                        yield from self._flush(at)
                    tables = [t for t in dict.fromkeys(c[0].id for c in entry[1]) if self._encoder(c_table(entry, t), at) is not None]
                    if tables:
                        HUB.note(f"rows at {at} only by a dump: {[t.name for t in tables]}")
                        yield OnlyByDump(tables=tables, reason="rows lack columns", behind=(_HIGH, (at + 1) << ROW_BITS))
                    yield Moved(position=at + 1)
                continue
            if self._rows:
                yield from self._flush(at)
            if kind == MARK:
                where = WatermarkPosition(file="f", pos=at, sequence_high=_HIGH, sequence_low=position_of(at))
                if HUB.is_told:
                    HUB.note(f"log: watermark {entry[2]}")
                yield Watermarks(rows=(entry[1:],), at=where, position=at + 1)
            elif kind == DDL:
                HUB.note(f"log: DDL at {at}")
                self._chances.on_statement()
                yield Statement(
                    statement=entry,
                    text="DDL",
                    database=DATABASE,
                    valid_from=(_HIGH, (at + 1) << ROW_BITS),
                    position=at + 1,
                    begin=at + 1,
                    note={},
                    where=str(at),
                    source=position_of(at),  # type: ignore[arg-type]
                )
            elif kind == COMMITTED:
                self._held = held[at + 1]
                yield Held(tables=self._held, reason="it is prepared")
                yield Moved(position=at + 1)
            else:
                assert kind == LOST
                yield Moved(position=at + 1)

    def _add(self, at: int, changes: list[tuple[Table, Row | None, Row | None]]) -> None:
        rows = self._rows
        for number, (table, before, after) in enumerate(changes):
            encoder = self._encoder(table, at)
            if encoder is None:
                # A dump brings what is passed over, and takes away nothing: what is deleted here stays in the topic.
                self._source.breaks[table.id] = max(self._source.breaks.get(table.id, 0), position_of(at))
                continue
            found = next((row for row in rows if row[0] is encoder), None)
            if found is None:
                found = (encoder, [], [], {})
                rows.append(found)
            encoder.encode_row(table, before, after, position_of(at) + number, found[1], found[2])

    def flush(self) -> Iterator[LogItem]:
        if self._rows or self._next > self._sent:
            yield from self._flush(self._next)

    def _flush(self, position: int) -> Iterator[LogItem]:
        rows, self._rows = self._rows, []
        self._sent = position
        if rows:
            records = sum(len(row[1]) for row in rows)
            if HUB.is_told:
                HUB.note(f"log: rows up to {position}: {[(r[0].table.id.name, k) for r in rows for k in r[1]]}")
            for encoder, *_ in rows:
                encoder._records.log_rows[encoder.table.id] = position  # noqa: SLF001
            yield LogRows(segments=rows, records=records, bytes=records, source_ts_us=1, position=position)
        else:
            yield Moved(position=position)

    def _encoder(self, table: Table, at: int) -> SimEncoder | None:
        id_ = table.id
        if id_ in self._encoders:
            return self._encoders[id_]
        found = self._resolve(table, (_HIGH, position_of(at)), at)
        if found is IGNORED_FOR_NOW:
            HUB.note(f"log: rows of {id_.name} at {at} are passed over")
            return None
        if found is ROWS_PARKED:
            HUB.note(f"log: {id_.name} is parked at {at}")
            found = None
        self._encoders[id_] = found
        return found

    def forget_tables(self) -> None:
        self._encoders.clear()

    def wake(self) -> None:
        self._woken = True
        for task in list(self._waiting):
            HUB.wake(task)

    def close(self) -> None:
        self._closed = True


def c_table(entry: tuple[Any, ...], id_: TableId) -> Table:
    """The version by which an entry has a table's rows."""
    return next(table for table, *_ in entry[1] if table.id == id_)


class SimLog:
    """A ``LogSource``."""

    def __init__(self, source: Source, resolve: Any, chances: Chances) -> None:
        self._source = source
        self._resolve = resolve
        self._chances = chances

    def open(self, at: SimProgress, *, unreadable: Any) -> SimReader:
        HUB.note(f"log: opens at {at.entries}")
        return SimReader(self._source, at, self._resolve, self._chances)

    def end(self, *, epoch: int) -> Position:
        if HUB.random() < self._chances.cuts:
            raise TransientError("nobody answers")
        return _HIGH, len(self._source.log) << ROW_BITS

    def passed_over(self, table: TableId) -> None:
        pass

    def shows(self, shown: Any, table: TableId, low: Position) -> bool:
        return True

    def beat(self) -> None:
        pass

    def confirm(self, offset: OffsetMap) -> None:
        pass


class SimSql:
    """A ``ChunkSql``: a statement is what it asks for and of which version of the table."""

    def chunk_select(self, table: Table, after: Any, upto: Any, rows_max: int, *, where: str | None = None) -> tuple[Any, Any]:
        return "chunk", (table, after, upto, rows_max, where)

    def rows_by_key(self, table: Table, keys: Any) -> tuple[Any, Any]:
        return "keys", (table, keys, None)

    def max_key(self, table: Table, *, where: str | None = None) -> tuple[Any, Any]:
        return "max", (table, where)

    def exact_key(self, table: Table, shown: Any) -> Any:
        return shown

    def last_key(self, table: Table, after: Any, upto: Any, row_count: int, *, where: str | None = None) -> tuple[Any, Any]:
        return "nth", (table, after, upto, row_count, where)

    def key_lookup(self, table: Table, key: Any, after: Any, *, where: str | None = None) -> tuple[Any, Any]:
        return "lookup", (table, key, after, where)

    def full_scan(self, table: Table, rows_max: int, *, where: str | None = None) -> tuple[Any, Any]:
        return "scan", (table, rows_max, where)

    def by_place(self, table: Table) -> Table:
        return table

    def key_indexes(self, table: Table) -> tuple[int, ...]:
        return tuple(names_of(table).index(name) for name in table.key)


def _between(ordered: list[tuple[Any, Row]], after: Any, upto: Any) -> list[tuple[Any, Row]]:
    """The rows of a range."""
    low, high = after or (), upto or (BEHIND_ALL,)
    return [found for found in ordered if low < found[0] <= high]


class SimChunks:
    """A ``DumpConnection``."""

    def __init__(self, source: Source, chances: Chances) -> None:
        self._source = source
        self._chances = chances
        self._shown: int | None = None
        self._locks: list[TableId] = []
        self._closed = False

    def _ask(self) -> None:
        hub = HUB
        hub.pause()
        if self._closed:
            raise TransientError("the connection is closed")
        if hub.random() < self._chances.fails:
            raise TransientError("the connection was killed")

    def write_watermark(self, name: str, token: str) -> None:
        self._ask()
        self._source.mark(name, token, lost=HUB.random() < self._chances.loses)
        self._ask()

    def snapshot_shown(self) -> None:
        pass

    def begin_snapshot(self) -> None:
        self._ask()
        self._unlock()
        self._shown = self._source.snapshot()
        if HUB.is_told:
            HUB.note(f"snapshot of {self._shown} entries")

    def begin_snapshot_behind(self, low: SimProgress) -> bool:
        self.begin_snapshot()
        if self._shown is not None and self._shown >= low.entries:
            return True
        self._unlock()
        return False

    def log_end(self) -> int:
        self._ask()
        return len(self._source.log)

    def limit_selects(self, limit_s: float) -> None:
        self._ask()

    def read_watermark(self, name: str) -> str | None:
        self._ask()
        return self._view()[1].get(name)

    def _view(self) -> Any:
        source = self._source
        return source.states[source.snapshot() if self._shown is None else self._shown]

    def select(
        self, statement: str, parameters: Sequence[Any], *, bytes_max: int = 0, key: Sequence[int] = (), table: TableId | None = None
    ) -> ChunkRows:
        self._ask()
        source = self._source
        shown = source.snapshot() if self._shown is None else self._shown
        wanted: Table = parameters[0]
        id_ = wanted.id
        then = source.states[shown][0].get(id_)
        now = source.tables.get(id_)
        if then is None or now is None or now[0] is not then[0]:
            raise TableChangedError(f"{id_} is gone or has changed")
        held, rows = then
        names, columns = names_of(wanted), names_of(held)
        if names != columns and not set(names) <= set(columns):
            raise TableChangedError(f"{id_} lacks a column")
        if self._shown is not None and id_ not in self._locks:
            self._locks.append(id_)
            source.locked.append(id_)
        ordered = in_order(wanted, rows.values())
        if parameters[-1] is not None:
            ordered = [found for found in ordered if is_chosen(found[1][0])]
        if statement == "chunk":
            _, after, upto, rows_max, _ = parameters
            ordered = _between(ordered, after, upto)[:rows_max]
        elif statement == "nth":
            _, after, upto, number, _ = parameters
            ordered = _between(ordered, after, upto)[number - 1 : number]
        elif statement == "max":
            ordered = ordered[-1:]
        elif statement == "lookup":
            _, wanted_key, behind, _ = parameters
            ordered = [found for found in ordered if found[0] == wanted_key and found[0] > (behind or ())][:2]
        elif statement == "keys":
            asked = set(parameters[1])
            ordered = [found for found in ordered if found[0] in asked]
        else:
            ordered = ordered[: parameters[1]]
        if bytes_max and len(ordered) > bytes_max:
            ordered = ordered[: bytes_max + 1]
        last_key = ordered[-1][0] if ordered and wanted.key else None
        if names != columns:
            picked = [columns.index(name) for name in names]
            taken = [(shown, names, tuple([row[i] for i in picked])) for _, row in ordered]
        else:
            taken = [(shown, names, row) for _, row in ordered]
        if HUB.is_told and statement in {"chunk", "scan", "keys"}:
            HUB.note(f"select {id_.name} {parameters[1:]}: {[row for _, _, row in taken]}")
        return ChunkRows(rows=taken, row_count=len(taken), last_key=last_key)  # type: ignore[arg-type]

    def complete(self, chunk: ChunkRows, table: Table, after: Any, *, keys: Any = None, where: str | None = None) -> ChunkRows:
        return chunk

    def end_snapshot(self) -> None:
        self._ask()
        self._unlock()

    def _unlock(self) -> None:
        self._shown = None
        for id_ in self._locks:
            self._source.locked.remove(id_)
        self._locks = []

    def close(self) -> None:
        self._closed = True
        self._unlock()


class SimSchemas:
    """A ``LogSchemas``: full metadata, and every statement is understood."""

    advice = SimpleNamespace(name_columns="", name_columns_in_future="", log_rows="", disagreement="")

    def __init__(self, source: Source) -> None:
        self._source = source

    def read_table_map(self, table_map: Table) -> tuple[TableId, Seen, Any]:
        if self._source.names_columns:
            return table_map.id, Seen(columns=table_map.columns, named=True, key=table_map.key), lambda known, seen: seen
        return table_map.id, Seen(columns=table_map.columns, named=False, complete=False), lambda known, seen: known

    def parse_statement(self, statement: tuple[Any, ...], text: str, position: Position) -> Iterable[Change]:
        _, changes, strange = statement
        return (Unknown(tuple(table for change in changes for table in tables_of(change)), "it is strange"),) if strange else changes

    def rewritten(self, changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        return rewritten(changes, before)

    def row_change(self, statement: Any, text: str) -> None:
        return None

    def read_table(self, table: TableId, position: Position, begin: int) -> Reading:
        source = self._source
        touched = any(entry[0] == DDL and any(table in tables_of(change) for change in entry[1]) for entry in source.log[begin:])
        found = source.tables.get(table)
        HUB.note(f"log: the server is asked for {table.name}{', touched since' if touched else ''}")
        return Reading(table=None if found is None else found[0], position=(_HIGH, len(source.log) << ROW_BITS), touched=touched)


class SimServer:
    """A ``Server``."""

    chunk_sql = SimSql()
    log_has_statements = True
    watermark_table = TableId("d", "watermark")
    signal_tables: frozenset[TableId] = frozenset()

    def __init__(self, source: Source, chances: Chances, *, chosen: Collection[TableId] = ()) -> None:
        """``chosen``: tables of which the connector's first dump is to have some rows alone."""
        self._source = source
        self._chances = chances
        self._chosen = chosen
        self.conditions_asked = 0

    def check(self, tables: Any, *, watermarks: Any, named: Any) -> list[str]:
        return []

    def complete_log(self, lacking: Any) -> None:
        pass

    def begin(self) -> SimProgress:
        return self.now()

    def now(self) -> SimProgress:
        return SimProgress(len(self._source.log), 0)

    def resume(self, progress: SimProgress) -> bool:
        return False

    def read_tables(self, include: Callable[[TableId], bool]) -> list[Table]:
        return [self._source.tables[id_][0] for id_ in sorted(self._source.tables) if include(id_)]

    def read_databases(self) -> dict[str, Database]:
        return {DATABASE: Database(None, None)}

    def own_condition(self, table: TableId) -> str | None:
        self.conditions_asked += 1
        return "is_chosen" if table in self._chosen else None

    def check_conditions(self, conditions: Sequence[tuple[Table, str]]) -> None:
        """There is no SQL here."""

    def check_surrogate(self, tables: Sequence[Table], column: str) -> None:
        """There are no foreign keys here."""

    def check_keys(self, table: Table, keys: Any) -> None:
        """What the desk refuses of them needs no server."""

    def open_chunks(self) -> SimChunks:
        return SimChunks(self._source, self._chances)

    def schemas(self, timeline: Timeline, context: Any, *, epoch: int) -> SimSchemas:
        return SimSchemas(self._source)

    def log(self, schemas: Any, resolve: Any, context: Any) -> SimLog:
        return SimLog(self._source, resolve, self._chances)

    def close(self) -> None:
        pass


class SimConnector:
    """A ``Source``, as far as a start asks."""

    log_writes_watermarks = False

    def progress(self, offset: OffsetMap) -> SimProgress:
        return SimProgress(int(offset["entries"]))  # type: ignore[arg-type]

"""One schedule: a source under writes and DDL, a connector's task over it, Kafka, crashes; and the invariants, checked on the way and at the end.

Real: core/, readers/ (log stream, chunk readers, dump, order, windows, queue, schemas, start and restart), the ledger. Simulated: the server, Kafka, time, and
the order of what threads do (sim/threads.py). The seed also decides what a schedule is about, and how tight its limits are: a schedule of everything at
once would seldom come far in anything.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.config.options import Settings
from dblog.config.regex import any_of
from dblog.core import dumprequests
from dblog.core.changes import tables_of
from dblog.core.chunk_size import ChunkLimits
from dblog.core.dumprequests import INITIAL, DumpRequest, Mode, Wanted, selects
from dblog.core.ledger import Entry, Ledger
from dblog.core.requested import End, RequestedDump, requests_from_text
from dblog.core.timeline import Database, Position, Timeline
from dblog.errors import DblogError
from dblog.model import Batch, OffsetMap, TableId
from dblog.readers.dump import chunk, closed_windows, order, sharing
from dblog.readers.options import ReaderOptions
from dblog.readers.run import starting
from dblog.readers.run.running import Running
from dblog.readers.standing_warnings import StandingWarnings
from sim.beginnings import Beginning, begin, beginning_of
from sim.dialect import Chances, Revision, SimConnector, SimRecords, SimServer, ViolationError
from sim.source import CAPTURED, DDL, KEYS_MAX, SURROGATE, Source, is_chosen, key_index, key_of, names_of
from sim.thawed import thaw
from sim.threads import HUB, Chance, Locks, SimClock, Time

STEPS_MAX = 12_000
WAITS_MAX = 3000
"""How often time may pass once nothing more is written: then somebody waits for what will never come."""
ECHOES = 0.2
"""How often a revision of a request is heard of once more behind the next one."""
NOTHING_MATCHES = "no captured table matches"
WENT = ("was dropped", "is not known at the log's position", "is not captured any more")
FORGOTTEN = "has no key and changed "
"""The one reason for which a table's dump may fail here,"""
NOT_BY_KEY = "has no key, and the mode verify finds rows by their keys"
"""and one more of dumps that send no rows."""


class Silence:
    """In the place of a module's log."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return self._nothing

    @staticmethod
    def _nothing(*_: object, **__: object) -> None:
        pass


def install() -> None:
    """Have the reader layer run on simulated threads and time, for the rest of this process."""
    order.CHUNK_BATCH_RECORDS = 2
    order.CHUNK_PARTS_AHEAD = 0
    sharing.CHUNKS_KEPT = (1,)
    chunk.CHUNKS_MIN = 1
    for name, module in list(sys.modules.items()):
        if name.startswith("dblog.readers."):
            for found, instead in (("threading", Locks), ("time", Time), ("random", Chance), ("log", Silence())):
                if hasattr(module, found):
                    setattr(module, found, instead)
    starting.describe_unmatched_columns = lambda *_: ()  # type: ignore[assignment]
    dumprequests.any_of = lambda texts, *, ignore_case: _any_of(tuple(texts), ignore_case)
    thaw(("dblog.core.", "dblog.readers.", "dblog.model", "dblog.ports", "dblog.codecs.plan"))


@cache
def _any_of(texts: tuple[str, ...], ignore_case: bool) -> Callable[[str], bool]:
    """The same few patterns are asked for again and again."""
    return any_of(texts, ignore_case=ignore_case)


CONFIG = {
    "name": "c",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "p",
    "database.hostname": "unused",
    "database.user": "unused",
    "database.server.id": "7",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "unused:9092",
    "table.include.list": "s\\.[abc]",
    "include.schema.changes": "false",
    "dblog.metrics.server.interval.ms": "0",
    "dblog.dump.limit.log.lag.ms": "0",
}


def _settings() -> tuple[Settings, ReaderOptions]:
    settings = parse_connector(MYSQL_OPTIONS, CONFIG)
    options = ReaderOptions.from_settings(
        settings, connector="c", run="run", watermark_table=TableId("d", "watermark"), builtin_databases=frozenset()
    )
    return settings, replace(options, watch_interval_s=0.0, reports_schemas=False)


SETTINGS, OPTIONS = _settings()


@cache
def options_of(
    chunk_rows: int, chunk_bytes: int, dump_threads: int, keys: int, queue_records: int, run: str, *, read_only: bool, redumps: bool
) -> ReaderOptions:
    """Options with limits so tight that each is met. A row has one byte here."""
    return replace(
        OPTIONS,
        chunk_limits=ChunkLimits(rows_max=chunk_rows, bytes_max=chunk_bytes, rows_min=1),
        dump_threads=dump_threads,
        window_keys_max=keys,
        queue_records_max=queue_records,
        run=run,
        redumps=redumps,
        **({"read_only": True} if read_only else {}),
    )


CLOCK = SimClock()


class SimHistory:
    """A ``SchemaHistory`` whose records are kept as they are."""

    server = "p"

    def __init__(self) -> None:
        self._tables: dict[TableId, dict[str, object]] = {}
        self._databases: dict[str, Database] = {}
        self._began: Position = (0, 0)
        self._lists: dict[str, tuple[TableId, ...]] = {}

    def recover(self, timeline: Timeline) -> int:
        for id_, record in self._tables.items():
            timeline.from_record(id_, record)
        timeline.databases.update(self._databases)
        timeline.began = self._began
        return len(self._tables)

    def save(self, timeline: Timeline, tables: Any, *, databases: Any = (), statement: Any = None) -> None:
        HUB.pause()
        for id_ in tables:
            record = timeline.to_record(id_)
            if record is None:
                self._tables.pop(id_, None)
            else:
                self._tables[id_] = record
        for name in databases:
            self._databases[name] = timeline.databases[name]
        HUB.pause()

    def begin_epoch(self, timeline: Timeline, began_at: Position) -> None:
        timeline.began = self._began = began_at

    def prune(self, timeline: Timeline, committed: Position) -> None:
        gone = timeline.prune(committed)
        for id_ in gone:
            self._tables.pop(id_, None)

    def lists(self) -> dict[str, tuple[TableId, ...]]:
        return dict(self._lists)

    def save_list(self, identity: str, tables: Any) -> None:
        HUB.pause()
        self._lists[identity] = tuple(tables)
        HUB.pause()

    def keep_lists(self, identities: Any) -> None:
        self._lists = {identity: tables for identity, tables in self._lists.items() if identity in identities}

    def close(self) -> None:
        pass


class Sent:
    """A batch that was taken from the task: how many of its records Kafka has, by the simulation's own count."""

    __slots__ = ("arrived", "entry", "records", "step")

    def __init__(self, batch: Batch, entry: Entry) -> None:
        self.step = batch.step
        self.records = batch.records_total
        self.arrived = 0
        self.entry = entry


class Play:
    """One seed's schedule."""

    def __init__(self, seed: int, *, trace: list[str] | None = None) -> None:
        self.chance = Random(seed)
        # Fields of simulated records: two rows become records at a time, and leave together, or one by one.
        order.CHUNK_BATCH_BYTES = 8 if seed % 2 else 4
        closed_windows.NOTED_MAX = 2 if seed % 4 == 0 else 100
        random = self.random = self.chance.random
        self.aside = Random(f"aside {seed}").random
        """Dice of their own, for what changes nothing else of a schedule."""
        self.beginning = beginning_of(self.aside())
        HUB.begin(self.chance, preempts=(0.1, 0.3, 0.7)[int(random() * 3)], trace=trace)
        self.calm = random() < 0.15
        """Nothing fails, so that also the straight way is played."""
        self.writes = 2 + int(random() * 5)
        self.ddl = 0 if random() < 0.4 else 1 + int(random() * 4)
        self.xa = 0.1 if random() < 0.2 else 0.0
        self.crashes = 0 if self.calm or random() < 0.6 else 1 + int(random() * 2)
        self.writes_share = (0.03, 0.1, 0.3)[int(random() * 3)]
        self.sends_share = (0.03, 0.1, 0.3)[int(random() * 3)]
        self.slow = ("", "", "log", "dump-0")[int(random() * 4)]
        """A thread that gets few turns."""
        self.chances = Chances(
            fails=0.0 if self.calm or random() < 0.5 else 0.03,
            loses=0.0 if self.calm or random() < 0.75 else 0.15,
            cuts=0.0 if self.calm or random() < 0.7 else 0.04,
        )
        if self.beginning is Beginning.CHOSEN:
            self.crashes = 0  # a later run does not know any more of which tables it had chosen rows alone
        self.redumps = random() < 0.85 or self.beginning is Beginning.CHOSEN
        """Whether statements that rewrite rows have tables dumped again. Without, a dump that has begun comes to its end all the same."""
        self.is_exempt = False
        if not self.redumps:
            self.ddl, self.slow = 2, "dump-0"
            self.chances.on_statement = self.meet_statement
        self.source = Source(
            lag_share=0.0 if self.calm or random() < 0.4 else 0.25,
            readable=1.0 if self.calm or random() < 0.8 else 0.9,
            strange=0.0 if random() < 0.7 else 0.3,
            names_columns=random() < 0.5,
            only_renames=not self.redumps,
        )
        self.limits = (
            1 + int(random() * 4),
            2 if random() < 0.2 else 100,
            1 + int(random() * 3),
            (1, 3, 50)[int(random() * 3)],
            (1, 4, 50)[int(random() * 3)],
        )
        self.shared = random() < 0.3
        """Whether a table is large enough for several readers, and there are several."""
        if self.shared:
            self.limits = (1 + int(random() * 1.5), self.limits[1], 2 + int(random() * 2), *self.limits[3:])
        self.asks = 0 if random() < (0.5 if self.shared else 0.8) else 1 + int(random() * 2)
        """Dumps that are asked for while the task runs."""
        self.requests: dict[str, DumpRequest] = {}
        """As their owner has them, until he has noted their ends."""
        self.asked: dict[str, tuple[int, int]] = {}
        """How much Kafka had when a dump was asked for, and how far the log was read: tables are those that are known there."""
        self.ends: dict[str, tuple[DumpRequest, RequestedDump]] = {}
        self.read_only = hasattr(OPTIONS, "read_only") and random() < 0.3
        self.dense = random() < 0.5
        """Whether the server's statistics show that keys are dense."""
        keyless = random() < 0.08
        self.in_chunks = keyless
        """A table without a key is there, and what is asked for is to be read by another column: nothing else has chunks of it."""
        if keyless:
            self.asks += 3
        tables = 1 + int(random() * 1.9)
        if self.beginning is Beginning.PAUSED:
            self.limits, tables = (*self.limits[:2], 1, *self.limits[3:]), 2
        for id_ in CAPTURED[:tables]:
            rows = int(random() * 4.5) + (5 if self.shared or keyless else 0)
            self.source.create(id_, key=() if keyless and id_ is CAPTURED[1] else ("id",), rows=min(rows, KEYS_MAX))
        self.first = set(self.source.tables)
        """Made by the first entries of the log."""
        self.server = SimServer(self.source, self.chances, chosen=CAPTURED[:1] if self.beginning is Beginning.CHOSEN else ())
        self.connector = SimConnector()
        self.history = SimHistory()
        self.records = SimRecords(self.source)
        self.kafka: list[tuple[str, bytes | None, Any]] = []
        self.stored: OffsetMap | None = None
        self.runs = 0
        self.waits = 0
        self.begin()

    # ---- runs of the task

    def begin(self) -> None:
        """A run from the stored offset."""
        self.runs += 1
        options = self.options = options_of(*self.limits, f"r{self.runs}", read_only=self.read_only, redumps=self.redumps)
        start = starting._Start(self.connector, self.server, self.history, options, SETTINGS, CLOCK, StandingWarnings())  # type: ignore[arg-type]  # noqa: SLF001
        beginning = start.beginning(self.stored, list(self.requests.values()))
        HUB.note(f"run {self.runs} begins at {beginning.progress}")
        self.running = Running(
            server=self.server,  # type: ignore[arg-type]
            history=self.history,  # type: ignore[arg-type]
            beginning=beginning,
            options=options,
            records=self.records,  # type: ignore[arg-type]
            clock=CLOCK,
        )
        self.ledger = Ledger()
        self.messages: deque[Callable[[], object]] = deque()
        self.sent: deque[Sent] = deque()
        self.newest: dict[tuple[str, bytes | None], int] = {}
        self.emptied: dict[str, int] = {}
        self.partitions: tuple[deque[Any], deque[Any]] = (deque(), deque())
        self.records.begin_run(self.requests)
        start = self.running.fold.offset()
        if self.dense:
            self.running.estimates.learn(dict.fromkeys(CAPTURED, KEYS_MAX))
        self.running.begin()
        if start != self.stored:
            self.stored = start
            self.running.commit(start)

    def meet_statement(self) -> None:
        """The log comes to a rename, and nothing is dumped again for it: what had been dumped under its old name is not required under the new one."""
        self.running.order.send_all_chunk_rows()  # as the log thread does in front of the statement
        dump = self.running.progress.own
        if dump is None or dump.finished or any(table.done and not table.cut_short for table in dump.over.values()):
            self.is_exempt = True

    def crash(self) -> None:
        """The task ends where it is: by kill -9, or by a stop, which must end too."""
        self.crashes -= 1
        if self.random() < 0.3:
            self.stop()
        HUB.note("crash")
        if self.random() < 0.3:
            self.commit()
        HUB.kill()
        for partition in self.partitions:  # what was handed over may have arrived all the same, in its order
            for _ in range(int(self.random() * (len(partition) + 1))):
                self.kafka.append(partition.popleft()[:3])
        self.begin()

    def stop(self) -> None:
        HUB.note("stop")
        HUB.spawn("stop", self.running.stop)
        for _ in range(STEPS_MAX):
            if not HUB.tasks:
                return
            if not HUB.ready:
                if not HUB.pass_time():
                    break
                continue
            HUB.run(HUB.ready[int(self.random() * len(HUB.ready))])
        raise ViolationError(f"a stop does not end: {[task.name for task in HUB.tasks]} go on")

    # ---- Kafka

    def poll(self) -> None:
        """Take batches from the task, and hand their records over."""
        running = self.running
        waiting = running.queue
        if waiting.records_total > self.options.queue_records_max and len(waiting._batches) > 1:  # noqa: SLF001
            raise ViolationError(f"I6: {waiting.records_total} records in a queue for {self.options.queue_records_max}")
        self.check_windows()
        for batch in running.poll(timeout_s=0, records_max=4, bytes_max=1 << 20):
            entry = self.ledger.enter(batch.step, batch.records_total)
            sent = Sent(batch, entry)
            self.sent.append(sent)
            newest = self.newest
            for segment in batch.segments:
                topic = segment.topic
                for key, value in zip(segment.keys, segment.values, strict=True):
                    pos = value[1]  # type: ignore[index]
                    if key is None:
                        part = 0
                        if value[0] == "t":  # type: ignore[index,comparison-overlap]
                            self.emptied[topic] = pos
                    else:
                        part = key[-1] & 1
                        at = (topic, key)
                        if pos < self.emptied.get(topic, 0):
                            raise ViolationError(f"I2: {topic} {key!r} comes back behind a TRUNCATE at {self.emptied[topic]}: {value}")
                        if pos < newest.get(at, 0):
                            raise ViolationError(f"I2: {topic} {key!r} goes back from {newest[at]} to {value}")
                        newest[at] = pos
                    self.partitions[part].append((topic, key, value, sent))

    # ---- dumps that are asked for

    def ask(self, **fixed: Any) -> DumpRequest:
        """An operator asks for a dump of some tables, or of some keys of one. ``fixed``: what is not left to chance."""
        self.asks = max(0, self.asks - 1)
        random = self.random
        one = "s\\." + "abc"[int(random() * 3)]
        keys = tuple((int(random() * 12),) for _ in range(1 + int(random() * 4))) if random() < 0.25 else None
        request = DumpRequest(
            id=f"{len(self.asked):012x}",
            connector="c",
            created_ms=len(self.asked),
            requested_by="rest",
            mode=_mode(random(), keys),
            tables=(one,) if keys or random() < 0.4 else ("s\\.[abc]",),
            keys=keys,
            chunk_rows=None if random() < 0.5 else 1 + int(random() * 3),
            delay_ms=0 if random() < 0.7 else 200,
            parallelism=1 + int(random() * (4 if self.shared else 2)),
            priority=int(random() * 2),
        )
        request = replace(request, **fixed)
        if self.in_chunks:
            request = replace(request, mode=Mode.ROWS, tables=("s\\.[abc]",), keys=None)
        if request.keys is None and request.mode is not Mode.VERIFY and (self.in_chunks or self.aside() < 0.5):
            request = replace(request, surrogate_key=SURROGATE)
        self.asked[request.id] = (len(self.kafka), self.running.stream.progress.entries)  # type: ignore[attr-defined]
        self.order(request)
        return request

    def order(self, request: DumpRequest) -> None:
        """The owner stores a request, or another revision of it, and has the task take it. A revision that the task has made itself, by a signal, comes
        back to it when it is stored, which may be behind the next one.
        """
        before = self.requests.get(request.id)
        self.requests[request.id] = request
        HUB.note(
            f"dump {request.id[-1]} of {request.tables} keys {request.keys} by {request.surrogate_key}: {request.wanted} {dict(request.tables_wanted)}"
        )
        self.tell(lambda: self.take(request))
        if before is not None and self.aside() < ECHOES:
            self.tell(lambda: self.take(before))

    def take(self, request: DumpRequest) -> None:
        """A thread of the task takes it. Windows that are declared behind that are by what it says."""
        revisions, windows = self.records.revisions.setdefault(request.id, []), self.running.windows._windows  # noqa: SLF001
        before = windows._next_number  # noqa: SLF001
        self.running.desk.take(request)
        if not revisions or request.revision > revisions[-1].request.revision:
            revisions.append(Revision(request, before=before, behind=windows._next_number))  # noqa: SLF001

    def tell(self, message: Callable[[], object]) -> None:
        """The owner's messages are taken in their order, by a thread of the task."""
        messages = self.messages
        messages.append(message)

        def take() -> None:
            while messages:
                messages[0]()
                messages.popleft()

        if len(messages) == 1:
            HUB.spawn("desk", take)

    def steer(self) -> None:
        """An operator pauses, resumes or stops a dump, or a table of it."""
        random = self.random
        request = list(self.requests.values())[int(random() * len(self.requests))]
        if request.wanted is Wanted.STOPPED:
            return
        wanted = Wanted.RUNNING if random() < 0.4 else Wanted.PAUSED if random() < 0.8 else Wanted.STOPPED
        if random() < 0.6:
            self.order(replace(request, revision=request.revision + 1, wanted=wanted))
        else:
            of_tables = {**request.tables_wanted, "s." + "abc"[int(random() * 3)]: wanted}
            of_tables = {table: each for table, each in of_tables.items() if each is not Wanted.RUNNING}
            self.order(replace(request, revision=request.revision + 1, tables_wanted=of_tables))

    def resume_all(self) -> None:
        """Nothing is left paused."""
        for request in list(self.requests.values()):
            if request.wanted is not Wanted.STOPPED:
                kept = {table: wanted for table, wanted in request.tables_wanted.items() if wanted is Wanted.STOPPED}
                self.order(replace(request, revision=request.revision + 1, wanted=Wanted.RUNNING, tables_wanted=kept))

    def note_ends(self) -> None:
        """The owner hears of ends, and has the task forget them. None may be told before an offset has it."""
        told = {status["id"]: status["state"] for status in self.running.desk.statuses()}
        text = (self.stored or {}).get("dblog_dumps")
        kept = requests_from_text(text).dumps if isinstance(text, str) else {}
        for one in self.running.fold.requests:
            identity = one.request.id
            ended = identity in kept and kept[identity].end is not None
            if told.get(identity) in {"DONE", "FAILED", "STOPPED"} and not ended:
                raise ViolationError(f"I1: dump {identity} is told to be {told[identity]}, and the stored offset does not have that")
            if ended and one.end is not None and identity in self.requests and identity not in self.ends and self.random() < 0.5:
                self.ends[identity] = (self.requests.pop(identity), one)
                desk = self.running.desk
                self.tell(lambda desk=desk, identity=identity: desk.forget(identity))

    def check_requests(self) -> None:
        """A dump that is done has brought every row, since it was asked for, of each table that was left alone meanwhile."""
        ended = dict(self.ends)
        for one in self.running.fold.requests:
            if one.request.id in self.requests:
                ended[one.request.id] = (self.requests[one.request.id], one)
        for identity, (begun, position) in self.asked.items():
            request, one = ended[identity]
            if one.end is None or (
                one.end is End.FAILED
                and not any(reason in (one.reason or "") for reason in (FORGOTTEN, NOT_BY_KEY, NOTHING_MATCHES, *WENT))
            ):
                raise ViolationError(f"dump {identity} has ended as {one.end}: {one.reason}")
            if one.end is not End.DONE or one.tables_failed:
                continue
            brought = {(topic, key) for topic, key, _ in self.kafka[begun:]}
            if request.mode is Mode.VERIFY:
                brought |= {(table.name, key) for dump, table, key in self.records.verified if dump == identity}
            known = self.source.states[position][0]
            altered = {id_ for entry in self.source.log[position:] if entry[0] == DDL for change in entry[1] for id_ in tables_of(change)}
            for id_ in CAPTURED:
                if id_ in altered or id_ not in known or not selects(request)(str(id_)):
                    continue
                table, rows = self.source.tables[id_]
                if not table.key:
                    came = {(topic, value[3]) for topic, _, value in self.kafka[begun:] if value[0] in {"r", "c"}}
                    if missing := {row for row in rows.values() if (id_.name, row) not in came}:
                        raise ViolationError(f"I3: dump {identity} is done, and has not brought {missing} of {id_.name}")
                    continue
                for row in rows.values():
                    key = key_of(table, row)
                    if request.keys is not None and (row[key_index(table)],) not in request.keys:
                        continue
                    if (id_.name, key) not in brought:
                        raise ViolationError(f"I3: dump {identity} is done, and has not brought {id_.name} {key!r}")

    def check_chains(self, failed: set[TableId]) -> None:
        """The chunks of each table that was left alone are a whole, however many readers had it. # I9"""
        log = self.source.log[len(self.first) :]
        altered = {id_ for entry in log if entry[0] == DDL for change in entry[1] for id_ in tables_of(change)}
        dumps = [INITIAL]
        for identity, (request, one) in self.ends.items():
            if one.end is End.DONE and not one.tables_failed and request.keys is None:
                dumps.append(identity)
        for id_ in self.first - altered - failed:
            for identity in dumps:
                if identity != INITIAL and not selects(self.ends[identity][0])(str(id_)):
                    continue
                if identity == INITIAL and self.has_chosen_rows(id_):
                    continue
                if not self.records.has_whole_chain(identity, id_):
                    raise ViolationError(
                        f"I9: the chunks of {id_} for the dump {identity} are no whole: {self.records.chains.get((identity, id_))}"
                    )

    def deliver(self) -> None:
        """A broker takes some records, and says so."""
        partition = self.partitions[0 if not self.partitions[1] or (self.partitions[0] and self.random() < 0.5) else 1]
        for _ in range(min(len(partition), 1 + int(self.random() * 6))):
            topic, key, value, sent = partition.popleft()
            self.kafka.append((topic, key, value))
            sent.arrived += 1
            sent.entry.acknowledge()

    def commit(self) -> None:
        """Fold what is acknowledged into the offset, and store it now or later."""
        fold = self.running.fold
        taken = self.ledger.take_acknowledged()
        if not taken:
            return
        for entry in taken:
            sent = self.sent.popleft()
            if sent.entry is not entry or sent.arrived != sent.records:
                raise ViolationError(f"I1: an offset covers a batch of which {sent.arrived} of {sent.records} records have arrived")
            fold.advance(entry.step)
        if self.random() < 0.35:
            self.store()

    def store(self) -> None:
        """Late: what is acknowledged since an offset was stored is sent again by the next run."""
        self.stored = self.running.fold.offset()
        if HUB.is_told:
            HUB.note(f"offset stored: {self.stored}")
        self.running.commit(self.stored)
        if self.requests:
            self.note_ends()

    def check_windows(self) -> None:
        """I6."""
        windows = self.running.windows._windows  # noqa: SLF001
        for table, siblings in windows._by_table.items():  # noqa: SLF001
            lanes = [window.lane for window in siblings]
            if any(lanes.count(lane) > 2 for lane in lanes):
                raise ViolationError(f"I6: {len(siblings)} windows of {table} are open, of the lanes {lanes}")
            for window in siblings:
                if len(window.dropped) > self.options.window_keys_max:
                    raise ViolationError(f"I6: {len(window.dropped)} keys are noted, {self.options.window_keys_max} may be")

    # ---- the schedule

    def play(self) -> None:
        """Until everything is written, read, sent and dumped; raises ViolationError."""
        hub, random = HUB, self.random
        writes_upto = self.writes_share
        sends_upto = writes_upto + self.sends_share
        crash_share = 0.01 * self.crashes
        slow = self.slow
        try:
            begin(self)
            for _ in range(STEPS_MAX):
                x = random()
                if x < writes_upto and self.writes > 0:
                    self.write()
                elif x < sends_upto:
                    self.send()
                elif not hub.ready:
                    if self.running.queue._batches:  # noqa: SLF001
                        self.poll()
                    elif self.partitions[0] or self.partitions[1]:
                        self.deliver()
                    elif self.writes > 0 and x < 0.8:
                        self.write()
                    elif self.writes <= 0 and self.is_through():
                        return
                    else:
                        self.let_time_pass()
                elif x > 1.0 - crash_share and self.crashes:
                    self.crash()
                    crash_share = 0.01 * self.crashes
                else:
                    ready = hub.ready
                    task = ready[int(random() * len(ready))]
                    if task.name != slow or random() < (0.4 if len(ready) == 1 else 0.15):
                        hub.run(task)
            raise ViolationError(f"after {STEPS_MAX} steps the dump has not ended: {self.left()}")
        except DblogError as e:
            raise ViolationError(f"the task fails: {type(e).__name__}: {e}") from e
        finally:
            hub.kill()

    def send(self) -> None:
        """The sender does something: it takes batches, hears of records that have arrived, or stores the offset."""
        y = self.random()
        if y < 0.5 and self.running.queue._batches:  # noqa: SLF001
            self.poll()
        elif y < 0.85 and (self.partitions[0] or self.partitions[1]):
            self.deliver()
        elif self.sent and self.sent[0].arrived == self.sent[0].records:
            self.commit()
        elif self.running.queue._batches:  # noqa: SLF001
            self.poll()

    def write(self) -> None:
        self.writes -= 1
        source, random = self.source, self.random
        if self.asks and random() < 0.3:
            self.ask()
        elif self.requests and random() < 0.25:
            self.steer()
        elif self.ddl and random() < 0.25:
            self.ddl -= 1
            source.alter()
        elif self.xa and (random() < self.xa or (source.is_prepared and random() < 0.3)):
            source.prepare()
        else:
            source.write()
        if self.writes == 0:
            if source.is_prepared:
                source.prepare()
            self.resume_all()

    def nothing_to_send(self) -> bool:
        return not self.partitions[0] and not self.partitions[1] and not self.running.queue._batches  # noqa: SLF001

    def let_time_pass(self) -> None:
        if self.writes <= 0:
            self.waits += 1
        if self.running.queue._error is not None:  # noqa: SLF001
            self.poll()
        if not HUB.pass_time() or self.waits > WAITS_MAX:
            raise ViolationError(f"nobody can go on: {self.left()}")

    def left(self) -> str:
        dump = self.running.progress.own
        tables = [] if dump is None else [str(t) for t in dump.left.values()]
        return f"{[(t.name, t.waiters is None) for t in HUB.tasks]}, {tables} to be dumped, log read to {self.running.stream.progress.entries} of {len(self.source.log)}"  # type: ignore[attr-defined]

    def is_through(self) -> bool:
        """Whether all is done; then the output is checked."""
        running = self.running
        if len(HUB.tasks) > 1 or self.writes > 0 or not self.nothing_to_send():
            return False
        dump = running.progress.own
        if running.stream.progress.entries != len(self.source.log) or (dump is not None and not dump.ended):  # type: ignore[attr-defined]
            return False
        if any(one.end is None for one in running.progress.requests):
            return False
        if running.progress.moved or running.stream._unsent:  # noqa: SLF001
            return False
        self.commit()
        self.store()
        if self.sent:
            raise ViolationError("I1: everything is acknowledged, and the offset does not cover it")
        if self.stored is None or self.stored["entries"] != len(self.source.log):
            return False
        failed = self.failed()
        self.check_requests()
        self.check_chains(failed)
        if not self.is_exempt:
            self.check_output(failed)
        return True

    def failed(self) -> set[TableId]:
        """Tables whose dump has failed for a good reason."""
        dump = self.running.progress.own
        if dump is None:
            return set()
        for failed in dump.failed:
            if FORGOTTEN not in (failed.fault or ""):
                raise ViolationError(f"{failed.table} cannot be dumped: {failed.fault}")
        if not dump.faults and self.stored is not None and self.stored.get("snapshot") is not None:
            raise ViolationError("the stored offset does not show that the dump is done")
        return set(dump.faults)

    def check_output(self, failed: set[TableId]) -> None:
        """I3: folding the output gives the source, by position as the sink does, and in the order in which Kafka has it."""
        by_position: dict[tuple[str, bytes], Any] = {}
        in_order: dict[tuple[str, bytes], Any] = {}
        emptied: dict[str, int] = {}
        emptied_at: set[tuple[str, int]] = set()
        for topic, key, value in self.kafka:
            if key is None:
                if value[0] == "t":
                    emptied_at.add((topic, value[1]))
                    emptied[topic] = max(value[1], emptied.get(topic, 0))
                continue
            at = (topic, key)
            in_order[at] = value
            known = by_position.get(at)
            if known is None or value[1] >= known[1]:
                by_position[at] = value
        for id_, truncated_at in self.source.truncated:
            if id_ in CAPTURED and (id_.name, truncated_at) not in emptied_at:
                raise ViolationError(f"I5: TRUNCATE of {id_} at {truncated_at} has left no record")
        for how, fold in (("by position", by_position), ("in order", in_order)):
            wanted = self.wanted(failed)
            for (topic, key), value in fold.items():
                row = wanted.pop((topic, key), None)
                if value[0] == "d" or value[1] < emptied.get(topic, 0):
                    if row is not None:
                        raise ViolationError(f"I3: {topic} {key!r} is {row} in the source, and deleted {how} of the output ({value})")
                    continue
                if row is None:
                    if value[1] >= self.source.breaks.get(TableId("s", topic), 0) and TableId("s", topic) not in failed:
                        raise ViolationError(f"I3: {topic} {key!r} is not in the source, and {value} {how} of the output")
                    continue
                record = dict(zip(value[2], value[3], strict=True))
                if any(record.get(name) != cell for name, cell in row.items()):
                    raise ViolationError(f"I3: {topic} {key!r} is {row} in the source, and {value} {how} of the output")
            lost = {at: row for at, row in wanted.items() if is_chosen(row["id"]) or not self.has_chosen_rows(TableId("s", at[0]))}
            if lost:
                raise ViolationError(f"I3: {lost} is in the source, and not in the output")

    def has_chosen_rows(self, id_: TableId) -> bool:
        """Whether the connector's own dump had some rows of the table alone."""
        dump = self.running.progress.own
        progress = None if dump is None else dump.table(id_)
        return progress is not None and progress.chosen

    def wanted(self, failed: set[TableId]) -> dict[tuple[str, bytes], dict[str, Any]]:
        """The rows of captured tables with a key."""
        found = {}
        for id_, (table, rows) in self.source.tables.items():
            if id_ in CAPTURED and id_ not in failed and table.key:
                names, at, name = names_of(table), key_index(table), table.key[0].encode()
                for row in rows.values():
                    found[id_.name, b"%s%d" % (name, row[at])] = dict(zip(names, row, strict=True))
        return found


def _mode(chance: float, keys: object) -> Mode:
    if chance < 0.15:
        return Mode.REPAIR
    return Mode.VERIFY if chance < 0.7 and keys is None else Mode.ROWS


def play(seed: int, *, trace: list[str] | None = None) -> None:
    """Play one seed; raises ViolationError, or whatever else it comes to."""
    try:
        Play(seed, trace=trace).play()
    finally:
        HUB.kill()

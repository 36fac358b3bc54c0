"""How far everything is: one small control table of JSON notes, folded in order.

Notes: which checkpoints there were (``generations``: query id to number), the high-water mark of each topic partition (``partitions``), up to which
lot each table's landed rows are merged (``settled``), which tables are parked and why (``parked``), which columns the source's history says were
renamed (``renames``), of which logs of its source the records of each topic partition are (``logs``, see ``epochs``), the id of the Delta table
that all this is about (``targets``): of a table that was moved away the notes are void; and up to which version each table's history was looked at
(``versions``: the table's id and the version). With a manifest also the cut that was chosen last, the last one that is done, and what the next must know
of each table (``cut``, ``cut_done``, ``dumped``, ``late``, ``lacking``, ``held``). A high-water mark is the third guard: what lies at or below it was
applied before, whatever the checkpoint says. It is a Kafka offset, valid while the topic has the same id (a topic made anew counts from 0 again), and for
tables without a key a source position as well.

Notes may lag behind the tables they speak of, for every other guard makes a second application harmless; they are never ahead. Therefore a
batch's notes come after its tables' commits, and are written together when some seconds have passed, unless a table depends on
them alone.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.decode import LogMark, LogMarks
from dblog_sink.epochs import Line, line_of, made_anew, note_of
from dblog_sink.errors import DefiniteError
from dblog_sink.steps import Reached

_FOLD_EVERY = 200
"""Notes after which the table is written anew as a single one."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything of a topic partition up to ``offset`` is applied or landed, while the topic has this id."""

    offset: int
    topic_id: str = ""


@dataclass(slots=True)
class State:
    """All notes, folded."""

    generations: dict[str, int] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Mark] = field(default_factory=dict)
    positions: dict[str, dict[int, LogMark]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    parked: dict[str, str] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    appending: set[str] = field(default_factory=set)
    renames: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[str, dict[int, Line]] = field(default_factory=dict)
    vacuumed: dict[str, float] = field(default_factory=dict)
    counting: bool = False
    """Rows of dumps have been counted from the first record on."""
    cut: dict[str, Any] | None = None
    """The cut that was chosen last (``cuts.Cut``)."""
    cut_done: int = -1
    """The number of the last cut that is published and settled."""
    dumped: dict[str, int] = field(default_factory=dict)
    """By topic, Kafka's time in milliseconds of the last dump row that a cut merged."""
    late: dict[str, str] = field(default_factory=dict)
    """Topics that the manifest does not know from their beginning, and why (``cuts.Facts``)."""
    lacking: dict[str, int] = field(default_factory=dict)
    """Topics of which records never came, and Kafka's time in milliseconds up to which: a later dump mends the table."""
    held: dict[str, Any] = field(default_factory=dict)
    """Topics whose tables were not in the last cut, for they are parked, and the line up to which they are merged (``cuts.Line``)."""
    versions: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By topic, the Delta table's id, and the version up to which its history was looked at (``restored.py``)."""
    tidied: dict[str, int] = field(default_factory=dict)
    """By topic, the version of its Delta table when it was last compacted, or first met."""
    uncut: bool = False
    """The tables were merged otherwise after the last cut: for a while there was no manifest."""

    def fold(self, note: Mapping[str, Any]) -> None:
        """Take in one note."""
        self.generations.update(note.get("generations", {}))
        for topic, table_id in note.get("targets", {}).items():
            if self.targets.get(topic, table_id) != table_id:  # of a table made anew the former one's log position is void
                self.positions.pop(topic, None)
            self.targets[topic] = table_id
        for topic, appending in note.get("appending", {}).items():
            (self.appending.add if appending else self.appending.discard)(topic)
        for table, renames in note.get("renames", {}).items():
            self.renames.setdefault(table, {}).update(renames)
        for topic, lines in note.get("logs", {}).items():
            self.logs.setdefault(topic, {}).update({int(partition): line_of(line) for partition, line in lines.items()})
        for topic, partitions in note.get("partitions", {}).items():
            for partition, (offset, topic_id) in partitions.items():
                self.partitions[topic, int(partition)] = Mark(offset, topic_id)
        for topic, positions in note.get("positions", {}).items():
            known = self.positions.setdefault(topic, {})
            for partition, (seq1, seq2, insert) in positions.items():
                known[int(partition)] = max((seq1, seq2, insert), known.get(int(partition), (-1, -1, 0)))
        self.vacuumed.update(note.get("vacuumed", {}))
        self.versions.update({topic: (table_id, version) for topic, (table_id, version) in note.get("versions", {}).items()})
        self.tidied.update(note.get("tidied", {}))
        self.counting |= note.get("counting", False)
        cut = note.get("cut")
        if cut is not None and (self.cut is None or cut["number"] >= self.cut["number"]):
            self.cut = cut
        self.cut_done = max(self.cut_done, note.get("cut_done", -1))
        self.uncut = note.get("uncut", self.uncut)
        for topic, ms in note.get("dumped", {}).items():
            self.dumped[topic] = max(ms, self.dumped.get(topic, ms))
        for topic, reason in note.get("late", {}).items():
            if reason is None:
                self.late.pop(topic, None)
            else:
                self.late[topic] = reason
        self.lacking.update(note.get("lacking", {}))
        self.held = note.get("held", self.held)
        for topic, lot in note.get("settled", {}).items():
            self.settled[topic] = max(lot, self.settled.get(topic, -1))
        for topic, reason in note.get("parked", {}).items():
            if reason is None:
                self.parked.pop(topic, None)
            else:
                self.parked[topic] = reason

    def note(self) -> dict[str, Any]:
        """One note that says everything."""
        partitions: dict[str, dict[str, Any]] = {}
        for (topic, partition), mark in self.partitions.items():
            partitions.setdefault(topic, {})[str(partition)] = [mark.offset, mark.topic_id]
        return {
            "generations": self.generations,
            "partitions": partitions,
            "positions": self.positions,
            "settled": self.settled,
            "parked": self.parked,
            "targets": self.targets,
            "appending": dict.fromkeys(self.appending, True),
            "renames": self.renames,
            "logs": {topic: {str(partition): note_of(line) for partition, line in lines.items()} for topic, lines in self.logs.items()},
            "vacuumed": self.vacuumed,
            "versions": self.versions,
            "tidied": self.tidied,
            "counting": self.counting,
            "cut": self.cut,
            "cut_done": self.cut_done,
            **({"uncut": True} if self.uncut else {}),
            **({"held": self.held} if self.held else {}),
            "dumped": self.dumped,
            "late": self.late,
            "lacking": self.lacking,
        }


class Marks:
    """The control table at ``path``; one writer. ``state`` is what is known now, written or not."""

    def __init__(self, session: SparkSession, path: str, *, interval_s: float, now_s: Callable[[], float], reached: Reached) -> None:
        self._session = session
        self._path = path
        self._interval_s = interval_s
        self._now_s = now_s
        self._reached = reached
        self._turn = threading.RLock()
        self._unwritten: list[tuple[dict[str, Any], str]] = []
        self._written_at_s = now_s()
        self._notes = 0
        self.exists = DeltaTable.isDeltaTable(session, path)
        self.state = State()
        self._read()

    def generation(self, query_id: str, landed: Callable[[], Mapping[str, int]]) -> int:
        """The number of the checkpoint with this id; a new one comes after all others, and is written down before it is used.

        ``landed``: what the landing table says of it, asked when the notes say nothing.
        """
        with self._turn:
            if query_id not in self.state.generations:
                known = {**landed(), **self.state.generations}
                number = known.get(query_id, max(known.values(), default=-1) + 1)
                self.say({"generations": {query_id: number}}, "marked", at_once=True)
            return self.state.generations[query_id]

    def log_marks(self, topic: str) -> LogMarks:
        """Up to where a table in append mode has its log, and every table's history was looked at."""
        with self._turn:
            table_id = self.state.targets.get(topic)
            of, version = self.state.versions.get(topic, (None, None))
            return LogMarks(dict(self.state.positions.get(topic, {})), table_id, version if of == table_id else None)

    def partitions(self, topic: str) -> set[int]:
        """The topic's partitions of which there ever was a record."""
        with self._turn:
            return {partition for one, partition in self.state.partitions if one == topic}

    def made_anew(self, topic: str) -> None:
        """The topic counts its offsets from 0 again."""
        with self._turn:
            lines = self.state.logs.get(topic)
            if lines:
                now_ms = round(time.time() * 1000)
                anew = {str(at): note_of(made_anew(line, now_ms=now_ms)) for at, line in lines.items()}
                self.say({"logs": {topic: anew}}, "marked", at_once=True)

    def say(self, note: dict[str, Any], step: str, *, at_once: bool) -> None:
        """Note something, in memory now, and in the table now or with what follows."""
        with self._turn:
            self.state.fold(note)
            self._unwritten.append((note, step))
            if at_once or self._now_s() - self._written_at_s >= self._interval_s:
                self.flush()

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._turn:
            if not self._unwritten:
                return
            together = State()
            for note, _ in self._unwritten:
                together.fold(note)
            whole = together.note()
            # What ended in between must be said, not left out: a table that was resumed, that is not late, or not in append mode any more.
            for name in ("parked", "late", "appending"):
                whole[name] = {topic: said for note, _ in self._unwritten for topic, said in note.get(name, {}).items()}
            whole |= {name: note[name] for note, _ in self._unwritten for name in ("uncut", "held") if name in note}
            self._notes += 1
            if self._notes >= _FOLD_EVERY:
                self._write(self.state.note(), "overwrite")
                self._notes = 1
            else:
                self._write(whole, "append")
            steps = [step for _, step in self._unwritten]
            self._unwritten.clear()
            self._written_at_s = self._now_s()
            for step in dict.fromkeys(steps):
                self._reached(step)

    def _write(self, note: dict[str, Any], mode: str) -> None:
        text = json.dumps(note, separators=(",", ":"))
        row = self._session.range(1).select(F.lit(self._at()).alias("n"), F.current_timestamp().alias("at"), F.lit(text).alias("note"))
        row.coalesce(1).write.format("delta").mode(mode).save(self._path)
        self.exists = True

    def _at(self) -> int:
        self._order += 1
        return self._order

    _order: int = 0

    def _read(self) -> None:
        for order, note in _notes(self._session, self._path) if self.exists else ():
            self.state.fold(note)
            self._notes += 1
            self._order = max(self._order, order)


def made(session: SparkSession, path: str) -> None:
    """Make the control table, without a note, if there is none."""
    fields = [("n", t.IntegerType()), ("at", t.TimestampType()), ("note", t.StringType())]
    columns = t.StructType([t.StructField(name, kind) for name, kind in fields])
    DeltaTable.createIfNotExists(session).location(path).addColumns(columns).execute()


def read_state(session: SparkSession, path: str) -> State:
    """What the control table says, for readers."""
    state = State()
    for _, note in _notes(session, path) if DeltaTable.isDeltaTable(session, path) else ():
        state.fold(note)
    return state


def _notes(session: SparkSession, path: str) -> list[tuple[int, dict[str, Any]]]:
    try:
        return [(row["n"], json.loads(row["note"])) for row in session.read.format("delta").load(path).orderBy("n").collect()]
    except (ValueError, TypeError) as e:
        msg = f"the control table {path} holds a note that the sink did not write; restore the table from an earlier version"
        raise DefiniteError(msg) from e

"""The control table: the sink's progress, as rows of notes in a small Delta table.

Notes may lag behind the tables that they describe, because the other guards make a second
application harmless; they never run ahead. So a batch's notes follow its tables' commits, and are
written together every few seconds, unless a table depends on them alone. There is one writer, whose
fencing token is in the table's properties (``delta/fence.py``).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.errors import DefiniteError
from dblog_sink.records.decode import LogEnds
from dblog_sink.records.source_epochs import recreated
from dblog_sink.state.crash_points import Reached
from dblog_sink.state.new_table import make_for, new_table
from dblog_sink.state.notes import CheckpointEpoch, Note, SourceLogs, State, decoded, encoded, without_overtaken

_FOLD_EVERY = 200
"""Rows after which the table is overwritten by a single one."""
_FOLD_CHARS = 16 << 20
"""Characters of notes after which the table is overwritten, if they are also more than
``_FOLD_TIMES`` those of a single row. With thousands of tables a row has megabytes, and a start
reads all rows.
"""
_FOLD_TIMES = 4


class ControlTable:
    """The control table at ``path``. ``state`` includes notes that are not written yet."""

    def __init__(self, session: SparkSession, path: str, *, interval_s: float, now_s: Callable[[], float], reached: Reached) -> None:
        self._session = session
        self._path = path
        self._interval_s = interval_s
        self._now_s = now_s
        self._reached = reached
        self._turn = threading.RLock()
        self._unwritten: list[Note] = []
        self._steps: list[str] = []
        self._written_at_s = now_s()
        self._rows = self._order = self._chars = self._folded_chars = 0
        self.exists = DeltaTable.isDeltaTable(session, path)
        self.state = State()
        for order, chars, notes in _rows(session, path) if self.exists else ():
            self._rows, self._order = self._rows + 1, max(self._order, order)
            self._chars, self._folded_chars = self._chars + chars, self._folded_chars or chars
            for note in notes:
                self.state.take(note)

    def checkpoint_epoch(self, query_id: str, landed: Callable[[], Mapping[str, int]]) -> int:
        """Return the epoch of the checkpoint with this query id.

        A new checkpoint gets an epoch after all others, recorded before it is used. ``landed``
        returns epochs that other tables know; it is called if the notes have none for this id.
        """
        with self._turn:
            if query_id not in self.state.checkpoint_epochs:
                known = {**landed(), **self.state.checkpoint_epochs}
                epoch = known.get(query_id, max(known.values(), default=-1) + 1)
                self.record([CheckpointEpoch(query_id, epoch)], "recorded", at_once=True)
            return self.state.checkpoint_epochs[query_id]

    def log_ends(self, topic: str) -> LogEnds:
        """Return the end of an append-mode table's log, and the version of its last check."""
        with self._turn:
            table_id = self.state.table_ids.get(topic)
            of, version = self.state.history_checked.get(topic, (None, None))
            return LogEnds(dict(self.state.append_positions.get(topic, {})), table_id, version if of == table_id else None)

    def topic_recreated(self, topic: str) -> None:
        """Record that the topic counts its offsets from 0 again."""
        with self._turn:
            now_ms = round(time.time() * 1000)
            logs = self.state.source_logs.get(topic, {})
            notes = [SourceLogs(topic, partition, recreated(one, now_ms=now_ms)) for partition, one in logs.items()]
            if notes:
                self.record(notes, "recorded", at_once=True)

    def record(self, notes: Iterable[Note], step: str, *, at_once: bool = False) -> None:
        """Add notes to the state, and write them now or together with later ones.

        ``step`` is the crash point after the write. ``at_once`` forces the write.
        """
        with self._turn:
            for note in notes:
                if not self.state.has(note):
                    self.state.take(note)
                    self._unwritten.append(note)
            self._steps.append(step)
            if at_once or self._now_s() - self._written_at_s >= self._interval_s:
                self.flush()

    def flush(self) -> None:
        """Write the notes that are not written yet."""
        with self._turn:
            if self._unwritten:
                if self._rows + 1 >= _FOLD_EVERY or self._chars > max(_FOLD_CHARS, _FOLD_TIMES * self._folded_chars):
                    self._chars = self._folded_chars = self._write(self.state.notes(), "overwrite")
                    self._rows = 1
                else:
                    self._chars += self._write(without_overtaken(self._unwritten), "append")
                    self._rows += 1
                self._unwritten.clear()
                self._written_at_s = self._now_s()
                for step in dict.fromkeys(self._steps):
                    self._reached(step)
            self._steps.clear()

    def flush_due(self) -> None:
        """Write waiting notes once the interval has passed, even without new ones.

        Readers beside the job learn of its tables from here.
        """
        with self._turn:
            if self._unwritten and self._now_s() - self._written_at_s >= self._interval_s:
                # An unavailable store is tried again after another interval.
                self._written_at_s = self._now_s()
                self.flush()

    def _write(self, notes: Iterable[Note], mode: str) -> int:
        """Write the notes as one row and return their number of characters."""
        text = json.dumps([encoded(note) for note in notes], separators=(",", ":"))
        self._order += 1
        row = self._session.range(1).select(F.lit(self._order).alias("n"), F.current_timestamp().alias("at"), F.lit(text).alias("notes"))
        if not self.exists:
            make_for(row, self._path)
        row.coalesce(1).write.format("delta").mode(mode).save(self._path)
        self.exists = True
        return len(text)


def ensure(session: SparkSession, path: str) -> None:
    """Create the control table without rows if it does not exist."""
    columns = [("n", t.IntegerType()), ("at", t.TimestampType()), ("notes", t.StringType())]
    schema = t.StructType([t.StructField(name, kind) for name, kind in columns])
    new_table(session, path).addColumns(schema).execute()


def path_of(state_path: str) -> str:
    """Return the path of the control table."""
    return f"{state_path}/control"


def read_state(session: SparkSession, state_path: str) -> State:
    """Return the state in the control table, for readers."""
    state, path = State(), path_of(state_path)
    for _, _, notes in _rows(session, path) if DeltaTable.isDeltaTable(session, path) else ():
        for note in notes:
            state.take(note)
    return state


def _rows(session: SparkSession, path: str) -> list[tuple[int, int, list[Note]]]:
    """Return each row's number, its notes' number of characters, and the notes, in order."""
    rows = session.read.format("delta").load(path).orderBy("n").collect()
    try:
        return [(row["n"], len(row["notes"]), [decoded(note) for note in json.loads(row["notes"])]) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        msg = f"the control table {path} holds a note that the sink did not write ({e}); restore the table from an earlier version"
        raise DefiniteError(msg) from e

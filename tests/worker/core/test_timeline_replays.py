"""I4 under kills: whatever is committed, pruned and written when a task dies, the replay decodes every row with the schema it had the first time.

A log is a list of rows and statements on three tables; a case is a list of runs: read on, commit, and maybe die between two history records.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, RenameTable, Unknown
from dblog.core.timeline import Absent, Known, Stale, State, Timeline
from dblog.model import Column, Table, TableId
from hypothesis import given, settings
from hypothesis import strategies as st

IDS = [TableId("d", name) for name in "abc"]


@dataclass(frozen=True)
class Row:
    table: int


@dataclass(frozen=True)
class Statement:
    kind: str
    first: int
    second: int


tables = st.sampled_from([0, 0, 0, 1, 1, 2])  # mostly one, so that it gets many versions
kinds = st.sampled_from(["create", "create", *["alter"] * 4, "drop", "rename", *["swap"] * 3, "strange"])
entries = st.one_of(st.builds(Row, tables), st.builds(Statement, kinds, tables, tables))
runs = st.tuples(st.integers(0, 20), st.integers(0, 12), st.booleans(), st.integers(0, 2))


def grown(table: Table, number: int) -> Table:
    return replace(table, columns=(*table.columns, Column(name=f"c{number}", type="int", type_text="int", nullable=True)))


def changes_of(entry: Statement, number: int, lookup) -> list[Change]:
    """What a parser would make of it, from the tables as they were before the statement."""
    first, second = IDS[entry.first], IDS[entry.second]
    match entry.kind:
        case "create":
            return [CreateTable(grown(Table(id=first, columns=()), number))]
        case "alter":
            known = lookup(first)
            return [Unknown((first,), "not known")] if known is None else [AlterTable(first, grown(known, number))]
        case "drop":
            return [DropTable((first, second))]
        case "rename":
            return [RenameTable(((first, second),))]
        case "swap":
            third = TableId("d", "tmp")
            return [RenameTable(((first, third), (second, first), (third, second)))]
        case _:
            return [Unknown((first,), "strange")]


def truth(log: list[Row | Statement]) -> dict[int, State]:
    """The state each row is decoded with when nothing ever fails and nothing is forgotten: a dictionary and the meaning of each statement."""
    states: dict[TableId, State] = {}
    seen = {}

    def known(id_: TableId) -> Table | None:
        state = states.get(id_)
        return state.table if isinstance(state, Known) else None

    for number, entry in enumerate(log, start=1):
        if isinstance(entry, Row):
            seen[number] = states.get(IDS[entry.table], Absent())
            continue
        for change in changes_of(entry, number, known):
            match change:
                case CreateTable(table) | AlterTable(_, table):
                    states[table.id] = Known(table)
                case DropTable(ids):
                    states.update(dict.fromkeys(ids, Absent()))
                case RenameTable(pairs):
                    for old, new in pairs:
                        moved = known(old)
                        states[new] = Stale("") if moved is None else Known(replace(moved, id=new))
                        states[old] = Absent()
                case Unknown(ids):
                    states.update(dict.fromkeys(ids, Stale("")))
    return seen


class Task:
    """Reads the log, writes records to a topic that survives it, dies and comes back."""

    def __init__(self, log: list[Row | Statement]) -> None:
        self.log = log
        self.topic: dict[TableId, str] = {}
        self.timeline = Timeline()
        self.done = 0
        self.committed = 0
        self.decoded: list[tuple[int, State]] = []

    def read(self, *, records_max: int = 99) -> bool:
        """One entry; False when the task dies after ``records_max`` of its history records."""
        if self.done == len(self.log):
            return True
        number = self.done + 1
        entry = self.log[number - 1]
        if isinstance(entry, Row):
            self.decoded.append((number, self.timeline.state_at(IDS[entry.table], (1, number))))
        else:
            changed = self.timeline.apply(changes_of(entry, number, self.timeline.lookup_before((1, number))), (1, number))
            for table in changed[:records_max]:
                self.write(table)
            if records_max < len(changed):
                return False
        self.done = number
        return True

    def write(self, table: TableId) -> None:
        record = self.timeline.to_record(table)
        if record is None:
            self.topic.pop(table, None)
        else:
            self.topic[table] = json.dumps(record)

    def commit(self, at: int) -> None:
        self.committed = max(self.committed, min(at, self.done))
        for table in self.timeline.prune((1, self.committed)):
            self.write(table)

    def die(self) -> None:
        self.timeline = Timeline()
        for table, record in self.topic.items():
            self.timeline.from_record(table, json.loads(record))
        self.timeline.prune((1, self.committed))
        self.done = self.committed


@settings(max_examples=120, deadline=None)
@given(st.lists(entries, min_size=8, max_size=24), st.lists(runs, max_size=5))
def test_every_row_is_decoded_as_it_was_the_first_time(log: list[Row | Statement], run: list[tuple[int, int, bool, int]]) -> None:
    expected = truth(log)
    task = Task(log)

    for reads, committed, dies, records_max in run:
        for _ in range(reads):
            task.read()
        task.commit(committed)
        if dies:
            task.read(records_max=records_max)
            task.die()
    while task.done < len(log):
        task.read()

    for number, state in task.decoded:
        assert same(state, expected[number]), (number, state, expected[number])


SMALL = [Statement("alter", 0, 0), Statement("swap", 0, 1), Statement("rename", 0, 1), Statement("drop", 1, 1), Row(0), Row(1)]


def test_every_small_history_survives_a_kill_at_every_step() -> None:
    for middle in itertools.product(SMALL, repeat=3):
        log = [Statement("create", 0, 0), Statement("create", 1, 1), *middle, Row(0), Row(1)]
        expected = truth(log)
        for killed_at, records_max in itertools.product(range(2, 6), range(3)):
            task = Task(log)
            for _ in range(killed_at):
                task.read()
            task.commit(killed_at - 1)
            task.read(records_max=records_max)
            task.die()
            while task.done < len(log):
                task.read()
            for number, state in task.decoded:
                assert same(state, expected[number]), (log, killed_at, records_max, number)


def same(state: State, expected: State) -> bool:
    match state, expected:
        case Known(table), Known(other):
            return table == other
        case Stale(), Stale():
            return True
        case _:
            return state == expected == Absent()

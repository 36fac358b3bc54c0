"""Notes of the control table: stored and read back as the same, and a state is what its notes make."""

from __future__ import annotations

import json
import random
import typing

import pytest
from dblog_sink.records.source_epochs import Log, PartitionLogs
from dblog_sink.state import notes
from dblog_sink.state.notes import Note, State, decoded, encoded, without_overtaken
from dblog_sink.state.snapshot import Frontier, Snapshot

FRONTIER = Frontier(position=(1, 7), transactions_to=(3, 4), open=("12",), sequences={"p.a": 3})
LOGS = PartitionLogs(7, [Log(1, (9, 4), 5, [1, 2], "0-1-5")], {"0-1": 5}, [(3, 1)], 0)
EXAMPLES: tuple[Note, ...] = (
    notes.CheckpointEpoch("q", 2),
    notes.HighWaterMark("p.a", 0, 17, "id"),
    notes.TableWritten("p.a", "t1", appending=True),
    notes.AppendPosition("p.a", 0, (1, 2, 1)),
    notes.HistoryChecked("p.a", "t1", 4),
    notes.MergedUpTo("p.a", 9),
    notes.Parked("p.b", "under repair"),
    notes.Resumed("p.c"),
    notes.ColumnsRenamed("shop.a", {"old": "new"}),
    notes.SourceLogs("p.a", 0, LOGS),
    notes.RenameStatement("p", "shop.a", 7, (("a", "b"), ("b", "a"))),
    notes.TruncatedFirst("p.shop.a", (1, 2)),
    notes.Vacuumed("shop.a", 12.5),
    notes.Compacted("p.a", 3),
    notes.CountedFromStart(),
    notes.SnapshotChosen(
        Snapshot(number=4, frontier=FRONTIER, held={"p.b": FRONTIER}, left_out=("p.b",), transaction="0-1-5", missing={"p.b": "parked"})
    ),
    notes.SnapshotPublished(3, {"p.b": FRONTIER}),
    notes.MergedWithoutSnapshots(value=True),
    notes.DumpMerged("p.a", 1_700_000_000_000),
    notes.KnownLate("p.a", notes.EXPIRED),
    notes.RecordsMissing("p.a", 5),
    notes.RecordsMissing("p.b", 5, (1, 7)),
)


def taken(*some: Note) -> State:
    state = State()
    for note in some:
        state.take(note)
    return state


def test_there_is_an_example_of_every_note() -> None:
    assert {type(one) for one in EXAMPLES} == set(typing.get_args(Note))


@pytest.mark.parametrize("note", EXAMPLES, ids=lambda note: type(note).__name__)
def test_a_note_is_read_back_as_it_was_recorded(note: Note) -> None:
    assert decoded(json.loads(json.dumps(encoded(note)))) == note


def test_a_state_is_what_its_own_notes_make_and_the_same_twice() -> None:
    state = taken(*EXAMPLES)

    assert taken(*state.notes()) == state
    assert taken(*state.notes(), *state.notes()) == state


def test_what_only_rises_never_falls_and_what_ends_leaves_the_state() -> None:
    state = taken(
        notes.MergedUpTo("a", 9),
        notes.MergedUpTo("a", 4),
        notes.DumpMerged("a", 9),
        notes.DumpMerged("a", 4),
        notes.AppendPosition("a", 0, (2, 1, 0)),
        notes.AppendPosition("a", 0, (1, 9, 0)),
        notes.SnapshotPublished(5),
        notes.SnapshotPublished(4),
        notes.Parked("a", "x"),
        notes.Resumed("a"),
        notes.KnownLate("a", "x"),
        notes.KnownLate("a", None),
    )

    assert (state.merged_up_to, state.dumped_ms, state.snapshot_published) == ({"a": 9}, {"a": 9}, 5)
    assert state.append_positions == {"a": {0: (2, 1, 0)}}
    assert (state.parked, state.late) == ({}, {})


def test_a_table_that_was_made_again_voids_the_log_position_of_the_former_one() -> None:
    state = taken(
        notes.TableWritten("a", "t1", appending=True),
        notes.AppendPosition("a", 0, (2, 1, 0)),
        notes.TableWritten("a", "t2", appending=True),
    )

    assert state.append_positions == {}


def some_notes(dice: random.Random) -> list[Note]:
    """What a sink may record, of two topics; the position of a table in append mode follows the table that it is of."""
    found: list[Note] = []
    for _ in range(dice.randrange(12)):
        topic, number = dice.choice("ab"), dice.randrange(4)
        written = notes.TableWritten(topic, f"t{dice.randrange(3)}", appending=dice.random() < 0.8)
        found += dice.choice(
            [
                [written],
                [written, *(notes.AppendPosition(topic, partition, (1, number, 0)) for partition in range(dice.randrange(3)))],
                [notes.HighWaterMark(topic, 0, number, "id")],
                [notes.HistoryChecked(topic, f"t{number}", number)],
                [notes.MergedUpTo(topic, number), notes.DumpMerged(topic, 4 - number)],
                [notes.Parked(topic, str(number)), notes.KnownLate(topic, str(number))],
                [notes.Resumed(topic), notes.KnownLate(topic, None)],
                [notes.ColumnsRenamed("t", {f"c{number}": "d"}), notes.Vacuumed("t", number), notes.Compacted(topic, number)],
                [
                    notes.SnapshotPublished(number, dice.choice([None, {}, {topic: FRONTIER}])),
                    notes.MergedWithoutSnapshots(value=number > 1),
                ],
                [notes.SourceLogs(topic, number % 2, PartitionLogs(number, [], {}, [], 0)), notes.RecordsMissing(topic, number)],
            ]
        )
    return found


@pytest.mark.parametrize("seed", range(500))
def test_a_row_without_overtaken_notes_leads_to_the_same_state(seed: int) -> None:
    dice = random.Random(seed)
    before, row = some_notes(dice), some_notes(dice)

    assert taken(*before, *without_overtaken(row)) == taken(*before, *row)
    known = taken(*before)
    news = [note for note in row if not (known.has(note), known.take(note))[0]]
    assert taken(*before, *without_overtaken(news)) == known


def test_many_batches_of_a_table_are_as_many_notes_as_one() -> None:
    batch = [notes.TableWritten("a", "t1", appending=False), notes.HistoryChecked("a", "t1", 1), notes.MergedUpTo("a", 1)]

    assert len(without_overtaken(batch * 10)) == len(batch)


@pytest.mark.parametrize("text", ['{"note": "never_heard_of"}', '{"note": "merged_up_to", "place": 3}', '{"topic": "a"}'])
def test_a_note_of_another_version_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        decoded(json.loads(text))

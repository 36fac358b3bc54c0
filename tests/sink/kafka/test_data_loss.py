"""Lost records are reported partition by partition, and only their partitions are passed over."""

from __future__ import annotations

import json
from pathlib import Path

from dblog_sink.kafka.data_loss import LostRecords, committed, lead_past, losses, losses_at_the_end, recreated
from dblog_sink.state.files import LocalFolder


def test_each_kind_of_loss_is_reported_with_its_numbers() -> None:
    wanted = {"a": {0: 10, 1: 10}, "b": {0: 5}, "c": {0: 7}}
    found = losses(wanted, {"a": {0: 0, 1: 12}, "b": {0: 0}}, {"a": {0: 10, 1: 40}, "b": {0: 3}})

    assert [str(one) for one in found] == [
        "topic a, partition 1: 2 records from offset 10 on have expired, the first one there is 12",
        "topic b, partition 0: offset 5 was to be read next, and the partition ends at 3: the topic was recreated",
        "topic c, partition 0: it does not exist any more, and offset 7 was to be read next",
    ]


def test_what_lies_in_front_of_a_partition_s_end_is_lost_to_a_query_that_begins_there() -> None:
    wanted = {"a": {0: 10, 1: 10, 2: 10}, "b": {0: 5}}
    found = losses_at_the_end(wanted, {"a": {0: 0, 1: 12, 2: 0}}, {"a": {0: 10, 1: 40, 2: 3}})

    assert [str(one) for one in found] == [
        "topic a, partition 1: 30 records from offset 10 on are not read: there is no checkpoint, and topics.start is latest",
        "topic a, partition 2: offset 10 was to be read next, and the partition ends at 3: the topic was recreated",
        "topic b, partition 0: it does not exist any more, and offset 5 was to be read next",
    ]


def test_the_checkpoint_is_led_past_the_gap_and_an_open_batch_keeps_all_other_offsets(tmp_path: Path) -> None:
    commits, offsets = tmp_path / "commits", tmp_path / "offsets"
    commits.mkdir()
    offsets.mkdir()
    for number in (8, 9):
        (commits / str(number)).write_text("v1\n{}")
    ends = {8: {"a": {"0": 1, "1": 1}}, 9: {"a": {"0": 10, "1": 10}, "b": {"0": 5}, "c": {"0": 7}}}
    ends[10] = {"a": {"0": 20, "1": 11}, "b": {"0": 9}, "c": {"0": 8}}
    for number, end in ends.items():
        (offsets / str(number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
    assert committed(LocalFolder(commits), LocalFolder(offsets)) == {"a": {0: 10, 1: 10}, "b": {0: 5}, "c": {0: 7}}

    found = [
        LostRecords(topic="a", partition=1, wanted=10, first=12, end=40),
        LostRecords(topic="b", partition=0, wanted=5, first=0, end=3),
        LostRecords(topic="c", partition=0, wanted=7),
    ]
    lead_past(LocalFolder(commits), LocalFolder(offsets), found)

    left = {number: json.loads((offsets / str(number)).read_text().splitlines()[-1]) for number in ends}
    assert left == {8: ends[8], 9: {"a": {"0": 10, "1": 12}, "b": {"0": 0}}, 10: {"a": {"0": 20, "1": 12}, "b": {"0": 0}}}
    assert (offsets / "9").read_text().startswith("v1\n{}\n")


def test_a_topic_that_was_made_again_and_has_grown_past_the_offset_is_lost_from_its_beginning(tmp_path: Path) -> None:
    marks = {("a", 0): "former", ("a", 1): "now", ("b", 0): "now", ("c", 0): "former"}
    again = recreated(marks, {"a": "now", "b": "now"})
    wanted = {"a": {0: 5, 1: 5, 2: 5}, "b": {0: 5}}
    first, end = {"a": {0: 0, 1: 0, 2: 0}, "b": {0: 0}}, {"a": {0: 8, 1: 8, 2: 8}, "b": {0: 8}}
    commits, offsets = tmp_path / "commits", tmp_path / "offsets"
    for folder in (commits, offsets):
        folder.mkdir()
    (commits / "1").write_text("v1\n{}")
    (offsets / "1").write_text(f"v1\n{{}}\n{json.dumps({topic: {str(p): o for p, o in at.items()} for topic, at in wanted.items()})}")

    (found,) = losses(wanted, first, end, again)
    lead_past(LocalFolder(commits), LocalFolder(offsets), [found])

    assert again == {("a", 0)}
    assert "topic a, partition 0: the topic was recreated, and offset 5 was to be read next of the former one" in str(found)
    assert committed(LocalFolder(commits), LocalFolder(offsets)) == {"a": {0: 0, 1: 5, 2: 5}, "b": {0: 5}}
    assert losses({"a": {0: 0}}, first, end, again) == [], "it was reported, and is read from its beginning"
    assert [one.begins_at for one in losses_at_the_end({"a": {0: 9}}, first, end, again)] == [8]

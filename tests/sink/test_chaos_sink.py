"""A seed of the sink's chaos, one whose plan Spark could not make, and of each story one that showed what was mended; more by ``make chaos-sink``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink import chaos
from sink.topics import KINDS, Course
from support.registry_server import RegistryServer


@pytest.mark.long
@pytest.mark.parametrize(("seed", "happened"), [(31, [])])
def test_the_table_is_what_the_model_expects_whatever_the_seed_does_to_it(
    spark: SparkSession, tmp_path: Path, seed: int, happened: list[str]
) -> None:
    assert chaos.run(spark, seed, tmp_path) == happened


def test_a_dump_after_a_topic_was_compacted_has_offsets_of_its_own() -> None:
    compacted = next(kind for kind in KINDS if kind.compacted)
    with RegistryServer() as registry:
        course = Course(compacted, "mirror", 9028, registry, count=chaos.UNIVERSES, batches=chaos.BATCHES)
        last = {record.partition: record.offset or 0 for batch in course.batches for record in batch}

        assert all((record.offset or 0) > last[record.partition] for record in course.dumped_again(random.Random(1)))


SHOWN = {
    "hand_overs": 1,
    "renames": 1,
    "defaults": 1,
    "exchanged_keys": 1,
    "first_truncates": 1,
    "one_name": 1,
    "parked": 1,
    "quarantine": 1,
    "topics_made_again": 4,
    "many_partitions": 1,
    "vacuums": 2,
    "folded_chunks": 1,
    "month": 1,
}
"""By story, a seed in which the sink differed from its source before it was mended."""


@pytest.mark.parametrize("story", [pytest.param(story, marks=[] if story == "folded_chunks" else pytest.mark.long) for story in SHOWN])
def test_a_story_that_ended_otherwise_once_ends_as_in_the_source(spark: SparkSession, tmp_path: Path, story: str) -> None:
    chaos.tell(spark, story, SHOWN[story], tmp_path)

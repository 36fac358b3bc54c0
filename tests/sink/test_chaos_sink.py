"""A seed of the sink's chaos, one whose plan Spark could not make, and of each story one that showed what was mended; more by ``make chaos-sink``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink import chaos


@pytest.mark.long
@pytest.mark.parametrize(("seed", "happened"), [(31, [])])
def test_the_table_is_what_the_model_expects_whatever_the_seed_does_to_it(
    spark: SparkSession, tmp_path: Path, seed: int, happened: list[str]
) -> None:
    assert chaos.run(spark, seed, tmp_path) == happened


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

"""A seed of the sink's chaos, one whose plan Spark could not make; many more by ``make chaos-sink``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink import chaos


@pytest.mark.parametrize(("seed", "happened"), [(31, [])])
def test_the_table_is_what_the_model_expects_whatever_the_seed_does_to_it(
    spark: SparkSession, tmp_path: Path, seed: int, happened: list[str]
) -> None:
    assert chaos.run(spark, seed, tmp_path) == happened

"""Seeds of the sink's chaos: two that run in little time, and those that found something; many more by ``make chaos-sink``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink import chaos


@pytest.mark.parametrize("seed", [8, 18])
def test_the_table_is_what_the_model_says_whatever_the_seed_does_to_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    done = chaos.run(spark, seed, tmp_path)

    assert done, "nothing happened"

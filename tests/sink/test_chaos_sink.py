"""Seeds of the sink's chaos: one that runs in little time; many more by ``make chaos-sink``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink import chaos


@pytest.mark.parametrize("seed", [1])
def test_the_table_is_what_the_model_says_whatever_the_seed_does_to_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    done = chaos.run(spark, seed, tmp_path)

    assert done, "nothing happened"

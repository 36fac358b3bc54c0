"""A handful of real kills, each of a whole process with its JVM; many more by ``make sink-campaign``."""

from __future__ import annotations

from pathlib import Path

import pytest
from sink import kills


@pytest.mark.parametrize("seed", [3])
def test_a_killed_sink_goes_on_and_ends_with_what_the_model_says(tmp_path: Path, seed: int) -> None:
    died = kills.run(seed, tmp_path, kills=1)

    assert died, "no step was reached at which to kill"

"""The driver's memory where nobody names it: a share of the container's limit."""

from pathlib import Path

import pytest
from dblog_sink.job.memory import WITHOUT_LIMIT, driver_memory


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_the_driver_takes_its_share_of_the_containers_limit(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"{2 << 30}\n")

    assert driver_memory(tmp_path) == "1228m"


@pytest.mark.parametrize(("name", "text"), [("memory.max", "max\n"), ("memory/memory.limit_in_bytes", "9223372036854771712\n")])
def test_without_a_limit_the_driver_takes_a_fixed_amount(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)

    assert driver_memory(tmp_path) == WITHOUT_LIMIT


def test_without_control_groups_the_driver_takes_a_fixed_amount(tmp_path: Path) -> None:
    assert driver_memory(tmp_path) == WITHOUT_LIMIT

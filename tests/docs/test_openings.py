"""Docstrings say what they are about in their first word."""

from pathlib import Path

import pytest
from docs.openings import fragments

ROOT = Path(__file__).parents[2]

UNREVISED: tuple[str, ...] = ()
"""Rooms whose docstrings are still to be rewritten; ``*`` is one folder without those below it. The list only shrinks."""


@pytest.fixture(scope="module")
def found() -> list[str]:
    return list(fragments(ROOT))


def is_in(room: str, fragment: str) -> bool:
    path = fragment.partition(":")[0]
    return path.rpartition("/")[0] + "/*" == room if room.endswith("*") else path.startswith(room)


def test_no_docstring_opens_with_a_fragment_but_in_the_rooms_that_are_not_rewritten_yet(found: list[str]):
    assert [one for one in found if not any(is_in(room, one) for room in UNREVISED)] == []


def test_a_room_without_a_fragment_has_left_the_list(found: list[str]):
    assert [room for room in UNREVISED if not any(is_in(room, one) for one in found)] == []


@pytest.mark.parametrize(
    ("source", "is_fragment"),
    [
        ('def f():\n    """Whether it is."""\n', True),
        ('def f():\n    """Return whether it is."""\n', False),
        ('class A:\n    b: int\n    """What it holds."""\n', True),
        ('class A:\n    b: int\n    """The number of rows; None if unknown."""\n', False),
        ('"""The same of another."""\n', True),
        ('"""Ways out."""\n', False),
    ],
)
def test_a_fragment_is_known_by_its_opening(tmp_path: Path, source: str, *, is_fragment: bool):
    room = tmp_path / "docker"
    room.mkdir()
    (room / "one.py").write_text(source)
    assert bool(list(fragments(tmp_path))) == is_fragment

"""Docstrings say what they are about in their first word."""

from pathlib import Path

import pytest
from docs.openings import fragments

ROOT = Path(__file__).parents[2]


def test_no_docstring_opens_with_a_fragment():
    assert list(fragments(ROOT)) == []


@pytest.mark.parametrize(
    ("source", "is_fragment"),
    [
        ('def f():\n    """Whether it is."""\n', True),
        ('def f():\n    """Return whether it is."""\n', False),
        ('class A:\n    b: int\n    """What it holds."""\n', True),
        ('class A:\n    b: int\n    """The number of rows; None if unknown."""\n', False),
        ('"""The same of another."""\n', True),
        ('"""Ways out."""\n', False),
        ('Option(name="a", doc="Whether it is.")\n', True),
        ('Option(name="a", doc=f"How often {it} is.")\n', True),
        ('Option(name="a", doc="If true, it is.")\n', False),
    ],
)
def test_a_fragment_is_known_by_its_opening(tmp_path: Path, source: str, *, is_fragment: bool):
    room = tmp_path / "docker"
    room.mkdir()
    (room / "one.py").write_text(source)
    assert bool(list(fragments(tmp_path))) == is_fragment

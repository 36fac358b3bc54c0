"""The measurements of the shipped code count what they say."""

from pathlib import Path

from measure.shape import PACKAGES, Shape, rows, shape

SOURCE = '''"""A module."""

from collections.abc import Callable
from dataclasses import dataclass

Notify = Callable[[str], None]


@dataclass
class Facts:
    """Facts."""

    made: Callable[[], int] | None = None
    by_name: dict[str, Callable[[], int]] | None = None


class Speaker:
    """Whether it speaks."""

    # a comment
    def __init__(self, name: str, *, notify: Notify, done: Callable[[], None] = print) -> None:
        """Set it up."""
        self.name = name
        self.notify = notify
'''


def measured(tmp_path: Path, **files: str) -> Shape:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    return shape(tmp_path)


def test_callables_of_constructors_are_counted_by_annotation_and_by_alias(tmp_path: Path):
    one = measured(tmp_path, speaker=SOURCE)

    assert [found.name for found in one.callables] == ["speaker.py::Speaker(notify)", "speaker.py::Speaker(done)"]
    assert [found.name for found in one.callable_fields] == ["speaker.py::Facts.made"]


def test_sizes_leave_out_docstrings_comments_and_blank_lines(tmp_path: Path):
    one = measured(tmp_path, speaker=SOURCE)

    assert (one.files, one.python_lines, one.code_lines) == (1, 24, 11)
    assert [(found.size, found.name) for found in one.constructors] == [(3, "speaker.py::Speaker")]
    assert one.fragments == 1


def test_public_classes_of_one_name_are_found_and_private_ones_are_not(tmp_path: Path):
    one = measured(tmp_path, a="class Role: ...\nclass _Own: ...\n", b="class Role: ...\nclass _Own: ...\n")

    assert [found.name for found in one.shared_names] == ["Role: a.py, b.py"]


def test_the_table_has_a_value_for_each_package(tmp_path: Path):
    one = measured(tmp_path, speaker=SOURCE)

    assert all(len(row) == 1 + len(PACKAGES) for row in rows(dict.fromkeys(PACKAGES, one)))

"""A file of signals is emptied once all of it is in the stored offset, and never with a line that nobody has read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dblog.core.requested import Requests
from dblog.readers.signals.signal_file import BYTES_MAX, SignalFile, SignalFileSettings


class Task:
    """What a run has beside the file: its requests, and whom signals are handed to."""

    def __init__(self, path: Path) -> None:
        self.known = Requests()
        self.taken: list[bytes] = []
        self.meanwhile: Callable[[], object] | None = None
        self.file = SignalFile(
            SignalFileSettings(path=path, interval_s=0.0),
            desk=self,  # type: ignore[arg-type]
            progress=self,  # type: ignore[arg-type]
            stopped=threading.Event(),
        )

    @property
    def requests(self) -> Requests:
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        return self.known

    def change_requests(self, change: Callable[[Requests], Requests]) -> None:
        self.known = change(self.known)

    def take_json(self, text: bytes, source: str, read: Any) -> None:
        del source
        self.taken.append(text)
        self.change_requests(read)

    def look(self) -> None:
        self.file._look()  # noqa: SLF001 - what its thread does at each interval

    def store(self) -> None:
        self.file.stored(self.known)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "signals"


def test_a_line_that_comes_while_the_file_would_be_emptied_is_read_by_the_next_look(path: Path) -> None:
    task = Task(path)
    path.write_text("one\ntwo\n")
    task.look()
    task.store()

    def append() -> None:
        with path.open("a") as file:
            file.write("three\n")

    task.meanwhile = append
    task.look()
    task.look()
    task.store()
    task.look()

    assert task.taken == [b"one", b"two", b"three"]
    assert path.read_text() == ""


def test_a_file_that_is_too_large_is_left_as_it_is_with_a_reason(path: Path) -> None:
    task = Task(path)
    line = json.dumps({"id": "1", "type": "log", "data": {"message": "x" * 1000}}) + "\n"
    path.write_text(line * (BYTES_MAX // len(line) + 1))
    size = path.stat().st_size

    with pytest.raises(OSError, match="more than .* bytes, and is left as it is"):
        task.look()
    task.store()
    assert (task.taken, path.stat().st_size) == ([], size)

    path.write_text(line)
    task.look()
    task.store()
    task.look()
    assert (len(task.taken), path.read_text()) == (1, "")


def test_thousands_of_lines_are_taken_in_one_look(path: Path) -> None:
    task = Task(path)
    path.write_text("x\n" * 2000)
    task.look()
    task.store()
    task.look()

    assert len(task.taken) == 2000
    assert path.read_text() == ""


def test_the_same_lines_again_stay_until_an_offset_has_them_too(path: Path) -> None:
    task = Task(path)
    path.write_text("pause\n")
    task.look()
    before = task.known
    task.store()
    task.look()
    assert path.read_text() == ""

    path.write_text("pause\n")
    task.look()
    task.file.stored(before)  # an older offset was on its way
    task.look()
    assert (task.taken, path.read_text()) == ([b"pause", b"pause"], "pause\n")

    task.store()
    task.look()
    assert path.read_text() == ""

"""Files that a configuration names: regular ones, of bounded size, and no file system is waited for twice."""

import os
import threading
import time
from pathlib import Path

import pytest
import structlog
from dblog.config import named_files
from dblog.config.named_files import FILE_BYTES_MAX, NamedFile, in_memory
from dblog.errors import ConfigError
from dblog.observe.hidden import Hidden


def file(path) -> NamedFile:
    return NamedFile("option", str(path), "a file of the test")


def test_a_regular_file_is_read_whole(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(b"x" * FILE_BYTES_MAX)
    (tmp_path / "link").symlink_to("large")

    assert [len(file(tmp_path / name).read()) for name in ("empty", "large", "link")] == [0, FILE_BYTES_MAX, FILE_BYTES_MAX]


def test_nothing_else_is_opened_or_read_to_its_end(tmp_path):  # number 4 of the worker's safety
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "larger").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    (tmp_path / "circle").symlink_to("circle")
    began_s = time.monotonic()

    for path in ("/dev/zero", "/dev/tty", "a\0b", "", *(tmp_path / name for name in ("pipe", "larger", "circle", "missing", ""))):
        with pytest.raises(ConfigError, match="a file of the test") as caught:
            file(path).read()
        assert list(caught.value.errors) == ["option"]

    assert time.monotonic() - began_s < named_files.ANSWER_S


def test_a_pipe_that_took_a_files_place_between_two_looks_is_not_waited_for(tmp_path, monkeypatch):  # number 4
    os.mkfifo(tmp_path / "pipe")
    regular = Path(__file__).stat()
    monkeypatch.setattr(Path, "stat", lambda _path: regular)

    with pytest.raises(ValueError, match="not a regular file"):
        named_files.read_regular(str(tmp_path / "pipe"))


def test_a_file_system_that_does_not_answer_is_waited_for_once(tmp_path, monkeypatch):  # number 4
    (tmp_path / "good").write_bytes(b"good")
    answers = threading.Event()
    read = named_files.read_regular

    def slow(path, **_):
        if path.startswith("/dead/"):
            assert answers.wait(60)
            return b"back"
        return read(path)

    monkeypatch.setattr(named_files, "read_regular", slow)
    monkeypatch.setattr(named_files, "ANSWER_S", 0.5)
    monkeypatch.setattr(named_files, "READS", named_files.Reads())
    began_s = time.monotonic()
    try:
        for path in ("/dead/1", "/dead/1", "/dead/2", "/dead/2"):
            with pytest.raises(ConfigError):
                file(path).read()
        assert time.monotonic() - began_s < 0.5 + named_files.ANSWER_BESIDE_S + 0.5
        assert file(tmp_path / "good").read() == b"good"
    finally:
        answers.set()

    while True:  # bounded by what the fake waits for
        try:
            assert file("/dead/1").read() == b"back"
            break
        except ConfigError:
            assert time.monotonic() - began_s < 60


def test_what_was_read_can_be_given_as_a_path_and_leaves_nothing():
    before = len(list(Path("/proc/self/fd").iterdir()))

    with in_memory(b"data") as path:
        assert Path(path).read_bytes() == b"data"
        assert Path(path).read_bytes() == b"data"

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_link_that_leads_out_of_the_allowed_folders_when_it_is_opened_is_not_read(tmp_path):
    """The link is looked at before, and may be another one when the file is opened. The other folder's name begins with that of the allowed one."""
    inside, outside = tmp_path / "inside", tmp_path / "inside-other"
    (inside / "..2026").mkdir(parents=True)
    outside.mkdir()
    for folder in (inside / "..2026", outside):
        (folder / "key").write_bytes(folder.name.encode())
    (inside / "..data").symlink_to("..2026")
    (inside / "key").symlink_to("..data/key")

    assert named_files.read_regular(str(inside / "key"), within=(inside,)) == b"..2026"
    (inside / "..data").unlink()
    (inside / "..data").symlink_to(outside)
    with pytest.raises(ValueError, match="outside of the folders"):
        named_files.read_regular(str(inside / "key"), within=(inside,))
    assert named_files.read_regular(str(inside / "key")) == b"inside-other"


def test_a_line_about_a_file_has_no_secret_of_the_configuration():
    hide = Hidden({"canary-Secret": "${file:/x:key}"}).out_of
    with structlog.testing.capture_logs() as lines, named_files.hidden_from_log(hide), pytest.raises(ConfigError):
        file("/nowhere/canary-Secret").read()

    assert [line["path"] for line in lines] == ["/nowhere/${file:/x:key}"]

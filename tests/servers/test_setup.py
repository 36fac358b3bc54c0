"""Setup does each step once per content of what it is made from, and names what to install where it may not do it itself."""

import io
from pathlib import Path
from zipfile import ZipFile

import pytest
from stack import StackError, Unavailable, environment, steps
from stack.__main__ import main
from stack.process import wait_until


@pytest.fixture(autouse=True)
def stamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "STAMPS", tmp_path)


def test_a_step_is_done_again_only_when_its_sources_change(tmp_path: Path):
    source, done = tmp_path / "a.pyx", []
    for text in ("one", "one", "two", "two"):
        source.write_text(text)
        environment.step("a step", [source], make=lambda: done.append(source.read_text()))

    assert done == ["one", "two"]


def test_a_step_is_done_again_when_its_result_is_gone():
    done = []
    for there in (True, True, False):
        environment.step("a step", [], make=lambda: done.append("made"), there=lambda there=there: there)

    assert len(done) == 2


def test_a_step_that_failed_is_done_again():
    def broken() -> None:
        raise StackError

    with pytest.raises(StackError):
        environment.step("a step", [], make=broken)

    assert environment.step("a step", [], make=lambda: None)


def test_without_a_compiler_and_without_root_the_packages_to_install_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    monkeypatch.setattr(environment.os, "geteuid", lambda: 1000)

    with pytest.raises(Unavailable, match="there is no C compiler. Install gcc and libc6-dev"):
        environment.need_compiler()


class Terminal(io.StringIO):
    """A stream that counts as a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_step_that_takes_time_reports_what_it_does_how_far_it_is_and_for_how_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(steps, "SILENT_S", 0.01)
    monkeypatch.setattr(steps, "REPORT_INTERVAL_S", 0.01)
    out = io.StringIO()

    with steps.Board(out).step("Python packages"):
        steps.current().note("Downloading pyspark-4.1.1.tar.gz (434.1 MB)")
        wait_until(lambda: "pyspark" in out.getvalue(), timeout_s=60, what="a report", pause_s=0.01)

    lines = out.getvalue().splitlines()
    assert "setup: Python packages (Downloading pyspark-4.1.1.tar.gz (434.1 MB), 0 s)" in lines
    assert lines[-1] == "setup: Python packages done (0 s)"


def test_steps_at_the_same_time_share_the_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(steps, "SILENT_S", 0.01)
    monkeypatch.setattr(steps, "FRAME_S", 0.01)
    monkeypatch.setenv("COLUMNS", "120")
    out = Terminal()
    board = steps.Board(out)

    with board.step("Java"), board.step("MariaDB"):
        wait_until(lambda: "Java (0 s); MariaDB (0 s)" in out.getvalue(), timeout_s=60, what="both in one line", pause_s=0.01)

    assert out.getvalue().count("\n") == 2, "only an end is a line of its own"
    assert out.getvalue().startswith("\r\x1b[K")


def test_a_download_shows_its_part_of_the_whole(tmp_path: Path):
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "openjdk.deb").write_bytes(bytes(30_000_000))
    step = steps.Step("Java", began_s=100.0)

    step.expect(tmp_path, 114_000_000)

    assert steps.describe([step], now_s=112.0) == "setup: Java (30 of 114 MB, 12 s)"
    step.note("unpacking openjdk.deb")
    assert steps.describe([step], now_s=113.0) == "setup: Java (unpacking openjdk.deb, 13 s)"
    assert steps.fitted("setup: Java (unpacking openjdk.deb, 13 s)", 20) == "setup: Java (unp..."


def test_a_step_that_fails_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(steps, "SILENT_S", 0.0)
    out = io.StringIO()

    with pytest.raises(StackError), steps.Board(out).step("MariaDB"):
        raise StackError

    assert out.getvalue() == "setup: MariaDB failed (0 s)\n"


def test_the_jars_for_s3_are_put_where_they_are_looked_for_with_the_log_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "jars-s3a"

    assert main(["jars-s3a", str(folder)]) == 0

    assert capsys.readouterr().out.strip() == str(folder)
    names = {jar.name for jar in folder.glob("*.jar")}
    assert {"hadoop-aws-3.4.2.jar", "dblog-s3-log-store.jar"} <= names
    assert "dblog/sink/S3ConditionalLogStore.class" in ZipFile(folder / "dblog-s3-log-store.jar").namelist()
    assert main(["jars-s3a", str(folder), "and another"]) == 2

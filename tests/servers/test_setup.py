"""Setup does each step once per content of what it is made from, and names what to install where it may not do it itself."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from stack import StackError, Unavailable, environment
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


def test_a_step_that_takes_time_reports_while_it_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(environment, "SILENT_S", 0.01)
    monkeypatch.setattr(environment, "REPORT_INTERVAL_S", 0.01)
    seen: list[str] = []

    def make() -> None:
        wait_until(
            lambda: bool(seen.append(capsys.readouterr().out) or "so far" in "".join(seen)), timeout_s=20, what="a report", pause_s=0.01
        )

    environment.step("Python packages", [], make=make)

    assert "".join(seen).startswith("setup: Python packages ...\n")
    assert "setup: Python packages done (" in capsys.readouterr().out


def test_the_jars_for_s3_are_put_where_they_are_looked_for_with_the_log_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "jars-s3a"

    assert main(["jars-s3a", str(folder)]) == 0

    assert capsys.readouterr().out.strip() == str(folder)
    names = {jar.name for jar in folder.glob("*.jar")}
    assert {"hadoop-aws-3.4.2.jar", "dblog-s3-log-store.jar"} <= names
    assert "dblog/sink/S3ConditionalLogStore.class" in ZipFile(folder / "dblog-s3-log-store.jar").namelist()
    assert main(["jars-s3a", str(folder), "and another"]) == 2

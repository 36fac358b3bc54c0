"""A run is shown on a terminal as one screen, elsewhere as lines; both are kept in a file."""

import io
from pathlib import Path

import pytest
from demo import screen
from demo.__main__ import show
from demo.compare import TableResult
from demo.flow import Outcome
from demo.progress import Progress
from demo.screen import Numbers
from rich.console import Console
from stack.process import wait_until


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plain() -> Console:
    return Console(file=io.StringIO(), width=80, highlight=False)


def test_without_a_terminal_each_event_is_one_line_and_nothing_is_drawn():
    console = plain()

    with Progress("demo", console=console) as progress:
        progress.phase("the shop is open")
        progress.killed("task (dump)", "kill -9 of the task's process 7, [in the middle] of the dump; " + "so it goes on " * 9)
        progress.event("ALTER TABLE orders")

    lines = printed(console).splitlines()
    assert [text[8:].strip()[:20] for text in lines] == ["the shop is open", "kill -9 of the task'", "ALTER TABLE orders"]
    assert "[in the middle]" in lines[1]
    assert "\x1b" not in printed(console)


def test_without_a_terminal_a_line_comes_again_and_again_though_nothing_happens_and_nobody_answers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(screen, "LINE_INTERVAL_S", 0.05)
    console = plain()

    def sample(numbers: Numbers) -> None:
        numbers.changes = 7
        raise ConnectionError("the worker was just killed")

    with Progress("demo", console=console) as progress:
        progress.sample = sample
        progress.look()
        with progress.waits(lambda: "the worker to start"):
            wait_until(lambda: printed(console).count("\n") >= 2, timeout_s=60, what="two lines")

    for text in printed(console).splitlines()[:2]:
        assert "source 7 changes" in text
        assert "waits for the worker to start, " in text
    assert screen.LINE_INTERVAL_S <= 15


def test_a_wait_inside_a_wait_is_shown_and_then_the_outer_one_again():
    progress = Progress("demo", console=plain())

    def waits() -> str:
        return next(text.plain for text in progress.picture(width=80, height=30) if text.plain.startswith("waits"))

    with progress.waits("the dump"):
        with progress.waits("the task's process"):
            assert waits() == "waits    for the task's process, 0 s so far"
        assert waits() == "waits    for the dump, 0 s so far"
    assert waits() == "waits    for nothing"


def test_a_terminal_gets_one_screen_of_its_own_and_the_lines_go_to_a_file(tmp_path: Path):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=30, highlight=False, color_system=None)

    with Progress("demo of a shop", console=console, log=tmp_path / "demo.log") as progress:
        progress.phase("the shop is open")
        progress.numbers.changes = 4321
        wait_until(lambda: "4,321 changes" in file.getvalue(), timeout_s=60, what="a frame with the number")

    enter, leave = "\x1b[?1049h", "\x1b[?1049l"
    assert file.getvalue().count(enter) == file.getvalue().count(leave) == 1
    assert file.getvalue().index(enter) < file.getvalue().index("demo of a shop")
    assert file.getvalue().index(leave) > file.getvalue().rindex("demo of a shop"), "nothing of it stays behind"
    assert [text[8:].strip() for text in (tmp_path / "demo.log").read_text().splitlines()] == ["the shop is open"]


def test_the_last_screen_has_the_table_the_kills_and_where_to_go_next(tmp_path: Path):
    results = [TableResult("orders", rows_source=1_400, rows_lake=1_399, rows_missing=1)]
    results[0].note((17,), "missing in the lake")
    console = plain()

    show(
        console,
        Outcome(results=results, kills=["task (dump)", "sink (2 commits)"], changes=5, first_rows_s=21.0),
        folder=tmp_path,
        elapsed_s=99,
    )

    text = printed(console)
    assert "1,400" in text
    assert "orders[17]: missing in the lake" in text
    assert "killed by SIGKILL: task (dump), sink (2 commits)" in text
    assert "first rows in the lake: 21 s after the shop opened" in text
    assert str(tmp_path / "lake" / "shop") in text
    assert "make servers" in text
    assert text.splitlines()[-1] == "identical: no"

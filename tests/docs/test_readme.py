"""The README's commands are run by tests, and the tutorial's blocks, pasted as they stand, bring a row and its change to Delta."""

import contextlib
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from docs.commands import Command, commands, test_of
from stack.process import free_port

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
FIRST_LINE = "DB=mariadb CLASS=mariadb.MariaDbConnector"
PORT_OF_TUTORIAL = "8083"
LIMIT_S = 840
"""No promise of the tutorial, which takes a minute or two on an idle machine: beside four other processes of tests it has taken five."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository's files with a build folder of its own, whose virtual environment is the one that runs this test."""
    for entry in ROOT.iterdir():
        if entry.name != "build" and not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    build = tmp_path / "build"
    build.mkdir()
    for made in ("venv", "stamps"):
        (build / made).symlink_to(ROOT / "build" / made)
    return tmp_path


def first_lines() -> dict[str, str]:
    """The line that chooses each database, by its name in `make servers`."""
    lines = re.findall(r"^\| \w+ \| `(DB=.*?)` \|$", TUTORIAL.read_text(), re.MULTILINE)
    return {line.split()[0].removeprefix("DB="): line for line in lines}


def script(database: str) -> str:
    """What a reader with this database pastes: all blocks but those of the other kind, with its own first line."""
    other = "MariaDB or MySQL" if database == "postgres" else "PostgreSQL"
    parts = re.split(r"^(#+ .*)$", TUTORIAL.read_text(), flags=re.MULTILINE)
    wanted = [
        text for heading, text in zip(parts[1::2], parts[2::2], strict=True) if not re.fullmatch(rf"#+ (?:With|For) {other}", heading)
    ]
    pasted = "\n".join(block for text in wanted for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    assert FIRST_LINE in pasted
    return pasted.replace(FIRST_LINE, first_lines()[database])


def paste(clone: Path, script: str, *, limit_s: float) -> str:
    """What a shell prints for the script; its servers and worker are ended behind it, whatever came of it."""
    ended = "kill $(cat build/sink.pid build/worker.pid); wait; make servers-stop"
    # Into a file: servers that outlive the shell would keep a pipe open.
    with (clone / "printed").open("w+") as printed:
        try:
            subprocess.run(["bash"], input=script, text=True, cwd=clone, stdout=printed, stderr=printed, timeout=limit_s, check=False)
        finally:
            subprocess.run(["bash"], input=ended, text=True, cwd=clone, capture_output=True, timeout=120, check=False)
        printed.seek(0)
        return printed.read()


@pytest.mark.parametrize(
    "database", ["mariadb", pytest.param("mysql", marks=pytest.mark.long), pytest.param("postgres", marks=pytest.mark.long)]
)
def test_a_row_and_its_change_are_in_delta_when_the_tutorial_is_pasted(clone: Path, database: str, request: pytest.FixtureRequest):
    request.getfixturevalue("kafka")  # a machine that cannot have them skips
    request.getfixturevalue(database)
    printed = paste(clone, script(database).replace(PORT_OF_TUTORIAL, str(free_port())), limit_s=LIMIT_S)

    assert "can run" in printed, printed
    assert '"state": "RUNNING"' in printed.replace('":"', '": "'), printed
    offsets = [json.loads(line) for line in printed.splitlines() if line.startswith('{"offsets"')]
    assert offsets, printed
    assert offsets[0]["offsets"][0]["partition"] == {"server": "first"}
    assert re.search(r"^dblog_task_dump_rows_total\{.*\} 2\.0$", printed, re.MULTILINE), printed
    assert re.search(r"^1 Ada\n2 Grace$", printed, re.MULTILINE), printed
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith('{"id"')]
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "Ada Lovelace"), (3, "Katherine")], printed
    assert not (clone / "build" / "servers.json").exists()
    assert processes_of(clone) == {}
    assert [path.name for path in clone.rglob("*") if path.name in ("ibdata1", "server.properties", "binlog.index", "PG_VERSION")] == []


def processes_of(folder: Path) -> dict[str, str]:
    """What still runs in the folder, or with a file of it: number and command."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if (process / "cwd").readlink().is_relative_to(folder) or f"{folder}/" in command:
                found[process.name] = command
    return found


def test_a_port_that_is_taken_ends_the_wait_with_the_reason(clone: Path):
    pasted = script("mariadb")
    start = pasted[pasted.index("cat > build/worker.properties") : pasted.index("done\n") + len("done\n")]

    with socket.create_server(("127.0.0.1", 0)) as taken:
        printed = paste(clone, "at() { echo 127.0.0.1:1; }\n" + start.replace(PORT_OF_TUTORIAL, str(taken.getsockname()[1])), limit_s=60)

    assert "cannot be opened (Address already in use)" in printed, printed


def test_the_readme_shows_two_commands_before_anything_else_and_a_test_runs_each():
    shown = [one for one in commands(ROOT) if one.page == "README.md"]

    assert [one.text for one in shown[:2]] == ["make demo", "helm install dblog ./helm"]
    assert [one for one in shown if test_of(one) is None] == []
    assert Command("README.md", "make test") in shown


def test_the_readme_stays_short_and_has_a_picture():
    text = (ROOT / "README.md").read_text()

    assert len(text.splitlines()) <= 130
    assert (ROOT / re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)[0]).is_file()

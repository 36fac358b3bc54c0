"""The README's first connector by hand, pasted as it stands: every line of its blocks, in one shell, in a clone without servers."""

import contextlib
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from stack.process import free_port

ROOT = Path(__file__).parents[2]
SECTION = "## A first connector by hand"
PORT_OF_README = "8083"
LIMIT_S = 840
"""No promise of the README, which takes a minute or two on an idle machine: beside four other processes of tests it has taken five."""


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


def blocks() -> str:
    text = (ROOT / "README.md").read_text()
    section = text[text.index(SECTION) :]
    section = section[: section.index("\n## ", 1)]
    return "\n".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL))


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


def test_the_first_rows_are_in_delta_when_the_blocks_of_the_readme_are_pasted(clone: Path, kafka: object, mariadb: object):
    del kafka, mariadb  # a machine that cannot have them skips
    printed = paste(clone, blocks().replace(PORT_OF_README, str(free_port())), limit_s=LIMIT_S)

    assert '"state": "RUNNING"' in printed.replace('":"', '": "'), printed
    offsets = [json.loads(line) for line in printed.splitlines() if line.startswith('{"offsets"')]
    assert offsets, printed
    assert offsets[0]["offsets"][0]["partition"] == {"server": "dbserver1"}
    assert re.search(r"^dblog_task_dump_rows_total\{.*\} 2\.0$", printed, re.MULTILINE), printed
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith('{"id"')]
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "Ada"), (2, "Grace")], printed
    assert not (clone / "build" / "servers.json").exists()
    assert processes_of(clone) == {}
    assert [path.name for path in clone.rglob("*") if path.name in ("ibdata1", "server.properties", "binlog.index")] == []


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
    script = blocks()
    start = script[script.index("cat > build/worker.properties") : script.index("done\n") + len("done\n")]

    with socket.create_server(("127.0.0.1", 0)) as taken:
        printed = paste(clone, "at() { echo 127.0.0.1:1; }\n" + start.replace(PORT_OF_README, str(taken.getsockname()[1])), limit_s=60)

    assert "cannot be opened (Address already in use)" in printed, printed

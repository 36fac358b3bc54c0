"""Ctrl-C ends the demo cleanly, whatever it is at: nothing of it runs on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stack.process import wait_until

PROGRAM = """
import sys
from pathlib import Path
from demo import __main__ as demo

demo.FOLDER, demo.LOCK = Path(sys.argv[1]), Path(sys.argv[1]) / "lock"
sys.argv[1:] = sys.argv[2:]
sys.exit(demo.main())
"""


def commands_in(folder: Path) -> list[str]:
    """The command lines of running programs that name the folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


# It starts a broker, a database, the worker and Spark; the short versions are those of the guard, tests/servers/test_guard.py.
@pytest.mark.long
@pytest.mark.parametrize(("source", "moment"), [("mariadb", "Kafka is ready"), ("postgres", "the shop is open")])
def test_ctrl_c_ends_every_program_of_the_demo(source: str, moment: str, own_folder: Path):
    output = own_folder / "output"
    with output.open("wb") as written:
        demo = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(own_folder), source], stdout=written, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait_until(lambda: moment in output.read_text() or demo.poll() is not None, timeout_s=600, what=moment)
        assert any("spark" in line for line in commands_in(own_folder)), output.read_text()

        demo.send_signal(signal.SIGINT)
        status = demo.wait(300)
    finally:
        demo.kill()

    assert output.read_text().splitlines()[-1] == "Interrupted; everything has been stopped.", output.read_text()
    assert status == 130
    assert commands_in(own_folder) == []

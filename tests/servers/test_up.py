"""`python -m stack up`: servers by hand, gone with the command however it ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import stack
from stack import MariaDb
from stack.process import wait_until
from support.servers import printed_by


def _takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_the_command_that_started_it(how: signal.Signals, mariadb: MariaDb):
    environment = {**os.environ, "PYTHONPATH": str(Path(stack.__file__).parents[1])}
    command = subprocess.Popen([sys.executable, "-m", "stack", "up", "mariadb"], stdout=subprocess.PIPE, text=True, env=environment)
    with command:
        printed = printed_by(command)
        port = printed["mariadb"]["port"]
        assert _takes_connections(port)

        command.send_signal(how)

    wait_until(lambda: not _takes_connections(port), timeout_s=20, what="the server to end with the command")
    folder = Path(printed["folder"])
    if how == signal.SIGKILL:
        shutil.rmtree(folder)  # nobody was left to do it
    assert not folder.exists()

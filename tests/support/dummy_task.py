"""A task program without a source, which behaves as its configuration says.

It obeys the control channel. ``dummy.echo`` is a file for the start message. ``dummy.behaviour``
is:

- ``run``, the default;
- ``fail``;
- ``fault``, an end as by a bug of ours;
- ``exit``;
- ``shout``, to print its password and exit;
- ``deaf``, to never stop;
- ``silent``, to never report RUNNING;
- ``waiting``, to report a reason to wait, and to write librdkafka's log lines;
- ``lines``, to send the text of ``dummy.lines`` unchanged;
- ``endless``, to send a line without an end.

``dummy_dumps.py`` handles messages about dumps.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path

import dblog.bare_structlog  # noqa: F401  first, for its effect
from dblog.runtime.deadline import Deadline
from dblog.runtime.policy import failed_trace
from dummy_dumps import DummyDumps


def main() -> int:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
    lines = control.makefile("r", encoding="utf-8")

    def send(message: dict[str, object]) -> None:
        control.sendall(json.dumps(message).encode() + b"\n")

    start = json.loads(lines.readline())
    deadline = Deadline()
    if "lease_until_s" in start:
        deadline.set(start["lease_until_s"])
    config = start["config"]
    if echo := config.get("dummy.echo"):
        with Path(echo).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**start, "pid": os.getpid()}) + "\n")
    behaviour = config.get("dummy.behaviour", "run")
    if behaviour == "fail":
        send({"type": "state", "state": "FAILED", "trace": f"no luck with {config.get('database.password')}"})
        return 1
    if behaviour == "fault":
        try:
            int("no number")
        except ValueError as e:
            send({"type": "state", "state": "FAILED", "trace": failed_trace(e, start["connector"])})
        return 1
    if behaviour == "lines":
        control.sendall(config["dummy.lines"].encode() + b"\n")
    if behaviour == "endless":
        while True:
            control.sendall(b"x" * 65536)
    if behaviour == "exit":
        print("last words of the dummy", file=sys.stderr)
        return 3
    if behaviour == "shout":
        secret = config["database.password"]
        for line in (f"login with {secret.splitlines()[0]} refused", secret, f"%2 is no line of a client {secret.splitlines()[-1]}"):
            print(line, file=sys.stderr)
        return 3
    if behaviour != "silent":
        send({"type": "topic", "topic": f"{config['topic.prefix']}.shop.orders"})
        send({"type": "metrics", "values": {"records_sent_total": 45, "records_acknowledged_total": 42, "lag_ms": 7, "dump_running": 1}})
        send({"type": "state", "state": "PAUSED" if start["target"] == "PAUSED" else "RUNNING", "trace": None})
    if behaviour == "waiting":
        send({"type": "state", "state": "RUNNING", "trace": f"no broker answers at b:9092 for {config.get('database.password')}"})
        line = "%3|1795398377.947|FAIL|rdkafka#producer-1| [thrd:b:9092/bootstrap]: b:9092/bootstrap: Connect to b failed: refused (after 1ms in state CONNECT)"
        print(*([line] * 100), "a line of its own", sep="\n", file=sys.stderr, flush=True)
    dumps = DummyDumps(start, send)
    for line in lines:
        message = json.loads(line)
        dumps.take(message)
        match message["type"]:
            case "lease":
                deadline.set(message["until_s"])
            case "pause":
                send({"type": "state", "state": "PAUSED", "trace": None})
            case "resume":
                send({"type": "state", "state": "RUNNING", "trace": None})
            case "stop" if behaviour != "deaf":
                send({"type": "state", "state": "STOPPED", "trace": None, "limit_s": message["limit_s"]})
                return 0
    return 76


if __name__ == "__main__":
    raise SystemExit(main())

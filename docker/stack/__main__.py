"""`python -m stack`: the servers of the project by hand.

up [kafka] [mariadb] [mysql] [postgres] [prometheus]   start them (all by default) in the foreground, print their addresses as JSON, stop them on Ctrl-C
start [kafka] ...              start them in the background, wait until they are ready, print their addresses; they outlive the shell
stop                           stop what `start` has started
jars-s3a [FOLDER]              the jars for paths in S3 (s3a://), where `dblog-sink` finds them, or in a new FOLDER; prints it
page-assets                    the libraries of the worker's web page from npm's registry, as their lock says
setup                          make this clone ready to run and download what they and Spark need; starts nothing
"""

import json
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from stack.background import BackgroundServers
from stack.database import Database
from stack.environment import BUILD, put_s3a_jars, set_up
from stack.errors import StackError
from stack.kafka import Kafka
from stack.mariadb import MariaDb
from stack.mysql import MySql
from stack.page_assets import take
from stack.postgres import Postgres
from stack.prometheus import Prometheus

SERVERS: dict[str, Callable[[Path], Kafka | Database | Prometheus]] = {
    "kafka": Kafka,
    "mariadb": MariaDb,
    "mysql": MySql,
    "postgres": Postgres,
    "prometheus": Prometheus,
}


def up(names: list[str]) -> None:
    """Run servers until a signal ends them, then remove their data."""
    parent = BUILD / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="up-", dir=parent, ignore_cleanup_errors=True) as made, ExitStack() as running:
        folder = Path(made)
        addresses: dict[str, object] = {"folder": str(folder)}
        for name in names or list(SERVERS):
            server = SERVERS[name](folder / name)
            running.enter_context(server)
            addresses[name] = _address(server)
        print(json.dumps(addresses, indent=2), flush=True)
        signal.pause()


def _address(server: Kafka | Database | Prometheus) -> dict[str, object]:
    match server:
        case Kafka():
            return {"bootstrap": server.bootstrap}
        case Prometheus():
            return {"url": server.url, "targets": str(server.targets_file)}
        case _:
            return server.login


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run one command. Return the exit status."""
    known: dict[str, set[str]] = {"up": set(SERVERS), "start": set(SERVERS), "stop": set(), "setup": set(), "page-assets": set()}
    command, names = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "jars-s3a" and len(names) <= 1:
        known[command] = set(names)
    if command not in known or not set(names) <= known[command]:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _stop)
    try:
        match command:
            case "setup":
                set_up()
            case "page-assets":
                take()
            case "jars-s3a":
                print(put_s3a_jars(*map(Path, names)))
            case "start":
                print(json.dumps(BackgroundServers(BUILD).start(names or list(SERVERS)), indent=2))
            case "stop":
                print("stopped" if BackgroundServers(BUILD).stop() else "no servers were running")
            case _:
                up(names)
    except KeyboardInterrupt:
        return 130
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

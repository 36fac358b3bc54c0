"""`python -m stack`: the servers of the project by hand.

up [kafka] [mariadb] [mysql]   start them (all by default) in the foreground, print their addresses as JSON, stop them on Ctrl-C
install [...]                  download what they and Spark need, and start nothing
"""

import json
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from stack.database import Database
from stack.errors import StackError
from stack.kafka import Kafka
from stack.mariadb import MariaDb
from stack.maven import jars
from stack.mysql import MySql
from stack.spark import spark_jars

SERVERS: dict[str, type[Kafka] | type[Database]] = {"kafka": Kafka, "mariadb": MariaDb, "mysql": MySql}


def install(names: list[str]) -> None:
    """Download what is not in the cache yet."""
    unused = Path("unused")
    steps: dict[str, Callable[[], object]] = {
        "kafka": lambda: jars("kafka"),
        "spark": spark_jars,
        "mariadb": MariaDb(unused).program,
        "mysql": MySql(unused).program,
    }
    for name in names or list(steps):
        steps[name]()


def up(names: list[str], folder: Path) -> None:
    """Run servers until a signal ends them."""
    with ExitStack() as running:
        addresses: dict[str, object] = {"folder": str(folder)}
        for name in names or list(SERVERS):
            server = running.enter_context(SERVERS[name](folder / name))
            addresses[name] = {"bootstrap": server.bootstrap} if isinstance(server, Kafka) else server.login
        print(json.dumps(addresses, indent=2), flush=True)
        signal.pause()


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run one command; the exit status."""
    known = {"up": SERVERS.keys(), "install": {*SERVERS, "spark"}}
    command, names = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command not in known or not set(names) <= set(known[command]):
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _stop)
    try:
        if command == "install":
            install(names)
        else:
            build = Path(__file__).parents[2] / "build" / "servers"
            build.mkdir(parents=True, exist_ok=True)
            up(names, Path(tempfile.mkdtemp(prefix="up-", dir=build)))
    except KeyboardInterrupt:
        return 130
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

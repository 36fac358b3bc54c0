"""A worker with the dummy tasks of ``dummy_task.py``, or the real ones with the argument ``real``.

The herder, the REST interface and the topics are real; there is no database.
"""

import sys
import threading
from pathlib import Path

import dblog.bare_structlog  # noqa: F401  first, for its effect
from dblog.abort import Abort
from dblog.cli import start_worker
from dblog.config.options import Settings
from dblog.config.worker import WorkerConfig
from dblog.dialects.registry import kind_of
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.readers.run import reachable


def check_database(flavor: str, settings: Settings, limit_s: float, abort: Abort) -> list[str]:
    """Answer as the configured host name says: ``away`` refuses the connection, ``slow`` hangs."""
    match settings.text("database.hostname"):
        case "away":
            raise TransientError("Connection to away:3306 refused.")
        case "slow":
            cut = threading.Event()
            abort.on(cut.set)
            cut.wait(3600)
        case "127.0.0.1":
            return kind_of(flavor).check(settings, limit_s=limit_s, abort=abort)
        case "leaky":
            raise DefiniteError(f"login with {settings.text('database.password')} refused")
        case "strict":
            raise ConfigError({"database.user": ["the user lacks REPLICATION SLAVE; run: GRANT REPLICATION SLAVE ON *.* TO u"]})
        case "doubtful":
            return ["no table matches"]
    return []


def check_reachable(settings: Settings, worker: WorkerConfig, limit_s: float) -> None:
    """Run the real check only if the configuration requests it; most name no real brokers."""
    if settings.originals.get("dummy.reachable") == "true":
        reachable.check_reachable(settings, worker, limit_s=limit_s)


if __name__ == "__main__":
    raise SystemExit(
        start_worker(
            Path(sys.argv[1]),
            task_command=[
                sys.executable,
                *(["-m", "dblog", "task"] if "real" in sys.argv else [str(Path(__file__).with_name("dummy_task.py"))]),
            ],
            check_database=check_database,
            check_reachable=check_reachable,
        )
    )

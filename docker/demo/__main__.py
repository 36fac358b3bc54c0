"""Runs the whole pipeline: ``python -m demo [mariadb|mysql|postgres]``.

The exit status is 0 if both ends match.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table
from stack import Kafka, MariaDb, MySql, Postgres, StackError, Unavailable

from demo.destination import DeltaLake, RunFailedError
from demo.flow import Kill, Outcome, Run, Scenario
from demo.pipeline import ROOT
from demo.progress import Progress
from demo.rest import ConnectorFailedError
from demo.shop import DATABASE, DEMO

FOLDER = ROOT / "build" / "demo"
LOG = "demo.log"
LOCK = ROOT / "build" / "demo.lock"
SOURCES: dict[str, type[MariaDb | MySql | Postgres]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}

SCENARIO = Scenario(
    name="demo",
    sizes=DEMO,
    kills=(
        Kill(target="task", dump_share=0.2),
        Kill(target="worker", log_s=6.0),
        # Six tables are created, so with eight commits some have rows; the later one is after its first batch.
        Kill(target="sink", commits=8),
        Kill(target="sink", commits=20),
    ),
    rate_per_s=800.0,
    changes_max=80_000,
    log_s=10.0,
    healed=("products", "title"),
    dumped_again=r"shop\.(customers|products)",
)


def main() -> int:
    """Run the demo, report the result, and leave nothing running."""
    parser = argparse.ArgumentParser(prog="demo", description="A shop under writes, copied into Delta, compared row by row at the end.")
    parser.add_argument("source", nargs="?", choices=sorted(SOURCES), default="mariadb", help="the database server (default: %(default)s)")
    flavor: str = parser.parse_args().source
    signal.signal(signal.SIGTERM, _as_interrupt)
    console = Console(highlight=False)
    folder = FOLDER / flavor
    try:
        with only_one(LOCK):
            began_s = time.monotonic()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            source, kafka = SOURCES[flavor](folder / flavor, durable=False), Kafka(folder / "kafka")
            title = f"dblog demo: {flavor} to Kafka to Delta Lake"
            with Progress(title, source=flavor, console=console, log=folder / LOG) as progress:
                lake = DeltaLake(kafka, folder, prefix=SCENARIO.name)
                outcome = Run(SCENARIO, source, kafka, lake, folder, progress, owns_servers=True).run()
            show(console, outcome, folder=folder, elapsed_s=time.monotonic() - began_s)
            return 0 if outcome.identical else 1
    except Unavailable as e:
        console.print(f"This machine cannot run the demo: {e}", markup=False, soft_wrap=True)
    except BusyError as e:
        console.print(str(e), markup=False, soft_wrap=True)
        return 1
    except (StackError, RunFailedError, ConnectorFailedError) as e:
        console.print(f"The demo has failed: {e}", markup=False, soft_wrap=True)
        list_logs(console, folder)
    except KeyboardInterrupt:
        console.print("Interrupted; everything has been stopped.")
        return 130
    except Exception:  # noqa: BLE001 - the edge of the program: shown, with where to look
        console.print_exception()
        list_logs(console, folder)
    console.print("identical: no")
    return 1


def show(console: Console, outcome: Outcome, *, folder: Path, elapsed_s: float) -> None:
    """Print the last screen: a row for each table, what was killed, where to go next, the verdict.

    First differences follow the table. The last line is for scripts.
    """
    table = Table(title=f"{outcome.changes:,} changes during the run, {outcome.key_changes} primary keys changed")
    table.add_column("table")
    for heading in ("rows in source", "rows in lake", "differing"):
        table.add_column(heading, justify="right")
    table.add_column("identical")
    for result in outcome.results:
        verdict = "yes" if result.identical else "no"
        table.add_row(result.table, f"{result.rows_source:,}", f"{result.rows_lake:,}", f"{result.rows_differing:,}", verdict)
    console.print(table)
    lines = [
        *(
            f"  {text}"
            for result in outcome.results
            for text in (*(f"{result.table}: column {column}" for column in result.columns_differing), *map(str, result.examples))
        ),
        f"killed by SIGKILL: {', '.join(outcome.kills) or 'nothing'}",
        *([f"first rows in the lake: {outcome.first_rows_s:.0f} s after the shop opened"] if outcome.first_rows_s is not None else []),
        "",
        "where to go next",
        f"  the tables, to look at         {folder / 'lake' / DATABASE}",
        f"  what happened, line by line    {folder / LOG}",
        "  your own table, step by step   make servers, and docs/tutorial.md",
        "  other databases                make demo SOURCE=mysql, make demo SOURCE=postgres",
        "  on Kubernetes                  helm install dblog ./helm, and helm/README.md",
        "",
        f"{sum(result.rows_source for result in outcome.results):,} rows compared; {elapsed_s:.0f} s in all",
        f"identical: {'yes' if outcome.identical else 'no'}",
    ]
    for text in lines:
        console.print(text, markup=False, soft_wrap=True)


def list_logs(console: Console, folder: Path) -> None:
    """Print the log files to look into after a failure."""
    for log in sorted(folder.rglob("*.log")):
        if log.stat().st_size and "data" not in log.parts:
            console.print(f"  log: {log}", markup=False, soft_wrap=True)


class BusyError(Exception):
    """Raised when another demo runs on this clone."""


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold the lock of this clone inside the block. Raise BusyError if another run has it.

    Two runs at once would delete each other's files and share two cores. The kernel frees the lock
    of a killed run.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise BusyError(f"another run is at work here (process {file.read().strip()}); wait for its end or stop it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _as_interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

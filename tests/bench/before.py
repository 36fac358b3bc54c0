"""This checkout against another one of dblog, such as the commit before a change: one server, one broker, the same log, in turn.

python tests/bench/before.py --before FOLDER [WORK ...] [--source postgres] [--scale 0.1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path

from demo.pipeline import ROOT, Worker
from engines import Ours, Variant
from machine import machine
from measures import Field, Measured, catch_up, dump
from prepared import SOURCES, prepared
from rich.console import Console
from stack import Kafka
from works import ON_POSTGRES, WORKS, CatchUp, Dump, on_postgres

FOLDER = ROOT / "build" / "bench" / "before"


def run(works: list[CatchUp | Dump], before: Path, *, source: str, scale: float, rounds: int, console: Console) -> None:
    """Medians of the rounds, and how this checkout stands to the other one."""
    with prepared(source, FOLDER) as found, Kafka(FOLDER / "kafka", lasting=True) as kafka:
        server = found.server
        theirs = Worker(kafka, FOLDER / "worker_before", name="before", checkout=before)
        ours = Worker(kafka, FOLDER / "worker_now", name="now")
        with theirs, ours:
            field = Field(found, kafka.bootstrap, lambda text: console.print(text, markup=False))
            variants = [Variant("before", Ours(theirs, kafka, server)), Variant("now", Ours(ours, kafka, server))]
            console.print(machine(server))
            for work in works:
                measure = catch_up if isinstance(work, CatchUp) else dump
                measured = measure(field, work, variants, units=int(work.units * scale), rounds=rounds)  # type: ignore[operator]
                for what, rate in (("second", _per_s), ("CPU-second", _per_cpu_s)):
                    then, now = (statistics.median(map(rate, measured[key])) for key in ("before", "now"))
                    console.print(f"{work.name}: {then / 1000:,.1f} k a {what} before, {now / 1000:,.1f} k now, {now / then:.3f} times")


def _per_s(measured: Measured) -> float:
    return measured.records / measured.wall_s


def _per_cpu_s(measured: Measured) -> float:
    assert measured.cpu_s, "backlogs and dumps have it"
    return measured.records / measured.cpu_s


def main() -> int:
    works = [work for work in WORKS if isinstance(work, CatchUp | Dump)]
    parser = argparse.ArgumentParser(description="This checkout of dblog against another one: rows a second and per CPU-second.")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"all, or some of: {' '.join(work.name for work in works)}")
    parser.add_argument("--before", type=Path, required=True, metavar="FOLDER", help="the other checkout; run `make setup` in it first")
    parser.add_argument("--source", choices=SOURCES, default="mysql")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows, default 1")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if unknown := set(arguments.works) - {work.name for work in works}:
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    if not (arguments.before / "build" / "venv").is_dir():
        parser.error(f"{arguments.before} is no checkout that `make setup` has run in")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    chosen = [work for work in works if not arguments.works or work.name in arguments.works]
    if arguments.source == "postgres":
        if beyond := set(arguments.works) - set(ON_POSTGRES):
            parser.error(f"not asked of PostgreSQL: {', '.join(sorted(beyond))}")
        chosen = [on_postgres(work) for work in chosen if work.name in ON_POSTGRES]
    try:
        run(
            chosen,
            arguments.before.resolve(),
            source=arguments.source,
            scale=arguments.scale,
            rounds=arguments.rounds,
            console=Console(highlight=False, width=160),
        )
    finally:
        for data in (arguments.source, "kafka"):
            shutil.rmtree(FOLDER / data, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

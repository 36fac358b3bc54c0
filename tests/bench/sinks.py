"""Our sink against the one that everybody writes by hand: same topics, same records, same machine, in turn. README.md lists what is asked.

python tests/bench/sinks.py [--works first_dump inserts] [--scale 0.1] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from dblog_sink.job.submit import JAVA_OPTIONS
from demo.pipeline import ROOT
from rich.console import Console
from sinkengines import Naive, Ours
from sinkmeasures import Field, Measured, freshness, half_rate, memory, throughput
from sinkreport import entry, tables
from sinkworks import WORKS, Memory, Paced, Records, Throughput, Work
from stack import Kafka
from support.registry_server import RegistryServer

BUILD = ROOT / "build" / "bench"
FOLDER = BUILD / "sink"


def ask(field: Field, work: Work, *, scale: float, rounds: int, half: bool) -> dict[str, Any]:
    """One work, all rounds."""
    field.report(work.name)
    match work:
        case Throughput():
            records = replace(work.records, count=_whole(work.records.count * scale), base=_whole(work.records.base * scale))
            results = throughput(field, work, records, rounds=rounds)
            fresh: dict[str, list[Measured]] = {}
            if work.half_rate_p99_s is not None and half:
                rate = max(m.records / m.wall_s for m in results["ours"] if m.wall_s)
                fresh = half_rate(field, work, records, rate / 2, seconds=max(30.0, 120 * min(1, scale)))
            return entry(work, results, fresh)
        case Paced():
            seconds = max(30.0, work.seconds * min(1, scale))
            tables = work.tables if scale >= 1 else max(2, int(work.tables * scale)) if work.tables > 1 else 1
            per_s = work.per_s * tables // work.tables
            changed = replace(work, per_s=per_s, seconds=seconds, tables=tables)
            records = Records("change", int(per_s * seconds), base=0) if tables == 1 else Records("insert", int(per_s * seconds))
            if tables == 1:
                records = replace(records, base=_whole(1_000_000 * scale))
            return entry(changed, freshness(field, changed, records, engines=field.engines), {})
        case Memory():
            return entry(work, memory(field, work, max(12, int(work.batches * min(1, scale)))), {})


def _whole(rows: float) -> int:
    """A multiple of what the filler deals in."""
    return int(rows) // 40 * 40


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    memory_gib = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": memory_gib, "python": platform.python_version()}


def main() -> int:
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(description="Our sink against a naive one: rates, freshness, memory.")
    parser.add_argument("--works", nargs="*", default=names, metavar="WORK", help=f"all, or some of: {' '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows, tables, seconds and batches, default 1")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=("ours", "naive"), help="run one of the two, for a profile; nothing is compared")
    parser.add_argument("--no-half-rate", action="store_true", help="leave out the freshness at half of the rate just measured")
    parser.add_argument("--java-options", default=JAVA_OPTIONS, help=f"of our driver, default {JAVA_OPTIONS!r}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of our sink, for an experiment")
    arguments = parser.parse_args()
    if unknown := set(arguments.works) - set(names):
        parser.error(f"no such work: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    console = Console(highlight=False, width=150)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    works = [work for work in WORKS if work.name in arguments.works]
    facts = {**machine(), "scale": arguments.scale, "rounds": arguments.rounds}
    entries: list[dict[str, Any]] = []
    try:
        with Kafka(FOLDER / "kafka", lasting=True) as kafka, RegistryServer() as registry:
            engines = [
                Naive(FOLDER),
                Ours(FOLDER, java_options=arguments.java_options, options=dict(pair.split("=", 1) for pair in arguments.set)),
            ]
            chosen = [engine for engine in engines if arguments.only in (None, engine.key)]
            field = Field(kafka.bootstrap, registry, FOLDER, chosen, lambda text: console.print(text, markup=False))
            for work in works:
                made = ask(field, work, scale=arguments.scale, rounds=arguments.rounds, half=not arguments.no_half_rate)
                entries.append({**made, "machine": facts})
                (BUILD / "sink.json").write_text(json.dumps(entries, indent=2) + "\n")
    finally:
        for data in [FOLDER / "kafka", *FOLDER.glob("*/lake-*")]:
            shutil.rmtree(data, ignore_errors=True)
    for table in tables(entries):
        console.print(table)
    console.print(f"written to {(BUILD / 'sink.json').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

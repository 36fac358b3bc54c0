"""dblog against Debezium 3.6.1 in Kafka Connect 4.3.1: same database, same tables, same broker, same binlog, in turn. README.md lists what is asked.

python tests/bench/peer.py [WORK ...] [--source postgres] [--scale 0.1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from demo.pipeline import ROOT, Worker
from engines import LIMIT_S, TUNED, Ours, Peer, Variant
from machine import machine
from measures import Field, Measured, catch_up, dump, dump_beside, latency, restart
from peerreport import entry, tables
from prepared import prepared
from rich.console import Console
from stack import Debezium, Kafka
from stack.process import wait_until
from works import ON_POSTGRES, WORKS, CatchUp, Dump, DumpBeside, Latency, Restart, Work, on_postgres

BUILD = ROOT / "build" / "bench"
FOLDER = BUILD / "peer"
FLUSH = {"offset.flush.interval.ms": "10000"}
"""Of both workers: offsets are stored often enough for the restarts not to wait for a minute."""
WARM_ROWS = 200_000


def warm_up(field: Field, variants: list[Variant], rows: int) -> None:
    """A dump, a catch-up of many rows and one of single rows, for the JVM's compiler; what ours gets out of it is warm file caches."""
    source, table = field.source, "warm"
    shape = source.shape("TEN")
    source.create(table, shape)
    source.write_many(table, shape, rows, log=False)
    for variant in variants:
        variant.engine.create(f"warm_{variant.key}", [table], mode="initial", options=variant.options)
    for written in (rows, 2 * rows, 2 * rows + rows // 2):
        if written == 2 * rows:
            source.write_many(table, shape, rows)
        elif written > 2 * rows:
            source.write_single(table, shape, rows // 2)
        for variant in variants:
            topics = field.topic(f"warm_{variant.key}", table)
            wait_until(
                lambda topics=topics, written=written: topics.records() >= written, timeout_s=LIMIT_S, what=f"{variant.key} to be warm"
            )
    for variant in variants:
        field.end(variant, f"warm_{variant.key}")


def ask(field: Field, work: Work, ours: Ours, peer: Peer, *, scale: float, rounds: int) -> dict[str, list[Measured]]:
    """The rounds of one work."""
    bare = [Variant("ours", ours), Variant("peer", peer)]
    tuned = [*bare, Variant("peer_tuned", peer, TUNED)]
    match work:
        case CatchUp():
            return catch_up(field, work, tuned, units=int(work.units * scale), rounds=rounds)
        case Dump():
            return dump(field, work, tuned, units=int(work.units * scale), rounds=rounds)
        case DumpBeside():
            larger = [*bare, Variant("peer_tuned", peer, {**TUNED, "incremental.snapshot.chunk.size": "8192"})]
            return dump_beside(field, work, larger, units=int(work.units * scale), rounds=rounds)
        case Latency():
            polling = [*bare, Variant("peer_tuned", peer, {"poll.interval.ms": "5"})]
            return latency(field, work, polling, seconds=max(5, work.seconds * scale), rounds=rounds)
        case Restart():
            statements = int(work.statements * scale) if work.scaled else work.statements
            return restart(field, work, bare, statements=statements, rounds=rounds)


def run(works: list[Work], *, source: str, scale: float, rounds: int, console: Console) -> list[dict[str, Any]]:
    """All works on servers of their own; what is done is written after each."""
    with prepared(source, FOLDER, debezium=True) as found, Kafka(FOLDER / "kafka", lasting=True) as kafka:
        server = found.server
        worker = Worker(kafka, FOLDER / "worker", name="bench", options=FLUSH)
        debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=source, options=FLUSH)
        with worker, debezium:
            field = Field(found, kafka.bootstrap, lambda text: console.print(text, markup=False))
            ours, peer = Ours(worker, kafka, server), Peer(debezium, kafka, server)
            warm_up(field, [Variant("ours", ours), Variant("peer", peer)], max(40_000, int(WARM_ROWS * min(1, scale))))
            facts = {**machine(server), "scale": scale}
            entries: list[dict[str, Any]] = []
            for work in works:
                entries.append(entry(work, ask(field, work, ours, peer, scale=scale, rounds=rounds), facts))
                written(source).write_text(json.dumps(entries, indent=2) + "\n")
            return entries


def written(source: str) -> Path:
    """Where the figures are."""
    return BUILD / ("peer.json" if source == "mysql" else f"peer_{source}.json")


def main() -> int:
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(description="dblog against Debezium: speed, memory, delays.")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"all, or some of: {' '.join(names)}")
    parser.add_argument("--source", choices=("mysql", "postgres"), default="mysql")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows and of DDLs, default 1")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if unknown := set(arguments.works) - set(names):
        parser.error(f"no such work: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    console = Console(highlight=False, width=160)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    works = [work for work in WORKS if not arguments.works or work.name in arguments.works]
    if arguments.source == "postgres":
        if beyond := set(arguments.works) - set(ON_POSTGRES):
            parser.error(f"not asked of PostgreSQL: {', '.join(sorted(beyond))}; there are {', '.join(ON_POSTGRES)}")
        works = [on_postgres(work) for work in works if work.name in ON_POSTGRES]
    try:
        entries = run(works, source=arguments.source, scale=arguments.scale, rounds=arguments.rounds, console=console)
    finally:
        for data in (arguments.source, "kafka"):
            shutil.rmtree(FOLDER / data, ignore_errors=True)
    for table in tables(works, entries):
        console.print(table)
    console.print(f"written to {written(arguments.source).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

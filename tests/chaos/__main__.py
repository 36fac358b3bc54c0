"""``make chaos``: random schemas, writes, DDL, settings and faults by seed, through Kafka and the sink into Delta, compared at the end."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import shutil
import sys
import time
from pathlib import Path

from chaos.mysql.database import cases_of
from chaos.plan import Plan, plan_of
from chaos.run import Result, Run, Servers, servers
from chaos.shrink import shrink
from chaos.sources import SOURCES, drawing_of, server_of
from stack.database import Database

FOLDER = Path(__file__).parents[2] / "build" / "chaos"
SEEDS = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make chaos")
    parser.add_argument("--source", choices=sorted(SOURCES), default="mariadb")
    parser.add_argument("--seed", default="random", help="the first seed, or `random`; the others follow it")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long a run writes")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--mask", default="", help="words of chaos/plan.py, separated by commas: parts of the plan to leave out")
    parser.add_argument("--shrink", type=int, default=12, help="most runs to make a failing plan smaller; 0: none")
    parser.add_argument("--faults", default=None, help="kinds of faults to draw from, separated by commas; `none`")
    parser.add_argument(
        "--only", default=None, help="the kinds of trouble to have, instead of those that are drawn; separated by commas; `none`"
    )
    parser.add_argument("--before", type=Path, default=None, help="another checkout, whose worker runs; `make setup` has run there")
    parser.add_argument("--no-sink", action="store_true", help="without Spark: only topics, SELECT and dumps are compared")
    parser.add_argument("--show", action="store_true", help="print the plan and end")
    arguments = parser.parse_args()
    first = secrets.randbelow(SEEDS) if arguments.seed == "random" else int(arguments.seed)
    mask = frozenset(word for word in arguments.mask.split(",") if word)
    faults = None if arguments.faults is None else tuple(word for word in arguments.faults.split(",") if word not in ("", "none"))
    if faults == ():
        mask |= {"faults"}
        faults = None

    only = None if arguments.only is None else tuple(word for word in arguments.only.split(",") if word not in ("", "none"))
    kinds = drawing_of(arguments.source).kinds
    if unknown := set(only or ()) - set(kinds):
        parser.error(f"{arguments.source} has no kind {', '.join(sorted(unknown))}; it has {', '.join(kinds)}")

    def planned(seed: int, under: frozenset[str]) -> Plan:
        cases = len(cases_of(arguments.source))
        return plan_of(arguments.source, seed, seconds=arguments.seconds, mask=under, fault_kinds=faults, cases=cases, only=only)

    if arguments.show:
        print("\n".join(planned(first, mask).lines()))
        return 0
    lines: list[str] = []
    server_folder = FOLDER / f"servers-{arguments.source}-{first}"
    shutil.rmtree(server_folder, ignore_errors=True)
    with contextlib.ExitStack() as ending:
        source = server_of(arguments.source, server_folder / "source")
        source.start()
        ending.callback(source.kill)
        up = ending.enter_context(servers(server_folder, with_sink=not arguments.no_sink, before=arguments.before))
        for seed in range(first, first + arguments.runs):
            lines.append(one_seed(seed, planned, mask, up, source, shrinks=arguments.shrink))
            print(lines[-1], flush=True)
    ok = all(": identical" in line for line in lines)
    if ok:
        shutil.rmtree(server_folder, ignore_errors=True)
    print(f"--- {arguments.source}, {arguments.runs} runs from seed {first}")
    for line in lines:
        print(line)
    return 0 if ok else 1


def one_seed(seed: int, planned, mask: frozenset[str], up: Servers, source: Database, *, shrinks: int) -> str:
    """Run a seed, shrink it when it fails, and report what came of it in a line or more."""
    attempts = 0

    def attempt(under: frozenset[str]) -> Result:
        nonlocal attempts
        attempts += 1
        plan = planned(seed, under)
        print(f"seed {seed} ({plan.flavor}), try {attempts}, mask {','.join(sorted(under)) or 'none'}", flush=True)
        began_s = time.monotonic()

        def report(text: str) -> None:
            print(f"  {time.monotonic() - began_s:6.1f} s  {text}"[:1000], flush=True)

        folder = FOLDER / f"{plan.flavor}-{seed}" / f"try-{attempts}"
        shutil.rmtree(folder, ignore_errors=True)
        return Run(plan, up, source, attempt=attempts, folder=folder, report=report).run()

    result = attempt(mask)
    if not result.problems:
        return f"seed {seed}: identical ({result.rows} rows, {result.records} records, {result.elapsed_s:.0f} s)"
    text = "\n".join(f"  {problem}" for problem in result.problems[:12])
    print(f"seed {seed}: {result.check.upper()}\n{text}", flush=True)
    smallest = shrink(planned(seed, mask), result.check, lambda under: attempt(under).check, attempts_max=shrinks) if shrinks else mask
    where = FOLDER / f"{planned(seed, mask).flavor}-{seed}"
    again = f"--mask '{','.join(sorted(smallest))}'" if smallest else ""
    if smallest != mask:
        (where / "smallest.txt").write_text("\n".join(planned(seed, smallest).lines()) + "\n", encoding="utf-8")
    return f"seed {seed}: DIFFERENT ({result.check}; log and plan in {where}; again: --seed {seed} {again})\n{text}"


if __name__ == "__main__":
    sys.exit(main())

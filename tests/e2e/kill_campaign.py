"""Kills at random moments, many times: the demo's flow with ``kill -9`` of the task (sometimes of the worker, or of the sink), compared each time.

Not a test of CI (about a minute a run): ``make kill-campaign RUNS=10 SOURCE=mariadb SEED=7``. Each run has a seed of its own, printed
first, that decides the moments, the load, the chunk size and the ALTER; ``--seed S --runs 1`` repeats one. Exit status 0 only if all were
identical.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import sys
import time

from demo.__main__ import FOLDER, LOCK, SOURCES, only_one
from demo.destination import DeltaLake
from demo.flow import Kill, Outcome, Run, Scenario
from demo.progress import Progress
from demo.shop import Sizes
from demo.topics import delete_topics
from rich.console import Console
from stack import Kafka


def scenario_of(seed: int) -> Scenario:
    """Odd and even seeds kill once in the dump or once in the log; one in three kills twice, another one in three the sink as well."""
    dice = random.Random(seed)
    in_dump = Kill(target="task", dump_share=dice.uniform(0.01, 0.95))
    in_log = Kill(target=dice.choice(("task", "task", "worker")), log_s=dice.uniform(0.1, 8.0))
    kills = (in_dump, in_log) if seed % 3 == 0 else ((in_dump,) if seed % 2 else (in_log,))
    if seed % 3 == 1:
        kills = (*kills, Kill(target="sink", commits=dice.randint(1, 12)))
    return Scenario(
        name=f"campaign{seed}",
        sizes=Sizes(customers=20_000, orders=40_000, products=4_000, everything=1_500),
        kills=kills,
        rate_per_s=dice.choice((200.0, 700.0)),
        changes_max=20_000,
        log_s=3.0,
        seed=seed,
        alter_at_dump_share=dice.uniform(0.0, 0.9),
        chunk_rows=dice.choice((200, 1000, 5000)),
    )


def one_run(seed: int, source, kafka: Kafka, folder, *, console: Console) -> Outcome:
    """One seed on servers that are up."""
    scenario = scenario_of(seed)
    console.print(f"seed {seed}: kills {', '.join(map(str, scenario.kills))}; chunks of {scenario.chunk_rows} rows")
    with Progress(f"seed {seed}", console=console) as progress:
        return Run(scenario, source, kafka, DeltaLake(kafka, folder, prefix=scenario.name), folder, progress).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; the others follow it")
    parser.add_argument("--source", choices=sorted(SOURCES), default="mariadb")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else secrets.randbelow(100_000)
    console = Console(highlight=False, width=160)
    folder = FOLDER.with_name("kill-campaign") / arguments.source
    lines: list[str] = []
    with only_one(LOCK):
        shutil.rmtree(folder, ignore_errors=True)
        with SOURCES[arguments.source](folder / "source", durable=False) as source, Kafka(folder / "kafka") as kafka:
            for seed in range(first, first + arguments.runs):
                began_s = time.monotonic()
                try:
                    outcome = one_run(seed, source, kafka, folder / f"run-{seed}", console=console)
                    verdict = "identical" if outcome.identical else "DIFFERENT"
                    what = f"{', '.join(outcome.kills)}; {outcome.changes} changes, {sum(r.rows_source for r in outcome.results)} rows"
                    for text in (str(example) for result in outcome.results for example in result.examples):
                        console.print(f"  {text}", markup=False)
                except Exception as e:  # noqa: BLE001 - a run that could not end is a result of the campaign
                    verdict, what = "FAILED", f"{type(e).__name__}: {e}"
                lines.append(f"seed {seed}: {verdict} ({what}; {time.monotonic() - began_s:.0f} s)")
                console.print(lines[-1], markup=False)
                delete_topics(kafka.bootstrap, f"campaign{seed}.")
                if verdict == "identical":
                    shutil.rmtree(folder / f"run-{seed}", ignore_errors=True)
    console.print(f"--- {arguments.source}, {arguments.runs} runs from seed {first}")
    for line in lines:
        console.print(line, markup=False)
    return 0 if all(": identical" in line for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())

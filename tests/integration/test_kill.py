"""``kill -9`` of the task and of the whole worker, in the dump and in the log, never loses, doubles or reorders a row (I1, I2, I3).

The worker alone: its topics are folded and compared with the source. ``tests/e2e/kill_campaign.py`` does the same through Spark, longer.
"""

import io
import random

import pytest
from demo.flow import Kill, Run, Scenario
from demo.progress import Progress
from demo.shop import Sizes
from rich.console import Console
from support.topicdestination import TableTopics

pytestmark = pytest.mark.either_server

SEEDS = (1,)


def scenario_of(seed: int, flavor: str) -> Scenario:
    """Two kills at moments that the seed chooses: the task in the dump, the worker or the task in the log."""
    dice = random.Random(seed)
    return Scenario(
        name=f"kill_{flavor}_{seed}",
        sizes=Sizes(customers=12_000, orders=16_000, products=2_000, everything=400),
        kills=(
            Kill(target="task", dump_share=dice.uniform(0.05, 0.7)),
            Kill(target=dice.choice(("worker", "task")), log_s=dice.uniform(0.2, 3.0)),
        ),
        rate_per_s=400,
        changes_max=10_000,
        log_s=2.0,
        seed=seed,
        alter_at_dump_share=dice.uniform(0.0, 0.6),
        chunk_rows=dice.choice((300, 1000)),
        dump_timeout_s=90,
        catch_up_timeout_s=90,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_folding_the_topics_gives_the_source_after_kills_at_any_moment(seed, kafka, source, own_folder):
    scenario, output = scenario_of(seed, source.flavor), io.StringIO()
    topics = TableTopics(kafka, prefix=scenario.name)

    with Progress("kill", console=Console(file=output, width=200)) as progress:
        outcome = Run(scenario, source, kafka, topics, own_folder, progress).run()

    report = f"seed {seed}: {outcome.kills}\n{output.getvalue()}"
    differences = [str(text) for result in outcome.results for text in (*result.columns_differing, *result.examples)]
    assert not differences, report
    assert outcome.identical, report
    steps_back = [violation for folded in topics.folded.values() for violation in folded.violations]
    assert not steps_back, report
    assert len(outcome.kills) == 2, report

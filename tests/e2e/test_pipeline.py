"""The whole way once, small: a shop under writes, through Kafka and a real Spark job into Delta, with kills, and both ends compared."""

import io

import pytest
from demo.destination import DeltaLake
from demo.flow import Kill, Run, Scenario
from demo.progress import Progress
from demo.shop import Sizes
from rich.console import Console

SMALL = Sizes(customers=6_000, orders=8_000, products=1_000, everything=600)


# The sink does not know where records come from, so one database is enough for every run.
@pytest.mark.parametrize("source", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)], indirect=True)
def test_the_lake_is_identical_to_the_source_after_kills_of_every_program(kafka, source, own_folder):
    kills = [Kill(target="task", dump_share=0.2), Kill(target="worker", log_s=1.0)]
    if source.flavor == "mariadb":  # once: the sink does not know where records come from
        kills.append(Kill(target="sink", commits=3))
    scenario = Scenario(
        name=f"e2e_{source.flavor}",
        sizes=SMALL,
        kills=tuple(kills),
        rate_per_s=400,
        changes_max=3_000,
        log_s=3.0,
        chunk_rows=500,
    )
    output = io.StringIO()

    with Progress("e2e", console=Console(file=output, width=200)) as progress:
        outcome = Run(scenario, source, kafka, DeltaLake(kafka, own_folder, prefix=scenario.name), own_folder, progress).run()

    differences = [str(text) for result in outcome.results for text in (*result.columns_differing, *result.examples)]
    assert not differences, output.getvalue()
    assert outcome.identical, output.getvalue()

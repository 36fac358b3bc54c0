"""The whole way once, small: a shop under writes, through Kafka and a real Spark job into Delta, with kills, and both ends compared."""

import io

import pytest
from demo.destination import DeltaLake
from demo.flow import Kill, Run, Scenario
from demo.progress import Progress
from demo.shop import Sizes
from rich.console import Console
from support.postgres import execute

SMALL = Sizes(customers=6_000, orders=8_000, products=1_000, everything=600)


@pytest.fixture
def slots(source):
    """A slot holds the log of a server that other tests use, too."""
    yield
    if source.flavor == "postgres":
        execute(source, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'e2e_postgres'")
        execute(source, "DROP PUBLICATION IF EXISTS dblog_demo", "DROP SCHEMA IF EXISTS shop CASCADE")


# What of a binlog comes to Delta, the README's first rows show in every run; kills of one program, the tests of that one.
@pytest.mark.long
@pytest.mark.parametrize("source", ["mariadb", "mysql", "postgres"], indirect=True)
@pytest.mark.usefixtures("slots")
def test_the_lake_is_identical_to_the_source_after_kills_of_every_program(kafka, source, own_folder):
    kills = [Kill(target="task", dump_share=0.2), Kill(target="worker", log_s=1.0)]
    if source.flavor != "mysql":
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

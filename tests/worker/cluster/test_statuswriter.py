"""What is written to the status topic."""

from dblog.cluster.records import State
from support.held_herder import CONFIG, turn


def test_a_trace_of_any_length_fits_its_record(herder):  # number 10
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)

    herder.status_writer.write_connector("a", State.FAILED, "x" * 3_000_000)

    assert max(len(value) for _, value in herder.statuses.log.put) < 300_000

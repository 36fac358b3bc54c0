"""When the producer counts as having forgotten records: long without an acknowledgement, and at two looks the brokers could take them."""

import pytest
from dblog.errors import TransientError
from dblog.runtime.unacknowledged import Unacknowledged


class Brokers:
    def __init__(self):
        self.led = True
        self.asked = []

    def are_led(self, topics):
        self.asked.append(set(topics))
        return self.led


@pytest.fixture
def brokers():
    return Brokers()


def test_two_looks_at_brokers_that_could_take_the_records_end_the_run(brokers):
    watch = Unacknowledged(brokers)

    for waited_s in (0.0, 59.0, 60.0, 75.0, 89.0):
        watch.check(waited_s, lambda: {"t"})
    with pytest.raises(TransientError, match="acknowledged nothing for 90 s"):
        watch.check(90.0, lambda: {"t"})
    assert brokers.asked == [{"t"}, {"t"}]


def test_a_partition_without_its_leader_or_a_replica_is_waited_for(brokers):
    watch = Unacknowledged(brokers)
    brokers.led = False

    for waited_s in range(0, 3600, 10):
        watch.check(float(waited_s), lambda: {"t"})
    brokers.led = True
    watch.check(3601.0, lambda: {"t"})
    with pytest.raises(TransientError):
        watch.check(3700.0, lambda: {"t"})


def test_an_acknowledgement_or_trouble_that_is_heard_of_begins_it_anew(brokers):
    watch = Unacknowledged(brokers)

    for _ in range(5):
        watch.check(60.0, lambda: {"t"})
        watch.check(0.0, lambda: {"t"})
    assert len(brokers.asked) == 5

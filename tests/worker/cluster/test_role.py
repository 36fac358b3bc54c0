"""Who runs a group's connectors: taking the lead, coming back to it, and rivals of another group."""

import pytest
from dblog.cluster.records import State, Status
from dblog.errors import TransientError
from dblog.kafka.group import Standing
from structlog.testing import capture_logs
from support.held_herder import herder_with, read_status, turn


def test_a_take_over_that_failed_is_tried_again_after_its_pause_and_not_in_every_turn(herder, clock):
    log = herder.configs.log
    log.problem = TransientError("no broker")
    turn(herder)
    assert log.reads == 1
    for _ in range(5):
        turn(herder)
    assert (log.reads, len(herder.loop.timers)) == (1, 1)

    clock.at_s += 1.01
    turn(herder)
    assert (log.reads, len(herder.loop.timers)) == (2, 1)
    log.problem = None
    clock.at_s += 1.01
    turn(herder)

    assert (log.reads, herder.role.leads, herder.loop.timers) == (3, True, [])


@pytest.mark.parametrize(
    ("worker_id", "state", "newer", "is_rival"),
    [
        ("elsewhere:8083", State.RUNNING, 0, True),
        ("elsewhere:8083", State.RUNNING, 1, True),
        ("elsewhere:8083", State.RUNNING, -1, False),
        ("elsewhere:8083", State.UNASSIGNED, 0, False),
        (None, State.RUNNING, 0, False),
    ],
)
def test_a_task_that_a_worker_outside_of_the_group_runs_too_is_an_error_that_stays(herder, worker_id, state, newer, is_rival):
    turn(herder)
    status = Status(state=state, worker_id=worker_id or herder.worker.worker_id, generation=herder.role.generation + newer)
    with capture_logs() as lines:
        for _ in range(2):
            read_status(herder, status)

    errors = [line for line in lines if line["log_level"] == "error"]
    assert len(errors) == (1 if is_rival else 0)
    assert bool(herder.role.rival) is is_rival
    if is_rival:
        assert "elsewhere:8083 runs task c-0 too" in herder.role.rival
        assert "group.id" in herder.role.rival


def test_another_worker_that_advertises_the_same_address_is_distinguished_by_its_run(herder, clock, membership):
    turn(herder)
    own = herder.status_writer.status(State.RUNNING)
    read_status(herder, own)
    assert not herder.role.rival
    other = herder_with(clock, membership)
    other.role.generation = herder.role.generation

    read_status(herder, other.status_writer.status(State.RUNNING))

    assert (
        f"{own.worker_id} (this worker's own address: give each its own rest.advertised.host.name) runs task c-0 too" in herder.role.rival
    )
    other.processes.close()


@pytest.mark.parametrize("again", [True, False], ids=["nobody of its group", "another worker of its group"])
def test_a_leader_that_comes_back_finds_what_began_to_run_meanwhile(herder, membership, again):
    turn(herder)
    read_status(herder, herder.status_writer.status(State.RUNNING))
    led = herder.role.generation
    membership.standing = Standing(term=1)
    turn(herder)
    # TaskMessage once, and read before this worker leads again: there will be no other record of it.
    read_status(herder, Status(state=State.RUNNING, worker_id="elsewhere:8083", generation=led + 1))

    membership.standing = Standing(leads=True, term=2, again=again, leader="http://here")
    turn(herder)

    assert herder.role.generation == led + 2
    assert ("elsewhere:8083 runs task c-0 too" in herder.role.rival) is again


def test_a_leader_that_comes_back_to_its_own_tasks_finds_nobody(herder, membership):
    turn(herder)
    read_status(herder, herder.status_writer.status(State.RUNNING))
    membership.standing = Standing(term=1)
    turn(herder)

    membership.standing = Standing(leads=True, term=2, again=True, leader="http://here")
    turn(herder)

    assert not herder.role.rival

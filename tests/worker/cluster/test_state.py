"""The fold of the config and status topics: small histories of records and the state that must come of them."""

import itertools

from dblog.cluster.records import (
    CommitRecord,
    ConnectorRecord,
    ConnectorStatusRecord,
    RestartRecord,
    State,
    Status,
    Target,
    TargetRecord,
    TaskId,
    TaskRecord,
    TaskStatusRecord,
    TopicUse,
    TopicUseRecord,
)
from dblog.cluster.state import ConfigState, StatusState, may_write


def folded(*read):
    state = ConfigState()
    for record in read:
        state.apply(record)
    return state


def test_a_connector_without_a_target_record_is_wanted_started():
    view = folded(ConnectorRecord("a", {"k": "v"})).view("a")

    assert view is not None
    assert (view.target, view.tasks, view.consistent) == (Target.STARTED, (), True)


def test_a_target_before_the_configuration_counts():
    view = folded(TargetRecord("a", Target.PAUSED), ConnectorRecord("a", {})).view("a")

    assert view is not None
    assert view.target is Target.PAUSED


def test_task_configurations_count_only_from_their_commit_on():
    before = (ConnectorRecord("a", {}), TaskRecord(TaskId("a", 0), {"n": "0"}), TaskRecord(TaskId("a", 1), {"n": "1"}))

    assert folded(*before).views()["a"].tasks == ()
    assert folded(*before, CommitRecord("a", 2)).views()["a"].tasks == ({"n": "0"}, {"n": "1"})


def test_a_commit_with_gaps_makes_the_connector_inconsistent_until_it_is_rewritten():
    state = folded(ConnectorRecord("a", {}), TaskRecord(TaskId("a", 1), {"n": "1"}), CommitRecord("a", 2))

    assert not state.views()["a"].consistent
    assert state.views()["a"].tasks == ()

    # The leftover of the bad commit must not complete the next one.
    state.apply(TaskRecord(TaskId("a", 0), {"n": "0"}))
    state.apply(CommitRecord("a", 2))
    assert not state.views()["a"].consistent

    for number in range(2):
        state.apply(TaskRecord(TaskId("a", number), {"n": str(number)}))
    state.apply(CommitRecord("a", 2))
    assert state.views()["a"].tasks == ({"n": "0"}, {"n": "1"})


def test_fewer_tasks_and_none_at_all():
    state = folded(ConnectorRecord("a", {}), TaskRecord(TaskId("a", 0), {}), TaskRecord(TaskId("a", 1), {}), CommitRecord("a", 2))

    state.apply(CommitRecord("a", 0))

    assert state.views()["a"].tasks == ()
    assert state.views()["a"].consistent


def test_a_deleted_connector_leaves_nothing_that_its_successor_would_run():
    state = folded(
        ConnectorRecord("a", {}),
        TargetRecord("a", Target.STOPPED),
        TaskRecord(TaskId("a", 0), {"old": "1"}),
        CommitRecord("a", 1),
        ConnectorRecord("a", None),
        TargetRecord("a", None),
    )
    assert state.views() == {}

    state.apply(ConnectorRecord("a", {"new": "1"}))

    assert state.views()["a"].tasks == ()
    assert state.views()["a"].target is Target.STARTED


def test_task_records_that_outlived_their_connector_are_ignored():
    # After compaction task-* and commit-* can stand before the connector they no longer belong to.
    state = folded(TaskRecord(TaskId("a", 0), {"old": "1"}), CommitRecord("a", 1), ConnectorRecord("a", {"new": "1"}))

    assert state.views()["a"].tasks == ()


def test_a_restart_request_is_no_state():
    assert folded(ConnectorRecord("a", {}), RestartRecord("a", True, True)) == folded(ConnectorRecord("a", {}))


def test_whatever_the_order_of_other_connectors_records_a_connector_is_the_same():
    mine = [ConnectorRecord("a", {"k": "v"}), TaskRecord(TaskId("a", 0), {}), CommitRecord("a", 1), TargetRecord("a", Target.PAUSED)]
    others = [ConnectorRecord("b", {}), TargetRecord("b", Target.STOPPED), ConnectorRecord("b", None)]
    expected = folded(*mine).view("a")

    for chosen in itertools.combinations(range(len(mine) + len(others)), len(others)):
        rest, own = list(others), list(mine)
        merged = [rest.pop(0) if index in chosen else own.pop(0) for index in range(len(mine) + len(others))]
        assert folded(*merged).view("a") == expected


def status(state, *, worker="w1:1", generation=1):
    return Status(state=state, worker_id=worker, generation=generation)


def test_an_unassigned_of_a_worker_that_lost_the_task_does_not_hide_the_running_one():
    view = StatusState()
    task = TaskId("a", 0)
    view.apply(TaskStatusRecord(task, status(State.RUNNING, worker="w2:1", generation=3)))

    view.apply(TaskStatusRecord(task, status(State.UNASSIGNED, worker="w1:1", generation=2)))
    view.apply(TaskStatusRecord(task, status(State.UNASSIGNED, worker="w1:1", generation=3)))
    assert view.tasks["a"][0].state is State.RUNNING

    view.apply(TaskStatusRecord(task, status(State.UNASSIGNED, worker="w2:1", generation=3)))
    assert view.tasks["a"][0].state is State.UNASSIGNED


def test_a_connectors_tombstone_takes_its_tasks_along():
    view = StatusState()
    view.apply(ConnectorStatusRecord("a", status(State.RUNNING)))
    view.apply(TaskStatusRecord(TaskId("a", 0), status(State.RUNNING)))
    view.apply(TopicUseRecord("t", "a", TopicUse(topic="t", connector="a", task=0, discovered_ms=1)))

    view.apply(ConnectorStatusRecord("a", None))

    assert view.connectors == {}
    assert view.tasks == {}
    assert list(view.topics["a"]) == ["t"]


def test_failed_and_unassigned_are_not_written_over_the_word_of_a_newer_worker():
    newer = status(State.RUNNING, worker="w2:1", generation=5)

    assert not may_write(status(State.FAILED, generation=4), newer)
    assert not may_write(status(State.UNASSIGNED, generation=4), newer)
    assert may_write(status(State.RUNNING, generation=4), newer)
    assert may_write(status(State.FAILED, generation=5), newer)
    assert may_write(status(State.FAILED, generation=1), status(State.RUNNING, generation=5))
    assert may_write(status(State.FAILED), None)


def test_a_new_worker_starts_above_every_generation_in_the_topic():
    view = StatusState()
    view.apply(ConnectorStatusRecord("a", status(State.RUNNING, generation=4)))
    view.apply(TaskStatusRecord(TaskId("b", 0), status(State.RUNNING, generation=9)))

    assert view.generation_max() == 9
    assert StatusState().generation_max() == 0


def test_a_commit_of_more_tasks_than_there_are_costs_nothing():
    state = ConfigState()
    state.apply(ConnectorRecord("a", {}))

    state.apply(CommitRecord("a", 10**12))

    view = state.view("a")
    assert (view.consistent, view.tasks) == (False, ())

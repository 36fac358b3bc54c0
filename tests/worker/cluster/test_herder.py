"""The herder's turns: what follows from the records of its topics."""

import pytest
from dblog.cluster.dumprecords import KnownDump, dump_record
from dblog.cluster.records import State, TaskId, TopicUse
from dblog.cluster.requests import DeleteConnector, RequestError, SetDump, StartDump
from dblog.core.dumprequests import DumpRequest, Mode, Wanted
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.log import LogRecord
from support.held_herder import CONFIG, herder_with, turn


@pytest.mark.parametrize("which", ["configs", "statuses", "offsets", "registry"])
def test_a_topic_that_is_no_longer_followed_ends_the_worker(herder, registry_log, which):
    log = registry_log if which == "registry" else getattr(herder, which).log
    turn(herder)
    log.ended = OSError("no room")

    with pytest.raises(TransientError, match=f"the topic {log.topic} is no longer followed: no room"):
        turn(herder)


@pytest.mark.parametrize("runs", [False, True], ids=["before its tasks", "with a task that waits"])
def test_a_status_that_is_read_back_after_its_connector_was_deleted_does_not_stay(herder, runs):
    turn(herder)
    herder.configs.write_connector("a", {"connector.class": "none"}, target=None)
    if runs:
        herder.configs.write_tasks("a", [{"connector.class": "none"}])
        herder.offsets.log.readable.clear()  # its offsets take their time
    turn(herder)
    herder.configs.delete("a")
    turn(herder)
    turn(herder)  # a task that was still to be launched asks for another one

    herder.statuses.log.read_back()  # the messages of its short run come only now
    assert herder.status_view.connector_status("a") is not None
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.status_view.connector_status("a") is None
    assert herder.statuses.known() == {}
    herder.offsets.log.readable.set()


def test_a_tasks_status_that_is_read_back_after_its_task_has_gone_does_not_stay(herder):
    turn(herder)
    herder.configs.write_connector("a", {"connector.class": "none"}, target=None)
    turn(herder)
    herder.statuses.log.read_back()
    herder.tasks.write_status(TaskId("a", 3), State.UNASSIGNED)
    turn(herder)

    herder.statuses.log.read_back()
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.statuses.known() == {"a": set()}


def refuse_tasks_of(herder, name, problem):
    """The config topic does not take the task records of one connector."""
    put_all = herder.configs.log.put_all

    def put(writes, *, limit_s):
        if any(f"task-{name}-".encode() in write.key for write in writes):
            raise problem
        put_all(writes, limit_s=limit_s)

    herder.configs.log.put_all = put


@pytest.mark.parametrize("problem", [TransientError("no answer"), DefiniteError("a record is larger than the topic takes")])
def test_a_connector_whose_tasks_cannot_be_written_does_not_stop_the_others(herder, clock, problem):  # number 10 of the worker's safety
    turn(herder)
    refuse_tasks_of(herder, "a", problem)
    for name in ("a", "b", "c"):
        herder.configs.write_connector(name, {**CONFIG, "name": name}, target=None)
    herder.loop.reconcile_soon()

    for _ in range(4):
        turn(herder)
        clock.at_s += 2

    assert [len(herder.configs.view(name).tasks) for name in ("a", "b", "c")] == [0, 1, 1]


def test_a_connector_whose_task_record_never_fits_is_failed_with_the_reason(herder):  # number 10
    turn(herder)
    refuse_tasks_of(herder, "a", DefiniteError("a record is larger than the topic takes"))
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.loop.reconcile_soon()
    for _ in range(3):
        turn(herder)

    herder.statuses.log.read_back()

    status = herder.status_view.connector_status("a")["connector"]
    assert (status["state"], "larger than the topic takes" in status["trace"]) == ("FAILED", True)


def test_topics_in_use_go_with_their_connector(herder):  # number 17 of the worker's safety
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.statuses.note_topic(TopicUse(topic="shop.orders", connector="a", task=0, discovered_ms=1))
    herder.statuses.log.read_back()
    assert herder.statuses.topics("a") == ["shop.orders"]

    herder.configs.delete("a")
    herder.loop.reconcile_soon()
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.statuses.topics("a") == []


def dump(connector="a", **more):
    return DumpRequest(id="d1", connector=connector, created_ms=1, requested_by="rest", mode=Mode.ROWS, tables=(".*",), **more)


def test_a_worker_without_a_topic_for_them_takes_no_requests_for_dumps(clock, membership):
    herder = herder_with(clock, membership, properties={"dblog.dumps.storage.topic": ""})
    turn(herder)

    asked = herder.submit(StartDump(dump()))
    turn(herder)

    with pytest.raises(RequestError, match=r"dblog\.dumps\.storage\.topic is empty") as refused:
        asked.result(0)
    assert refused.value.status == 501, "a 409 is tried again"
    assert (herder.dump_view, herder.dumps) == (None, None)
    herder.processes.close()


def test_a_worker_that_takes_over_reads_the_requests_for_dumps_to_their_end(herder):
    herder.dumps.log.problem = TransientError("no answer")
    turn(herder)
    assert not herder.role.leads

    herder.dumps.log.problem = None
    herder._clock.at_s += 2  # noqa: SLF001  the test's own
    turn(herder)

    assert herder.role.leads


def test_requests_for_dumps_that_a_deleted_connector_left_are_removed_by_whoever_leads(herder):
    herder.dumps.log.take(LogRecord(0, 0, *dump_record(("gone", "d1"), KnownDump(dump("gone")))))

    turn(herder)
    turn(herder)
    herder.dumps.log.read_back()

    assert herder.dumps.connectors() == []


def test_the_requests_of_a_connector_that_is_deleted_are_removed_even_if_kafka_takes_its_time(herder):
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.dumps.write(dump())
    put_all = herder.dumps.log.put_all

    def too_late(*_, **__):
        raise TransientError("it took too long")

    herder.dumps.log.put_all = too_late
    deleted = herder.submit(DeleteConnector("a"))
    turn(herder)
    herder.dumps.log.put_all = put_all

    assert deleted.result(0) is None
    turn(herder)
    herder.dumps.log.read_back()
    assert herder.dumps.connectors() == []


def test_a_change_of_a_dump_that_kafka_does_not_take_is_reported_and_changes_nothing(herder):
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.dumps.write(dump())

    def too_late(*_, **__):
        raise TransientError("it took too long")

    herder.dumps.log.put_all = too_late
    asked = herder.submit(SetDump("a", "d1", Wanted.PAUSED))
    turn(herder)

    with pytest.raises(RequestError, match="Error writing the request of a dump to Kafka"):
        asked.result(0)
    assert herder.dumps.open("a")[0].wanted is Wanted.RUNNING


def test_a_change_that_another_worker_forestalled_is_reported(herder):
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.dumps.write(dump())
    put_all = herder.dumps.log.put_all

    def behind_another(writes, *, limit_s):
        herder.dumps.log.take(LogRecord(0, 0, *dump_record(("a", "d1"), KnownDump(dump(revision=2, priority=5)))))
        put_all(writes, limit_s=limit_s)

    herder.dumps.log.put_all = behind_another
    asked = herder.submit(SetDump("a", "d1", Wanted.PAUSED))
    turn(herder)

    with pytest.raises(RequestError, match="changed at the same time") as raised:
        asked.result(0)
    assert (raised.value.status, herder.dumps.open("a")) == (409, [dump(revision=2, priority=5)])

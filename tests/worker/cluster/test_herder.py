"""The herder's turns without Kafka: its topics, its membership and its clock are the test's. One turn at a time, in the test's thread."""

import sys
from types import SimpleNamespace

import pytest
from dblog.cluster.decisions import Phase
from dblog.cluster.herder import Herder
from dblog.cluster.processes import Said
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import State, Status, Target, TaskId, TopicUse, task_status_record
from dblog.config.worker import read_worker_config
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.group import Standing
from dblog.kafka.log import LogRecord
from structlog.testing import capture_logs


class HeldLog:
    """A topic that is read at once, or cannot be read while ``problem`` is set. What is put later is read back when the test says so."""

    def __init__(self, topic, take=None):
        self.topic = topic
        self.take = take
        self.ended = None
        self.problem = None
        self.reads = 0
        self.put = []

    def read_to_end(self, *, limit_s):
        self.reads += 1
        if self.problem is not None:
            raise self.problem

    def put_all(self, writes, *, limit_s):
        for write in writes:
            self.take(LogRecord(0, 0, write.key, write.value, 0))

    def put_later(self, key, value):
        self.put.append((key, value))

    def read_back(self):
        held, self.put = self.put, []
        for key, value in held:
            self.take(LogRecord(0, 0, key, value, 0))

    def abandon(self):
        pass


class HeldClock:
    def __init__(self):
        self.at_s = 100.0

    def monotonic_s(self):
        return self.at_s

    def now_us(self):
        return round(self.at_s * 1_000_000)


def herder_with(clock, membership, **more):
    properties = {
        "bootstrap.servers": "localhost:1",
        "group.id": "g",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    return Herder(
        read_worker_config(properties),
        make_log=HeldLog,
        membership=membership,
        prepare=lambda _stopped: "",
        task_program=TaskProgram([sys.executable]),
        providers={},
        clock=clock,
        set_level=lambda _name, _level: [],
        levels=dict,
        on_fatal=lambda _error: None,
        **more,
    )


@pytest.fixture
def clock():
    return HeldClock()


@pytest.fixture
def membership():
    return SimpleNamespace(standing=Standing(leads=True, term=1, leader="http://here"), group="g")


@pytest.fixture
def registry_log():
    return HeldLog("_schemas")


@pytest.fixture
def herder(clock, membership, registry_log):
    made = herder_with(clock, membership, further_logs=[registry_log])
    yield made
    made._processes.close()


def turn(herder):
    herder._mailbox.put(lambda: None)  # a turn waits for something to do
    herder._turn()


@pytest.mark.parametrize("which", ["configs", "statuses", "offsets", "registry"])
def test_a_topic_that_is_no_longer_followed_ends_the_worker(herder, registry_log, which):
    log = registry_log if which == "registry" else getattr(herder, which).log
    turn(herder)
    log.ended = OSError("no room")

    with pytest.raises(TransientError, match=f"the topic {log.topic} is no longer followed: no room"):
        turn(herder)


def test_a_take_over_that_failed_is_tried_again_after_its_pause_and_not_in_every_turn(herder, clock):
    log = herder.configs.log
    log.problem = TransientError("no broker")
    turn(herder)
    assert log.reads == 1
    for _ in range(5):
        turn(herder)
    assert (log.reads, len(herder._timers)) == (1, 1)

    clock.at_s += 1.01
    turn(herder)
    assert (log.reads, len(herder._timers)) == (2, 1)
    log.problem = None
    clock.at_s += 1.01
    turn(herder)

    assert (log.reads, herder.leads, herder._timers) == (3, True, [])


def test_what_falls_due_while_timers_are_taken_has_its_turn_after_the_requests_that_wait(herder, clock):
    done = []

    def again():
        done.append("timer")
        assert len(done) < 10, "a timer that falls due again at once leaves no turn to anybody"
        clock.at_s += 1
        herder._later(0.0, again)

    herder._later(0.0, again)
    herder._mailbox.put(lambda: done.append("request"))
    turn(herder)
    turn(herder)

    assert done == ["timer", "request", "timer"]


def test_the_status_of_a_connector_has_the_numbers_of_its_own_tasks_alone(herder, monkeypatch):
    status = herder._status(State.RUNNING, None, None)
    monkeypatch.setattr(herder.statuses, "connector", lambda _name: status)
    monkeypatch.setattr(herder.statuses, "tasks", lambda _name: {0: status, 2: status})
    for connector, number in (("a", 0), ("a", 1), ("b", 2)):
        task = SimpleNamespace(metrics={"of": float(f"{number}.{ord(connector)}")}, waits=None, state=State.RUNNING)
        herder._tasks[TaskId(connector, number)] = task

    seen = {}
    monkeypatch.setattr("dblog.cluster.herder.status_answer", lambda *parts: seen.update(numbers=parts[-1]) or {})
    herder.status_of("a")

    assert seen["numbers"] == {0: {"of": 0.97}}


@pytest.mark.parametrize("runs", [False, True], ids=["before its tasks", "with a task that waits"])
def test_a_status_that_is_read_back_after_its_connector_was_deleted_does_not_stay(herder, runs):
    turn(herder)
    herder.configs.write_connector("a", {"connector.class": "none"}, target=None)
    if runs:
        herder.configs.write_tasks("a", [{"connector.class": "none"}])
        herder._reading_offsets = True  # its offsets take their time
    turn(herder)
    herder.configs.delete("a")
    turn(herder)
    turn(herder)  # a task that was still to be launched asks for another one

    herder.statuses.log.read_back()  # the words of its short life come only now
    assert herder.status_of("a") is not None
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.status_of("a") is None
    assert herder.statuses.known() == {}


def test_a_tasks_status_that_is_read_back_after_its_task_has_gone_does_not_stay(herder):
    turn(herder)
    herder.configs.write_connector("a", {"connector.class": "none"}, target=None)
    turn(herder)
    herder.statuses.log.read_back()
    herder._say_task(TaskId("a", 3), State.UNASSIGNED)
    turn(herder)

    herder.statuses.log.read_back()
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.statuses.known() == {"a": set()}


CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "tasks.max": "1",
    "database.hostname": "db",
    "database.user": "u",
    "database.server.id": "5400",
    "topic.prefix": "shop",
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "b:9092",
}


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
    herder._touch()

    for _ in range(4):
        turn(herder)
        clock.at_s += 2

    assert [len(herder.configs.view(name).tasks) for name in ("a", "b", "c")] == [0, 1, 1]


def test_a_connector_whose_task_record_never_fits_is_failed_with_the_reason(herder):  # number 10
    turn(herder)
    refuse_tasks_of(herder, "a", DefiniteError("a record is larger than the topic takes"))
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder._touch()
    for _ in range(3):
        turn(herder)

    herder.statuses.log.read_back()

    status = herder.status_of("a")["connector"]
    assert (status["state"], "larger than the topic takes" in status["trace"]) == ("FAILED", True)


def test_a_trace_of_any_length_fits_its_record(herder):  # number 10
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)

    herder._say_connector("a", State.FAILED, "x" * 3_000_000)

    assert max(len(value) for _, value in herder.statuses.log.put) < 300_000


def alive(herder, name):
    """A connector's task, as if its process ran."""
    task = SimpleNamespace(id=TaskId(name, 0), config=CONFIG, target=Target.STARTED, phase=Phase.ALIVE, run=len(herder._by_run) + 1)
    task.__dict__.update(hide=str, state=State.UNASSIGNED, waits=None, metrics={})
    herder._tasks[task.id] = herder._by_run[task.run] = task
    return task


def test_a_trace_that_is_no_unicode_is_stored_with_its_bytes_as_numbers(herder):
    turn(herder)

    alive(herder, "a")
    herder._on_process_event(Said(1, {"type": "state", "state": "FAILED", "trace": b"b\xff".decode(errors="surrogateescape")}))
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.task_status(TaskId("a", 0)).trace == "b\\udcff"


def test_a_message_that_cannot_be_handled_fails_its_task_and_no_other(herder):
    turn(herder)
    alive(herder, "a")
    alive(herder, "b")

    herder._on_process_event(Said(1, {"type": "metrics", "values": {"lag_ms": 10**400}}))
    herder._on_process_event(Said(2, {"type": "state", "state": "RUNNING"}))
    turn(herder)
    herder.statuses.log.read_back()

    failed = herder.task_status(TaskId("a", 0))
    assert (failed.state, "could not be handled (OverflowError)" in failed.trace) == (State.FAILED, True)
    assert herder.task_status(TaskId("b", 0)).state is State.RUNNING


def test_topics_in_use_go_with_their_connector(herder):  # number 17 of the worker's safety
    turn(herder)
    herder.configs.write_connector("a", {**CONFIG, "name": "a"}, target=None)
    herder.statuses.note_topic(TopicUse(topic="shop.orders", connector="a", task=0, discovered_ms=1))
    herder.statuses.log.read_back()
    assert herder.statuses.topics("a") == ["shop.orders"]

    herder.configs.delete("a")
    herder._touch()
    turn(herder)
    herder.statuses.log.read_back()

    assert herder.statuses.topics("a") == []


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
    status = Status(state=state, worker_id=worker_id or herder.worker.worker_id, generation=herder.generation + newer)
    with capture_logs() as lines:
        for _ in range(2):
            key, value = task_status_record(TaskId("c", 0), status)
            herder.statuses.log.take(LogRecord(0, 0, key, value, 0))
            turn(herder)

    errors = [line for line in lines if line["log_level"] == "error"]
    assert len(errors) == (1 if is_rival else 0)
    assert bool(herder.rival) is is_rival
    if is_rival:
        assert "elsewhere:8083 runs task c-0 too" in herder.rival
        assert "group.id" in herder.rival


def read_status(herder, status):
    key, value = task_status_record(TaskId("c", 0), status)
    herder.statuses.log.take(LogRecord(0, 0, key, value, 0))
    turn(herder)


def test_another_worker_that_advertises_the_same_address_is_told_apart_by_its_run(herder, clock, membership):
    turn(herder)
    own = herder._status(State.RUNNING, None, None)
    read_status(herder, own)
    assert not herder.rival
    other = herder_with(clock, membership)
    other.generation = herder.generation

    read_status(herder, other._status(State.RUNNING, None, None))

    assert f"{own.worker_id} (this worker's own address: give each its own rest.advertised.host.name) runs task c-0 too" in herder.rival
    other._processes.close()


@pytest.mark.parametrize("again", [True, False], ids=["nobody of its group", "another worker of its group"])
def test_a_leader_that_comes_back_finds_what_began_to_run_meanwhile(herder, membership, again):
    turn(herder)
    read_status(herder, herder._status(State.RUNNING, None, None))
    led = herder.generation
    membership.standing = Standing(term=1)
    turn(herder)
    # Said once, and read before this worker leads again: there will be no other record of it.
    read_status(herder, Status(state=State.RUNNING, worker_id="elsewhere:8083", generation=led + 1))

    membership.standing = Standing(leads=True, term=2, again=again, leader="http://here")
    turn(herder)

    assert herder.generation == led + 2
    assert ("elsewhere:8083 runs task c-0 too" in herder.rival) is again


def test_a_leader_that_comes_back_to_its_own_tasks_finds_nobody(herder, membership):
    turn(herder)
    read_status(herder, herder._status(State.RUNNING, None, None))
    membership.standing = Standing(term=1)
    turn(herder)

    membership.standing = Standing(leads=True, term=2, again=True, leader="http://here")
    turn(herder)

    assert not herder.rival

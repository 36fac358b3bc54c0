"""Two workers of one group: one runs the connectors, the other reports that it waits, and takes over when the first has gone, in whatever way. # I7

The tasks are dummies that note their starts; like real ones they end at their lease. Times are small: a session of six seconds is the shortest that
brokers allow by default.
"""

import contextlib
import os
import signal
import threading
import time

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.cli import app
from dblog.kafka.group import Membership
from dblog.kafka.instance import Instance
from dblog.kafka.othergroups import OtherGroups
from demo.rest import NO_TLS
from stack import Kafka
from support.dummy_dumps import DONE
from support.json_lines import json_lines
from support.servers import started
from support.worker import Worker, alive, until
from typer.testing import CliRunner

TIMES = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "task.shutdown.graceful.timeout.ms": "2000"}
TAKEN_OVER_S = 30.0
FEW = {"offset.storage.partitions": "1", "status.storage.partitions": "1"}


@pytest.fixture
def group(own_folder):
    return own_folder.name


@pytest.fixture
def echo(own_folder):
    return own_folder / "echo"


@pytest.fixture
def pair(kafka, own_folder, group):
    """Two workers of one group; neither is started. A standby is healthy too."""
    open_to_all = {"dblog.rest.without.login": "all"}  # whoever is on this machine is so at a standby alone
    workers = [Worker(kafka, own_folder, group, name=f"{group}-{name}", **TIMES, **FEW, **open_to_all) for name in "ab"]
    for worker in workers:
        worker.process.ready = lambda worker=worker: health(worker)[0] == 200
    yield workers
    for worker in workers:
        if worker.process.pid is not None and alive(worker.process.pid):
            os.kill(worker.process.pid, signal.SIGCONT)
        worker.__exit__()


def starts(echo):
    return json_lines(echo)


def health(worker):
    try:
        answer = httpx.get(f"{worker.url}/health", timeout=5, verify=NO_TLS)
    except httpx.TransportError:
        return 0, "", ""
    return answer.status_code, answer.json()["status"], answer.json()["message"]


def taken_over(echo, count, *, old_pid):
    """Wait for that start of the task; the one before must have ended by then, whoever was stopped."""
    until(lambda: len(starts(echo)) >= count, limit_s=TAKEN_OVER_S, what=lambda: f"start number {count}: {starts(echo)}")
    assert not alive(old_pid)
    return starts(echo)[count - 1]


def running_on(worker):
    """The status is of the new leader once it has been read back; until then the one before stands in it."""

    def parts():
        status = worker.status("c")
        return {(part["state"], part["worker_id"]) for part in (status["connector"], *status["tasks"])}

    until(lambda: parts() == {("RUNNING", worker.id)}, what=lambda: f"{worker.id} to run it, not {worker.status('c')}")


def living(echo):
    return [start["pid"] for start in starts(echo) if alive(start["pid"])]


def test_requests_for_dumps_are_answered_by_the_worker_that_leads_and_go_on_with_the_next_one(pair, own_folder):
    first, second = pair
    told = own_folder / "told"
    first.process.start()
    first.create("c", dummy_dumps=str(told), dummy_initial="3").raise_for_status()
    first.wait_for("c", "RUNNING", "RUNNING")
    dumps = [
        first.client.post("/connectors/c/dumps", json={"tables": [r"shop\..*"], "delay_ms": delay}).json()["id"] for delay in (0, DONE)
    ]
    until(lambda: '"dump_forget"' in told.read_text())
    second.process.start()
    until(lambda: "standby" in health(second)[2])

    # Whichever worker is asked, the leader answers.
    assert second.client.get("/connectors/c/dumps").json() == first.client.get("/connectors/c/dumps").json()
    assert second.client.get(f"/connectors/c/dumps/{dumps[0]}").json()["id"] == dumps[0]
    changed = second.client.patch(f"/connectors/c/dumps/{dumps[0]}", json={"priority": 3})
    assert (changed.status_code, changed.json()["priority"]) == (200, 3)
    refused = second.client.post("/connectors/c/dumps", json={"tables": ["no.such"]})
    assert (refused.status_code, refused.json()["error_code"]) == (404, 404)
    # The command finds the leader through any worker.
    paused = CliRunner().invoke(app, ["dumps", "pause", "c", dumps[0], "--table", "shop.items", "--url", second.url])
    assert (paused.exit_code, paused.stdout) == (0, f"dump {dumps[0]} of c (rows): RUNNING\n"), paused.output

    first.process.kill()

    listed = until(
        lambda: (answer := second.client.get("/connectors/c/dumps")).status_code == 200 and len(answer.json()["dumps"]) == 3 and answer,
        limit_s=TAKEN_OVER_S,
    )
    states = {each["id"]: each["status"]["state"] for each in listed.json()["dumps"]}
    assert states == {"initial": "RUNNING", dumps[0]: "RUNNING", dumps[1]: "DONE"}
    started = [message for message in json_lines(told) if message["type"] == "start"]
    assert [(each["id"], each["revision"], each["tables_wanted"]) for each in started[-1]["dumps"]] == [
        (dumps[0], 3, {"shop.items": "PAUSED"})
    ]


def test_the_second_worker_refuses_reports_why_and_takes_over_after_a_clean_stop_and_after_a_kill(pair, echo):
    first, second = pair
    first.process.start()
    assert first.create("c", dummy_echo=str(echo)).status_code == 201
    first.wait_for("c", "RUNNING", "RUNNING")

    second.process.start()

    status, kind, message = health(second)
    assert (status, kind) == (200, "healthy"), "a liveness probe must not end a standby"
    assert f"This worker is a standby: {first.url} runs the connectors" in message
    assert "group.id" in message
    until(lambda: first.url in second.log.read_text())
    assert health(first)[:2] == (200, "healthy")
    assert [start["pid"] for start in starts(echo)] == living(echo)
    assert len(starts(echo)) == 1
    # Whichever worker is asked, with what is given to it or handed on: the answers are the leader's.
    assert second.client.get("/connectors").json() == ["c"]
    assert second.status("c") == first.status("c")
    config = first.client.get("/connectors/c/config").json() | {
        "name": "d",
        "topic.prefix": "d",
        "database.server.id": "5401",
        "table.inclde.list": "x",
        "dummy.echo": f"{echo}-d",
    }
    made = second.client.post("/connectors", json={"name": "d", "config": config})
    assert (made.status_code, made.json()["name"]) == (201, "d"), made.text
    assert made.headers["location"] == f"{second.url}/connectors/d"
    assert "table.inclde.list" in made.headers["warning"]
    first.wait_for("d", "RUNNING", "RUNNING")
    assert any("table.inclde.list" in text for text in second.status("d")["warnings"])
    refused = second.client.post("/connectors", json={"name": "d", "config": config})
    assert (refused.status_code, refused.json()) == (409, {"error_code": 409, "message": "Connector d already exists"})
    assert second.client.post("/connectors/d/restart", params={"includeTasks": "true"}).status_code == 202
    first.wait_for("d", "RUNNING", "RUNNING")
    assert second.client.post("/connectors/d/tasks/0/restart").status_code == 204
    assert second.client.put("/connectors/d/stop").status_code == 204
    first.wait_for("d", "STOPPED")
    assert second.client.delete("/connectors/d").status_code == 204
    until(lambda: first.status("d") is None)
    # What was handed on is not handed on again: of two workers that each take the other for the leader, the second refuses.
    looped = second.client.delete("/connectors/c", headers={"x-dblog-forwarded-by": "http://elsewhere:8083"})
    assert looped.status_code == 409
    assert first.url in looped.json()["message"]
    assert second.client.put("/connectors/c/pause").status_code == 202
    first.wait_for("c", "PAUSED", "PAUSED")
    assert second.client.put("/connectors/c/resume").status_code == 202
    first.wait_for("c", "RUNNING", "RUNNING")
    assert len(starts(echo)) == 1

    old, began_s = starts(echo)[0], time.monotonic()
    first.process.stop()
    new = taken_over(echo, 2, old_pid=old["pid"])
    assert time.monotonic() - began_s < 10, "a worker that stops in order is not waited for"
    assert new["generation"] > old["generation"]
    running_on(second)
    assert health(second)[:2] == (200, "healthy")

    # The other way round, and without a goodbye.
    first.process.start()
    assert health(first)[0] == 200
    assert second.url in health(first)[2]
    second.process.kill()
    taken_over(echo, 3, old_pid=new["pid"])
    running_on(first)
    assert living(echo) == [starts(echo)[2]["pid"]]


@pytest.mark.parametrize("stopped", [pytest.param("the worker", marks=pytest.mark.long), "the worker and its task"])
def test_what_was_paused_for_longer_than_its_session_runs_nothing_when_it_goes_on(pair, echo, stopped):
    first, second = pair
    first.process.start()
    first.create("c", dummy_echo=str(echo))
    first.wait_for("c", "RUNNING", "RUNNING")
    second.process.start()
    old = starts(echo)[0]

    if stopped == "the worker and its task":
        os.kill(old["pid"], signal.SIGSTOP)
    os.kill(first.process.pid, signal.SIGSTOP)
    # The zombie's task has ended before the other one starts: it cannot send a byte when it goes on.
    new = taken_over(echo, 2, old_pid=old["pid"])
    running_on(second)
    os.kill(first.process.pid, signal.SIGCONT)

    until(lambda: health(first)[0] == 200 and second.url in health(first)[2], what=lambda: f"{health(first)}")
    assert first.client.delete("/connectors/c", headers={"x-dblog-forwarded-by": second.url}).status_code == 409
    assert living(echo) == [new["pid"]]
    assert len(starts(echo)) == 2
    running_on(second)
    assert first.status("c") == second.status("c")


def test_two_workers_that_advertise_one_address_are_distinguished(kafka, own_folder, group):
    same = {**TIMES, **FEW, "rest.advertised.host.name": "same.example", "rest.advertised.port": "8083"}
    first, second = (Worker(kafka, own_folder, group, name=f"{group}-{name}", **same) for name in "ab")
    with first, second:
        assert "http://same.example:8083 runs the connectors" in health(second)[2]
        assert "rest.advertised.host.name" in health(second)[2]
        assert health(first)[:2] == (200, "healthy")


def test_groups_of_other_names_do_not_disturb_each_other(kafka, own_folder, group):
    with Worker(kafka, own_folder, f"{group}-x", **FEW) as one, Worker(kafka, own_folder, f"{group}-y", **FEW) as other:
        echoes = own_folder / "x", own_folder / "y"
        one.create("c", dummy_echo=str(echoes[0]))
        other.create("c", dummy_echo=str(echoes[1]))
        one.wait_for("c", "RUNNING", "RUNNING")
        other.wait_for("c", "RUNNING", "RUNNING")
        assert health(one)[0] == health(other)[0] == 200
        assert [len(starts(echo)) for echo in echoes] == [1, 1]


def test_a_worker_that_no_broker_hears_ends_its_tasks_in_time_and_goes_on_when_they_answer(own_folder, group, echo):
    with started(Kafka(own_folder / "kafka")) as own, Worker(own, own_folder, group, **TIMES, **FEW) as worker:
        worker.create("c", dummy_echo=str(echo))
        worker.wait_for("c", "RUNNING", "RUNNING")
        pid = starts(echo)[0]["pid"]
        os.kill(own.pid, signal.SIGSTOP)
        began_s = time.monotonic()

        until(lambda: not alive(pid), limit_s=20)
        assert time.monotonic() - began_s < 6.0, "before anybody else could lead"
        status, kind, message = until(lambda: (found := health(worker))[0] == 503 and found)
        assert (status, kind) == (503, "starting")
        assert "lost the lead" in message
        assert worker.client.delete("/connectors/c").status_code == 409
        shown = worker.status("c")
        for part in (shown["connector"], *shown["tasks"], worker.client.get("/connectors/c/tasks/0/status").json()):
            assert part["state"] == "UNASSIGNED"
            assert part["trace"] == message
        numbers = worker.client.get("/metrics").text
        assert 'dblog_task_state{connector="c",state="unassigned",task="0"} 1.0' in numbers
        assert 'dblog_task_state{connector="c",state="running",task="0"} 0.0' in numbers
        assert 'dblog_connector_state{connector="c",state="unassigned"} 1.0' in numbers
        os.kill(own.pid, signal.SIGCONT)

        until(lambda: len(starts(echo)) == 2, limit_s=60)
        worker.wait_for("c", "RUNNING", "RUNNING")
        assert health(worker)[:2] == (200, "healthy")
        assert len(living(echo)) == 1


@pytest.mark.long
def test_a_worker_whose_broker_was_down_for_longer_than_a_session_leads_again(own_folder, group, echo):
    """Claims that waited for the broker are sent without the member's id, which is taken for another consumer with the same group.instance.id."""
    with started(Kafka(own_folder / "kafka")) as own, Worker(own, own_folder, group, **TIMES, **FEW) as worker:
        worker.create("c", dummy_echo=str(echo))
        worker.wait_for("c", "RUNNING", "RUNNING")
        pid = starts(echo)[0]["pid"]

        own.stop()
        until(lambda: not alive(pid), limit_s=20)
        until(lambda: "session timed out" in worker.log.read_text(), limit_s=20)
        own.start()

        until(lambda: len(starts(echo)) == 2, limit_s=60)
        worker.wait_for("c", "RUNNING", "RUNNING", limit_s=60.0)


def test_a_session_that_the_brokers_do_not_allow_is_reported_with_the_settings(kafka, own_folder, group):
    worker = Worker(kafka, own_folder, group, **{**TIMES, **FEW, "session.timeout.ms": "1000", "heartbeat.interval.ms": "300"})
    worker.process.ready = lambda: "cannot join" in health(worker)[2]
    with worker:
        assert health(worker)[:2] == (503, "starting")
        assert "group.min.session.timeout.ms" in health(worker)[2]


def test_a_worker_of_another_group_on_the_same_topics_runs_nothing_reports_so_and_takes_over_when_that_group_has_gone(
    kafka, own_folder, group, echo
):
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    first = Worker(kafka, own_folder, group, **TIMES, **FEW, **topics)
    second = Worker(kafka, own_folder, f"{group}-other", **TIMES, **FEW, **topics)
    second.process.ready = lambda: health(second)[0] != 0
    with first:
        first.create("c", dummy_echo=str(echo))
        first.wait_for("c", "RUNNING", "RUNNING")
        with second:
            until(lambda: "Set group.id=" in health(second)[2], limit_s=60, what=lambda: f"a refusal, not {health(second)}")
            status, _, message = health(second)
            assert status == 503
            assert f"the worker {first.url} of the group {group} runs the connectors of the same config topic {group}-config" in message
            assert f"Set group.id={group}" in message
            assert second.log.read_text().count("another group of workers uses this worker's topics") == 1
            answer = second.create("d")
            assert (answer.status_code, first.url in answer.json()["message"]) == (409, True)
            assert health(first)[:2] == (200, "healthy")
            assert len(starts(echo)) == 1

            first.process.stop()

            taken_over(echo, 2, old_pid=starts(echo)[0]["pid"])
            running_on(second)
            assert health(second)[:2] == (200, "healthy")


SLOW_TO_HEAR = {**TIMES, "session.timeout.ms": "9000", "heartbeat.interval.ms": "3000"}
"""A standby learns of the leader's end by its next heartbeat: by then a waiting group has looked."""


def refuses(worker, other_group):
    """Wait until the worker reports that it runs nothing because of that group."""
    until(lambda: f"group.id={other_group} to make" in health(worker)[2], limit_s=60, what=lambda: f"a refusal, not {health(worker)}")
    assert health(worker)[0] == 503


def two_groups(kafka, own_folder, group, names, **times):
    """Workers on the same topics, none of them started; the group of each is its name without the number."""
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    workers = [Worker(kafka, own_folder, f"{group}-{name[0]}", name=f"{group}-{name}", **times, **FEW, **topics) for name in names]
    for worker in workers:
        worker.process.ready = lambda worker=worker: health(worker)[0] != 0
    return workers


@pytest.mark.long
def test_a_rolling_restart_does_not_let_a_waiting_group_lead_and_locks_no_new_worker_out(kafka, own_folder, group, echo):
    one, two, three, other = two_groups(kafka, own_folder, group, ["a1", "a2", "a3", "b1"], **SLOW_TO_HEAR)
    with one:
        one.create("c", dummy_echo=str(echo))
        one.wait_for("c", "RUNNING", "RUNNING")
        with two, other:
            until(lambda: one.url in health(two)[2], what=lambda: f"a standby, not {health(two)}")
            refuses(other, one.group)

            one.process.stop()

            taken_over(echo, 2, old_pid=starts(echo)[0]["pid"])
            running_on(two)
            with three:
                until(lambda: health(three)[0] == 200 and two.url in health(three)[2], what=lambda: f"a standby, not {health(three)}")
                refuses(other, one.group)
                assert "this worker runs the connectors" not in other.log.read_text()
                assert health(two)[:2] == (200, "healthy")
                assert len(starts(echo)) == 2


LONG = {**TIMES, "session.timeout.ms": "60000"}


@pytest.mark.parametrize("standby", [pytest.param(False, id="alone", marks=pytest.mark.long), pytest.param(True, id="beside a standby")])
def test_a_killed_worker_that_is_started_at_once_goes_on_without_waiting_for_its_own_session(kafka, own_folder, group, echo, standby):
    one, two = (Worker(kafka, own_folder, group, name=f"{group}-{name}", **LONG, **FEW) for name in "ab")
    with one, two if standby else contextlib.nullcontext():
        one.create("c", dummy_echo=str(echo))
        one.wait_for("c", "RUNNING", "RUNNING")
        for count in (2, 3):
            one.process.kill()
            one.process.start()
            taken_over(echo, count, old_pid=starts(echo)[count - 2]["pid"])
            running_on(one)
        if standby:
            assert health(two)[:2] == (200, "healthy")
            assert "this worker runs the connectors" not in two.log.read_text()


@pytest.mark.long
def test_a_worker_that_is_stopped_hands_over_to_a_standby_without_its_session_and_takes_nothing_back(kafka, own_folder, group, echo):
    one, two = (Worker(kafka, own_folder, group, name=f"{group}-{name}", **LONG, **FEW) for name in "ab")
    with one:
        one.create("c", dummy_echo=str(echo))
        one.wait_for("c", "RUNNING", "RUNNING")
        with two:
            until(lambda: one.url in health(two)[2], what=lambda: f"a standby, not {health(two)}")

            one.process.stop()

            taken_over(echo, 2, old_pid=starts(echo)[0]["pid"])
            running_on(two)
            one.process.start()
            until(lambda: two.url in health(one)[2], what=lambda: f"a standby, not {health(one)}")
            assert len(starts(echo)) == 2


class Members:
    """Runs of workers of one group, with sessions that no trial waits for; each worker is one static member over its runs, where it is one."""

    def __init__(self, kafka, group):
        self.settings = {"bootstrap.servers": kafka.bootstrap}
        admin = AdminClient(self.settings)
        admin.create_topics([NewTopic(group, 1, 1)])[group].result(30)
        self.group = group
        self.runs = []
        self.ended = {}

    def start(self, name, *, static=True):
        before = self.ended.get(name)
        ended = frozenset() if before is None else before.ended | {before.run}
        instance = Instance(id=f"{self.group}-{name}", run=f"{name}{len(ended)}", ended=ended)
        self.ended[name] = instance
        made = Membership(
            group=self.group,
            topic=self.group,
            url=f"http://{name}",
            consumer_settings=self.settings,
            silence_s=30.0,
            heartbeat_s=1.0,
            rebalance_s=60.0,
            instance=instance if static else None,
        )
        made.start(on_change=lambda: None, on_lease=lambda _until_s: None, on_revoked=lambda: None)
        self.runs.append(made)
        return made


@pytest.fixture
def members(kafka, group):
    made = Members(kafka, group)
    yield made
    for one in made.runs:
        one.close()


def settled(member):
    """Two heartbeats have brought no further rebalance, in less than a session."""
    until(lambda: member.rebalances > 0 and member.standing.known, limit_s=12)
    seen, tries = 0, 0
    while seen != member.rebalances:
        assert tries < 5, "the group does not come to rest"
        seen, tries = member.rebalances, tries + 1
        threading.Event().wait(2.2)


@pytest.mark.some_cases
@pytest.mark.parametrize("count", [1, 2], ids=["one standby", "two"])
def test_a_leader_that_stops_beside_settled_standbys_hands_over_and_comes_back_as_a_standby(members, count):
    one = members.start("one")
    until(lambda: one.standing.leads)
    standbys = [members.start(f"standby{number}") for number in range(count)]
    for standby in standbys:
        settled(standby)

    one.close()
    until(lambda: any(each.standing.leads for each in standbys), limit_s=15)
    (leads,) = [each for each in standbys if each.standing.leads]
    again = members.start("one")
    settled(again)

    assert leads.standing.leads
    assert not again.standing.leads
    assert not again.claims, "it has not got the partition"
    leads.close()
    others = [again, *(each for each in standbys if each is not leads)]
    until(lambda: any(each.standing.leads for each in others), limit_s=15)


@pytest.mark.some_cases
@pytest.mark.parametrize("static", [True, False], ids=["static", "without a lock"])
def test_nobody_waits_for_standbys_that_stop_one_behind_the_other(members, static):
    leads = members.start("one", static=static)
    until(lambda: leads.standing.leads)
    standbys = [members.start(name, static=static) for name in ("two", "three")]
    for standby in standbys:
        settled(standby)

    for standby in standbys:
        standby.close()
    settled(members.start("four", static=static))

    assert (leads.standing.leads, leads.standing.term) == (True, 1)


@pytest.mark.long
def test_a_rolling_restart_of_three_workers_hands_over_each_time_and_comes_to_rest(members):
    running = {"a": members.start("a")}
    until(lambda: running["a"].standing.leads)
    running |= {name: members.start(name) for name in "bc"}
    for one in running.values():
        settled(one)

    for name in "cba":
        running[name].close()
        running[name] = members.start(name)
        until(lambda: any(one.standing.leads for one in running.values()), limit_s=12)
        until(lambda name=name: running[name].standing.known, limit_s=12)

    for one in running.values():
        settled(one)
    assert [one.standing.leads for one in running.values()].count(True) == 1


def test_a_lone_leader_that_stopped_in_order_leads_again_at_once(members):
    for _ in range(3):
        one = members.start("one")
        until(lambda one=one: one.standing.leads, limit_s=10)
        one.close()


def test_two_workers_that_stopped_at_once_lead_again_without_a_session(members):
    one = members.start("one")
    until(lambda: one.standing.leads)
    two = members.start("two")
    settled(two)
    for ends in [threading.Thread(target=each.close) for each in (two, one)]:
        ends.start()
    for each in (one, two):
        each.close()

    both = [members.start("two"), members.start("one")]

    until(lambda: any(each.standing.leads for each in both), limit_s=20)


@pytest.mark.filterwarnings("ignore:list_groups")  # what replaces it asks coordinators: see kafka/othergroups.py
def test_in_no_moment_between_two_leaders_of_a_group_has_it_gone_for_a_worker_that_waits(kafka, group):
    settings = {"bootstrap.servers": kafka.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(group, 1, 1)])[group].result(30)

    def member(url):
        return Membership(group=group, topic=group, url=url, consumer_settings=settings, silence_s=6.0, heartbeat_s=2.0, rebalance_s=60.0)

    def start(made):
        made.start(on_change=lambda: None, on_lease=lambda _until_s: None, on_revoked=lambda: None)

    one, two = member("http://one"), member("http://two")
    waits = OtherGroups(group=f"{group}-other", topic=group, admin_settings=settings, consumer_settings=settings)
    ends = threading.Thread(target=one.close)
    try:
        start(one)
        until(lambda: one.standing.leads)
        start(two)
        until(lambda: two.standing.leader == "http://one")

        ends.start()
        seen = []
        until(lambda: seen.append(waits.before_joining()) or two.standing.leads, limit_s=15)
    finally:
        one.close()
        two.close()

    assert None not in seen
    assert {found.url for found in seen} >= {""}, "it was looked at between the two"


@pytest.mark.long
def test_a_leader_that_was_silent_for_longer_than_its_session_waits_for_the_group_that_leads_meanwhile(kafka, own_folder, group, echo):
    first, second = two_groups(kafka, own_folder, group, ["a1", "b1"], **TIMES)
    with first:
        first.create("c", dummy_echo=str(echo))
        first.wait_for("c", "RUNNING", "RUNNING")
        with second:
            refuses(second, first.group)

            os.kill(first.process.pid, signal.SIGSTOP)
            try:
                taken_over(echo, 2, old_pid=starts(echo)[0]["pid"])
                running_on(second)
            finally:
                os.kill(first.process.pid, signal.SIGCONT)

            refuses(first, second.group)
            assert living(echo) == [starts(echo)[1]["pid"]]
            assert health(second)[:2] == (200, "healthy")

            second.process.stop()

            taken_over(echo, 3, old_pid=starts(echo)[1]["pid"])
            running_on(first)

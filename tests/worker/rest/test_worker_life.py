"""What an operator sees when processes die: the worker's own, a task's, and both in order (D3, D9)."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from stack import Kafka, StackError
from support.json_lines import json_lines
from support.servers import started
from support.worker import Worker, alive, connector_config, running_worker, until


def starts(echo):
    return json_lines(echo)


@pytest.fixture
def group(own_folder):
    return own_folder.name


@pytest.fixture
def own_worker(kafka, own_folder, group):
    settings = {"task.shutdown.graceful.timeout.ms": "1000", "offset.storage.partitions": "1", "status.storage.partitions": "1"}
    with running_worker(kafka, own_folder, group, settings) as started:
        yield started


def test_a_killed_worker_goes_on_with_the_same_connectors(own_worker, own_folder):
    echo = own_folder / "echo"
    config = connector_config(dummy_echo=str(echo))
    for name in ("running", "paused", "stopped", "failed"):
        more = {"dummy.behaviour": "fail"} if name == "failed" else {}
        own_worker.client.put(f"/connectors/{name}/config", json=config | {"topic.prefix": name} | more).raise_for_status()
    own_worker.client.put("/connectors/paused/pause")
    own_worker.client.put("/connectors/stopped/stop")
    own_worker.wait_for("running", "RUNNING", "RUNNING")
    own_worker.wait_for("paused", "PAUSED", "PAUSED")
    own_worker.wait_for("stopped", "STOPPED")
    own_worker.wait_for("failed", "RUNNING", "FAILED")
    entry = {"partition": {"server": "stopped"}, "offset": {"file": "bin.000001", "pos": 1}}
    own_worker.client.patch("/connectors/stopped/offsets", json={"offsets": [entry]})
    pids = [start["pid"] for start in starts(echo)]

    own_worker.process.kill()
    until(lambda: not any(alive(pid) for pid in pids), limit_s=60, what=lambda: "the task processes to die with the worker")
    own_worker.process.start()

    own_worker.wait_for("running", "RUNNING", "RUNNING")
    own_worker.wait_for("paused", "PAUSED", "PAUSED")
    own_worker.wait_for("stopped", "STOPPED")
    own_worker.wait_for("failed", "RUNNING", "FAILED")
    assert own_worker.client.get("/connectors/running/config").json() == {**config, "topic.prefix": "running", "name": "running"}
    assert own_worker.client.get("/connectors/stopped/offsets").json() == {"offsets": [entry]}
    expected = [("failed", "STARTED"), ("paused", "PAUSED"), ("running", "STARTED")]

    def again():  # a status outlives its worker, so it does not show that the task has started
        return sorted((start["connector"], start["target"]) for start in starts(echo) if start["pid"] not in pids)

    until(lambda: again() == expected, limit_s=20, what=lambda: str(again()))
    assert len({start["generation"] for start in starts(echo)}) == 2


def test_what_a_task_waits_for_is_in_its_status_and_once_in_the_log(own_worker):
    own_worker.create("a", dummy_behaviour="waiting", database_password="sesame-open")

    def waits():
        status = own_worker.wait_for("a", "RUNNING", "RUNNING")
        return "trace" in status["tasks"][0] and status

    status = until(waits)
    assert status["tasks"][0]["trace"] == "no broker answers at b:9092 for [hidden]"
    assert own_worker.client.get("/connectors/a/tasks/0/status").json() == status["tasks"][0]
    log = until(lambda: (text := own_worker.log.read_text()) and "a line of its own" in text and text)
    assert log.count("no broker answers at b:9092") == 1
    lines = [line for line in log.splitlines() if "refused (after" in line]
    assert len(lines) == 1
    assert "kafka client client=task a-0 connector=a task=0 reason=b:9092/bootstrap: Connect to b failed: refused" in lines[0]

    own_worker.client.put("/connectors/a/pause")
    assert "trace" not in own_worker.wait_for("a", "PAUSED", "PAUSED")["tasks"][0]


def test_a_task_that_reports_what_nobody_can_store_fails_alone_and_does_so_again_after_a_restart(own_worker):
    lines = [
        r'{"type": "state", "state": "FAILED", "trace": "the column b\udcff"}',
        '{"type": "metrics", "values": {"lag_ms": 1' + "0" * 400 + "}}",
    ]
    for name, line in zip("ab", lines, strict=True):
        own_worker.create(name, dummy_behaviour="lines", dummy_lines=line)
    own_worker.create("c")

    assert r"the column b\udcff" in own_worker.wait_for("a", "RUNNING", "FAILED")["tasks"][0]["trace"]
    assert "could not be handled" in own_worker.wait_for("b", "RUNNING", "FAILED")["tasks"][0]["trace"]
    own_worker.wait_for("c", "RUNNING", "RUNNING")
    own_worker.process.stop()
    own_worker.process.start()
    own_worker.wait_for("a", "RUNNING", "FAILED")
    own_worker.wait_for("b", "RUNNING", "FAILED")
    own_worker.wait_for("c", "RUNNING", "RUNNING")


def test_a_killed_task_is_started_again_by_itself_and_its_status_reports_it(own_worker, own_folder):
    echo = own_folder / "echo"
    own_worker.create("a", dummy_echo=str(echo))
    own_worker.wait_for("a", "RUNNING", "RUNNING")

    os.kill(starts(echo)[0]["pid"], signal.SIGKILL)

    status = until(lambda: (found := own_worker.status("a"))["tasks"][0]["state"] == "RESTARTING" and found)
    assert "SIGKILL" in status["tasks"][0]["trace"]
    assert "goes on from its stored offsets" in status["tasks"][0]["trace"]
    running = own_worker.wait_for("a", "RUNNING", "RUNNING")
    assert "trace" not in running["tasks"][0]
    assert len(starts(echo)) == 2


def test_pause_resume_and_delete_reach_a_task_that_waits_for_its_restart(own_worker, own_folder):
    echo = own_folder / "echo"
    own_worker.create("a", dummy_echo=str(echo))
    for kills in range(1, 4):
        own_worker.wait_for("a", "RUNNING", "RUNNING")
        until(lambda wanted=kills: len(starts(echo)) == wanted)
        os.kill(starts(echo)[-1]["pid"], signal.SIGKILL)
    until(lambda: own_worker.status("a")["tasks"][0]["state"] == "RESTARTING")

    own_worker.client.put("/connectors/a/pause")
    own_worker.wait_for("a", "PAUSED", "PAUSED")

    assert starts(echo)[-1]["target"] == "PAUSED"
    os.kill(starts(echo)[-1]["pid"], signal.SIGKILL)
    until(lambda: own_worker.status("a")["tasks"][0]["state"] == "RESTARTING")
    own_worker.gone("a")


def test_a_worker_that_stops_stops_its_tasks_and_reports_unassigned(kafka, own_folder, group):
    echo = own_folder / "echo"
    with running_worker(kafka, own_folder, group) as worker:
        worker.create("a", dummy_echo=str(echo))
        worker.wait_for("a", "RUNNING", "RUNNING")
        worker.process.stop()
        assert not alive(starts(echo)[0]["pid"])
        assert "code=0" in worker.log.read_text()
        assert "worker stopped" in worker.log.read_text()
        assert "state=UNASSIGNED" in worker.log.read_text().rpartition("worker stops")[2]


def test_a_task_that_does_not_stop_is_killed_after_its_limit(own_worker, own_folder):
    echo = own_folder / "echo"
    own_worker.create("a", dummy_echo=str(echo), dummy_behaviour="deaf")
    own_worker.wait_for("a", "RUNNING", "RUNNING")
    pid = starts(echo)[0]["pid"]
    began_s = time.monotonic()

    own_worker.client.put("/connectors/a/stop")
    # Answers come from views while the task is deaf.
    assert own_worker.client.get("/connectors/a/status").status_code == 200
    assert own_worker.healthy()
    own_worker.wait_for("a", "STOPPED", limit_s=60)

    assert not alive(pid)
    assert time.monotonic() - began_s < 30


def test_a_database_check_that_hangs_blocks_nobody_else(own_worker):
    slow = httpx.Client(base_url=own_worker.url, timeout=1)
    with slow, pytest.raises(httpx.ReadTimeout):
        slow.post("/connectors", json={"name": "slow", "config": connector_config(database_hostname="slow")})

    began_s = time.monotonic()
    assert own_worker.create("quick").status_code == 201
    own_worker.wait_for("quick", "RUNNING", "RUNNING")
    assert time.monotonic() - began_s < 10
    assert "slow" not in own_worker.client.get("/connectors").json()
    # A check that still waits for its database must not hold up the end of the worker.
    own_worker.process.stop()


def test_secrets_of_a_provider_stay_placeholders_everywhere_but_in_the_task(kafka, own_folder, group):
    secrets = own_folder / "secrets.properties"
    secrets.write_text("password=very-hidden-word\nport=none\n")
    settings = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(own_folder),
    }
    echo = own_folder / "echo"
    placeholder = f"${{file:{secrets}:password}}"
    with running_worker(kafka, own_folder, group, settings) as worker:
        worker.create("a", database_password=placeholder, dummy_echo=str(echo))
        worker.wait_for("a", "RUNNING", "RUNNING")
        worker.create("b", database_password=placeholder, dummy_behaviour="fail")
        failed = worker.wait_for("b", "RUNNING", "FAILED")
        refused = worker.create("c", database_password=placeholder, database_hostname="leaky")
        wrong = worker.create("d", database_port=f"${{file:{secrets}:port}}")
        missing = worker.create("e", database_password=f"${{file:{secrets}:nothing}}")
        unknown = worker.create("f", database_password="${vault:a:b}")
        named = [
            worker.create("g", **{key: f"shop-{placeholder}"})  # number 28 of the worker's safety
            for key in ("topic_prefix", "database_include_list", "schema_history_internal_kafka_topic", "producer_override_client_id")
        ]

        assert starts(echo)[0]["config"]["database.password"] == "very-hidden-word"
        assert failed["tasks"][0]["trace"] == f"no luck with {placeholder}"
        assert f"login with {placeholder} refused" in refused.json()["message"]
        assert "The 'database.port' value is invalid: An integer is expected" in wrong.json()["message"]
        assert "with the key nothing" in missing.json()["message"]
        assert "no config provider 'vault'" in unknown.json()["message"]
        assert {answer.status_code for answer in named} == {400}
        assert all("it takes no placeholder, because every reader would see its value" in answer.json()["message"] for answer in named)
        assert not any("very-hidden-word" in answer.text for answer in named)
        answers = [worker.client.get(path).text for path in ("/connectors/a/config", "/connectors/a/tasks", "/connectors?expand=info")]
        answers.append(
            worker.client.put("/connector-plugins/MySql/config/validate", json=connector_config(database_password=placeholder)).text
        )
    assert placeholder in answers[0]
    assert not any("very-hidden-word" in text for text in (*answers, refused.text, worker.log.read_text()))


def test_placeholders_of_the_workers_own_file_reach_its_tasks_and_secrets_of_it_no_log_or_answer(kafka, own_folder, group):
    secrets = own_folder / "secrets.properties"
    secrets.write_text(f"brokers={kafka.bootstrap}\npassword=very-hidden-word\n")
    settings = {
        "bootstrap.servers": f"${{file:{secrets}:brokers}}",
        "sasl.password": f"${{file:{secrets}:password}}",
        "ssl.key.password": "inline-hidden-word",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(own_folder),
    }
    echo = own_folder / "echo"
    with running_worker(kafka, own_folder, group, settings) as worker:
        # What a task or a check reports of the worker's own secrets is as hidden as the connector's.
        worker.create("a", dummy_behaviour="fail", dummy_echo=str(echo), database_password="very-hidden-word")
        failed = worker.wait_for("a", "RUNNING", "FAILED")
        worker.create("b", dummy_behaviour="shout", database_password="inline-hidden-word")
        shouted = worker.wait_for("b", "RUNNING", "FAILED")

        start = starts(echo)[0]
        assert {name: start["worker"][name] for name in settings} == settings | {
            "bootstrap.servers": kafka.bootstrap,
            "sasl.password": "very-hidden-word",
        }
        assert start["hidden"].keys() >= {"very-hidden-word", "inline-hidden-word"}
        refused = worker.create("c", database_user="very-hidden-word", database_hostname="strict", dummy_word="very-hidden-word")
        shown = json.dumps([failed, shouted, refused.json()]) + worker.log.read_text()
    assert "hidden-word" not in shown


def test_a_file_of_a_placeholder_that_becomes_a_pipe_holds_up_nobody(kafka, own_folder, group):  # number 4 of the worker's safety
    secrets = own_folder / "secrets.properties"
    secrets.write_text("password=hidden\n")
    settings = {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"}
    with running_worker(kafka, own_folder, group, settings) as worker:
        worker.create("a", database_password=f"${{file:{secrets}:password}}")
        worker.wait_for("a", "RUNNING", "RUNNING")
        secrets.unlink()
        os.mkfifo(secrets)

        for path in (secrets, "/dev/zero", "/dev/tty"):
            refused = worker.create("b", database_password=f"${{file:{path}:password}}")
            assert (refused.status_code, "regular file" in refused.json()["message"]) == (400, True)
        answer = worker.client.post("/connectors/a/restart")
        assert (answer.status_code, "cannot be resolved" in answer.json()["message"]) == (500, True)
        assert worker.client.post("/connectors/a/tasks/0/restart").status_code == 204
        failed = worker.wait_for("a", "FAILED", "FAILED")
        assert "it has to be a properties file" in failed["tasks"][0]["trace"]
        assert worker.create("c").status_code == 201
        worker.wait_for("c", "RUNNING", "RUNNING")
        assert "it is not a regular file" in worker.log.read_text()


def test_a_worker_whose_brokers_are_away_waits_and_reports_it(own_folder, group):
    class Away:
        bootstrap = "127.0.0.1:9"

    worker = Worker(Away(), own_folder, group)
    worker.process.ready = lambda: "no broker answers; trying again" in (worker.log.read_text() if worker.log.exists() else "")
    with worker:
        answer = httpx.get(f"{worker.url}/health", timeout=5)
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        assert httpx.get(f"{worker.url}/", timeout=5).status_code == 200
        assert "bootstrap_servers=127.0.0.1:9" in worker.log.read_text()


def test_a_request_that_waits_when_the_worker_stops_gets_503_and_the_log_stays_the_workers_own(own_folder, group):
    class Away:
        bootstrap = "127.0.0.1:9"

    worker = Worker(Away(), own_folder, group)
    worker.process.ready = lambda: "no broker answers; trying again" in (worker.log.read_text() if worker.log.exists() else "")
    with worker, socket.create_connection(("127.0.0.1", worker.port), 10) as client:
        client.sendall(b"GET /connectors HTTP/1.1\r\nHost: a\r\n\r\n")
        httpx.get(f"{worker.url}/health", timeout=5)
        began_s = time.monotonic()
        worker.process.stop()
        took_s = time.monotonic() - began_s
        answer = client.makefile("rb").read().decode()

    assert answer.startswith("HTTP/1.1 503 ")
    assert "The worker has stopped before it could answer" in answer
    assert "nosniff" in answer
    behind = worker.log.read_text().partition("worker stops")[2].splitlines()[1:]
    assert [line for line in behind if not re.search(r"\[dblog\.[a-z.]+\]$|^# |code=0", line)] == []
    assert not any("no broker answers" in line for line in behind)
    assert took_s < 4


def test_a_worker_whose_brokers_speak_another_protocol_reports_which(kafka, own_folder, group):
    worker = Worker(kafka, own_folder, group, **{"security.protocol": "SSL"})
    worker.process.ready = lambda: "no broker answers; trying again" in (worker.log.read_text() if worker.log.exists() else "")

    with worker:
        log = worker.log.read_text()

    assert f"the broker at {kafka.bootstrap} ends the TLS handshake, as a listener without TLS does; security.protocol=SSL" in log


def test_a_worker_with_a_bad_properties_file_reports_every_reason(kafka, own_folder, group):
    worker = Worker(kafka, own_folder, group, **{"offset.flush.interval.ms": "soon", "exactly.once.source.support": "enabled"})

    with pytest.raises(StackError):
        worker.process.start()

    log = worker.log.read_text()
    assert "offset.flush.interval.ms" in log
    assert "exactly.once.source.support" in log
    assert "Traceback" not in log


def test_a_worker_whose_truststore_is_missing_ends_with_its_key_the_reason_and_the_remedy(kafka, own_folder, group):
    truststore = {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/x.pem", "ssl.truststore.type": "PEM"}
    worker = Worker(kafka, own_folder, group, **truststore)
    worker.process.ready = lambda: False

    with pytest.raises(StackError):
        worker.process.start()

    log = worker.log.read_text()
    assert (
        "dblog worker ended: ssl.truststore.location: the file /nowhere/x.pem cannot be used: No such file or directory; name a PEM file"
        in log
    )
    assert "routines" not in log


def test_a_port_in_use_is_reported_in_one_line(kafka, own_folder, group, own_worker):
    second = Worker(kafka, own_folder, f"{group}-2", listeners=own_worker.url)

    with pytest.raises(StackError):
        second.process.start()

    assert "cannot be opened (Address already in use)" in second.log.read_text()


def test_a_config_topic_that_could_lose_state_stops_the_worker(kafka, own_folder, group):
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wanted = [
        NewTopic(f"{group}-two-config", 2, 1, config={"cleanup.policy": "compact"}),
        NewTopic(f"{group}-old-config", 1, 1, config={"cleanup.policy": "compact,delete"}),
    ]
    for future in admin.create_topics(wanted).values():
        future.result(timeout=30)

    for kind, reason in (("two", "has 2 partitions but must have exactly 1"), ("old", "must have exactly 'compact'")):
        worker = Worker(kafka, own_folder, f"{group}-{kind}")
        worker.process.ready = lambda: False
        with pytest.raises(StackError):
            worker.process.start()
        assert reason in worker.log.read_text()
        assert "Traceback" not in worker.log.read_text()


def test_what_a_worker_left_half_written_does_not_pause_a_new_connector(kafka, own_worker):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(f"{own_worker.group}-config", key=b"target-state-a", value=b'{"state":"PAUSED","state.v2":"STOPPED"}')
    producer.produce(f"{own_worker.group}-config", key=b"task-a-0", value=b'{"properties":{"old":"1"}}')
    assert producer.flush(30) == 0

    own_worker.create("b")
    own_worker.create("a")

    own_worker.wait_for("a", "RUNNING", "RUNNING")


def test_levels_that_another_worker_wrote_are_taken_as_it_spells_them_and_unknown_ones_skipped(kafka, own_worker):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for name, level in (("root", "LOUD"), ("org.apache.kafka", "info"), ("dblog.kafka.nobody", "info"), ("root", "debug")):
        producer.produce(f"{own_worker.group}-config", key=f"logger-cluster-{name}".encode(), value=json.dumps({"level": level}).encode())
    assert producer.flush(30) == 0

    until(lambda: own_worker.client.get("/admin/loggers/root").json()["level"] == "DEBUG", what=lambda: "the last record to be taken")
    lines = [line for line in own_worker.log.read_text().splitlines() if "logger record skipped" in line]
    assert [word in line for word, line in zip(("LOUD", "org.apache", "nobody"), lines, strict=True)] == [True] * 3
    assert own_worker.healthy()


@pytest.mark.long
def test_a_task_that_is_killed_while_the_brokers_are_away_runs_when_they_are_back(own_folder, group):
    times = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
    with started(Kafka(own_folder / "kafka")) as own, running_worker(own, own_folder, group, times) as worker:
        worker.create("a", dummy_echo=str(own_folder / "echo"))
        worker.wait_for("a", "RUNNING", "RUNNING")
        own.stop()
        os.kill(starts(own_folder / "echo")[0]["pid"], signal.SIGKILL)
        assert worker.client.get("/connectors/a/status").status_code == 200
        assert worker.client.get("/connectors").json() == ["a"]
        own.start()
        until(lambda: len(starts(own_folder / "echo")) == 2, limit_s=90)
        worker.wait_for("a", "RUNNING", "RUNNING", limit_s=60)


@pytest.mark.long
def test_a_worker_is_stopped_in_time_while_registrations_wait_for_brokers_that_hang(own_folder, group):
    settings = {"task.shutdown.graceful.timeout.ms": "1000"}
    with started(Kafka(own_folder / "kafka")) as own, Worker(own, own_folder, group, **settings) as worker:
        url = f"{worker.url}/subjects/x/versions"
        assert httpx.post(url, json={"schema": '"int"'}).status_code == 200
        pid = worker.process.pid
        os.kill(own.pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(45) as pool:

                def abandoned(number):
                    with contextlib.suppress(httpx.ReadTimeout):
                        return httpx.post(url, json={"schema": json.dumps({"type": "fixed", "name": "f", "size": number + 1})}, timeout=2)

                refused = [answer for answer in pool.map(abandoned, range(45)) if answer is not None]
            assert httpx.get(worker.url, timeout=1).status_code == 200
            os.kill(pid, signal.SIGTERM)
            until(lambda: not alive(pid), limit_s=40, what=lambda: "the worker to end")
        finally:
            os.kill(own.pid, signal.SIGCONT)

    assert {(answer.status_code, answer.headers.get("retry-after")) for answer in refused} == {(503, "5")}
    assert "still wait for Kafka" in refused[0].json()["message"]


@pytest.mark.some_cases
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_asked_in_whatever_order_a_task_never_runs_twice_and_ends_as_last_wished(own_worker, own_folder, seed):
    echo = own_folder / "echo"
    chance = random.Random(seed)
    client = own_worker.client

    def living():
        return [start["pid"] for start in starts(echo) if alive(start["pid"])]

    def kill():
        for pid in living():
            # It may have ended since it was looked at.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    behaviours = ("run", "run", "run", "deaf", "fail", "silent")
    actions = {
        "put": lambda: client.put(
            "/connectors/a/config", json=connector_config(dummy_echo=str(echo), dummy_behaviour=chance.choice(behaviours))
        ),
        "pause": lambda: client.put("/connectors/a/pause"),
        "resume": lambda: client.put("/connectors/a/resume"),
        "stop": lambda: client.put("/connectors/a/stop"),
        "restart": lambda: client.post("/connectors/a/restart?includeTasks=true"),
        "restart failed": lambda: client.post("/connectors/a/restart?includeTasks=true&onlyFailed=true"),
        "restart task": lambda: client.post("/connectors/a/tasks/0/restart"),
        "delete": lambda: client.delete("/connectors/a"),
        "kill": kill,
    }
    for _ in range(60):
        action = chance.choice(list(actions))
        answer = actions[action]()
        assert answer is None or answer.status_code in (200, 201, 202, 204, 404), (action, answer.text)
        assert len(living()) <= 1, action
        if chance.random() < 0.3:
            until(lambda: own_worker.client.get("/health").status_code == 200)

    client.put("/connectors/a/config", json=connector_config(dummy_echo=str(echo)))
    client.put("/connectors/a/resume")
    client.post("/connectors/a/restart?includeTasks=true&onlyFailed=true")
    own_worker.wait_for("a", "RUNNING", "RUNNING")
    assert len(living()) == 1
    own_worker.gone("a")
    until(lambda: not living(), limit_s=60)


def test_a_config_topic_that_was_made_again_is_reported_by_health_and_nothing_more_is_written(
    own_worker, own_folder, group, kafka
):  # number 14 of the worker's safety
    echo = own_folder / "echo"
    own_worker.create("a", dummy_echo=str(echo))
    own_worker.wait_for("a", "RUNNING", "RUNNING")
    topic = f"{group}-config"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(30)

    def made():
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        except KafkaException as e:  # the old one is still being deleted
            if e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return None
            raise
        return True

    until(made, what=lambda: "the topic to be made again")

    health = until(
        lambda: answer if (answer := own_worker.client.get("/health")).status_code == 503 else None, what=lambda: "the worker to notice it"
    )
    assert health.json()["status"] == "unhealthy"
    assert topic in health.json()["message"]
    refused = own_worker.create("b")
    assert (refused.status_code, topic in refused.json()["message"]) == (503, True)
    until(lambda: not any(alive(start["pid"]) for start in starts(echo)), what=lambda: "the tasks to end")
    end = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    assert [future.result(30).offset for future in end.values()] == [0]


DEEP, LONG = b"[" * 100_000, b"9" * 5000
RUNNING = b'{"state":"RUNNING","worker_id":"w","generation":%s,"trace":null}'
POISON = {
    "config": [
        (b"", b""),
        (b"\xff", b"{}"),
        (b"connector-v", DEEP),
        (b"connector-v", b'{"properties":[]}'),
        (b"connector-v", b'{"properties":{"a":"\\ud800"}}'),
        (b"connector-v", b'{"properties":{"a":' + LONG + b"}}"),
        (b"connector-v", b"\xff"),
        (b"connector-p", b'{"properties":{"connector.class":"none"}}'),
        (b"commit-p", b'{"tasks":1000000000}'),
        (b"commit-p", b'{"tasks":1e400}'),
        (b"commit-p", b'{"tasks":-5}'),
        (b"task-p-" + LONG, b'{"properties":{}}'),
        (b"task-p-0", b'{"properties":{"a":null}}'),
        (b"target-state-p", b'{"state":{"a":1}}'),
        (b"tasks-fencing-p", b'{"task-count":' + b"9" * 4000 + b"}"),
        (b"session-key", b'{"key":1}'),
    ],
    "status": [
        (b"status-task-v-" + LONG, None),
        (b"status-task-v-0", DEEP),
        (b"status-connector-v", RUNNING % (b"9" * 4000)),
        (b"status-connector-v", RUNNING % b"NaN"),
        (b"status-connector-v", RUNNING % b"9007199254740991"),
        (b"status-connector-v", b'{"state":"FAILED","worker_id":"w","generation":1,"trace":"\\udcff"}'),
        (b"status-topic-t:connector-v", b'{"topic":{"name":"t","connector":"v","task":0,"discoverTimestamp":' + b"9" * 4000 + b"}}"),
        (b"status-topic-t:connector-v", b'{"topic":null}'),
    ],
    "offset": [
        (DEEP, b"{}"),
        (b'["\\ud800",{}]', b"{}"),
        (b'["v",{"a":[[]]}]', b"{}"),
        (b'["v",{}]', DEEP),
        (b'["v",{}]', b'{"pos":' + LONG + b"}"),
        (b'["v",{}]', b'{"file":"\\udcff"}'),
        (b"v", None),
    ],
}


def test_records_that_nobody_can_read_end_neither_the_worker_nor_its_next_start(kafka, own_worker, own_folder):
    own_worker.create("a")
    own_worker.wait_for("a", "RUNNING", "RUNNING")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for kind, records in POISON.items():
        for key, value in records:
            producer.produce(f"{own_worker.group}-{kind}", key=key, value=value)
    assert producer.flush(30) == 0

    own_worker.create("b")
    own_worker.wait_for("b", "RUNNING", "RUNNING")
    own_worker.process.stop()
    own_worker.process.start()
    for name in "ab":
        own_worker.wait_for(name, "RUNNING", "RUNNING")
    own_worker.create("c")
    own_worker.wait_for("c", "RUNNING", "RUNNING")

    assert own_worker.healthy()
    metrics = own_worker.client.get("/metrics").text
    skipped = {kind: re.search(rf'topic_records_skipped_total{{topic="{own_worker.group}-{kind}"}} (\S+)', metrics) for kind in POISON}
    assert {kind: float(number[1]) for kind, number in skipped.items()} == {"config": 14.0, "status": 7.0, "offset": 7.0}
    lines = [line for line in own_worker.log.read_text().splitlines() if "record skipped" in line]
    assert any(f"topic={own_worker.group}-status" in line and "key=status-task-v-999" in line and len(line) < 400 for line in lines)


def test_a_stored_configuration_that_was_slow_to_resolve_costs_neither_the_lead_nor_other_connectors(kafka, own_worker):
    own_worker.create("a")
    own_worker.wait_for("a", "RUNNING", "RUNNING")
    slow = {f"x{number}": "${" * 33_000 for number in range(3)}
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(
        f"{own_worker.group}-config", key=b"connector-slow", value=json.dumps({"properties": connector_config(name="slow") | slow})
    )
    assert producer.flush(30) == 0

    until(lambda: own_worker.client.get("/connectors").json() == ["a", "slow"])
    began_s = time.monotonic()
    assert own_worker.client.put("/connectors/a/pause").status_code == 202
    own_worker.wait_for("a", "PAUSED", "PAUSED")
    own_worker.wait_for("slow", "RUNNING", "RUNNING")

    assert time.monotonic() - began_s < 10
    assert own_worker.healthy()
    assert "lost the lead" not in own_worker.log.read_text()


def test_a_task_imports_nothing_from_the_directory_in_which_the_worker_was_started(kafka, own_folder, group):
    """Whoever may write there could run code with the worker's secrets."""
    (own_folder / "numbers.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\nraise SystemExit('a file of mine')\n"
    )
    worker = Worker(kafka, own_folder, group)
    begun = subprocess.Popen(
        [Path(sys.executable).with_name("dblog"), "worker", str(worker.write_properties())],
        cwd=own_folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: imports_are_done(begun.pid), limit_s=60, what=lambda: "the process of the first task to wait for it")
    finally:
        begun.terminate()
        begun.wait(60)
    assert not (own_folder / "imported").exists()


def imports_are_done(worker_pid):
    """Whether a child of the worker has loaded its Kafka client, which comes after what numbers.py stands for."""
    children = Path(f"/proc/{worker_pid}/task/{worker_pid}/children").read_text(encoding="ascii").split()
    return any("confluent_kafka" in Path(f"/proc/{child}/maps").read_text(encoding="utf-8", errors="replace") for child in children)

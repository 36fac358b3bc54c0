"""Nothing secret of a configuration comes out again, wherever it stands in it and whatever becomes of its connector.

Kafka Connect returns a configuration as it was given (config, tasks, info), and keeps it so in its topic: what is written inline is there by contract. What
comes from a config provider is nowhere.
"""

import contextlib
import json
import re
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from stack.process import free_port
from support.json_lines import json_lines
from support.worker import Worker, connector_config, until

NAME = "canaries"
CLIENTS = (
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    "schema.history.internal.producer.",
    "schema.history.internal.consumer.",
)


class Canaries:
    """Words that stand for secrets, each of its own; some of them in a file or a variable."""

    def __init__(self, folder):
        self.file = folder / "secrets.properties"
        self.inline = []
        self.provided = {}
        self._numbers = count(1)

    def word(self):
        word = f"canary-{next(self._numbers):02}-sings"
        self.inline.append(word)
        return word

    def placeholder(self):
        number = next(self._numbers)
        self.provided[f"k{number}"] = f"canary-{number:02}-hums"
        self.file.write_text("".join(f"{key}={word}\n" for key, word in self.provided.items()), encoding="utf-8")
        return f"${{file:{self.file}:k{number}}}"

    def found_in(self, text, *, provided_only=False):
        words = [*self.provided.values(), "canary-00-hums", *([] if provided_only else self.inline)]
        return sorted({word for word in words if word in text or word.removesuffix("-sings").removesuffix("-hums") in text})


def secret_keys(canaries):
    """Each key with a secret in its value or name."""
    word, placeholder = canaries.word, canaries.placeholder
    config = {
        "database.password": f"{word()}{placeholder()}",
        "database.ssl.keystore.password": "${env:CANARY_PASSWORD}",
        "database.ssl.truststore.password": word(),
        "database.initial.statements": f"SET PASSWORD = '{word()}'; CREATE USER a IDENTIFIED BY '{placeholder()}', b IDENTIFIED BY '{word()}'",
        "databse.password": word(),
        "database.pasword": f"{word()}{placeholder()}",
        "my.own.secret": word(),
        "other.api.key": word(),
        f"column.mask.hash.SHA-256.with.salt.{word()}": "shop.a.b",
        f"column.mask.hash.v2.SHA-512.with.salt.{word()}": "shop.a.c",
    }
    for prefix in CLIENTS:
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{word()}{placeholder()}";'
        config |= {f"{prefix}sasl.jaas.config": login, f"{prefix}sasl.password": word(), f"{prefix}ssl.key.password": placeholder()}
    for prefix in ("key.converter.", "value.converter."):
        config |= {
            f"{prefix}schema.registry.url": f"http://u:{word()}@127.0.0.1:9,http://u:{placeholder()}@127.0.0.1:9",
            f"{prefix}bearer.auth.token": placeholder(),
            f"{prefix}basic.auth.user.info": f"u:{word()}",
            f"{prefix}request.header.X-Api": word(),
            f"{prefix}schema.registry.ssl.key.password": word(),
        }
    return config


def key_texts(canaries):
    """Keys of clients in PEM, which no client takes: a task with them fails at once."""
    return {
        f"{prefix}{key}": f"-----BEGIN PRIVATE KEY-----\n{canaries.word()}\n{canaries.placeholder()}\n-----END PRIVATE KEY-----\n"
        for prefix in CLIENTS
        for key in ("ssl.key.pem", "ssl.keystore.key")
    }


def records_of(kafka, topic):
    """All that a topic holds, as one text."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "reads-canaries", "enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        texts, ended = [], 0
        while ended < len(partitions):
            record = consumer.poll(30)
            assert record is not None, topic
            if record.error():
                ended += 1
            else:
                texts += [str(record.key()), str(record.value())]
        return "\n".join(texts)
    finally:
        consumer.close()


@pytest.fixture
def canaries(own_folder):
    return Canaries(own_folder)


@pytest.fixture
def made_worker(kafka, own_folder, canaries):
    """A worker of the kind that is asked for, with the canaries' providers."""
    started = []

    def make(**settings):
        provider = "org.apache.kafka.common.config.provider."
        worker = Worker(
            kafka,
            own_folder,
            own_folder.name,
            **{
                "config.providers": "file,env",
                "config.providers.file.class": f"{provider}FileConfigProvider",
                "config.providers.env.class": f"{provider}EnvVarConfigProvider",
                "dblog.log.level": "TRACE",
                "dblog.log.format": "json",
                "task.shutdown.graceful.timeout.ms": "1000",
                **settings,
            },
        )
        worker.process.env["CANARY_PASSWORD"] = "canary-00-hums"
        worker.__enter__()
        started.append(worker)
        return worker

    yield make
    for worker in started:
        worker.__exit__()


def reported(worker, name, state):
    """How often a task has been in a state that it had a reason for, or has failed."""
    lines = json_lines(worker.log)
    states = [line for line in lines if (line["event"], line.get("connector"), line.get("task")) == ("task state", name, 0)]
    return sum(line["state"] == state and (state == "FAILED" or "reason" in line) for line in states)


def pids_in(log):
    return [line["pid"] for line in map(json.loads, log.splitlines()) if line["event"] == "task process started"]


def test_no_secret_of_a_configuration_comes_out_again(kafka, canaries, made_worker):  # number 28 of the worker's safety
    secret = secret_keys(canaries)
    # The task names its host when it does not find it.
    config = connector_config(database_hostname=f"{canaries.placeholder()}.invalid", **secret)
    keys = key_texts(canaries)
    worker = made_worker(tasks="real", **{"producer.enable.ssl.certificate.verification": "false"})
    shown = {}

    def status(name):
        return worker.client.get(f"/connectors/{name}/status").text

    def put(name, **more):
        answer = worker.client.put(f"/connectors/{name}/config", json={**config, "topic.prefix": name, **more})
        assert answer.status_code == 201, answer.text

    ends = {"waits": "UNASSIGNED", "fails": "FAILED", "keys": "FAILED"}
    assert len(canaries.inline) + len(canaries.provided) > 40
    put("waits", **{"database.hostname": "localhost", "database.port": str(free_port())})
    put("fails")
    put("keys", **keys, **{"producer.override.security.protocol": "SSL"})
    for starts in (1, 2):
        until(lambda times=starts: all(reported(worker, name, state) >= times for name, state in ends.items()), what=worker.log.read_text)
        for name in ends:
            shown[f"{name} {starts}"] = status(name)
        for pid in pids_in(worker.log.read_text()):
            for file in ("cmdline", "environ"):
                path = Path(f"/proc/{pid}/{file}")
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a task that has failed has no process
                    shown[f"{path} {starts}"] = path.read_text(errors="replace")
        if starts == 1:
            for name in ends:
                assert worker.client.post(f"/connectors/{name}/restart?includeTasks=true").status_code == 202
    assert "trying again" in shown["waits 2"]
    refused = {name: f"{text}${{vault:a:b}}" for name, text in {**config, **keys}.items() if name != "connector.class"}
    refused |= {f"driver.password.{number}": canaries.word() for number in range(2)}
    for plugin in ("MySql", "MariaDb"):
        asked = {**refused, "connector.class": plugin, "name": "x"}
        answer = worker.client.put(f"/connector-plugins/{plugin}Connector/config/validate", json=asked)
        assert answer.json()["error_count"] >= len(secret) + len(keys)
        shown[f"validate {plugin}"] = answer.text
        shown[f"create {plugin}"] = worker.client.post("/connectors", json={"name": "x", "config": asked}).text
    shown["expanded"] = worker.client.get("/connectors?expand=status").text
    shown["metrics"] = worker.client.get("/metrics").text
    for kind in ("status", "offset"):
        shown[kind] = records_of(kafka, f"{worker.group}-{kind}")
    given = "".join(worker.client.get(f"/connectors/waits{path}").text for path in ("", "/config", "/tasks"))
    given += records_of(kafka, f"{worker.group}-config")
    worker.process.stop()
    shown["log"] = worker.log.read_text()

    assert {where: found for where, text in shown.items() if (found := canaries.found_in(text))} == {}
    assert canaries.found_in(given, provided_only=True) == []
    assert "http://u:${file:" in given
    assert 'password=\\"canary-' in given
    assert "${file:" in shown["fails 1"], "the host that was not found is named by its placeholder"
    lines = [json.loads(line) for line in shown["log"].splitlines()]
    # Once for the worker, and once for each time that the task of a remote database was started, however often that tried.
    insecure = [(line.get("connector"), line["choices"]) for line in lines if line["event"].startswith("insecure choices")]
    assert [choices for connector, choices in insecure if connector is None] == [
        "producer.enable.ssl.certificate.verification: anybody can answer as a broker and is trusted; use true"
    ]
    assert sorted(connector for connector, _ in insecure if connector) == ["fails", "fails", "keys", "keys"]
    assert all(choices.startswith("database.ssl.mode: preferred does not check") for connector, choices in insecure if connector)


def test_no_secret_comes_out_of_a_task_that_quotes_it_or_prints_it(kafka, canaries, made_worker):  # number 29 of the worker's safety
    secret = secret_keys(canaries)
    worker = made_worker()
    shown = {}
    for behaviour in ("fail", "shout"):
        config = connector_config(dummy_behaviour=behaviour, topic_prefix=behaviour, **secret)
        assert worker.client.put(f"/connectors/{behaviour}/config", json=config).status_code == 201
        worker.wait_for(behaviour, "RUNNING", "FAILED")
        shown[behaviour] = worker.client.get(f"/connectors/{behaviour}/status").text
    shown["status"] = records_of(kafka, f"{worker.group}-status")
    worker.process.stop()
    shown["log"] = worker.log.read_text()

    assert {where: found for where, text in shown.items() if (found := canaries.found_in(text))} == {}
    printed = [line for line in map(json.loads, shown["log"].splitlines()) if line["event"] == "error output of a task"]
    assert {(line["connector"], line["task"]) for line in printed} == {("shout", 0)}
    assert re.search(r"login with .*refused", shown["shout"])

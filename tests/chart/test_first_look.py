"""The chart with nothing set: a broker of its own on one node, a worker and a sink that fit it, and notes whose commands can be pasted."""

import http.server
import importlib.util
import json
import re
import shutil
import socket
import subprocess
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from chart.cluster import cluster
from chart.rendered import (
    BROKERS,
    CHART,
    CONNECTOR_CLASS,
    MAJORS,
    NEWEST,
    container,
    helm,
    objects,
    objects_of,
    one,
    pod_specs,
    refusal,
    rendered,
    template,
    worker,
)
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.config.properties import parse_properties
from stack import GuardedProcess
from stack.kafka import Kafka
from stack.process import free_port, wait_until

LIMIT_S = 120


def look(**values):
    """The objects of a chart without brokers in its values."""
    done = template(values=values)
    assert done.returncode == 0, done.stderr
    return objects_of(done.stdout)


def worker_file(found):
    return parse_properties(one(found, "ConfigMap", "rel-dblog-worker")["data"]["worker.properties"])


def sink_file(found):
    return yaml.safe_load(one(found, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])


@pytest.fixture(scope="module")
def nothing():
    return look()


# ---- what runs


@pytest.mark.parametrize("major", MAJORS)
def test_nothing_set_is_a_broker_of_one_node_and_a_worker_that_fit_each_other(major):
    done = template(major=major)
    assert done.returncode == 0, done.stderr
    found = objects_of(done.stdout)

    (service,) = [item for item in found if item["kind"] == "Service" and item["metadata"]["name"] == "rel-dblog-broker"]
    address = f"{service['metadata']['name']}.space.svc:{service['spec']['ports'][0]['port']}"
    file = worker_file(found)
    assert file["bootstrap.servers"] == address
    broker = parse_properties(one(found, "ConfigMap", "-broker")["data"]["server.properties"])
    assert f"CLIENTS://{address}" in broker["advertised.listeners"].split(",")
    assert {value for key, value in file.items() if key.endswith("replication.factor")} == {"1"}
    assert one(found, "StatefulSet", "-worker")["spec"]["replicas"] == one(found, "StatefulSet", "-broker")["spec"]["replicas"] == 1
    assert not [item for item in found if item["kind"] == "PodDisruptionBudget"]


def test_the_workers_topics_have_the_names_that_they_have_on_brokers_of_ones_own(nothing):
    def topics(found):
        return {key: value for key, value in worker_file(found).items() if key.endswith(".topic")}

    assert topics(nothing) == topics(objects("minimal"))


def test_brokers_of_ones_own_leave_no_trace_of_the_first_look():
    found = objects("minimal")

    assert not [item for item in found if "broker" in item["metadata"]["name"]]
    assert "initContainers" not in worker(found)
    assert one(found, "StatefulSet", "-worker")["spec"]["replicas"] == 2
    assert {value for key, value in worker_file(found).items() if key.endswith("replication.factor")} == {"3"}
    resources = container(found, "StatefulSet", "-worker")["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["memory"]) == ("500m", "2048Mi")
    sink = container(objects("sink-volume"), "Deployment", "-sink")["resources"]
    assert (sink["requests"]["cpu"], sink["limits"]["memory"]) == ("1", "4096Mi")


def test_a_whole_first_look_asks_for_what_one_small_node_has(nothing):
    found = look(sink={"enabled": True})

    def requests(key):
        parts = [("StatefulSet", "-broker"), ("StatefulSet", "-worker"), ("Deployment", "-sink")]
        return [container(found, kind, suffix)["resources"]["requests"][key] for kind, suffix in parts]

    assert sum(int(amount.removesuffix("Mi")) for amount in requests("memory")) <= 5.5 * 1024
    assert sum(int(amount.removesuffix("m")) for amount in requests("cpu")) <= 500


def test_what_is_given_wins_over_what_a_first_look_would_have():
    found = look(
        worker={"replicas": 2, "memoryMiB": 700, "cpuRequest": "300m"}, broker={"memoryMiB": 600, "config": {"log.retention.hours": 1}}
    )

    assert one(found, "StatefulSet", "-worker")["spec"]["replicas"] == 2
    assert container(found, "StatefulSet", "-worker")["resources"]["requests"] == {
        "cpu": "300m",
        "ephemeral-storage": "512Mi",
        "memory": "700Mi",
    }
    assert "-Xmx300m" in container(found, "StatefulSet", "-broker")["args"][0]
    assert parse_properties(one(found, "ConfigMap", "-broker")["data"]["server.properties"])["log.retention.hours"] == "1"


def test_the_broker_keeps_its_topics_on_a_claim_unless_a_value_says_that_they_may_go(nothing):
    (claim,) = one(nothing, "StatefulSet", "-broker")["spec"]["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]  # the cluster's default
    named = one(look(broker={"persistence": {"storageClass": "fast", "size": "2Gi"}}), "StatefulSet", "-broker")["spec"][
        "volumeClaimTemplates"
    ]
    assert (named[0]["spec"]["storageClassName"], named[0]["spec"]["resources"]["requests"]["storage"]) == ("fast", "2Gi")

    without = look(broker={"persistence": {"enabled": False}})
    kubernetes_validate.validate(one(without, "StatefulSet", "-broker"), NEWEST, strict=True)
    spec = one(without, "StatefulSet", "-broker")["spec"]
    assert "volumeClaimTemplates" not in spec
    assert {"name": "data", "emptyDir": {"sizeLimit": "8Gi"}} in spec["template"]["spec"]["volumes"]


def test_an_upgrade_that_keeps_the_values_of_the_chart_before_renders_as_before():
    # With --reuse-values what the chart before did not know is not there.
    done = template("--set", f"{BROKERS},broker=null")

    assert done.returncode == 0, done.stderr
    assert objects_of(done.stdout)


# ---- the sink


@pytest.mark.parametrize("major", MAJORS)
def test_the_sink_needs_one_value_alone(major):
    done = template("--set", "sink.enabled=true", major=major)
    assert done.returncode == 0, done.stderr
    found = objects_of(done.stdout)

    file = sink_file(found)
    mounts = {mount["mountPath"] for mount in container(found, "Deployment", "-sink")["volumeMounts"]}
    assert "/lake" in mounts
    assert (file["target.path"], file["checkpoint.path"]) == ("/lake/tables", "/lake/checkpoint")
    assert file["kafka.bootstrap.servers"] == worker_file(found)["bootstrap.servers"]
    claim = one(found, "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"


TOPICS = {
    "first.shop.customers": True, "pg.public.orders": True, "__dblog-chunks.first": True,
    "first": False, "schemahistory.first": False, "_schemas": False, "first.transaction": False,
    "space.{release}-config": False, "space.{release}-offsets": False, "space.{release}-status": False,
}  # fmt: skip


@pytest.mark.parametrize("release", ["rel", "a-b"])
def test_the_sink_of_a_first_look_reads_the_tables_of_every_connector_and_nothing_else(release):
    done = template("--set", "sink.enabled=true", release=release)
    maps = [item for item in objects_of(done.stdout) if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("-sink")]
    pattern = yaml.safe_load(maps[0]["data"]["sink.yaml"])["topics.pattern"]

    in_python = re.sub(r"\\Q(.*?)\\E", lambda quoted: re.escape(quoted[1]), pattern)  # a quotation of Java's
    assert {topic: bool(re.fullmatch(in_python, topic.format(release=release))) for topic in TOPICS} == TOPICS


def test_topics_with_a_prefix_of_dots_are_no_tables():
    file = sink_file(look(sink={"enabled": True}, worker={"topics": {"prefix": "a.b.c"}}))

    in_python = re.sub(r"\\Q(.*?)\\E", lambda quoted: re.escape(quoted[1]), file["topics.pattern"])
    assert re.fullmatch(in_python, "a.b.c-config") is None
    assert re.fullmatch(in_python, "a.b.c") is not None


def test_what_is_given_of_the_sink_wins():
    s3 = {"enabled": True, "tablesPath": "s3a://b/t", "checkpointPath": "s3a://b/c", "topics": "x", "s3": {"enabled": True}}
    found = look(sink={**s3, "config": {"trigger.interval.s": 30}})

    file = sink_file(found)
    assert (file["target.path"], file["topics"], file["trigger.interval.s"]) == ("s3a://b/t", "x", 30)
    assert "topics.pattern" not in file
    assert not [item for item in found if item["kind"] == "PersistentVolumeClaim"]


# ---- the broker itself


@contextmanager
def as_the_container_runs_it(found, folder, ports):
    """The command of the broker's container on this machine: its script and its files, with folders and ports of this machine."""
    (program, *_), class_path, contained = Kafka(folder / "unused").program()
    if contained:
        pytest.skip("the broker of this machine is in a container")
    places = {
        "/opt/kafka/libs/*": class_path, "/etc/dblog/broker": str(folder / "config"), "/var/lib/dblog-broker": str(folder / "volume"),
        "rel-dblog-broker.space.svc:9092": f"127.0.0.1:{ports[0]}", "CLIENTS://:9092": f"CLIENTS://127.0.0.1:{ports[0]}",
        "localhost:9093": f"127.0.0.1:{ports[1]}", "localhost:9094": f"127.0.0.1:{ports[2]}",
    }  # fmt: skip

    def here(text):
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    (folder / "config").mkdir(exist_ok=True)
    (folder / "volume" / "lost+found").mkdir(parents=True, exist_ok=True)  # as a volume of its own has it
    for name, text in one(found, "ConfigMap", "-broker")["data"].items():
        (folder / "config" / name).write_text(here(text))
    broker = container(found, "StatefulSet", "-broker")
    environment = {"PATH": f"{Path(shutil.which(program)).parent}:/usr/bin:/bin"}
    log = folder / "broker.log"
    began = log.stat().st_size if log.exists() else 0

    def takes_connections():
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", ports[0])) == 0 and "Kafka Server started" in log.read_text()[began:]

    with GuardedProcess(
        "the chart's broker", [*broker["command"], *map(here, broker["args"])], log=log, env=environment,
        ready=takes_connections, ready_timeout_s=LIMIT_S, grace_s=30,
    ):  # fmt: skip
        yield AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[0]}", "log_level": 0})


def test_the_brokers_command_starts_a_broker_that_keeps_its_topics_over_a_restart(nothing, own_folder):
    ports = [free_port() for _ in range(3)]
    with as_the_container_runs_it(nothing, own_folder, ports) as admin:
        admin.create_topics([NewTopic("kept", num_partitions=1, replication_factor=-1)])["kept"].result(timeout=60)
        before = admin.list_topics(timeout=60)

    with as_the_container_runs_it(nothing, own_folder, ports) as admin:
        after = admin.list_topics(timeout=60)

    assert (after.cluster_id, "kept" in after.topics) == (before.cluster_id, True)
    assert len(after.topics["kept"].partitions[0].replicas) == 1


def test_a_release_that_is_installed_again_finds_its_volume_and_another_one_does_not(nothing):
    def cluster(**values):
        return re.search(r"--cluster-id=(\S+)", container(look(**values), "StatefulSet", "-broker")["args"][0])[1]

    other = objects_of(template(release="other").stdout)
    assert cluster() == cluster(broker={"memoryMiB": 700})
    assert cluster() != re.search(r"--cluster-id=(\S+)", container(other, "StatefulSet", "-broker")["args"][0])[1]


# ---- a broker that does not answer


@pytest.fixture
def waiting(monkeypatch):
    spec = importlib.util.spec_from_file_location("wait_for_broker", CHART / "files" / "wait_for_broker.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    monkeypatch.setattr(program, "SAID_FIRST_S", 0)
    return program


def test_pods_wait_for_the_broker_and_say_what_they_wait_for_and_what_to_do(nothing):
    found = look(sink={"enabled": True})

    for kind, suffix in (("StatefulSet", "-worker"), ("Deployment", "-sink")):
        (first, *_) = one(found, kind, suffix)["spec"]["template"]["spec"]["initContainers"]
        address, remedy = first["args"]
        assert address == "rel-dblog-broker.space.svc:9092"
        assert "`kubectl -n space describe pod rel-dblog-broker-0` says why" in remedy
        assert "broker.persistence.storageClass" in remedy
        assert "broker.image" in remedy
        assert first["image"] == container(found, kind, suffix)["image"]


def test_the_wait_ends_when_the_broker_answers_and_has_said_why_it_waited(waiting, capfd):
    port = free_port()
    done = threading.Thread(target=waiting.main, args=(f"127.0.0.1:{port}", "look at the pod"), daemon=True)
    done.start()
    printed = []

    def said():
        printed.append(capfd.readouterr().out)
        return "look at the pod" in "".join(printed)

    wait_until(said, timeout_s=LIMIT_S, what="the sentence of a wait")
    with closing(socket.create_server(("127.0.0.1", port))):
        done.join(LIMIT_S)

    assert not done.is_alive()
    assert f"waiting for the broker 127.0.0.1:{port}" in "".join(printed)
    assert "refused" in "".join(printed)
    assert "answers" in capfd.readouterr().out


def test_why_a_container_of_a_first_look_ended_stands_in_the_status_of_its_pod():
    specs = {name: spec for (kind, name), spec in pod_specs(objects("demo")).items() if kind in ("StatefulSet", "Deployment")}

    for name, spec in specs.items():
        for found in (*spec.get("initContainers", []), *spec["containers"]):
            assert ("terminationMessagePolicy" in found) is not name.endswith("-connectors"), name


def test_pods_that_sleep_wait_for_nobody():
    found = look(diagnosticMode={"enabled": True}, sink={"enabled": True})

    for kind, suffix in (("StatefulSet", "-worker"), ("Deployment", "-sink"), ("StatefulSet", "-broker")):
        assert "initContainers" not in one(found, kind, suffix)["spec"]["template"]["spec"]
        assert container(found, kind, suffix)["command"] == ["sleep"]


def test_a_command_line_of_the_container_is_the_program_that_is_tested(nothing):
    (first,) = worker(nothing)["initContainers"]

    assert first["command"][:3] == ["python3", "-P", "-c"]
    assert first["command"][3] == (CHART / "files" / "wait_for_broker.py").read_text()


# ---- half of a production setup


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"kafka": {"securityProtocol": "SSL"}},
            "kafka.securityProtocol=SSL is of brokers of your own, and kafka.bootstrapServers names none",
        ),
        ({"kafka": {"sasl": {"existingSecret": "s"}}}, "kafka.sasl is of brokers of your own"),
        ({"kafka": {"tls": {"existingSecret": "s"}}}, "kafka.tls is of brokers of your own"),
        ({"kafka": {}, "worker": {"topics": {"replicationFactor": 3}}}, "worker.topics.replicationFactor=3 is of brokers of your own"),
        (
            {"kafka": {"bootstrapServers": "a:1,b:1"}, "worker": {"topics": {"replicationFactor": 1}}},
            "worker.topics.replicationFactor=1 on the brokers a:1,b:1: the loss of one broker",
        ),
        ({"kafka": {"bootstrapServers": "a:1"}, "worker": {"topics": {"replicationFactor": 1}}}, "worker.topics.allowOneReplica=true"),
    ],
)
def test_half_of_a_production_setup_is_refused_with_a_sentence(values, sentence):
    assert sentence in refusal(**values)


def test_one_replica_on_a_broker_of_ones_own_is_taken_when_it_is_meant():
    found = rendered(worker={"topics": {"replicationFactor": 1, "allowOneReplica": True}})

    assert worker_file(found)["offset.storage.replication.factor"] == "1"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"fullnameOverride": "1-dblog"}, "the name 1-dblog would be part of Services' names"),
        ({"fullnameOverride": "a.b"}, "Choose another name for the release, or set fullnameOverride"),
        ({"worker": {"topics": {"prefix": "p" * 242}}}, "and Kafka takes 249: shorten worker.topics.prefix"),
        ({"worker": {"groupId": "a group"}}, "names of topics have letters, digits, dots, hyphens and underscores"),
        ({"connectors": {"c" * 201: {"config": {"connector.class": CONNECTOR_CLASS}}}}, "has 201 characters"),
    ],
)
def test_a_name_that_kubernetes_or_kafka_would_refuse_is_refused_with_a_sentence(values, sentence):
    assert sentence in refusal(**values)


# ---- the notes


def notes(*arguments):
    return helm("install", "dblog", CHART, "-n", "dblog", *arguments, "--dry-run=client").stdout.partition("\nNOTES:")[2]


def commands(text):
    """The indented commands of the notes, each as it is to be pasted; one goes on in the next line behind a backslash, or inside a quotation."""
    found = []
    for line in text.splitlines():
        if re.match(r"  (?:kubectl|helm|curl|until|DB_HOST=)", line):
            found.append(line.strip())
        elif line.startswith("    ") and found:
            found[-1] += "\n" + line
    return found


def test_the_notes_say_what_runs_whose_broker_it_is_and_the_next_three_commands():
    said = notes()

    assert "dblog-broker   Kafka, one node" in said
    assert "The broker is for a first look" in said
    assert "dblog-worker:0.1.0 and dblog-sink:0.1.0 are those of `make images`" in said
    assert "make images" not in notes("--set", "global.imageRegistry=registry.example")
    assert "kafka.bootstrapServers" in said
    assert re.findall(r"^(\d)\. ", said, re.MULTILINE) == ["1", "2", "3"]
    assert [command.split()[0] for command in commands(said)] == [
        "kubectl",
        "DB_HOST=mariadb.example",
        "kubectl",
        "curl",
        "helm",
        "kubectl",
        "until",
    ]
    assert "WARNING: there is one worker" not in said
    assert "helm -n dblog upgrade" not in notes("--set", "sink.enabled=true")


class _Interface(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_the_connector_of_the_notes_is_posted_when_the_command_is_pasted(tmp_path):
    (program,) = [command for command in commands(notes()) if command.startswith("curl")]
    (tmp_path / "kubectl").write_text("#!/bin/sh\nprintf 'dblog:sesame'\n")
    (tmp_path / "kubectl").chmod(0o755)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Interface) as server:
        server.posted = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        script = "DB_HOST=db DB_PORT=3307 DB_NAME=shop DB_USER=u DB_PASSWORD=p\n" + program.replace(
            "localhost:8083", f"127.0.0.1:{server.server_port}"
        )
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(["bash", "-eu"], input=script, text=True, capture_output=True, env=environment, check=False, timeout=LIMIT_S)
        server.shutdown()

    assert done.returncode == 0, done.stderr
    ((path, login, body),) = server.posted
    assert (path, login) == ("/connectors", "Basic ZGJsb2c6c2VzYW1l")
    assert body["config"]["database.hostname"] == "db"
    assert body["config"]["database.port"] == "3307"
    assert body["config"]["schema.history.internal.kafka.bootstrap.servers"] == "dblog-broker.dblog.svc:9092"


def test_the_notes_name_objects_that_there_are():
    done = helm("install", "dblog", CHART, "-n", "dblog", "--set", "sink.enabled=true", "--dry-run=client").stdout
    made = {
        f"{item['kind'].lower()}/{item['metadata']['name']}"
        for item in yaml.safe_load_all(done.split("MANIFEST:")[1].split("NOTES:")[0])
        if item
    }
    said = "\n".join(commands(notes()))

    assert set(re.findall(r"(?:statefulset|deployment|service)/[\w-]+", said)) <= made
    assert {f"secret/{name}" for name in re.findall(r"get secret ([\w-]+)", said)} <= made


# ---- an upgrade, which finds what is there


def upgraded(there, folder, *arguments, major=4):
    """What helm renders for the upgrade of a release with these objects."""
    with cluster(there, folder) as kubeconfig:
        return helm(
            "template", "rel", CHART, "-n", "space", "--is-upgrade", "--dry-run=server", "--disable-openapi-validation", "--kubeconfig", kubeconfig, *arguments, major=major
        )  # fmt: skip


@pytest.mark.parametrize("major", MAJORS)
def test_an_upgrade_that_forgets_the_brokers_is_refused_with_their_names(major, tmp_path):
    done = upgraded(objects("minimal"), tmp_path, "--set", "sink.enabled=true", major=major)

    assert done.returncode != 0
    assert "the release rel uses the brokers broker:9092, and these values name none" in done.stderr
    assert "kafka.bootstrapServers=broker:9092" in done.stderr
    assert upgraded(objects("minimal"), tmp_path, "--set", BROKERS, major=major).returncode == 0


@pytest.mark.parametrize("major", MAJORS)
def test_an_upgrade_of_a_first_look_keeps_its_passwords_and_its_way_to_brokers_of_ones_own_is_open(major, tmp_path):
    there = objects("demo")
    done = upgraded(there, tmp_path, "--set", "demo.enabled=true", major=major)
    assert done.returncode == 0, done.stderr

    def secrets(found):
        return {item["metadata"]["name"]: item["data"] for item in found if item["kind"] == "Secret"}

    assert secrets(objects_of(done.stdout)) == secrets(there)
    assert len(secrets(there)) == 3
    assert upgraded(there, tmp_path, "--set", BROKERS, major=major).returncode == 0

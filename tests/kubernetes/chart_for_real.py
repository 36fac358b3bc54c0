"""The chart on a real Kubernetes, from its install to its end: one story, each test a chapter that goes on from the one before. `make kubernetes-test`.

A writer inserts numbered rows into the source all the time. So each chapter can ask, after whatever it did: is every number in the topic, how many came
twice, and is the Delta table the source's table, row by row?
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from demo.compare import TableResult
from demo.destination import compare_with_lake
from demo.lake import Lake
from demo.rest import NO_TLS
from demo.topics import Topics
from kubernetes.images import image_archives
from kubernetes.node import Node
from kubernetes.outside import DATABASE, ROWS_AT_FIRST, TABLE, USER, KafkaOfTwoNetworks, NumberedRows, create_table
from kubernetes.programs import Programs
from kubernetes.release import Release
from kubernetes.settings import ADDRESS
from kubernetes.traces import traces
from stack import BRIEF_JVM, MariaDb, StackError, spark_jars
from stack.environment import BUILD
from stack.process import wait_until
from support.servers import connected, execute
from support.topicfold import Folded, fold

pytestmark = pytest.mark.timeout(1800)

NAMESPACE = "dblog"
LOGIN = "source-login"
"""The Secret with the database account's password: the operator's, not the chart's."""
TOPIC = f"shop.{DATABASE}.{TABLE}"
POD_USER = 10001
DRIFT_S = 120
"""A connector that differs from the values is put right within this time."""

ROTATION_S = 240
"""The kubelet takes a minute or two to write a Secret's files anew."""


def connector(source: MariaDb, kafka: KafkaOfTwoNetworks, **changes: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": ADDRESS,
        "database.port": str(source.port),
        "database.user": USER,
        "database.password": f"${{dir:/etc/dblog/secrets/{LOGIN}:password}}",
        "database.server.id": "184054",
        "topic.prefix": "shop",
        "database.include.list": DATABASE,
        "schema.history.internal.kafka.bootstrap.servers": kafka.node_bootstrap,
        "schema.history.internal.kafka.topic": "shop.schema-history",
        **{key.replace("_", "."): value for key, value in changes.items()},
    }


def login_secret(password: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": LOGIN, "namespace": NAMESPACE},
        "stringData": {"password": password},
    }


@dataclass
class Story:
    """What every chapter has: the node, what is outside of it, the release, the lake, and the writer."""

    node: Node
    kafka: KafkaOfTwoNetworks
    source: MariaDb
    release: Release
    lake: Lake
    registry_url: str
    say: Callable[[str], None]
    running: contextlib.ExitStack
    """What goes on until the story ends."""

    def in_lake(self, number: int) -> bool:
        return self.lake.count_rows(DATABASE, TABLE, f"number = {number}") == 1

    def wait_for_lake(self, number: int, *, limit_s: float = 240) -> None:
        wait_until(lambda: self.in_lake(number), timeout_s=limit_s, what=f"row {number} in the Delta table", pause_s=1)

    def compared(self) -> TableResult:
        """The Delta table against the source's, after the last row has arrived; nobody may write meanwhile."""
        changed = int(execute(self.source, f"SELECT SUM(changed) FROM {DATABASE}.{TABLE}")[0][0] or 0)
        where = "changed > 0"
        self.wait_for_lake(int(execute(self.source, f"SELECT MAX(number) FROM {DATABASE}.{TABLE}")[0][0]))
        wait_until(
            lambda: self.lake.count_rows(DATABASE, TABLE, where) == changed, timeout_s=120, what="the last update in Delta", pause_s=1
        )

        return compare_with_lake(lambda: connected(self.source), self.lake, DATABASE, TABLE)

    def records(self) -> int:
        """How many records the table's topic has."""
        return Topics(self.kafka.bootstrap, [TOPIC]).records()

    def executors(self) -> list[str]:
        """Spark's executors that run."""
        pods = self.release.get("pods", "--selector=spark-role=executor", "--field-selector=status.phase=Running")["items"]
        return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def topic(self) -> Folded:
        """The table's topic, whole: its rows, records that came twice, and steps back in time."""
        return fold(self.kafka.bootstrap, self.registry_url, TOPIC)

    def count(self) -> tuple[int, int, int]:
        """Numbers of the source that the topic lacks, records that it has twice, and steps back in time that are no repetition."""
        folded = self.topic()
        numbers = {int(row[0]) for row in execute(self.source, f"SELECT number FROM {DATABASE}.{TABLE}")}
        lost = len(numbers - {key[0] for key in folded.rows})
        inserted = folded.ops["c"] + folded.ops["r"]
        return lost, max(folded.repeated, inserted - len(folded.rows)), len(folded.violations)

    @contextlib.contextmanager
    def under_writes(self, what: str) -> Iterator[NumberedRows]:
        """What happens in the block happens while rows are written; afterwards nothing is lost and the lake is the source."""
        repeated_before = self.count()[1]
        with NumberedRows(self.source) as rows:
            written_before = rows.written
            yield rows
            arrived = rows.newest + 20
            wait_until(lambda: rows.newest >= arrived, timeout_s=60, what="more rows")  # those of after it too
        result = self.compared()
        lost, repeated, violations = self.count()
        written = rows.written - written_before
        self.say(f"{what}: {written} rows written meanwhile, {lost} lost, {repeated - repeated_before} records twice in the topic")
        assert (lost, violations) == (0, 0)
        assert result.identical, [str(example) for example in result.examples]

    def admin(self, method: str, path: str, **body: object) -> httpx.Response:
        """A request to the leader's REST interface, with the login that the chart has made."""
        address = self.release.get("pod", self.release.leader())["status"]["podIP"]
        login = (self.release.secret("dblog-rest-login", "username"), self.release.secret("dblog-rest-login", "password"))
        with self.node.reached(address, 8083) as here:
            return httpx.request(method, f"http://{here}{path}", auth=login, timeout=60, verify=NO_TLS, **body)

    def connector_config(self, name: str) -> dict[str, str] | None:
        answer = self.admin("GET", f"/connectors/{name}/config")
        return answer.json() if answer.is_success else None

    def topics(self) -> set[str]:
        return set(AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0}).list_topics(timeout=10).topics)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    kept = BUILD / "kubernetes" / "chart"
    shutil.rmtree(kept, ignore_errors=True)
    yield kept
    shutil.rmtree(kept / "containerd", ignore_errors=True)


@pytest.fixture(scope="module")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a figure at once, though pytest keeps what tests print."""
    plugins = request.config.pluginmanager
    terminal, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"  {line}")

    return write


@pytest.fixture(scope="module")
def story(parts: Programs, folder: Path, servers_folder: Path, say: Callable[[str], None]) -> Iterator[Story]:
    """A node with both images, a broker and a database outside of it, and a release that is not installed yet."""
    archives = image_archives(folder.parent)
    with contextlib.ExitStack() as running:
        kafka = running.enter_context(KafkaOfTwoNetworks(servers_folder / "kafka-of-two-networks"))
        source = running.enter_context(MariaDb(servers_folder / "mariadb", durable=False))
        create_table(source, password="sesame")
        began_s = time.monotonic()
        node = running.enter_context(Node(folder, parts))
        say(f"node ready after {time.monotonic() - began_s:.0f} s")
        for name, archive in archives.items():
            node.import_image(archive, name=name)
        running.enter_context(node.reaching(kafka.node_port, source.port))
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        node.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": label}},
            login_secret("sesame"),
        )
        tables = node.volume("tables", owner=POD_USER) / "tables"
        values = {
            "kafka": {"bootstrapServers": kafka.node_bootstrap},
            "worker": {
                "memoryMiB": 512,
                "cpuRequest": "50m",
                "connectorsMax": 2,
                "minReadySeconds": 5,
                "topics": {"replicationFactor": 1, "allowOneReplica": True},
                "config": {"offset.flush.interval.ms": 2000},
            },
            "connectors": {"shop": {"config": connector(source, kafka)}},
            "connectorSecrets": [LOGIN],
            "reconciler": {"everySeconds": 10},
            "sink": {
                "enabled": True,
                "topicsPattern": rf"shop\.{DATABASE}\..*",
                "tablesPath": "/lake/tables",
                "checkpointPath": "/lake/checkpoint",
                "persistence": {"enabled": True, "storageClass": "node", "accessModes": ["ReadWriteMany"], "size": "1Gi"},
                "memoryMiB": 2560,
                "cpuRequest": "100m",
                "config": {
                    "trigger.interval.s": 1,
                    "kafka.metadata.max.age.ms": 5000,
                    "spark.sql.shuffle.partitions": 2,
                    "spark.driver.extraJavaOptions": BRIEF_JVM,
                },
            },
        }
        release = Release(node, name="dblog", namespace=NAMESPACE, values=values)
        running.callback(_keep_state, node, folder)
        yield Story(node, kafka, source, release, Lake(tables, tuple(spark_jars())), "", say, running)
    assert traces(folder) == []


def _keep_state(node: Node, folder: Path) -> None:
    """What a person wants to see after a failure: objects, and events; logs of Pods are in the folder already."""
    asked = [("get", "all,pvc,pdb,secrets,configmaps"), ("get", "events", "--sort-by=.lastTimestamp"), ("describe", "pods")]
    with contextlib.suppress(StackError):
        text = "\n\n".join(node.kubectl(*question, f"--namespace={NAMESPACE}") for question in asked)
        (folder / "state.txt").write_text(text)


# ---- the story


def test_an_install_becomes_ready_with_two_workers_in_a_restricted_namespace(story: Story):
    took_s = story.release.install()
    story.say(f"install to ready: {took_s:.0f} s")

    assert sorted(story.release.roles().values()) == ["leader", "standby"]
    (claim,) = story.release.get("persistentvolumeclaims")["items"]
    assert claim["status"]["phase"] == "Bound"


def test_the_connector_of_the_values_brings_the_sources_rows_into_delta(story: Story):
    address = story.release.get("service", "dblog-worker")["spec"]["clusterIP"]
    story.registry_url = f"http://{story.running.enter_context(story.node.reached(address, 8084))}"
    began_s = time.monotonic()
    story.wait_for_lake(ROWS_AT_FIRST, limit_s=420)  # Spark's first batch on a busy machine
    story.say(f"ready to first rows in Delta: {time.monotonic() - began_s:.0f} s")

    with story.under_writes("first rows"):
        pass


def test_the_charts_own_test_passes(story: Story):
    assert "Succeeded" in story.release.test()


def test_an_upgrade_that_replaces_every_pod_loses_nothing(story: Story):
    before = {pod["metadata"]["uid"] for pod in story.release.pods("worker")}

    with story.under_writes("rolling upgrade of both workers"):
        took_s = story.release.upgrade({"worker": {"podAnnotations": {"round": "2"}}})
    story.say(f"upgrade to ready: {took_s:.0f} s")

    after = story.release.pods("worker")
    assert {pod["metadata"]["annotations"]["round"] for pod in after} == {"2"}
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in after)


def test_a_standby_takes_over_when_the_leaders_pod_is_killed(story: Story):
    leader = story.release.leader()
    (standby,) = set(story.release.roles()) - {leader}

    with story.under_writes("leader's pod killed"):
        began_s = time.monotonic()
        story.node.kill_pod(story.release.get("pod", leader)["metadata"]["uid"])
        story.release.kubectl("delete", "pod", leader, "--grace-period=0", "--force")
        wait_until(lambda: story.release.role(standby) == "leader", timeout_s=120, what=f"{standby} to lead", pause_s=0.2)
        leads_s = time.monotonic() - began_s
        records = story.records()
        wait_until(lambda: story.records() > records, timeout_s=120, what="the next row in the topic", pause_s=0.1)
        story.say(f"takeover after a kill: {standby} leads after {leads_s:.1f} s, next row after {time.monotonic() - began_s:.1f} s")
    story.release.wait_for_workers()


def test_the_sink_goes_on_where_it_was_when_its_pod_is_killed(story: Story):
    (pod,) = story.release.pods("sink")

    with story.under_writes("sink's pod killed") as rows:
        began_s = time.monotonic()
        story.node.kill_pod(pod["metadata"]["uid"])
        story.release.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        story.wait_for_lake(rows.newest + 1)
        story.say(f"sink after a kill: next row in Delta after {time.monotonic() - began_s:.0f} s")


def test_an_eviction_moves_the_work_and_the_budget_refuses_a_second_one(story: Story):
    leader = story.release.leader()
    (standby,) = set(story.release.roles()) - {leader}

    with story.under_writes("leader's pod evicted"):
        began_s = time.monotonic()
        story.release.evict(leader)
        with pytest.raises(StackError, match="disruption budget"):
            story.release.evict(standby)
        wait_until(lambda: story.release.role(standby) == "leader", timeout_s=120, what=f"{standby} to lead", pause_s=0.2)
        story.say(f"takeover after an eviction: {standby} leads after {time.monotonic() - began_s:.1f} s")
    story.release.wait_for_workers()


def test_a_rollback_brings_the_former_values_back(story: Story):
    upgraded = story.release.revision

    with story.under_writes("rollback"):
        took_s = story.release.rollback(upgraded - 1)
    story.say(f"rollback to ready: {took_s:.0f} s")

    assert all("round" not in pod["metadata"]["annotations"] for pod in story.release.pods("worker"))
    story.release.values["worker"].pop("podAnnotations")


def test_a_connector_that_somebody_deletes_comes_back(story: Story):
    with story.under_writes("connector deleted by hand"):
        assert story.admin("DELETE", "/connectors/shop").is_success
        began_s = time.monotonic()
        wait_until(lambda: story.connector_config("shop") is not None, timeout_s=DRIFT_S, what="the connector", pause_s=1)
        story.say(f"deleted connector back after {time.monotonic() - began_s:.0f} s")


def test_a_changed_value_reaches_the_connector_by_an_upgrade(story: Story):
    workers = {pod["metadata"]["uid"] for pod in story.release.pods("worker")}

    with story.under_writes("connector's value changed"):
        story.release.upgrade({"connectors": {"shop": {"config": {"max.batch.size": "1024"}}}})
        wait_until(
            lambda: (story.connector_config("shop") or {}).get("max.batch.size") == "1024", timeout_s=DRIFT_S, what="the value", pause_s=1
        )

    assert workers == {pod["metadata"]["uid"] for pod in story.release.pods("worker")}, "a connector's change replaces no worker"


def test_a_new_password_in_its_secret_is_used_when_the_connector_is_restarted(story: Story):
    workers = {pod["metadata"]["uid"] for pod in story.release.pods("worker")}

    with story.under_writes("password changed"):
        began_s = time.monotonic()
        story.node.apply(login_secret("open-sesame"))
        execute(story.source, f"ALTER USER '{USER}'@'%' IDENTIFIED BY 'open-sesame'", f"KILL USER '{USER}'")
        file = f"/etc/dblog/secrets/{LOGIN}/password"
        leader = story.release.leader()
        wait_until(
            lambda: story.node.kubectl("exec", f"--namespace={NAMESPACE}", leader, "--", "cat", file) == "open-sesame",
            timeout_s=ROTATION_S,
            what="the new password in the worker's pod",
            pause_s=1,
        )
        read_s = time.monotonic() - began_s
        records = story.records()
        assert story.admin("POST", "/connectors/shop/restart?includeTasks=true").is_success
        wait_until(lambda: story.records() > records, timeout_s=60, what="the next row in the topic", pause_s=0.5)
        story.say(
            f"password changed, every connection cut: the pod has the new one after {read_s:.0f} s, next row after {time.monotonic() - began_s:.0f} s"
        )

    assert workers == {pod["metadata"]["uid"] for pod in story.release.pods("worker")}, "a new password replaces no worker"


def test_a_connector_that_left_the_values_is_deleted_when_that_is_asked_for(story: Story):
    extra = {**story.release.values["connectors"]["shop"]["config"], "topic.prefix": "extra", "snapshot.mode": "no_data"}
    extra.update({"database.server.id": "184055", "schema.history.internal.kafka.topic": "extra.schema-history"})
    story.release.upgrade({"connectors": {"extra": {"config": extra}}})
    wait_until(lambda: story.connector_config("extra") is not None, timeout_s=DRIFT_S, what="the second connector", pause_s=1)

    story.release.upgrade({"connectors": {"extra": None, "shop": {"config": {"max.batch.size": "512"}}}})
    wait_until(lambda: (story.connector_config("shop") or {}).get("max.batch.size") == "512", timeout_s=DRIFT_S, what="a round", pause_s=1)
    assert story.connector_config("extra") is not None

    story.release.upgrade({"reconciler": {"prune": True}})
    wait_until(lambda: story.connector_config("extra") is None, timeout_s=DRIFT_S, what="the connector to be deleted", pause_s=1)
    assert story.connector_config("shop") is not None


def test_executors_are_pods_of_their_own(story: Story):
    changes = {
        "master": "k8s://https://kubernetes.default.svc",
        "executor": {"instances": 2, "memoryMiB": 768, "cpuRequest": "200m"},
    }
    story.release.upgrade({"sink": changes})
    wait_until(lambda: len(story.executors()) == 2, timeout_s=240, what="two executors that run", pause_s=1)

    with story.under_writes("two executors as pods"):
        pass

    story.release.upgrade({"sink": {"master": "local[*]"}})
    wait_until(lambda: not story.executors(), timeout_s=120, what="executors to end with their driver", pause_s=1)


def test_an_uninstall_leaves_the_tables_claim_and_kafkas_topics_and_nothing_else(story: Story):
    topics = story.topics()
    tables = story.lake.count_rows(DATABASE, TABLE)

    began_s = time.monotonic()
    story.release.uninstall()
    # The pods end behind it, each in its own time.
    wait_until(lambda: not any(kind == "Pod" for kind, _ in story.release.objects()), timeout_s=120, what="the pods to end", pause_s=1)
    story.say(f"uninstall until the last pod is gone: {time.monotonic() - began_s:.0f} s")

    left = story.release.objects() - {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"), ("Secret", LOGIN)}
    assert left == {("PersistentVolumeClaim", "dblog-sink-lake")}
    assert story.topics() == topics
    assert story.lake.count_rows(DATABASE, TABLE) == tables

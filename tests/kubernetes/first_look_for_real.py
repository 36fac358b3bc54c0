"""The first look on a real Kubernetes, as a person has it: `helm install dblog ./helm` and nothing else, then the commands that it prints, pasted.

One story, each test a chapter that goes on from the one before. `make kubernetes-test`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes import settings
from kubernetes.images import image_archives
from kubernetes.node import Node
from kubernetes.outside import DATABASE, TABLE, USER, KafkaOfTwoNetworks, create_table
from kubernetes.programs import Programs
from kubernetes.release import Release
from kubernetes.stand_ins import stand_in_archives
from kubernetes.traces import traces
from stack import MariaDb, StackError
from stack.environment import BUILD, ROOT
from stack.process import wait_until
from support.servers import execute

pytestmark = pytest.mark.timeout(1800)

POD_USER = 10001
PASSWORD = "sesame"
READY_S = 300
"""Two minutes on an idle machine."""
LAKE_S = 600


@dataclass
class Story:
    """The node, and a shell in it that has the programs a person has."""

    node: Node
    source: MariaDb
    say: Callable[[str], None]

    def paste(self, *commands: str, succeeds: bool = True) -> str:
        """Run commands one after the other in one shell, in the repository's folder. Return what they print, errors too."""
        script = "\n".join(["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands])
        programs = self.node.programs
        environment = {
            **os.environ,
            "PATH": f"{programs.path}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(settings.kubeconfig(self.node.folder, "admin")),
            **{f"HELM_{kind}_HOME": str(self.node.folder / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
        }
        file = self.node.folder / "pasted.txt"  # a process that stays behind would keep a pipe open
        with file.open("w+") as printed:
            line = self.node.entering("bash", "-c", script)
            done = subprocess.run(line, cwd=ROOT, env=environment, stdout=printed, stderr=printed, timeout=LAKE_S + READY_S, check=False)
        text = file.read_text()
        assert (done.returncode == 0) is succeeds, f"{script}\n{text}"
        return text

    def release(self, name: str, namespace: str) -> Release:
        return Release(self.node, name=name, namespace=namespace, values={})


def commands(notes: str) -> list[str]:
    """Return the indented commands of the notes, each as it is to be pasted."""
    found: list[str] = []
    for line in notes.splitlines():
        if re.match(r"  (?:kubectl|helm|curl|until|DB_HOST=)", line):
            found.append(line.strip())
        elif line.startswith("    ") and found:
            found[-1] += "\n" + line
    return found


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    kept = BUILD / "kubernetes" / "first-look"
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
    """A node with the images, and a database outside of it. It has no storage class yet."""
    archives = image_archives(folder.parent)
    (sink,) = [name.removeprefix("docker.io/library/") for name in archives if "dblog-sink" in name]
    archives |= stand_in_archives(folder.parent, sink=sink)
    with contextlib.ExitStack() as running:
        source = running.enter_context(MariaDb(servers_folder / "mariadb-of-the-first-look", durable=False))
        create_table(source, password=PASSWORD)
        node = running.enter_context(Node(folder, parts))
        for name, archive in archives.items():
            node.import_image(archive, name=name)
        running.enter_context(node.reaching(source.port))
        running.callback(_keep_state, node, folder)
        yield Story(node, source, say)
    assert traces(folder) == []


def _keep_state(node: Node, folder: Path) -> None:
    """Write what a person wants to see after a failure; logs of Pods are in the folder already."""
    with contextlib.suppress(StackError):
        text = "\n\n".join(
            node.kubectl(*asked, "--all-namespaces") for asked in (("get", "all,pvc"), ("get", "events"), ("describe", "pods"))
        )
        (folder / "state.txt").write_text(text)


def test_without_a_storage_class_a_pod_says_within_a_minute_what_is_missing_and_what_to_do(story: Story):
    story.paste("helm install bare ./helm")
    release = story.release("bare", "default")
    began_s = time.monotonic()

    def said() -> bool:
        with contextlib.suppress(StackError):
            return "broker.persistence.storageClass" in release.kubectl("logs", "bare-dblog-worker-0", "--container=wait-for-broker")
        return False

    wait_until(said, timeout_s=60, what="the remedy in the log of the container that waits", pause_s=1)
    story.say(f"without a storage class: the remedy after {time.monotonic() - began_s:.0f} s")
    story.paste("helm uninstall bare --wait", "kubectl delete pvc --all")


def test_helm_install_with_nothing_set_and_the_printed_commands_bring_a_row_into_delta(story: Story):
    story.node.apply({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/no-provisioner",
        "metadata": {"name": "node", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    })  # fmt: skip
    # The smallest volume that is large enough is taken: this is the broker's, and this the lake's.
    story.node.volume("topics", owner=POD_USER, size="8Gi")
    lake = story.node.volume("lake", owner=POD_USER, size="10Gi")
    began_s = time.monotonic()

    notes = story.paste("helm install dblog ./helm")

    ready, database, forward, post, *sink = commands(notes)
    story.paste(ready)
    ready_s = time.monotonic() - began_s
    assert ready_s < READY_S
    mine = f"DB_HOST={settings.ADDRESS} DB_PORT={story.source.port} DB_NAME={DATABASE} DB_USER={USER} DB_PASSWORD={PASSWORD}"
    assert database.startswith("DB_HOST=")
    execute(story.source, f"INSERT INTO {DATABASE}.{TABLE} (number, text) VALUES (900001, 'a row of mine')")
    printed = story.paste(mine, forward, post, *(command.replace(".customers", f".{TABLE}") for command in sink))

    assert "a row of mine" in printed
    assert (lake / "tables" / DATABASE / TABLE / "_delta_log").is_dir()
    story.say(f"helm install to ready: {ready_s:.0f} s; to a row in Delta, the sink's start included: {time.monotonic() - began_s:.0f} s")


def test_an_upgrade_that_forgets_nothing_goes_on_and_the_charts_test_passes(story: Story):
    story.paste("helm upgrade dblog ./helm --reuse-values --wait --timeout 6m")

    assert "Succeeded" in story.paste("helm test dblog")


def test_the_first_look_moves_to_a_broker_of_ones_own_and_is_not_left_for_an_empty_one(story: Story, servers_folder: Path):
    with KafkaOfTwoNetworks(servers_folder / "kafka-of-ones-own") as kafka, story.node.reaching(kafka.node_port):
        values = story.node.folder / "own.yaml"
        values.write_text(f"""
broker: {{enabled: true}}
kafka: {{bootstrapServers: "{kafka.node_bootstrap}"}}
worker: {{replicas: 1, memoryMiB: 512, cpuRequest: 50m, topics: {{replicationFactor: 1, allowOneReplica: true}}}}
connectors:
  second:
    config:
      connector.class: io.debezium.connector.mariadb.MariaDbConnector
      database.hostname: "{settings.ADDRESS}"
      database.port: {story.source.port}
      database.user: {USER}
      database.password: {PASSWORD}
      database.server.id: 184055
      topic.prefix: second
      database.include.list: {DATABASE}
      schema.history.internal.kafka.bootstrap.servers: "{kafka.node_bootstrap}"
      schema.history.internal.kafka.topic: schemahistory.second
allowInlineSecrets: true
sink:
  enabled: true
  topicsPattern: 'second\\.{DATABASE}\\..*|__dblog-chunks\\.second'
  tablesPath: /lake/own/tables
  checkpointPath: /lake/own/checkpoint
  persistence: {{enabled: true, existingClaim: dblog-sink-lake}}
  memoryMiB: 3072
  cpuRequest: 100m
  config: {{kafka.metadata.max.age.ms: 5000, trigger.interval.s: 1, spark.sql.shuffle.partitions: 2}}
""")
        story.paste(f"helm upgrade dblog ./helm --values {values} --wait --timeout 8m")
        shown = f"kubectl exec deployment/dblog-sink -- sink-entrypoint show {DATABASE}.{TABLE} --config /etc/dblog/config/sink.yaml"
        assert "a row of mine" in story.paste(f"until {shown}; do sleep 5; done")
        kinds = {name for kind, name in story.release("dblog", "default").objects() if kind == "StatefulSet"}
        assert kinds == {"dblog-worker"}

        refused = story.paste("helm upgrade dblog ./helm --set sink.enabled=true", succeeds=False)
        assert f"the release dblog uses the brokers {kafka.node_bootstrap}, and these values name none" in refused
        story.paste("helm uninstall dblog --wait", "kubectl delete pvc --all")


def test_the_demo_ends_with_identical_yes(story: Story):
    for name, size in (("shop", "4Gi"), ("topics-of-the-demo", "8Gi"), ("lake-of-the-demo", "10Gi")):
        story.node.volume(name, owner=POD_USER, size=size)
    began_s = time.monotonic()

    notes = story.paste("helm install dblog ./helm --namespace demo --create-namespace --set demo.enabled=true")
    ready, log, shown, asked, *_ = commands(notes)
    story.paste(ready, log, shown)
    story.say(f"the demo: rows in Delta {time.monotonic() - began_s:.0f} s after helm install")
    printed = story.paste(asked)

    assert "identical: yes" in printed.splitlines()
    story.say(f"the demo: identical after {time.monotonic() - began_s:.0f} s\n{printed}")
    story.paste("helm --namespace demo uninstall dblog --wait")

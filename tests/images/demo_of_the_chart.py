"""The demo of the chart as containers: every pod that it makes, by its own command, files, numbers and limits, without a Kubernetes. `make images-test`.

The containers share one network, whose only interface is the loopback one; the names of Services lead there. What Kubernetes alone does (claims, probes,
policies) is not tried here: see tests/kubernetes.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from chart.rendered import objects_of, one, template
from docker.models.containers import Container
from images.build import IMAGES
from images.engine import RUNNING
from images.engine import engine as building_engine
from kubernetes.stand_ins import built_stand_ins
from stack.process import wait_until
from support.containers import container, ended, engine

import docker

pytestmark = pytest.mark.timeout(900)

Json = dict[str, Any]
WORKER, SINK = IMAGES
LIMIT_S = 600


class Pods:
    """The pods of a release, each container by itself."""

    def __init__(self, client: docker.DockerClient, objects: list[Json], folder: Path, images: Mapping[str, str]) -> None:
        self.client, self.objects, self.folder, self.images = client, objects, folder, images
        self.running = contextlib.ExitStack()
        self.network = ""

    def __enter__(self) -> Self:
        names = [f"{item['metadata']['name']}.space.svc" for item in self.objects if item["kind"] == "Service"]
        names.append("rel-dblog-worker-0.rel-dblog-worker-headless.space.svc.cluster.local")
        self.folder.mkdir(parents=True)
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(names)}\n")
        first = container(self.client, WORKER.tag, ["infinity"], entrypoint=["sleep"], network_mode="none")
        self.network = f"container:{self.running.enter_context(first).id}"
        return self

    def __exit__(self, *error: object) -> None:
        self.running.__exit__(*error)

    def start(self, kind: str, suffix: str) -> Container:
        """Run the first containers of a pod to their ends, and start its own; the container."""
        spec = one(self.objects, kind, suffix)["spec"]["template"]["spec"]
        for first in spec.get("initContainers", []):
            self.run(spec, first)
        (own,) = spec["containers"]
        return self.running.enter_context(self._container(spec, own))

    def run(self, spec: Json, own: Json) -> tuple[int, str]:
        """Run a container of a pod to its end; the exit status and what it printed."""
        with self._container(spec, own) as found:
            return ended(found, limit_s=LIMIT_S)

    def _container(self, spec: Json, own: Json) -> contextlib.AbstractContextManager[Container]:
        security = {**spec["securityContext"], **own["securityContext"]}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = [mount for mount in own.get("volumeMounts", []) if mount["name"] != "tmp"]
        bound = {self._folder(volumes.get(mount["name"], {"name": mount["name"]})): mount for mount in mounts}
        settings: Json = {
            "user": f"{security['runAsUser']}:{security['runAsGroup']}",
            "network_mode": self.network,
            "mem_limit": own["resources"]["limits"]["memory"].lower().removesuffix("i"),
            # A pod's own name is in its file of hosts.
            "environment": {"SPARK_LOCAL_HOSTNAME": "localhost", **{one["name"]: self._value(one) for one in own.get("env", [])}},
            "volumes": {
                str(self.folder / "hosts"): {"bind": "/etc/hosts", "mode": "ro"},
                **{
                    str(folder): {"bind": mount["mountPath"], "mode": "ro" if mount.get("readOnly") else "rw"}
                    for folder, mount in bound.items()
                },
            },
        }
        if "command" in own:
            settings["entrypoint"] = own["command"]
        return container(self.client, self.images.get(own["image"], own["image"]), own.get("args", []), **settings)

    @staticmethod
    def _value(variable: Json) -> str:
        pod = "rel-dblog-worker-0"
        if "valueFrom" in variable:
            return {"metadata.name": pod, "status.podIP": "127.0.0.1"}[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        return str(variable["value"]).replace("$(DBLOG_POD_NAME)", pod)

    def _folder(self, volume: Json) -> Path:
        """The files of a volume, in a folder of this machine; one without files is the pod's to write to."""
        files: dict[str, bytes] = {}
        if "configMap" in volume:
            made = one(self.objects, "ConfigMap", volume["configMap"]["name"])["data"] or {}
            files = {name: text.encode() for name, text in made.items()}
        for source in volume.get("projected", {}).get("sources", []):
            data = one(self.objects, "Secret", source["secret"]["name"])["data"]
            items = source["secret"].get("items") or [{"key": key, "path": key} for key in data]
            files |= {item["path"]: base64.b64decode(data[item["key"]]) for item in items}
        if not files:
            # A claim: the tables are one volume, the data of a database another.
            (folder := self.folder / f"{volume['name']}-{self._owner(volume)}").mkdir(mode=0o777, exist_ok=True, parents=True)
            folder.chmod(0o777)
            return folder
        folder = self.folder / f"{volume['name']}-{time.monotonic_ns()}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    def _owner(self, volume: Json) -> str:
        return volume.get("persistentVolumeClaim", {}).get("claimName") or str(len(list(self.folder.glob("data-*"))))


@pytest.fixture(scope="module")
def pods(servers_folder: Path) -> Iterator[Pods]:
    """A demo that is not started yet. The worker's image has the demo's programs."""
    stand_ins = dict(built_stand_ins(building_engine(kinds=RUNNING), sink=SINK.tag).values())
    done = template("--set", "demo.enabled=true")
    assert done.returncode == 0, done.stderr
    with (
        engine(servers_folder / "engine-of-the-demo") as client,
        Pods(client, objects_of(done.stdout), servers_folder / "pods", stand_ins) as found,
    ):
        yield found


def test_the_demo_of_the_chart_says_that_source_and_lake_are_identical(pods: Pods) -> None:
    began_s = time.monotonic()
    broker = pods.start("StatefulSet", "-broker")
    shop = pods.start("StatefulSet", "-shop")
    worker = pods.start("StatefulSet", "-worker")  # waits for the broker first
    pods.start("Deployment", "-shop-writer")
    connectors = pods.start("Deployment", "-connectors")
    sink = pods.start("Deployment", "-sink")
    assert b"Kafka Server started" in broker.logs()
    wait_until(lambda: b"ready for connections" in shop.logs(), timeout_s=120, what="the shop's database", pause_s=0.5)

    test = one(pods.objects, "Pod", "-test")["spec"]
    (check,), (identical,) = test["initContainers"], test["containers"]

    def checked() -> bool:
        return pods.run(test, check)[0] == 0

    wait_until(checked, timeout_s=120, what="the worker to take requests", pause_s=1)
    status, printed = pods.run(test, identical)

    logs = "\n".join(one.logs(tail=40).decode(errors="replace") for one in (worker, connectors, sink))
    assert status == 0, f"{printed}\n{logs}"
    assert printed.splitlines()[-1] == "identical: yes"
    (rows,) = re.findall(r"shop\.customers +([\d,]+)", printed)
    assert int(rows.replace(",", "")) > 1000
    print(f"{printed}\nafter {time.monotonic() - began_s:.0f} s")

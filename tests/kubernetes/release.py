"""A release of the chart on a node: its values, what helm does with it, and what its Pods answer."""

import base64
import copy
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes.node import Node
from stack import StackError
from stack.environment import ROOT
from stack.process import wait_until

CHART = ROOT / "helm"
WAIT = "--timeout=6m"

Values = dict[str, Any]


class Release:
    """`install`, `upgrade` and `rollback` return how many seconds they took until everything was ready."""

    def __init__(self, node: Node, *, name: str, namespace: str, values: Values) -> None:
        self.node, self.name, self.namespace = node, name, namespace
        self.values = copy.deepcopy(values)

    def install(self) -> float:
        return self._helm("install", self.name, str(CHART), f"--namespace={self.namespace}", f"--values={self._values()}", "--wait", WAIT)

    def upgrade(self, changes: Mapping[str, Any] | None = None) -> float:
        """With `changes` merged into the values, key by key; None removes a key."""
        merge(self.values, changes or {})
        return self._helm("upgrade", self.name, str(CHART), f"--namespace={self.namespace}", f"--values={self._values()}", "--wait", WAIT)

    def rollback(self, revision: int) -> float:
        return self._helm("rollback", self.name, str(revision), f"--namespace={self.namespace}", "--wait", WAIT)

    def uninstall(self) -> None:
        self.node.helm("uninstall", self.name, f"--namespace={self.namespace}", "--wait", WAIT)

    def test(self) -> str:
        """What `helm test` prints; raises StackError when it fails."""
        return self.node.helm("test", self.name, f"--namespace={self.namespace}", "--timeout=3m")

    @property
    def revision(self) -> int:
        return int(json.loads(self.node.helm("status", self.name, f"--namespace={self.namespace}", "--output=json"))["version"])

    def get(self, *arguments: str) -> Any:
        """What `kubectl get` has in the release's namespace."""
        return self.node.get(*arguments, f"--namespace={self.namespace}")

    def kubectl(self, *arguments: str) -> str:
        return self.node.kubectl(*arguments, f"--namespace={self.namespace}")

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Pods of a component that are not being deleted, by name."""
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component={component}"
        found = self.get("pods", f"--selector={selector}")["items"]
        return sorted((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), key=lambda pod: pod["metadata"]["name"])

    def roles(self) -> dict[str, str]:
        """The role, leader or standby, by the name of the worker's Pod; without those that do not answer."""
        asked = {pod["metadata"]["name"]: self.role(pod["metadata"]["name"]) for pod in self.pods("worker")}
        return {name: role for name, role in asked.items() if role is not None}

    def role(self, pod: str) -> str | None:
        answer = self.ask(pod, "/health/ready")
        return None if answer is None else answer["role"]

    def wait_for_workers(self) -> None:
        """Until every worker is Ready again: what comes next begins as this did."""
        workers = f"statefulset/{self.name}-worker"
        wait_until(lambda: self._is_whole(workers), timeout_s=240, what=f"all Pods of {workers}", pause_s=0.5)

    def _is_whole(self, workers: str) -> bool:
        found = self.get(workers)
        return found["status"].get("availableReplicas") == found["spec"]["replicas"]

    def evict(self, pod: str) -> None:
        """Ask for the end of a Pod as the drain of a node does. Raises StackError when a disruption budget refuses it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.node.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(body))

    def objects(self) -> set[tuple[str, str]]:
        """Kind and name of everything in the namespace, but for events, which nobody keeps."""
        kinds = self.node.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
        asked = sorted({kind for kind in kinds if not kind.startswith("events")})
        found = self.get(",".join(asked))["items"]
        return {(item["kind"], item["metadata"]["name"]) for item in found}

    def leader(self) -> str:
        """The Pod that runs the connectors, once one does."""
        wait_until(lambda: "leader" in self.roles().values(), timeout_s=120, what="a worker that leads", pause_s=0.3)
        return next(name for name, role in self.roles().items() if role == "leader")

    def secret(self, name: str, key: str) -> str:
        return base64.b64decode(self.get("secret", name)["data"][key]).decode()

    def ask(self, pod: str, path: str) -> dict[str, Any] | None:
        """What a worker's Pod answers where nobody is asked for a login; None when it does not. The API server passes the request on."""
        try:
            return dict(json.loads(self.node.kubectl("get", f"--raw=/api/v1/namespaces/{self.namespace}/pods/{pod}:8084/proxy{path}")))
        except StackError:
            return None

    def _values(self) -> Path:
        file = self.node.folder / f"{self.name}-values.json"  # JSON is YAML
        file.write_text(json.dumps(self.values, indent=1))
        return file

    def _helm(self, *arguments: str) -> float:
        began_s = time.monotonic()
        self.node.helm(*arguments)
        return time.monotonic() - began_s


def merge(values: Values, changes: Mapping[str, Any]) -> None:
    """Change values in place, key by key; None removes a key."""
    for key, change in changes.items():
        if change is None:
            values.pop(key, None)
        elif isinstance(change, Mapping) and isinstance(values.get(key), dict):
            merge(values[key], change)
        else:
            values[key] = copy.deepcopy(change)

"""The Kubernetes of these tests, started: it runs Pods, obeys the restricted profile, and leaves nothing on the machine. `make kubernetes-test` runs this."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.node import Node
from kubernetes.programs import KUBERNETES, PAUSE_IMAGE, Programs
from kubernetes.traces import traces
from stack import StackError
from stack.environment import BUILD

pytestmark = pytest.mark.timeout(1800)  # the first run compiles Kubernetes

NAMESPACE = "restricted"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def folder() -> Iterator[Path]:
    kept = BUILD / "kubernetes" / "node"
    shutil.rmtree(kept, ignore_errors=True)
    yield kept
    shutil.rmtree(kept / "containerd", ignore_errors=True)


def pod(name: str, security: dict[str, object]) -> dict[str, object]:
    container = {"name": "only", "image": PAUSE_IMAGE, "securityContext": security}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"containers": [container]}}


def test_a_node_runs_restricted_pods_refuses_others_and_leaves_nothing(parts: Programs, folder: Path):
    with Node(folder, parts) as node:
        assert node.get("nodes")["items"][0]["status"]["nodeInfo"]["kubeletVersion"] == f"v{KUBERNETES}"

        node.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        node.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")  # as the chart's page has it
        node.apply(pod("good", RESTRICTED))
        node.kubectl("wait", "--for=condition=Ready", "pod/good", f"--namespace={NAMESPACE}", "--timeout=60s")
        with pytest.raises(StackError, match="violates PodSecurity"):
            node.apply(pod("bad", {}))

        assert any("process" in trace for trace in traces(folder))  # else the look below would see nothing of anything

    assert traces(folder) == []

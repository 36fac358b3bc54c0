"""What the tests of a real Kubernetes share: its programs, or the reason why this machine cannot have them, which ends the run."""

import pytest
from kubernetes.programs import Programs, programs
from needs.missing import missing, refusal
from needs.targets import has_apt, kubernetes_test


@pytest.fixture(scope="session")
def parts() -> Programs:
    """The programs of a node, compiled and downloaded if need be."""
    node = kubernetes_test(only="node_for_real")
    if found := missing(node.needs):
        pytest.exit(refusal(node, found, has_apt=has_apt()), returncode=2)
    return programs()

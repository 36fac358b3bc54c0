"""What the tests of a real Kubernetes share: its programs, or the reason why this machine cannot have them, which ends the run."""

import pytest
from kubernetes.programs import Programs, programs
from stack import Unavailable


@pytest.fixture(scope="session")
def parts() -> Programs:
    """The programs of a node, compiled and downloaded if need be."""
    try:
        return programs()
    except Unavailable as reason:
        pytest.exit(str(reason), returncode=1)

"""One worker for all tests of its interface; each test uses connectors of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from stack import Kafka
from support.worker import Worker, running_worker

_numbers = count(1)


@pytest.fixture(scope="session")
def worker(kafka: Kafka, servers_folder: Path) -> Iterator[Worker]:
    """The run's worker."""
    settings = {
        "access.control.allow.origin": "http://page.example,https://*.corp.example",
        "response.http.headers.config": '"add Cache-Control: no-cache, no-store", setDate Expires: 0, set Content-Type: text/html, set X-Content-Type-Options: a',
        "task.shutdown.graceful.timeout.ms": "2000",
    }
    with running_worker(kafka, servers_folder, "rest", settings) as started:
        yield started


@pytest.fixture
def name(worker: Worker) -> Iterator[str]:
    """The name of a connector, removed afterwards."""
    own = f"c{next(_numbers)}"
    yield own
    worker.gone(own)

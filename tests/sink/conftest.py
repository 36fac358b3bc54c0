"""What the sink's tests share: one Spark session, a registry, and a sink that is fed batches by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sink.harness import Sink, local_session
from support.registry_server import RegistryServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves sockets of finished threads to the collector, which complains in whatever test runs then."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session with Kafka, Avro and Delta, configured as the job configures its own."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    """A schema registry on loopback."""
    with RegistryServer() as server:
        yield server


@pytest.fixture
def sink(spark: SparkSession, registry: RegistryServer, tmp_path: Path) -> Iterator[Sink]:
    """A sink over a fresh folder; ``sink.batch(...)`` is one micro-batch."""
    with Sink(spark, registry, tmp_path) as made:
        yield made

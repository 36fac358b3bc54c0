"""What `make dist` makes, as others install it: into an environment with nothing of this repository on its path."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer
from demo.rest import NO_TLS
from dist import make
from stack import GuardedProcess, Kafka
from stack.database import Database
from stack.environment import EXTENSIONS, ROOT
from stack.process import free_port, wait_until
from support.servers import execute, new_database

COMPILED = tuple(f"dblog.{folder.replace('/', '.')}.{name}" for folder, name in EXTENSIONS.items())


def packages(*names: str, folder: Path) -> Path:
    """The folder that `make dist` fills, of these packages alone; compiled code without its optimisation, which takes half of the time."""
    compiler = folder / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CC", "cc")} "$@" -O0\n')
    compiler.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(compiler))
        make(folder / "dist", packages=names)
    return folder / "dist"


class Clean:
    """A virtual environment of its own, and programs that run in it, in a folder that has nothing else."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "environment" / "bin"
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.programs.parent)], check=True)

    def install(self, what: str | Path) -> None:
        line = [sys.executable, "-m", "pip", f"--python={self.programs / 'python'}", "install", "--quiet", "--no-compile"]
        subprocess.run([*line, f"--constraint={ROOT / 'tests' / 'constraints.txt'}", str(what)], check=True)

    def run(self, program: str, *arguments: str | Path, status: int = 0) -> str:
        """What the program prints; AssertionError unless it ends with this status."""
        done = subprocess.run(
            [str(self.programs / program), *map(str, arguments)],
            cwd=self.elsewhere,
            env={name: text for name, text in {**os.environ, **self.environment}.items() if name != "SPARK_HOME"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def environment(self) -> dict[str, str]:
        """As in a shell in which the environment is activated."""
        path = f"{self.programs}:{os.environ['PATH']}"
        return {"PATH": path, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def clean(tmp_path: Path) -> Clean:
    return Clean(tmp_path)


@pytest.mark.long
def test_the_worker_of_the_wheel_reads_a_table_into_kafka_by_its_compiled_code(
    clean: Clean, kafka: Kafka, mariadb: Database, tmp_path: Path
):
    (wheel,) = packages("connect-worker", folder=tmp_path).glob("dblog-*.whl")
    assert re.search(r"-manylinux_\d+_\d+_\w+\.whl$", wheel.name)
    clean.install(wheel)
    found = clean.run(
        "python",
        "-c",
        f"import sys, dblog, {', '.join(COMPILED)}; print(*(sys.modules[name].__file__ for name in sys.argv[1:]))",
        "dblog",
        *COMPILED,
    )
    assert len(found.split()) == 3
    assert all(path.startswith(str(clean.programs.parent)) for path in found.split()), found

    database = new_database(mariadb, "packages")
    execute(mariadb, "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(50))", database=database)
    execute(mariadb, "INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace')", database=database)
    url = f"http://127.0.0.1:{free_port()}"
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in worker_properties(kafka, url).items()))

    line = [str(clean.programs / "dblog"), "worker", str(file)]
    with GuardedProcess(
        "the installed worker", line, log=tmp_path / "worker.log", env=clean.environment, cwd=clean.elsewhere, ready=lambda: healthy(url)
    ):
        plugins = httpx.get(f"{url}/connector-plugins", verify=NO_TLS).json()
        assert {"MySqlConnector", "MariaDbConnector"} <= {plugin["class"].rpartition(".")[2] for plugin in plugins}

        posted = httpx.post(f"{url}/connectors", json=connector(kafka, mariadb, database), timeout=60, verify=NO_TLS)
        assert posted.status_code == 201, posted.text
        assert names_in(kafka, f"packages.{database}.customers", records=2) == {"Ada", "Grace"}


def worker_properties(kafka: Kafka, url: str) -> dict[str, str]:
    kinds = ("config", "offset", "status")
    return {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "packages",
        "listeners": url,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.partitions": "3",
        "dblog.registry.enable": "false",
        **{f"{kind}.storage.topic": f"packages-{kind}" for kind in kinds},
        **{f"{kind}.storage.replication.factor": "1" for kind in kinds},
    }


def healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5, verify=NO_TLS).status_code == 200
    except httpx.TransportError:
        return False


def connector(kafka: Kafka, mariadb: Database, database: str) -> dict[str, object]:
    return {
        "name": "packages",
        "config": {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": "1",
            "database.hostname": mariadb.host,
            "database.port": str(mariadb.port),
            "database.user": mariadb.user,
            "database.password": mariadb.password,
            "database.server.id": "184091",
            "topic.prefix": "packages",
            "database.include.list": database,
            "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
            "schema.history.internal.kafka.topic": "packages-history",
        },
    }


def names_in(kafka: Kafka, topic: str, *, records: int) -> set[str]:
    """The names in the first records of the topic, which need not exist yet."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([topic])
    read: list[bytes] = []

    def polled() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) >= records

    try:
        wait_until(polled, timeout_s=60, what=f"{records} records in {topic}")
    finally:
        consumer.close()
    return {name for name in re.findall(r'"name": ?"(\w+)"', b"".join(read).decode()) if name in ("Ada", "Grace")}


@pytest.mark.long
def test_the_sink_runs_from_its_archive_by_spark_submit_and_from_its_wheel(clean: Clean, tmp_path: Path):
    pin = re.search(r'"(pyspark==[^"]+)"', (ROOT / "spark-sink" / "pyproject.toml").read_text())
    assert pin is not None
    clean.install(pin[1])
    clean.run("python", "-c", "import dblog_sink", status=1)

    made = packages("spark-sink", folder=tmp_path)
    submitted = clean.run("spark-submit", "--py-files", made / "dblog_sink.zip", made / "dblog_sink_run.py", "--help")
    assert "usage:" in submitted
    assert "park TABLE" in submitted

    (wheel,) = made.glob("dblog_sink-*.whl")
    clean.install(wheel)
    assert "park TABLE" in clean.run("dblog-sink", "--help")
    found = clean.run("python", "-c", "import dblog_sink; print(dblog_sink.__file__)")
    assert found.startswith(str(clean.programs.parent)), found

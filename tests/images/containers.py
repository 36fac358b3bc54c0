"""The images as their users run them: read-only, without capabilities, under a number that nobody knows. `make images-test` builds them and runs this file.

A connector and a sink run in them against the real broker and database, and rows arrive in Delta.
"""

import contextlib
import io
import json
import re
import shutil
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from chart.rendered import one, rendered
from deltalake.exceptions import TableNotFoundError
from demo.lake import Lake
from demo.rest import NO_TLS
from images.build import IMAGES, OWN_BASE
from stack import ObjectStore
from stack.process import free_port, wait_until
from support.containers import container, ended, engine, mounted_by_docker
from support.servers import execute, new_database

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"
WORKER, SINK = IMAGES
FORBIDDEN = re.compile(
    r"(^|/)(run/secrets/.+|root/\.(m2|cache|ssh)/.+|\.netrc|pip\.conf|settings\.xml|id_[a-z0-9]+|\.git/.+|usr/local/share/ca-certificates/.+|build/.+"
    r"|var/lib/apt/lists/.+_Packages|var/cache/apt/.+\.(deb|bin)|usr/bin/(gcc|cc|g\+\+|javac|mvn|[a-z0-9_]+-linux-gnu-gcc)(-[0-9]+)?)$"
)
"""What a builder lends and what only builds; `build` is the folder of the builder stages."""
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{60}")
TEXT_BYTES_MAX = 200_000
START_S_MAX = 3.0
STOP_S_MAX = {WORKER.name: 10.0, SINK.name: 45.0}
SPARK = """
from dblog_sink.delta.session import spark_session
session = spark_session("alone", {options})
session.range(3).write.format("delta").save("{path}")
print("rows:", session.read.format("delta").load("{path}").count(), "user:", session.sparkContext.sparkUser())
print("page:", session.sparkContext.uiWebUrl)
"""


@pytest.fixture(scope="module")
def client(servers_folder):
    with engine(servers_folder / "engine") as found:
        yield found


@pytest.fixture(params=IMAGES, ids=lambda image: image.name)
def image(request):
    return request.param


def test_an_image_says_what_it_is(client, image):
    described = client.images.get(image.tag).attrs["Config"]
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in described["Labels"].items()}

    assert (labels["title"], labels["version"], labels["licenses"]) == (image.name, image.version, "Apache-2.0")
    assert re.fullmatch(r"[0-9a-f]{40}", labels["revision"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", labels["created"])
    assert labels["base.name"]
    assert described["User"] == "10001:0"


def test_an_image_holds_nothing_that_its_builder_lent(client, image, tmp_path):
    history = json.dumps(client.images.get(image.tag).history())
    assert not re.search(r"(?i)password|token|BEGIN CERTIFICATE|index-url", history)

    for name, content in files_of(client, image.tag, tmp_path):
        assert not FORBIDDEN.search(name), name
        assert content is None or not KEY.search(content), name


def files_of(client, tag: str, folder: Path) -> Iterator[tuple[str, bytes | None]]:
    """The files of all layers, also of those that a later layer hides, with the content of the small ones."""
    saved = folder / "image.tar"
    with saved.open("wb") as out:
        for part in client.images.get(tag).save():
            out.write(part)
    with tarfile.open(saved) as archive:
        for layer in json.load(archive.extractfile("manifest.json"))[0]["Layers"]:
            if not archive.getmember(layer).isfile():
                continue
            with tarfile.open(fileobj=archive.extractfile(layer)) as tree:
                for member in tree:
                    if member.isfile():
                        yield member.name.removeprefix("./"), tree.extractfile(member).read() if member.size < TEXT_BYTES_MAX else None
    saved.unlink()


def test_an_image_trusts_whom_its_base_trusts(client, image):
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    base = client.images.get(image.tag).labels["org.opencontainers.image.base.name"]

    assert content(client, image.tag, bundle) == content(client, base, bundle)


def content(client, tag: str, path: str) -> bytes:
    made = client.containers.create(tag, ["true"])
    try:
        parts, _ = made.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
            return archive.extractfile(archive.getmembers()[0]).read()
    finally:
        made.remove()


@pytest.mark.parametrize(
    ("number", "arguments", "status", "said"),
    [
        (0, ["--version"], 0, WORKER.version),
        (0, ["options", "worker"], 0, "bootstrap.servers"),
        (0, ["health"], 1, "no worker answers"),
        (0, ["worker", "/nowhere.properties"], 1, "/nowhere.properties"),
        (1, ["--version"], 0, SINK.version),
        (1, ["jars"], 0, "/opt/dblog/share/dblog-sink/jars/delta-spark_4.1_2.13"),
        (1, ["submit", "--print", "--set", "topics=a"], 2, "kafka.bootstrap.servers"),
        (1, ["health"], 1, ""),
        (1, ["executor"], 1, "SPARK_DRIVER_URL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_answers_without_a_network(client, number, arguments, status, said):
    with container(client, IMAGES[number].tag, arguments, network_mode="none") as running:
        found = ended(running, limit_s=120)

    assert found[0] == status, found
    assert said in found[1]


def test_a_workers_file_is_checked_without_a_network(client, kafka, tmp_path):
    said = {}
    for name, properties in {"good": {}, "bad": {"offset.flush.interval.ms": "soon"}}.items():
        (tmp_path / name).mkdir()
        mounted = worker_settings(kafka, tmp_path / name, free_port(), "check", **properties)
        with container(
            client, WORKER.tag, ["worker", "--check", "/etc/dblog/worker.properties"], network_mode="none", volumes=mounted
        ) as running:
            said[name] = ended(running, limit_s=60)

    assert said["good"][0] == 0, said["good"]
    assert "can be used" in said["good"][1]
    assert said["bad"][0] == 1, said["bad"]
    assert "offset.flush.interval.ms" in said["bad"][1]


def test_the_doctor_of_the_image_looks_at_a_database(client, kafka, mariadb, tmp_path):
    database = new_database(mariadb, "doctor")
    execute(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    said = {}
    for name, more in {"good": {}, "bad": {"database.password": "wrong"}}.items():
        made = connector(kafka, mariadb, database)
        made["config"].update(more)
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.json").write_text(json.dumps(made))
        mounted = {str(tmp_path / name): {"bind": "/etc/dblog", "mode": "ro"}}
        with container(client, WORKER.tag, ["doctor", "/etc/dblog/shop.json"], network_mode="host", volumes=mounted) as running:
            said[name] = ended(running, limit_s=60)

    assert said["good"][0] == 0, said["good"]
    assert "the connector can run" in said["good"][1]
    assert said["bad"][0] == 1, said["bad"]
    assert "correct database.user and database.password" in said["bad"][1]


def test_spark_starts_and_writes_delta_without_a_network_under_a_number_without_a_name(client):
    mounted = mounted_by_docker(yaml.safe_load(COMPOSE.read_text())["services"]["sink"]["tmpfs"])
    (folder,) = mounted
    program = SPARK.format(options={}, path=f"{folder}/written")
    with container(client, SINK.tag, ["exec", "python", "-c", program], network_mode="none", tmpfs=mounted) as running:
        status, printed = ended(running, limit_s=300)

    assert status == 0, printed
    assert re.search("rows: 3 user: (dblog|54321)", printed), printed  # some engines give a number its own name
    assert "page: None" in printed  # whoever reaches Spark's page can stop what runs


def test_spark_keeps_delta_in_s3_as_the_chart_sets_it_with_what_the_image_has(client, tmp_path):
    s3 = {"enabled": True, "region": "us-east-1", "pathStyleAccess": True}
    sink = {"enabled": True, "topics": "a", "tablesPath": "s3a://lake/t", "checkpointPath": "s3a://lake/c"}
    with ObjectStore(tmp_path / "store") as store:
        found = one(rendered(sink={**sink, "s3": {**s3, "endpoint": store.address}}), "ConfigMap", "rel-dblog-sink")
        settings = yaml.safe_load(found["data"]["sink.yaml"])
        options = {name: text for name, text in settings.items() if name.startswith(("spark.hadoop.", "spark.delta."))}
        program = SPARK.format(options=options, path="s3a://lake/written")
        identity = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}  # of the pod: the chart is given no Secret
        with container(client, SINK.tag, ["exec", "python", "-c", program], network_mode="host", environment=identity) as running:
            status, printed = ended(running, limit_s=300)

    assert status == 0, printed
    assert "rows: 3" in printed


def test_an_orphan_is_reaped_by_the_first_process(client, kafka, tmp_path):
    with container(client, WORKER.tag, network_mode="host", volumes=worker_settings(kafka, tmp_path, free_port(), "orphans")) as running:
        running.exec_run(["sh", "-c", "(sleep 0.1 &)"])
        zombies = ["sh", "-c", "cat /proc/[0-9]*/stat | grep -c ') Z' || true"]
        wait_until(
            lambda: b"sleep" not in running.exec_run(["sh", "-c", "cat /proc/[0-9]*/comm"]).output, timeout_s=20, what="the orphan's end"
        )

        assert running.exec_run(zombies).output.strip() == b"0"
        assert running.exec_run(["sh", "-c", "cat /proc/1/comm"]).output.strip() == b"tini"


def worker_settings(kafka, folder: Path, port: int, group: str, **properties: str) -> dict[str, dict[str, str]]:
    """A mount of /etc/dblog with the worker's properties."""
    written = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": f"images-{group}",
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.partitions": "3",
        "dblog.registry.topic": f"images-{group}-schemas",
        "dblog.registry.replication.factor": "1",
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        **{f"{kind}.storage.topic": f"images-{group}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **properties,
    }
    settings = folder / "worker"
    settings.mkdir()
    (settings / "worker.properties").write_text("".join(f"{name}={text}\n" for name, text in written.items()))
    return {str(settings): {"bind": "/etc/dblog", "mode": "ro"}}


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, verify=NO_TLS).status_code < 500
    except httpx.TransportError:
        return False


def test_a_worker_answers_within_three_seconds_of_its_start(client, kafka, tmp_path):
    port = free_port()
    mounted = worker_settings(kafka, tmp_path, port, "start")
    taken = []
    for _ in range(4):  # the first one makes the topics; the best of the others is what the machine can do
        begun = time.monotonic()
        with container(client, WORKER.tag, network_mode="host", volumes=mounted) as running:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}/connectors"), timeout_s=60, what="the worker to answer", pause_s=0.02)
            taken.append(time.monotonic() - begun)
            running.stop(timeout=20)  # one that is killed keeps its place in the group until that expires

    print(f"start to the first answer of REST: {', '.join(f'{each:.1f} s' for each in taken)}")
    assert min(taken) <= START_S_MAX, taken


def test_rows_go_from_the_database_to_delta_through_both_images_which_end_when_asked(client, kafka, mariadb, tmp_path):
    database = new_database(mariadb, "images")
    execute(mariadb, "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(50))", database=database)
    execute(mariadb, "INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace'), (3, 'Jean')", database=database)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    lake, sink_settings = tmp_path / "lake", tmp_path / "sink"
    lake.mkdir()
    lake.chmod(0o777)  # for a number that this machine does not know
    sink_settings.mkdir()
    metrics = free_port()
    (sink_settings / "sink.yaml").write_text(
        f"name: shop\ntopics: images.{database}.customers\nkafka.bootstrap.servers: {kafka.bootstrap}\nregistry.url: {url}\n"
        f"target.path: /lake\ntrigger.interval.s: 1\nmetrics.listen: 127.0.0.1:{metrics}\n"
    )
    mounted = {str(lake): {"bind": "/lake", "mode": "rw"}, str(sink_settings): {"bind": "/etc/dblog", "mode": "ro"}}
    health = {"DBLOG_SINK_HEALTH_URL": f"http://127.0.0.1:{metrics}/metrics"}

    with (
        container(
            client,
            WORKER.tag,
            network_mode="host",
            volumes=worker_settings(kafka, tmp_path, port, "flow"),
            environment={"DBLOG_HEALTH_URL": url, "SOURCE_PASSWORD": mariadb.password},
        ) as worker,
        container(client, SINK.tag, network_mode="host", volumes=mounted, environment=health, mem_limit="2g") as sink,
    ):
        wait_until(lambda: healthy(worker), timeout_s=60, what="the worker's health")
        posted = httpx.post(f"{url}/connectors", json=connector(kafka, mariadb, database), timeout=60, verify=NO_TLS)
        assert posted.status_code == 201, posted.text
        wait_until(lambda: rows(lake, database) == {1: "Ada", 2: "Grace", 3: "Jean"}, timeout_s=240, what="the dump in Delta", pause_s=0.5)

        execute(mariadb, "UPDATE customers SET name = 'Ada L' WHERE id = 1", "DELETE FROM customers WHERE id = 2", database=database)
        wait_until(lambda: rows(lake, database) == {1: "Ada L", 3: "Jean"}, timeout_s=120, what="the changes in Delta", pause_s=0.5)
        wait_until(lambda: healthy(sink), timeout_s=60, what="the sink's health")
        assert b"-Xmx1228m" in sink.exec_run(["sh", "-c", "cat /proc/[0-9]*/cmdline"]).output  # 60 % of its 2 GiB

        for each, running in ((SINK, sink), (WORKER, worker)):
            begun = time.monotonic()
            running.stop(timeout=60)
            taken = time.monotonic() - begun
            running.reload()
            print(f"{each.name}: SIGTERM to the end {taken:.1f} s, exit status {running.attrs['State']['ExitCode']}")
            assert taken <= STOP_S_MAX[each.name]
            assert running.attrs["State"]["ExitCode"] in (0, 143)
        lines = [json.loads(line) for line in worker.logs(stderr=False).decode().splitlines()]
        assert lines
        assert all(line["event"] for line in lines)
        # The job's own lines: those of Spark's JVM before it has its settings are as Spark writes them.
        lines = [json.loads(line) for line in sink.logs().decode().splitlines() if line.startswith("{")]
        assert any(line["logger"].startswith("dblog_sink") and line["event"].startswith("stopped") for line in lines)


def test_the_demo_of_the_compose_file_runs_with_its_services_one_by_one(client, kafka, mariadb, tmp_path):
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    port, numbers = free_port(), free_port()
    shutil.copytree(ROOT / "docker" / "compose", tmp_path / "compose")
    here = {
        "kafka:9092": kafka.bootstrap,
        "0.0.0.0:8083": f"127.0.0.1:{port}",
        "worker-1:8083": f"127.0.0.1:{port}",
        "0.0.0.0:9404": f"127.0.0.1:{numbers}",
    }
    for name in ("worker.properties", "sink.yaml"):
        file = tmp_path / "compose" / name
        text = file.read_text()
        for there, address in here.items():
            text = text.replace(there, address)
        file.write_text(text)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake").chmod(0o777)

    def started(name: str, **environment: str):
        """The service as the file has it and Docker mounts it, but on this machine's network."""
        service = services[name]
        assert service["read_only"]
        assert "ports" not in service or all(each.startswith("127.0.0.1:") for each in service["ports"])
        mounts = {}
        for each in service["volumes"]:
            source, target, *mode = each.split(":")
            mounts[str((tmp_path / source.removeprefix("./")).absolute())] = {"bind": target, "mode": mode[0] if mode else "rw"}
        return container(
            client,
            service["image"].replace("${DBLOG_VERSION:-0.1.0}", WORKER.version),
            service.get("command"),
            entrypoint=service.get("entrypoint"),
            network_mode="host",
            volumes=mounts,
            tmpfs=mounted_by_docker(service["tmpfs"]),
            environment={**service.get("environment", {}), **environment},
            user=None,
        )

    told = {
        "DEMO_BROKERS": kafka.bootstrap,
        "DEMO_WORKER": f"http://127.0.0.1:{port}",
        "DEMO_NUMBERS": f"http://127.0.0.1:{numbers}/metrics",
    }
    told |= {"DEMO_SOURCES": "mariadb", "DEMO_MARIADB": f"127.0.0.1:{mariadb.port}", "DEMO_PASSWORD": mariadb.password}
    with (
        started("worker-1", DBLOG_HEALTH_URL=f"http://127.0.0.1:{port}", SOURCE_PASSWORD=mariadb.password) as worker,
        started("sink", DBLOG_SINK_HEALTH_URL=f"http://127.0.0.1:{numbers}/metrics"),
    ):
        wait_until(lambda: healthy(worker), timeout_s=60, what="the worker's health")
        with started("demo", **told) as demo:
            status, printed = ended(demo, limit_s=700)
        print(printed)
        assert status == 0, printed
        assert "mariadb: an update and a delete were in the lake" in printed
        assert '"op"' in printed


def healthy(running) -> bool:
    """What the image's own health check answers; run here, for not every engine runs it by itself."""
    kind, *program = running.attrs["Config"]["Healthcheck"]["Test"]
    assert kind == "CMD"
    return running.exec_run(program).exit_code == 0


def connector(kafka, mariadb, database: str) -> dict[str, object]:
    return {
        "name": "images",
        "config": {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": "1",
            "database.hostname": mariadb.host,
            "database.port": str(mariadb.port),
            "database.user": mariadb.user,
            "database.password": mariadb.password,
            "database.server.id": "184077",
            "topic.prefix": "images",
            "database.include.list": database,
            "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
            "schema.history.internal.kafka.topic": "images-history",
        },
    }


def rows(lake: Path, database: str) -> dict[int, str]:
    """The Delta table's rows, read without Spark; none while there is no table."""
    with contextlib.suppress(TableNotFoundError):
        return dict(Lake(lake).read_rows(database, "customers", ["id", "name"]))
    return {}


def test_the_base_made_here_has_the_name_that_the_builder_falls_back_to(client, image):
    base = client.images.get(image.tag).labels["org.opencontainers.image.base.name"]

    assert base == OWN_BASE or "@sha256:" in base

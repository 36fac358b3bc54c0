"""Servers of the stack in containers, by the engine of this machine. `make images-test` runs this file.

The images are made here, of Debian's packages and Kafka's jars, so that no registry of images need be reached.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo.destination import DeltaLake
from demo.flow import Kill, Run, Scenario
from demo.progress import Progress
from demo.shop import Sizes
from stack import Kafka, MariaDb, MySql
from stack.containers import container
from stack.database import Database
from stack.process import wait_until
from support.containers import engine, podman_settings, running_engine
from support.server_images import image_of
from support.servers import check_that_a_stop_keeps_records, execute, new_database, printed_by, started

import docker

SERVERS = ("mariadb", "mysql", "kafka")


@pytest.fixture(scope="module", autouse=True)
def in_containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers are started by an engine, with images that are here."""
    folder = tmp_path_factory.mktemp("images")
    with pytest.MonkeyPatch.context() as patch:
        (folder / "containers.conf").write_text(podman_settings())
        patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
        using = running_engine()
        patch.setenv("ENGINE", using.program)
        for server in SERVERS:
            patch.setenv(f"DBLOG_{server.upper()}_IMAGE", image_of(server, using, folder / server))
        patch.setenv("DBLOG_STACK", "containers")
        yield


@pytest.fixture(scope="module")
def client(servers_folder: Path) -> Iterator[docker.DockerClient]:
    with engine(servers_folder / "engine-of-servers") as found:
        yield found


def containers(client: docker.DockerClient, server: str, folder: Path) -> list[str]:
    """What the engine knows of a server's container, whether it runs or not."""
    name = container(server, folder).name
    return [each.name for each in client.containers.list(all=True) if each.name == name]


@pytest.mark.parametrize("kind", [MariaDb, MySql])
def test_a_database_in_a_container_keeps_its_rows_its_port_and_its_options(
    kind: type[Database], client: docker.DockerClient, own_folder: Path
):
    with started(kind(own_folder, options={"server_id": 77})) as server:
        assert containers(client, server.flavor, own_folder)
        assert execute(server, "SELECT @@binlog_row_metadata, @@binlog_format, @@server_id") == [("FULL", "ROW", 77)]
        database = new_database(server)
        execute(server, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", database=database)

        server.kill()
        assert not containers(client, server.flavor, own_folder)
        server.start()
        assert execute(server, "SELECT id FROM a", database=database) == [(1,)]
        server.restart(options={"binlog_row_image": "MINIMAL"})
        assert execute(server, "SELECT id, @@binlog_row_image FROM a", database=database) == [(1, "MINIMAL")]

        assert server.stop() == 0
        assert not containers(client, server.flavor, own_folder)


def test_a_broker_in_a_container_keeps_its_records_and_its_port(client: docker.DockerClient, own_folder: Path):
    with started(Kafka(own_folder, options={"num.partitions": 1}, heap="512m")) as kafka:
        assert containers(client, "kafka", own_folder)
        check_that_a_stop_keeps_records(kafka)
    assert not containers(client, "kafka", own_folder)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_container_ends_with_the_command_that_started_it(how: signal.Signals, client: docker.DockerClient):
    command = subprocess.Popen([sys.executable, "-m", "stack", "up", "mariadb"], stdout=subprocess.PIPE, text=True)
    with command:
        folder = Path(printed_by(command)["folder"]) / "mariadb"
        assert containers(client, "mariadb", folder)

        command.send_signal(how)

    wait_until(lambda: not containers(client, "mariadb", folder), timeout_s=60, what="the container to end with the command")
    if how == signal.SIGKILL:
        shutil.rmtree(folder.parent)  # nobody was left to do it
    assert not folder.parent.exists()


def test_a_container_that_a_killed_guard_has_left_is_replaced_at_the_next_start(client: docker.DockerClient, own_folder: Path):
    with started(MariaDb(own_folder)) as server:
        guard = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not server.running, timeout_s=20, what="the guard's end")
        assert containers(client, "mariadb", own_folder)

        server.start()

        assert execute(server, "SELECT 1") == [(1,)]
    assert not containers(client, "mariadb", own_folder)


def test_the_demo_s_way_into_delta_stands_on_servers_in_containers(client: docker.DockerClient, own_folder: Path):
    scenario = Scenario(
        name="contained",
        sizes=Sizes(customers=3_000, orders=4_000, products=500, everything=200),
        kills=(Kill(target="task", dump_share=0.2), Kill(target="worker", log_s=1.0)),
        rate_per_s=200,
        changes_max=2_000,
        log_s=3.0,
        chunk_rows=500,
    )
    folder = own_folder / "run"
    with (
        started(MariaDb(own_folder / "mariadb")) as source,
        started(Kafka(own_folder / "kafka")) as kafka,
        Progress("contained") as progress,
    ):
        assert containers(client, "mariadb", source.folder)
        assert containers(client, "kafka", kafka.folder)
        folder.mkdir()
        outcome = Run(scenario, source, kafka, DeltaLake(kafka, folder, prefix=scenario.name), folder, progress).run()

    assert [str(text) for result in outcome.results for text in (*result.columns_differing, *result.examples)] == []
    assert outcome.identical

"""Which way a server is started, and the command line of the second one: a container of a pinned image, where there is no other way or it is asked for."""

import re
from pathlib import Path

import pytest
import yaml
from stack import Kafka, MariaDb, MySql, Postgres, Postgres17, Unavailable
from stack.containers import IMAGES, container
from stack.database import Database
from stack.environment import ROOT

ENGINE = """#!/bin/sh
printf '%s\\n' "$*" >> "$0.log"
case "$1 $2" in {refused}) exit 1;; esac
"""
"""A program called like an engine, which says yes to everything but what is refused, and notes what it is asked."""


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Debian's packages, Java and servers; the folder of its programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("DBLOG_CACHE", str(tmp_path / "cache"))
    for name in ("DBLOG_DEBIAN_MIRROR", "DBLOG_STACK", "ENGINE", *(f"DBLOG_{server.upper()}_IMAGE" for server in IMAGES)):
        monkeypatch.delenv(name, raising=False)
    for module in ("mariadb", "mysql"):
        monkeypatch.setattr(f"stack.{module}.SYSTEM_FOLDERS", str(programs))
    monkeypatch.setattr("stack.postgres.INSTALLED", str(programs))
    return programs


def engine(programs: Path, name: str, *, refused: str = "nothing") -> None:
    program = programs / name
    program.write_text(ENGINE.format(refused=refused))
    program.chmod(0o755)


def test_the_images_are_those_of_the_compose_file():
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]

    of_compose = {server: image for server, image in IMAGES.items() if not server.startswith("postgres")}
    assert {server: services[server]["image"] for server in of_compose} == of_compose


@pytest.mark.parametrize(("kind", "program"), [(MariaDb, "mariadbd"), (MySql, "mysqld")])
def test_a_database_that_the_machine_cannot_have_is_run_by_an_engine(kind: type[Database], program: str, bare: Path, tmp_path: Path):
    engine(bare, "docker")
    server = kind(tmp_path / "server")

    found = server.program()

    line = " ".join(found.command)
    assert line.startswith("docker run --pull=never --name=dblog-server-")
    assert f"--publish=127.0.0.1:{server.port}:{server.port} " in line
    assert f"--volume={tmp_path}/server:{tmp_path}/server " in line
    assert line.endswith(f"--entrypoint={program} {IMAGES[kind.flavor]}")
    assert "--rm" not in found.command
    assert found.container is not None
    assert "--rm" in found.container.command(program, once=True)


def test_behind_published_ports_a_server_takes_connections_from_outside_its_container(bare: Path, tmp_path: Path):
    engine(bare, "docker")
    database, broker = MariaDb(tmp_path / "db"), Kafka(tmp_path / "broker")
    for server in (database, broker):
        (server.folder / "data").mkdir(parents=True)
    (broker.folder / "data" / "meta.properties").touch()

    argv, of_broker = database.prepare(), broker.prepare()

    assert argv[-1] == f"--defaults-file={database.defaults}"
    assert "\nbind_address=0.0.0.0\n" in database.defaults.read_text()
    assert "'root'@'%'" in (database.folder / "administrator.sql").read_text()
    assert database.password not in " ".join(argv)
    assert of_broker[of_broker.index("-cp") + 1] == "/opt/kafka/libs/*"
    properties = (broker.folder / "server.properties").read_text()
    assert f"\nlisteners=PLAINTEXT://0.0.0.0:{broker.port},CONTROLLER://127.0.0.1:" in properties
    assert f"\nadvertised.listeners=PLAINTEXT://127.0.0.1:{broker.port}\n" in properties


def test_podman_gives_a_server_the_network_of_this_machine_where_it_stays_on_loopback(bare: Path, tmp_path: Path):
    engine(bare, "podman")
    server = MariaDb(tmp_path / "db")
    server.data.mkdir(parents=True)

    argv = server.prepare()

    assert argv[0] == "podman"
    assert "--network=host" in argv
    assert not [part for part in argv if part.startswith("--publish")]
    assert "\nbind_address=127.0.0.1\n" in server.defaults.read_text()
    assert "'root'@'127.0.0.1'" in (server.folder / "administrator.sql").read_text()


def test_what_an_earlier_container_has_left_is_removed_before_a_start_and_by_the_guard(bare: Path, tmp_path: Path):
    engine(bare, "podman")
    server = MySql(tmp_path / "db")
    server.data.mkdir(parents=True)

    argv = server.prepare()

    (name,) = (part.removeprefix("--name=") for part in argv if part.startswith("--name="))
    assert server.afterwards == ["podman", "rm", "--force", "--volumes", name]
    assert (bare / "podman.log").read_text().splitlines()[-1] == f"rm --force --volumes {name}"


def test_an_engine_that_does_not_answer_is_passed_over(bare: Path, tmp_path: Path):
    engine(bare, "docker", refused="info*")
    engine(bare, "podman")

    assert container("mysql", tmp_path).engine == "podman"


def test_an_image_is_fetched_once_and_may_be_another(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engine(bare, "podman", refused='"image inspect"')
    monkeypatch.setenv("DBLOG_MYSQL_IMAGE", "registry.example/mysql:8")

    assert container("mysql", tmp_path).image == "registry.example/mysql:8"
    assert "pull --quiet registry.example/mysql:8" in (bare / "podman.log").read_text()

    engine(bare, "podman")
    (bare / "podman.log").unlink()
    container("mysql", tmp_path)
    assert "pull" not in (bare / "podman.log").read_text()


def test_an_image_that_cannot_be_fetched_is_named_with_the_variable_for_another(bare: Path, tmp_path: Path):
    engine(bare, "podman", refused='"image inspect"|pull*')

    with pytest.raises(
        Unavailable, match=r"podman cannot fetch the image docker.io/library/mysql:[\d.]+; name another one in DBLOG_MYSQL_IMAGE"
    ):
        MySql(tmp_path).program()


@pytest.mark.parametrize("kind", [MariaDb, MySql, Postgres, Kafka])
def test_without_an_engine_every_way_is_named(kind: type[Database] | type[Kafka], bare: Path, tmp_path: Path):
    with pytest.raises(Unavailable, match=r"(?s)(so that \w+ is on the PATH|a JDK 17 .*)\. Or install Docker or Podman \("):
        kind(tmp_path).program()


def test_containers_that_are_asked_for_are_used_where_there_are_packages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    engine(programs, "podman")
    monkeypatch.setenv("ENGINE", str(programs / "podman"))
    monkeypatch.setenv("DBLOG_STACK", "containers")
    for server in IMAGES:
        monkeypatch.delenv(f"DBLOG_{server.upper()}_IMAGE", raising=False)

    assert Kafka(tmp_path / "a").program()[0][-1] == IMAGES["kafka"]
    assert MariaDb(tmp_path / "b").program().command[-1] == IMAGES["mariadb"]
    assert MySql(tmp_path / "c").program().command[-1] == IMAGES["mysql"]


@pytest.mark.parametrize("kind", [Postgres, Postgres17])
@pytest.mark.parametrize("root", [True, False])
def test_postgres_of_an_image_is_not_run_as_root_and_each_version_has_its_image(
    kind: type[Postgres], root: bool, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    engine(bare, "podman")
    engine(bare, "setpriv")
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    server = kind(tmp_path / "db")
    server.data.mkdir(parents=True)

    argv = server.prepare()

    program = argv[argv.index(IMAGES[server.image]) + 1 :]
    assert f"--entrypoint={'setpriv' if root else 'postgres'}" in argv
    assert ("--clear-groups" in program, "postgres" in program) == (root, root)
    assert program[-4:] == ["-D", str(server.data), "-c", f"config_file={server.defaults}"]
    assert "--env=PGPASSWORD" in argv
    assert server.password not in " ".join(argv)
    assert server.afterwards == ["podman", "rm", "--force", "--volumes", server.program().container.name]


@pytest.mark.parametrize(
    ("name", "value", "said"), [("DBLOG_STACK", "vm", "it may be containers, or unset"), ("ENGINE", "/no/buildah", "docker or podman")]
)
def test_a_choice_that_is_none_is_refused(name: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DBLOG_STACK", "containers")
    monkeypatch.setenv(name, value)

    with pytest.raises(Unavailable, match=rf"{name}={re.escape(value)} is not .*{said}"):
        MariaDb(tmp_path).program()

"""The compose file by the compose specification, and what it promises: pinned images, an order by health, doors on loopback only."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose
from dblog.config.properties import read_properties
from dblog.config.worker import read_worker_config
from dblog.rest.access import need
from dblog.rest.identity import Identity
from support.containers import mounted_by_docker
from support.worker import Worker, until

FOLDER = Path(__file__).parents[2] / "docker"
FILE = FOLDER / "compose.yaml"
OWN = {"worker-1", "worker-2", "sink", "demo", "lake"}


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load(FILE.read_text())["services"]


def test_the_file_is_what_the_specification_allows():
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", FILE.read_text())  # as an engine does first

    compose = PyCompose.from_json(json.dumps(yaml.safe_load(text)))

    assert {"kafka", "mariadb", "mysql", "prometheus", "grafana"} | OWN == set(compose.service_names())


def test_a_misspelt_key_would_be_refused():
    with pytest.raises(ValueError, match="imagee"):
        PyCompose.from_yaml("services:\n  a:\n    imagee: b:1\n")


def test_every_image_has_a_version_and_ours_the_packages(services):
    for name, service in services.items():
        assert re.fullmatch(
            r"docker\.io/[a-z/]+:v?\d+\.\d+\.\d+" if name not in OWN else r"dblog-(worker|sink):\$\{DBLOG_VERSION:-0\.1\.0\}",
            service["image"],
        ), name


def test_doors_are_on_loopback_only(services):
    assert [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", ()))


def test_what_waits_for_another_waits_for_its_health(services):
    image_checks = {"worker-1", "sink"}
    for name, service in services.items():
        waited = service.get("depends_on", {})
        for other, how in waited.items() if isinstance(waited, dict) else ():
            assert how["condition"] in ("service_healthy", "service_completed_successfully"), name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other] or other in image_checks, (
                    f"{name} waits for the health of {other}, which has no check"
                )


def test_every_file_that_is_mounted_is_there(services):
    mounted = [each.split(":")[0] for service in services.values() for each in service.get("volumes", ()) if each.startswith(".")]

    assert mounted
    assert [each for each in mounted if not (FOLDER / each).exists()] == []


def test_our_services_are_as_closed_as_in_kubernetes(services):
    for name in ("worker-1", "worker-2", "sink"):
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]


def test_spark_may_load_the_libraries_that_it_unpacks_where_docker_mounts_the_sinks_folder(services):
    (options,) = mounted_by_docker(services["sink"]["tmpfs"]).values()

    assert "noexec" not in options.split(",")
    assert {"nosuid", "nodev"} <= set(options.split(","))
    for name in ("worker-1", "worker-2", "demo"):  # which load nothing from there
        assert mounted_by_docker(services[name]["tmpfs"]) == {"/tmp": "noexec,nosuid,nodev,mode=1777"}  # noqa: S108


def test_the_demos_container_may_make_connectors():
    settings = read_worker_config(read_properties(FOLDER / "compose" / "worker.properties")).settings
    wanted = need("PUT", "/connectors/demo-mysql/config")

    other_container = {"type": "http", "client": ("172.18.0.9", 1), "server": ("172.18.0.3", 8083)}
    who = Identity(settings).without_header(other_container)

    assert who.grants.may(wanted.role, wanted.connector)


def test_the_demo_asks_a_standby_and_the_leader_gets_the_connector(kafka, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_PASSWORD", "demo")
    spec = importlib.util.spec_from_file_location("demo_of_compose", FOLDER / "compose" / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    of_compose = read_properties(FOLDER / "compose" / "worker.properties")
    settings = {
        name: text for name, text in of_compose.items() if name.startswith("config.providers") or name == "dblog.rest.without.login"
    }
    with Worker(kafka, tmp_path, "compose", name="worker-1", **settings) as first:
        until(lambda: first.client.get("/health/ready").json().get("role") == "leader")
        with Worker(kafka, tmp_path, "compose", name="worker-2", **settings) as second:
            until(lambda: second.client.get("/health/ready").json().get("role") == "standby")
            monkeypatch.setattr(demo, "WORKER", second.url)

            demo.connect("mysql")

            first.wait_for("demo-mysql", "RUNNING", "RUNNING")
            assert first.client.get("/connectors/demo-mysql/config").json()["topic.prefix"] == "demo_mysql"

"""The values for production, and the page that leads there from a first look."""

import functools
import itertools
import json
import re

import kubernetes_validate
import pytest
import yaml
from chart.rendered import CHART, MAJORS, NEWEST, OLDEST, PRODUCTION, helm, objects_of, one, pod_specs, template
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.config.properties import parse_properties
from dblog.config.unknown_keys import misspelt_worker_keys, unknown_keys
from dblog.config.worker import read_worker_config
from dblog_sink.config import job_options

PAGE = CHART / "OWN-BROKER.md"
OF_OPERATORS = {"PodMonitor", "PrometheusRule"}


@functools.cache
def production(major=4):
    done = template("--values", PRODUCTION, major=major, release="dblog")
    assert done.returncode == 0, done.stderr
    return objects_of(done.stdout)


def test_every_line_has_its_reason():
    lines = PRODUCTION.read_text().splitlines()
    without = [
        line
        for before, line in itertools.pairwise(lines)
        if re.match(r" *[\w.-]+: \S|\s*- \{", line) and not before.lstrip().startswith("#") and "[" not in line
    ]

    assert without == []


@pytest.mark.parametrize("major", MAJORS)
def test_they_install_without_a_warning(major):
    done = helm("lint", "--strict", CHART, "--values", PRODUCTION, major=major)
    assert done.returncode == 0, done.stdout + done.stderr
    for item in production(major):
        if item["kind"] not in OF_OPERATORS:
            for version in (OLDEST, NEWEST):
                kubernetes_validate.validate(item, version, strict=True)

    printed = helm("install", "dblog", CHART, "--values", PRODUCTION, "--dry-run=client").stdout.partition("\nNOTES:")[2]
    assert "dblog" in printed
    assert "WARNING" not in printed


def test_the_programs_take_their_files():
    found = production()
    worker = parse_properties(one(found, "ConfigMap", "dblog-worker")["data"]["worker.properties"])
    sink = yaml.safe_load(one(found, "ConfigMap", "dblog-sink")["data"]["sink.yaml"])
    (connector,) = one(found, "ConfigMap", "dblog-connectors")["data"].values()
    config = json.loads(connector)["config"]

    assert misspelt_worker_keys(worker) == {}
    read_worker_config({key: re.sub(r"\$\{[^}]*\}", "x", value) for key, value in worker.items()})
    job_options.parse({key: re.sub(r"\$\{[^}]*\}", "x", str(value)) for key, value in sink.items()})
    options = find_connector(config["connector.class"]).options
    assert unknown_keys(options, config) == {}
    parse_connector(options, {"name": "shop", **config})
    assert {value for key, value in worker.items() if key.endswith("replication.factor")} == {"3"}
    assert re.fullmatch(sink["topics.pattern"], f"{config['topic.prefix']}.{config['database.include.list']}.orders")


def test_nothing_of_a_first_look_is_in_them():
    assert not [item for item in production() if "broker" in item["metadata"]["name"]]
    assert not [spec for spec in pod_specs(production()).values() if "initContainers" in spec]
    values = yaml.safe_load(PRODUCTION.read_text())
    del values["kafka"]["bootstrapServers"]
    refused = template(values=values)
    assert refused.returncode != 0
    assert "kafka.bootstrapServers is required" in refused.stderr


def test_every_secret_that_they_name_is_made_on_the_page():
    named = {
        source["secret"]["name"]
        for spec in pod_specs(production()).values()
        for volume in spec["volumes"]
        for source in volume.get("projected", {}).get("sources", [])
    }

    assert named == {*re.findall(r"create secret generic (\S+)", PAGE.read_text()), "dblog-rest-tls"}
    assert "`dblog-rest-tls`" in PAGE.read_text()


def test_the_commands_of_the_page_name_what_the_first_look_and_the_values_for_production_have():
    page = PAGE.read_text()
    look = objects_of(template("--set", "sink.enabled=true", release="dblog").stdout)
    both = {f"{item['kind'].lower()}/{item['metadata']['name']}" for item in (*look, *production())}

    assert set(re.findall(r"(?:statefulset|deployment|service)/[\w-]+", page)) <= both
    (claims,) = re.findall(r"delete pvc (.*)$", page, re.MULTILINE)
    template_name = one(look, "StatefulSet", "-broker")["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    assert set(claims.split()) == {f"{template_name}-dblog-broker-0", one(look, "PersistentVolumeClaim")["metadata"]["name"]}
    for command in re.findall(r"^    (helm -n dblog upgrade .*)$", page, re.MULTILINE):
        assert "--values values-production.yaml" in command

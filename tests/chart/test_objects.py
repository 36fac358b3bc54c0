"""What the chart makes: every object is valid for the oldest and the newest Kubernetes, and each promise of the chart is looked at in the objects."""

import json
import os
import re
import subprocess
import time
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import typer
import yaml
from chart.rendered import (
    CHART,
    CONNECTOR_CLASS,
    MAJORS,
    NEWEST,
    OLDEST,
    VALUES,
    container,
    helm,
    objects,
    one,
    pod_specs,
    rendered,
    text,
    worker,
)
from dblog.apply.wanted import read_wanted
from dblog.cli import app
from dblog.config.properties import parse_properties
from dblog.config.unknown_keys import misspelt_worker_keys
from dblog.config.worker import read_worker_config
from dblog.dialects.mysql.binlog.items import EVENT_BYTES_MAX
from dblog.rest.leaders import WORKERS, fault_of
from dblog_sink.config import job_options, lake_paths
from dblog_sink.job.memory import PERCENT

NAMES = [file.name.removesuffix("-values.yaml") for file in VALUES]
OF_OPERATORS = {"PodMonitor", "PrometheusRule", "HTTPRoute", "SparkApplication"}
"""Kinds whose schemas Kubernetes does not have."""
MASKED = re.compile(r'("?(?:users\.properties|(?:root-)?password|administrator\.sql)"?: )"[^"]*"')
each = pytest.mark.parametrize("name", NAMES)
WHOLE = objects  # by name
A_SINK = {"enabled": True, "topics": "a", "tablesPath": "s3a://b/t", "checkpointPath": "s3a://b/c", "s3": {"enabled": True}}


@pytest.fixture(scope="module")
def minimal():
    return objects("minimal")


@pytest.fixture(scope="module")
def everything():
    return objects("everything")


def properties_of(found):
    return parse_properties(one(found, "ConfigMap", "rel-dblog-worker")["data"]["worker.properties"])


# ---- all objects


@each
def test_both_majors_of_helm_render_the_same(name):
    ours, theirs = (MASKED.sub(r"\1", text(name, major)) for major in MAJORS)

    without_checksums = re.compile(r"checksum/secrets: .*")
    assert sorted(without_checksums.sub("", ours).split("---")) == sorted(without_checksums.sub("", theirs).split("---"))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@each
def test_every_object_is_strictly_valid(name, version):
    for item in objects(name):
        if item["kind"] not in OF_OPERATORS:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_validation_sees_a_key_that_is_misspelt(minimal):
    item = {**one(minimal, "StatefulSet"), "sepc": {}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(item, NEWEST, strict=True)


def test_names_and_labels_are_texts_whatever_a_release_is_called():
    done = helm("template", "y", CHART, "--set", "kafka.bootstrapServers=b:1", "-n", "1")

    for item in yaml.safe_load_all(done.stdout):
        assert all(isinstance(text, str) for text in (item["metadata"]["name"], *item["metadata"]["labels"].values()))


@each
def test_every_object_has_the_labels_and_is_in_the_namespace(name):
    for item in objects(name):
        if item["metadata"]["name"].endswith("-more"):
            continue  # of extraDeploy
        assert item["metadata"]["labels"]["app.kubernetes.io/instance"] == "rel"
        assert item["metadata"]["namespace"] == "space"


def test_common_labels_and_annotations_reach_every_object_and_pod(everything):
    for item in everything:
        if not item["metadata"]["name"].endswith("-more"):
            assert item["metadata"]["labels"]["team"] == "data"
            assert item["metadata"]["annotations"]["contact"] == "data@example.org"
    assert one(everything, "StatefulSet")["spec"]["template"]["metadata"]["labels"]["team"] == "data"


# ---- what every pod asks for; how it is closed in: test_ways_out.py

ALLOWED: dict[tuple[str, str], str] = {
    ("probes", "rel-dblog-test"): "the test pod runs once and ends",
    ("probes", "rel-dblog-sink of a Job"): "a Job ends by itself",
    ("probes", "rel-dblog-shop-writer"): "it serves nobody, and ends when it cannot write",
}
"""What a pod may do against the rule, and why."""


def violations(name, spec, *, diagnostic=False):
    """Rules that a pod breaks."""
    for found in spec["containers"]:
        if "busybox" in found["image"]:
            continue  # of the user
        checks = {
            "requests": {"cpu", "memory", "ephemeral-storage"} <= set(found["resources"]["requests"])
            and "memory" in found["resources"]["limits"],
            "no cpu limit": "cpu" not in found["resources"]["limits"],
            "tag": "@sha256:" in found["image"] or not found["image"].endswith((":latest", ":nightly")),
            "probes": {"livenessProbe", "readinessProbe"} <= set(found) or diagnostic,
        }
        yield from ((rule, name) for rule, holds in checks.items() if not holds)


@each
def test_every_pod_keeps_the_policies(name):
    diagnostic = name == "job"
    for (kind, pod), spec in pod_specs(objects(name)).items():
        shown = f"{pod} of a Job" if kind in ("Job", "CronJob") else pod
        assert [found for found in violations(shown, spec, diagnostic=diagnostic) if found not in ALLOWED] == []


def test_the_policies_see_what_is_wrong(minimal):
    spec = json.loads(json.dumps(worker(minimal)))
    spec["containers"][0]["resources"]["limits"]["cpu"] = "1"
    spec["containers"][0]["image"] = "dblog-worker:latest"

    assert {rule for rule, _ in violations("x", spec)} == {"no cpu limit", "tag"}


def test_there_are_no_rights_but_for_a_driver_of_executors(minimal, everything):
    assert not [item for item in minimal if "Role" in item["kind"]]
    role = one(everything, "Role")
    assert [item["kind"] for item in everything if "Role" in item["kind"]] == ["Role", "RoleBinding"]
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"pods", "configmaps"}
    assert "*" not in str(role["rules"])


# ---- images


def test_a_digest_wins_and_a_global_registry_reaches_every_image(everything):
    images = {found["image"] for spec in pod_specs(everything).values() for found in spec["containers"] if "busybox" not in found["image"]}

    digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
    assert images == {f"registry.example/mirror/dblog-worker@{digest}", "registry.example/mirror/dblog-sink:0.1.0"}
    assert all({"name": "pull"} in spec["imagePullSecrets"] for spec in pod_specs(everything).values())


def test_without_values_the_tag_is_the_version(minimal):
    assert container(minimal, "StatefulSet", "-worker")["image"] == "dblog-worker:0.1.0"
    assert container(minimal, "Pod", "-test")["image"] == "dblog-worker:0.1.0"


# ---- secrets


def test_passwords_of_values_are_in_secrets_alone():
    canaries = ("canary-kafka-password", "canary-rest-password")
    for item in objects("job"):
        if item["kind"] != "Secret":
            assert not [canary for canary in canaries if canary in json.dumps(item)], item["kind"]
    notes = helm("install", "rel", CHART, "-f", CHART / "ci" / "job-values.yaml", "--dry-run=client").stdout.partition("\nNOTES:")[2]
    assert "WARNING: allowInlineSecrets" in notes
    assert not [canary for canary in canaries if canary in notes]


@each
def test_secrets_are_files_that_others_cannot_read(name):
    for spec in pod_specs(objects(name)).values():
        for volume in spec.get("volumes", []):
            assert "secret" not in volume
            if "projected" in volume:
                assert volume["projected"]["defaultMode"] == 0o440


def test_the_workers_providers_reach_their_folders_alone(everything):
    found = properties_of(everything)

    paths = {key: value for key, value in found.items() if key.endswith("allowed.paths")}
    assert paths == {
        "config.providers.own.param.allowed.paths": "/etc/dblog/own",
        "config.providers.dir.param.allowed.paths": "/etc/dblog/secrets",
        "config.providers.file.param.allowed.paths": "/etc/dblog/secrets",
    }
    assert found["dblog.config.providers.own"] == "own", "whoever may post a connector must not read the worker's own logins"
    assert found["config.providers.env.param.allowlist.pattern"] == "DBLOG_POD_NAME|DBLOG_ADVERTISED_HOST"
    mounts = {mount["mountPath"] for mount in worker(everything)["containers"][0]["volumeMounts"]}
    assert {"/etc/dblog/own", "/etc/dblog/secrets/shop-db"} <= mounts


def test_a_configuration_that_changes_replaces_the_pods():
    def checksums(**values):
        found = rendered(allowInlineSecrets=True, worker={"login": {"password": "a"}, **values})
        return one(found, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]

    base = checksums()
    assert checksums() == base
    assert checksums(config={"producer.linger.ms": 5})["checksum/config"] != base["checksum/config"]
    assert checksums(login={"password": "b"})["checksum/secrets"] != base["checksum/secrets"]
    assert len(base["checksum/secrets"]) == 4  # too short to find a password by


# ---- what programs read


@each
def test_the_worker_takes_its_file(name):
    found = properties_of(objects(name))

    assert misspelt_worker_keys(found) == {}
    read_worker_config({key: re.sub(r"\$\{[^}]*\}", "x", value) for key, value in found.items()})


@pytest.mark.parametrize("name", [name for name in NAMES if name != "minimal"])
def test_the_sink_takes_its_file(name, tmp_path):
    file = tmp_path / "sink.yaml"
    file.write_text(re.sub(r"\$\{[^}]*\}", "x", one(objects(name), "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"]))

    job_options.parse(job_options.read_file(file))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_every_way_to_log_in_at_kafka(protocol, mechanism):
    kafka = {"securityProtocol": protocol}
    if "SASL" in protocol:
        kafka["sasl"] = {"mechanism": mechanism, "existingSecret": "login", "oauth": {"tokenEndpointUrl": "https://id.example/t"}}
    if protocol.endswith("SSL"):
        kafka["tls"] = {"existingSecret": "tls", "certKey": "tls.crt", "keyKey": "tls.key"}
    found = properties_of(rendered(kafka=kafka))

    assert found["security.protocol"] == protocol
    assert ("sasl.mechanism" in found) == ("SASL" in protocol)
    if protocol.endswith("SSL"):
        assert found["ssl.endpoint.identification.algorithm"] == "https"
        assert found["ssl.ca.location"] == "/etc/dblog/own/kafka/ca.crt"
        assert found["ssl.certificate.location"] == "/etc/dblog/own/kafka/tls.crt"
    settings = read_worker_config({key: re.sub(r"\$\{[^}]*\}", "x", value) for key, value in found.items()}).client_settings("producer")
    assert settings["security.protocol"] == protocol


def test_a_registry_of_others_has_login_and_authorities(everything):
    found = properties_of(everything)

    assert found["dblog.registry.enable"] == "false"
    for converter in ("key.converter", "value.converter"):
        assert found[f"{converter}.schema.registry.url"] == "https://registry.example"
        assert (
            found[f"{converter}.basic.auth.user.info"] == "${own:/etc/dblog/own/registry:username}:${own:/etc/dblog/own/registry:password}"
        )
        assert found[f"{converter}.schema.registry.ssl.truststore.location"] == "/etc/dblog/own/registry/ca.crt"


# ---- connectors


def test_connectors_are_files_without_secrets_that_the_program_reads(everything, tmp_path):
    data = one(everything, "ConfigMap", "rel-dblog-connectors")["data"]
    for name, content in data.items():
        (tmp_path / name).write_text(content)
    files = read_wanted(tmp_path)

    assert files.problems == ()
    config = files.wanted["shop"].config
    assert config["database.server.id"] == "5000000"
    assert config["database.password"] == "${dir:/etc/dblog/secrets/shop-db:password}"
    assert files.wanted["shop"].state == "running"


def test_the_deployment_of_connectors_calls_a_command_that_there_is(everything, minimal):
    found = container(everything, "Deployment", "-connectors")
    group, name, *arguments = found["args"]
    command = typer.main.get_command(app).commands[group].commands[name]

    parsed = command.make_context(name, list(arguments)).params
    assert (parsed["owner"], parsed["every"], parsed["prune"]) == ("space/rel", 30.0, True)
    assert parsed["url"] == "https://rel-dblog-worker.space.svc:8083"
    assert not [item for item in minimal if item["metadata"]["name"].endswith("-connectors")]
    mounts = {mount["mountPath"] for mount in found["volumeMounts"]}
    assert {"/etc/dblog/connectors/values", "/etc/dblog/connectors/configmaps/more-connectors"} <= mounts
    assert "grep . /tmp/problems" in found["readinessProbe"]["exec"]["command"][-1]


def test_a_config_map_may_have_any_name():
    found = rendered(connectors={"a": {"config": {"connector.class": CONNECTOR_CLASS}}}, connectorConfigMaps=["values", "configmaps"])

    paths = [mount["mountPath"] for mount in container(found, "Deployment", "-connectors")["volumeMounts"]]
    assert len(paths) == len(set(paths))
    assert {f"/etc/dblog/connectors/{path}" for path in ("values", "configmaps/values", "configmaps/configmaps")} <= set(paths)


def test_with_prune_the_last_connector_that_is_removed_is_deleted_too(minimal):
    found = rendered(reconciler={"prune": True})

    assert {"--prune", "--prune-all"} <= set(container(found, "Deployment", "-connectors")["args"])
    files = one(found, "ConfigMap", "-connectors")
    assert not files["data"]
    kubernetes_validate.validate(files, NEWEST, strict=True)
    assert not [item for item in minimal if item["metadata"]["name"].endswith("-connectors")]


def test_a_round_that_hangs_is_seen_by_the_age_of_the_file_of_problems(everything, tmp_path):
    problems = tmp_path / "problems"
    found = container(everything, "Deployment", "-connectors")
    file = found["args"][found["args"].index("--problems-file") + 1]
    (*shell, script) = found["livenessProbe"]["exec"]["command"]

    def alive(minutes):
        problems.write_text("shop: is refused\n")
        written_s = time.time() - 60 * minutes
        os.utime(problems, (written_s, written_s))
        return subprocess.run([*shell, script.replace(file, str(problems))], check=False).returncode == 0

    assert [alive(minutes) for minutes in (0, 14, 16)] == [True, True, False]


def test_drift_is_mended_within_two_minutes_and_failed_tasks_are_restarted_where_it_helps(everything):
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["properties"]["reconciler"]["properties"]["everySeconds"]["maximum"] <= 120
    arguments = container(everything, "Deployment", "-connectors")["args"]
    assert arguments[arguments.index("--restart") + 1] == "retriable"
    assert arguments[arguments.index("--max-restarts") + 1] == "7"


def test_memory_and_queues_follow_one_value():
    connectors = {"a": {"config": {"connector.class": CONNECTOR_CLASS}}}

    def found(memory):
        made = rendered(worker={"memoryMiB": memory}, connectors=connectors)
        limits = container(made, "StatefulSet", "-worker")["resources"]["limits"]
        queue = int(json.loads(one(made, "ConfigMap", "rel-dblog-connectors")["data"]["a.json"])["config"]["max.queue.size.in.bytes"])
        return limits["memory"], queue * 8 * 4 // 1024**2

    assert found(2048) == ("2048Mi", 2048)
    assert found(1024) == ("1024Mi", 1024)


# ---- the worker's pods


def test_probes_ask_the_process_and_the_group_on_the_port_without_a_login(minimal):
    found = container(minimal, "StatefulSet", "-worker")

    asked = {
        kind: (found[kind]["httpGet"]["path"], found[kind]["httpGet"]["port"])
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    live, ready = ("/health/live", "readonly"), ("/health/ready", "readonly")
    assert asked == {"startupProbe": live, "livenessProbe": live, "readinessProbe": ready}
    assert found["startupProbe"]["periodSeconds"] * found["startupProbe"]["failureThreshold"] == 600
    assert properties_of(minimal)["dblog.rest.readonly.listener"] == "http://:8084"


def test_pods_that_look_around_have_no_probes_and_do_nothing():
    found = container(objects("job"), "StatefulSet", "-worker")

    assert (found["command"], found["args"]) == (["sleep"], ["infinity"])
    assert not [key for key in found if key.endswith("Probe")]


def test_pods_are_spread_over_zones_and_hosts(minimal):
    spread = worker(minimal)["topologySpreadConstraints"]

    assert [item["topologyKey"] for item in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {item["whenUnsatisfiable"] for item in spread} == {"ScheduleAnyway"}
    assert spread[0]["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "worker"


def test_a_disruption_budget_keeps_a_worker_where_there_are_two(minimal, everything):
    assert one(minimal, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert one(minimal, "PodDisruptionBudget")["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert one(everything, "PodDisruptionBudget")["spec"]["minAvailable"] == 2
    assert not [item for item in rendered(worker={"replicas": 1}) if item["kind"] == "PodDisruptionBudget"]


def test_a_pod_has_the_time_to_end_its_tasks_and_pods_are_replaced_one_by_one(minimal):
    spec = one(minimal, "StatefulSet")["spec"]

    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
    assert spec["minReadySeconds"] == 10
    shutdown_ms = int(properties_of(minimal)["task.shutdown.graceful.timeout.ms"])
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] * 1000 >= shutdown_ms + 20_000
    assert properties_of(minimal)["client.id"] == "${env:DBLOG_POD_NAME}"


def test_what_users_add_to_pods_is_there(everything):
    spec = worker(everything)

    assert spec["hostAliases"] == [{"ip": "10.0.0.9", "hostnames": ["db"]}]
    assert spec["dnsConfig"] == {"options": [{"name": "ndots", "value": "2"}]}
    assert (spec["initContainers"][0]["name"], spec["containers"][1]["name"]) == ("first", "beside")
    assert spec["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 3}}}
    assert (spec["priorityClassName"], spec["nodeSelector"], spec["runtimeClassName"]) == ("high", {"pool": "data"}, "gvisor")
    assert {"configMapRef": {"name": "more-env"}} in spec["containers"][0]["envFrom"]
    assert one(everything, "ConfigMap", "rel-more")["data"] == {"a": "b"}


def test_disk_is_asked_for_and_bounded(minimal):
    spec = worker(minimal)

    assert {"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}} in spec["volumes"]
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "512Mi"


# ---- network


def test_services_are_of_the_cluster_and_each_pod_has_a_name(minimal):
    services = {item["metadata"]["name"]: item["spec"] for item in minimal if item["kind"] == "Service"}

    assert services["rel-dblog-worker"]["type"] == "ClusterIP"
    headless = services["rel-dblog-worker-headless"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert one(minimal, "StatefulSet")["spec"]["serviceName"] == "rel-dblog-worker-headless"
    variables = {item["name"]: item.get("value") for item in worker(minimal)["containers"][0]["env"]}
    assert variables["DBLOG_ADVERTISED_HOST"] == "$(DBLOG_POD_NAME).rel-dblog-worker-headless.space.svc.cluster.local"


def test_a_load_balancer_has_the_rest_interface_alone_and_the_sink_still_finds_schemas():
    tls = {"enabled": True, "existingSecret": "rest-tls"}
    found = rendered(worker={"service": {"type": "LoadBalancer"}, "tls": tls}, sink=A_SINK)
    services = {item["metadata"]["name"]: item["spec"] for item in found if item["kind"] == "Service"}

    outside = services["rel-dblog-worker"]
    assert (outside["type"], [port["targetPort"] for port in outside["ports"]]) == ("LoadBalancer", ["rest"])
    file = yaml.safe_load(one(found, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    address = urlsplit(file["registry.url"])
    inside = services[address.hostname.partition(".")[0]]
    assert (inside["type"], [port["port"] for port in inside["ports"]]) == ("ClusterIP", [address.port])
    for item in found:
        kubernetes_validate.validate(item, NEWEST, strict=True)


def test_the_network_is_closed_but_for_the_release_and_who_is_named(minimal, everything):
    def sources(found, port):
        spec = one(found, "NetworkPolicy", "-worker")["spec"]
        return next(rule["from"] for rule in spec["ingress"] if rule["ports"][0]["port"] == port)

    assert [list(source) for source in sources(minimal, "rest")] == [["podSelector"]]
    assert sources(minimal, "readonly")[1] == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert len(sources(everything, "rest")) == 2
    assert one(minimal, "NetworkPolicy", "-worker")["spec"]["policyTypes"] == ["Ingress"]
    assert one(everything, "NetworkPolicy", "-worker")["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_an_ingress_speaks_tls_and_a_route_leads_to_the_rest_interface(everything, minimal):
    assert one(everything, "Ingress")["spec"]["tls"] == [{"hosts": ["connect.example"], "secretName": "connect-tls"}]
    assert one(everything, "HTTPRoute")["spec"]["rules"][0]["backendRefs"] == [{"name": "rel-dblog-worker", "port": 8083}]
    assert not [item for item in minimal if item["kind"] in ("Ingress", "HTTPRoute")]


def test_hosts_that_are_allowed_leave_the_release_its_own_names(everything, minimal):
    file = properties_of(everything)
    variables = {item["name"]: item.get("value", "") for item in worker(everything)["containers"][0]["env"]}
    pod = variables["DBLOG_ADVERTISED_HOST"].replace("$(DBLOG_POD_NAME)", "rel-dblog-worker-0")
    hosts = set(file["dblog.rest.allowed.hosts"].replace("${env:DBLOG_ADVERTISED_HOST}", pod).split(","))

    asked = [container(everything, kind, suffix)["args"] for kind, suffix in (("Deployment", "-connectors"), ("Pod", "-test"))]
    called = {urlsplit(arguments[arguments.index("--url") + 1]).hostname for arguments in asked}
    assert {"connect.example", pod} | called <= hosts
    read = rendered(worker={"config": {"dblog.rest.allowed.hosts": "connect.example"}}, sink=A_SINK)
    registry = yaml.safe_load(one(read, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])["registry.url"]
    assert urlsplit(registry).hostname in properties_of(read)["dblog.rest.allowed.hosts"].split(",")
    assert "dblog.rest.allowed.hosts" not in properties_of(minimal)  # empty: any


def test_a_standby_hands_logins_on_to_the_pods_of_its_own_release_alone(minimal, everything):
    for found in (minimal, everything, rendered(clusterDomain="example.org", worker={"ports": {"rest": 9999}})):
        file = properties_of(found)
        variables = {item["name"]: item.get("value", "") for item in worker(found)["containers"][0]["env"]}
        pod = variables["DBLOG_ADVERTISED_HOST"].replace("$(DBLOG_POD_NAME)", "rel-dblog-worker-1")
        scheme, _, port = file["listeners"].partition("://:")

        own, listed = f"{scheme}://{pod}:{port}", file[WORKERS].split(",")

        assert fault_of(own, own_url=own, listed=listed) is None
        for other in (
            f"{scheme}://{pod}:1",
            f"{scheme}://evil.example:{port}",
            f"{scheme}://rel-dblog-worker.space.svc.cluster.local:{port}",
        ):
            assert fault_of(other, own_url=own, listed=listed) is not None, other
    given = rendered(worker={"config": {WORKERS: "*.workers.example"}})
    assert properties_of(given)[WORKERS] == "*.workers.example"


def test_the_rest_interface_asks_for_a_login_and_speaks_tls_by_value(minimal, everything):
    assert "BasicAuthSecurityRestExtension" in properties_of(minimal)["rest.extension.classes"]
    secret = one(minimal, "Secret", "-rest-login")
    assert set(secret["data"]) == {"users.properties", "username", "password"}
    found = properties_of(everything)
    assert found["listeners"] == "https://:8083"
    assert found["listeners.https.ssl.certificate.location"] == "/etc/dblog/own/rest/tls.crt"
    assert not [item for item in everything if item["kind"] == "Secret"]
    # Without a login nobody but the machine itself could write, unless the file has this line; the chart's notes warn of it.
    assert "dblog.rest.without.login" not in properties_of(minimal)
    assert properties_of(objects("oauth"))["dblog.rest.without.login"] == "all"


# ---- monitoring


def test_pod_monitors_find_their_pods_and_drop_tables_beyond_a_bound(everything, minimal):
    monitors = {item["metadata"]["name"]: item for item in everything if item["kind"] == "PodMonitor"}

    assert set(monitors) == {"rel-dblog-worker", "rel-dblog-connectors", "rel-dblog-sink"}
    for monitor in monitors.values():
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert monitor["spec"]["sampleLimit"] == 50000
        assert endpoint["metricRelabelings"][0] == {"action": "keep", "sourceLabels": ["table"], "regex": r"|shop\..*"}
        labels = monitor["spec"]["selector"]["matchLabels"].items()
        pods = [item["spec"]["template"] for item in everything if item["kind"] in ("StatefulSet", "Deployment")]
        (pod,) = [pod for pod in pods if labels <= pod["metadata"]["labels"].items()]
        assert endpoint["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert not [item for item in minimal if item["kind"] in ("PodMonitor", "PrometheusRule")]


def test_the_alerts_are_those_of_the_folder_monitoring(everything):
    alerts = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())

    assert one(everything, "PrometheusRule")["spec"] == alerts


def test_the_boards_are_found_by_grafanas_sidecar(everything):
    boards = {file.name for file in (CHART / "monitoring" / "dashboards").glob("*.json")}
    maps = [
        item for item in everything if item["kind"] == "ConfigMap" and item["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]

    assert boards
    assert {name for item in maps for name in item["data"]} == boards
    assert {item["metadata"]["annotations"]["grafana_folder"] for item in maps} == {"dblog"}
    assert all(json.loads(content)["title"] for item in maps for content in item["data"].values())


def test_the_log_is_json_and_its_level_a_value(minimal):
    sink = yaml.safe_load(one(objects("sink-volume"), "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    assert (sink["log.format"], sink["log.level"]) == ("json", "INFO")
    assert (properties_of(minimal)["dblog.log.format"], properties_of(minimal)["dblog.log.level"]) == ("json", "INFO")
    assert "dblog.log.levels" not in properties_of(minimal)


def test_a_single_logger_has_a_level_of_its_own_by_a_value():
    found = properties_of(rendered(worker={"logLevels": {"dblog.readers": "DEBUG", "dblog.kafka.registry": "WARN"}}))

    assert found["dblog.log.levels"] == "dblog.kafka.registry=WARN,dblog.readers=DEBUG"
    read_worker_config({key: re.sub(r"\$\{[^}]*\}", "x", value) for key, value in found.items()})


# ---- the sink


@pytest.mark.parametrize("kind", ["Deployment", "SparkApplication"])
def test_traces_of_worker_and_sink_go_to_one_collector(kind):
    tracing = {"enabled": True, "endpoint": "http://collector:4318", "sampleRatio": 0.25}
    found = rendered(tracing=tracing, sink={**A_SINK, "kind": kind})

    driver = one(found, kind, "-sink")["spec"]["driver"] if kind == "SparkApplication" else container(found, kind, "-sink")
    for env in (container(found, "StatefulSet", "-worker")["env"], driver["env"]):
        variables = {variable["name"]: variable.get("value") for variable in env}
        assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
        assert (variables["OTEL_TRACES_SAMPLER"], variables["OTEL_TRACES_SAMPLER_ARG"]) == ("parentbased_traceidratio", "0.25")
    assert properties_of(found)["dblog.tracing.enabled"] == "true"
    assert yaml.safe_load(one(found, "ConfigMap", "-sink")["data"]["sink.yaml"])["tracing.enabled"] == "true"


def test_without_traces_nothing_of_them_is_set(minimal):
    assert "dblog.tracing.enabled" not in properties_of(minimal)
    assert not [name for variable in container(minimal, "StatefulSet", "-worker")["env"] if (name := variable["name"]).startswith("OTEL_")]


def test_a_sink_is_one_driver_that_ends_before_the_next_begins():
    deployment = one(objects("sink-volume"), "Deployment", "-sink")

    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert one(objects("job"), "CronJob")["spec"]["concurrencyPolicy"] == "Forbid"
    claim = one(objects("sink-volume"), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_executors_are_pods_under_the_drivers_limits_and_without_its_token(everything):
    data = one(everything, "ConfigMap", "rel-dblog-sink")["data"]
    executor = yaml.safe_load(data["executor.yaml"])["spec"]

    assert executor["automountServiceAccountToken"] is False
    assert executor["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    sink = yaml.safe_load(data["sink.yaml"])
    assert sink["spark.kubernetes.driver.pod.name"] == "${env:DBLOG_POD_NAME}"
    assert sink["spark.hadoop.fs.s3a.secret.key"] == "${file:/etc/dblog/own/s3/secret-key}"
    assert sink["spark.kubernetes.container.image"] == "registry.example/mirror/dblog-sink:0.1.0"


def test_executors_have_the_drivers_identity_in_the_cloud_and_a_client_that_finds_it():
    annotations = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/lake"}
    sink = {**A_SINK, "master": "k8s://https://kubernetes.default.svc", "serviceAccount": {"annotations": annotations}}
    found = rendered(sink=sink)

    account = one(found, "ServiceAccount", "-sink")["metadata"]
    data = one(found, "ConfigMap", "rel-dblog-sink")["data"]
    settings = yaml.safe_load(data["sink.yaml"])
    assert annotations.items() <= account["annotations"].items()
    assert settings["spark.kubernetes.authenticate.executor.serviceAccountName"] == account["name"]
    assert yaml.safe_load(data["executor.yaml"])["spec"]["automountServiceAccountToken"] is False
    assert "WebIdentityTokenFile" in settings["spark.hadoop.fs.s3a.aws.credentials.provider"]
    with_keys = yaml.safe_load(one(objects("everything"), "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    assert "spark.hadoop.fs.s3a.aws.credentials.provider" not in with_keys


def test_a_table_in_s3_has_the_log_store_that_lets_the_store_decide_unless_a_value_says_another():
    def file(**s3):
        sink = {**A_SINK, "s3": {"enabled": True, **s3}}
        return yaml.safe_load(one(rendered(sink=sink), "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])

    def refused(settings):
        key = lake_paths.log_store_key("s3a")
        return lake_paths.refusals(
            {name: settings[name] for name in ("target.path", "checkpoint.path")},
            master=settings["spark.master"],
            log_stores={"s3a": settings[key]} if key in settings else {},
            shared_mount=False,
            single_driver=settings.get("storage.single.driver") == "true",
        )

    default, single = file(), file(logStore="single")
    assert default[lake_paths.log_store_key("s3a")] == lake_paths.CONDITIONAL
    assert "storage.single.driver" not in default
    assert single["storage.single.driver"] == "true"
    assert lake_paths.log_store_key("s3a") not in single
    assert (refused(default), refused(single)) == ({}, {})
    assert refused({**single, "storage.single.driver": "false"})


def test_a_spark_application_is_by_one_value():
    found = one(objects("oauth"), "SparkApplication")["spec"]

    assert found["mainApplicationFile"].startswith("local:///")
    assert found["driver"]["serviceAccount"] == "rel-dblog-sink"
    assert {"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}} in found["volumes"]


OF_THE_OPERATOR = {
    *(
        "cores",
        "coreRequest",
        "memory",
        "memoryOverhead",
        "serviceAccount",
        "labels",
        "annotations",
        "volumeMounts",
        "env",
        "envFrom",
        "ports",
    ),
    *("affinity", "tolerations", "nodeSelector", "priorityClassName", "hostAliases", "dnsConfig", "podSecurityContext", "securityContext"),
    *("lifecycle", "initContainers", "sidecars", "terminationGracePeriodSeconds", "instances", "template"),
}
"""Fields that a driver or an executor has in a SparkApplication (v1beta2 of the operator 2.1): it drops others without a word."""
OF_A_POD = {
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "nodeSelector": {"pool": "data"},
    "tolerations": [{"key": "data", "operator": "Exists"}],
    "priorityClassName": "high",
    "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["db"]}],
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
}
OF_A_DRIVER = {
    "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    "initContainers": [{"name": "first", "image": "busybox:1.36"}],
    "sidecars": [{"name": "beside", "image": "busybox:1.36"}],
}


def test_a_spark_applications_pods_have_what_a_deployments_have():
    sink = {
        **A_SINK, **OF_A_POD, **OF_A_DRIVER,
        "kind": "SparkApplication", "cpuRequest": "750m", "executor": {"cpuRequest": "250m"}, "podAnnotations": {"note": "1"},
        "extraEnvVars": [{"name": "TZ", "value": "UTC"}], "extraEnvVarsCM": "more", "extraEnvVarsSecret": "more-secret",
    }  # fmt: skip
    registry = {"url": "https://registry.example", "tls": {"existingSecret": "registry-tls"}}
    sasl = {"mechanism": "OAUTHBEARER", "existingSecret": "kafka", "oauth": {"tokenEndpointUrl": "https://id.example/t"}}
    given = {"registry": registry, "kafka": {"securityProtocol": "SASL_SSL", "sasl": sasl}}
    found = one(rendered(sink=sink, **given), "SparkApplication")["spec"]
    kinds = one(rendered(sink={**sink, "kind": "Deployment"}, **given), "Deployment", "-sink")["spec"]["template"]

    driver, executor = found["driver"], found["executor"]
    assert OF_A_POD.items() <= driver.items()
    assert OF_A_POD.items() <= executor.items()
    assert OF_A_DRIVER.items() <= driver.items()
    assert (driver["coreRequest"], executor["coreRequest"]) == ("750m", "250m")
    of_deployment = kinds["spec"]["containers"][0]
    assert driver["env"] == [item for item in of_deployment["env"] if not item["name"].startswith("DBLOG_POD_")]
    assert {"JDK_JAVA_OPTIONS", "SSL_CERT_FILE", "TZ"} == {item["name"] for item in driver["env"]}
    assert [item["name"] for item in executor["env"]] == ["JDK_JAVA_OPTIONS"]
    assert driver["envFrom"] == of_deployment["envFrom"]
    assert set(driver["annotations"]) == set(kinds["metadata"]["annotations"]) - {"kubectl.kubernetes.io/default-container"}
    assert set(driver) | set(executor) <= OF_THE_OPERATOR
    assert executor["template"]["spec"]["automountServiceAccountToken"] is False
    assert [one["name"] for one in executor["template"]["spec"]["containers"]] == [
        "spark-kubernetes-executor"
    ]  # else Spark takes the first one, with a warning


def test_executors_on_other_machines_prove_that_they_are_the_drivers():  # number 41 of the chart's safety
    found = rendered(sink={**A_SINK, "master": "k8s://https://k"})

    driver = yaml.safe_load(one(found, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    operators = one(objects("oauth"), "SparkApplication")["spec"]["sparkConf"]
    for settings in (driver, operators):
        assert (settings["spark.authenticate"], settings["spark.network.crypto.enabled"]) == ("true", "true")


def test_a_worker_has_room_for_a_compressed_transaction_of_each_connector():
    values = yaml.safe_load((CHART / "values.yaml").read_text())["worker"]

    assert int(values["tmpSizeLimit"].removesuffix("Gi")) << 30 > values["connectorsMax"] * EVENT_BYTES_MAX


def test_executors_of_a_driver_ask_for_tokens_where_it_does():
    sasl = {"mechanism": "OAUTHBEARER", "existingSecret": "kafka", "oauth": {"tokenEndpointUrl": "https://id.example/t"}}
    found = rendered(sink={**A_SINK, "master": "k8s://https://k"}, kafka={"securityProtocol": "SASL_SSL", "sasl": sasl})

    (executor,) = yaml.safe_load(one(found, "ConfigMap", "rel-dblog-sink")["data"]["executor.yaml"])["spec"]["containers"]
    assert [(item["name"], "https://id.example/t" in item["value"]) for item in executor["env"]] == [("JDK_JAVA_OPTIONS", True)]


def test_a_spark_applications_driver_has_the_token_that_starts_executors():
    found = objects("oauth")

    account = one(found, "ServiceAccount", one(found, "SparkApplication")["spec"]["driver"]["serviceAccount"])
    assert account["automountServiceAccountToken"] is True
    assert one(found, "RoleBinding")["subjects"][0]["name"] == account["metadata"]["name"]
    for name in ("sink-volume", "everything"):  # these pods state it themselves
        assert one(objects(name), "ServiceAccount", "-sink")["automountServiceAccountToken"] is False


@pytest.mark.parametrize("memory", [1024, 4096])
def test_a_drivers_heap_leaves_room_for_what_is_beside_it(memory):
    sink = {"enabled": True, "topics": "a", "tablesPath": "abfss://b/t", "checkpointPath": "abfss://b/c", "memoryMiB": memory}
    file = yaml.safe_load(one(rendered(sink=sink), "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    operators = one(rendered(sink={**sink, "kind": "SparkApplication"}), "SparkApplication")["spec"]["driver"]

    heap = int(file["spark.driver.memory"].removesuffix("m"))
    assert heap == memory * PERCENT // 100
    assert operators["memory"] == file["spark.driver.memory"]
    assert heap + int(operators["memoryOverhead"].removesuffix("m")) == memory


# ---- the test pod and the notes


def test_the_test_pod_checks_the_interface_with_the_login_and_goes(minimal):
    pod = one(minimal, "Pod", "-test")
    group, name, *arguments = pod["spec"]["containers"][0]["args"]

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    command = typer.main.get_command(app).commands[group].commands[name]
    assert command.make_context(name, list(arguments)).params["login"].as_posix() == "/etc/dblog/own/rest"


def test_a_reconciler_that_rests_has_no_pod_and_the_notes_say_so():
    connectors = {"a": {"config": {"connector.class": CONNECTOR_CLASS}}}

    def replicas(**reconciler):
        return one(rendered(connectors=connectors, reconciler=reconciler), "Deployment", "-connectors")["spec"]["replicas"]

    assert (replicas(), replicas(paused=True)) == (1, 0)
    given = ("--set", "kafka.bootstrapServers=b:1,reconciler.prune=true,reconciler.paused=true")
    notes = helm("install", "rel", CHART, *given, "--dry-run=client").stdout.partition("\nNOTES:")[2]
    assert "WARNING: nobody keeps the connectors" in notes
    assert "Connectors are kept" not in notes


def test_the_notes_have_three_commands_the_monitors_advice_and_warnings():
    def notes(*arguments):
        return helm("install", "rel", CHART, *arguments, "--dry-run=client").stdout.partition("\nNOTES:")[2]

    plain = notes("--set", "kafka.bootstrapServers=b:1")
    assert len(re.findall(r"^  (?:kubectl|helm) ", plain, re.MULTILINE)) == 3
    assert "leaves the topics in Kafka" in plain
    assert "WARNING: connections to Kafka are not encrypted" in plain
    assert "podMonitorSelector" in notes("--set", "kafka.bootstrapServers=b:1", "--set", "monitoring.podMonitor.enabled=true")
    assert "sparkapplication" not in plain
    insecure = notes("-f", CHART / "ci" / "oauth-values.yaml", "-n", "space")
    assert "spark.jobNamespaces of its chart has space" in insecure
    assert "kubectl -n space describe sparkapplication/rel-dblog-sink" in insecure
    assert "asks for no login" in insecure
    assert "every pod of the cluster reaches" in insecure
    opens = (
        "WARNING: the login of the REST interface travels as it is",
        "WARNING: pods may connect to everything",
        "WARNING: connectors may name any host",
    )
    assert [text in plain for text in opens] == [True] * 3
    closing = {
        "kafka": {"bootstrapServers": "b:1", "securityProtocol": "SSL"},
        "worker": {
            "tls": {"enabled": True, "existingSecret": "s"},
            "config": {"dblog.connector.allowed.hosts": "db.example"},
            "replicas": 2,
        },
        "networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
    }
    closed = helm("install", "rel", CHART, "-f", "-", "--dry-run=client", stdin=yaml.safe_dump(closing)).stdout.partition("\nNOTES:")[2]
    assert "dblog" in closed
    assert "WARNING" not in closed

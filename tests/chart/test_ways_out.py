"""How a container could get out of its pod, point by point, for each pod that the chart makes by any values: none is left open.

The list is what scanners of clusters and Kubernetes' restricted profile (Pod Security Standards) ask for, and what a driver of Spark adds to pods by itself.
README.md of the chart has it too, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml
from chart.every_pod import Json, Pod, cases, pods
from chart.rendered import CHART

# ---- the points: what is wrong with a pod


def runs_as_a_number_that_is_not_root(pod: Pod) -> Iterator[object]:
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        if not isinstance(number := pod.spec["securityContext"].get(field), int) or number < 10_000:
            yield field, number
    for one in pod.containers:
        if pod.context(one, "runAsNonRoot") is not True or pod.context(one, "runAsUser") < 10_000:
            yield one["name"]
    if pod.spec["securityContext"].get("supplementalGroups"):
        yield "supplementalGroups"


def cannot_write_its_root_file_system(pod: Pod) -> Iterator[object]:
    yield from (one["name"] for one in pod.containers if pod.context(one, "readOnlyRootFilesystem") is not True)


def has_no_capabilities(pod: Pod) -> Iterator[object]:
    yield from (one["name"] for one in pod.containers if one["securityContext"].get("capabilities") != {"drop": ["ALL"]})


def cannot_gain_rights(pod: Pod) -> Iterator[object]:
    for one in pod.containers:
        context = one["securityContext"]
        if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
            yield one["name"]


def calls_what_seccomp_lets_it(pod: Pod) -> Iterator[object]:
    yield from (one["name"] for one in pod.containers if pod.context(one, "seccompProfile") != {"type": "RuntimeDefault"})


def keeps_the_profile_of_apparmor_and_selinux(pod: Pod) -> Iterator[object]:
    for one in pod.containers:
        if (pod.context(one, "appArmorProfile") or {}).get("type") not in (None, "RuntimeDefault", "Localhost"):
            yield one["name"]
        yield from (field for field in ("seLinuxOptions", "windowsOptions") if pod.context(one, field))
    yield from (key for key, value in pod.annotations.items() if "apparmor" in key and value == "unconfined")


def has_the_default_proc(pod: Pod) -> Iterator[object]:
    yield from (one["name"] for one in pod.containers if pod.context(one, "procMount") not in (None, "Default"))
    yield from (field for field in ("sysctls",) if pod.spec["securityContext"].get(field))


def shares_nothing_with_its_host(pod: Pod) -> Iterator[object]:
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace") if pod.spec.get(key))
    yield from (port for one in pod.containers for port in one.get("ports", []) if "hostPort" in port)


def mounts_nothing_of_its_host(pod: Pod) -> Iterator[object]:
    for volume in pod.spec.get("volumes", []):
        if kinds := set(volume) - {"name", "configMap", "secret", "projected", "emptyDir", "persistentVolumeClaim"}:
            yield volume["name"], kinds
    yield from (one["name"] for one in pod.containers if one.get("volumeDevices"))


def has_no_token_of_kubernetes(pod: Pod) -> Iterator[object]:
    if pod.spec.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken"
    for volume in pod.spec.get("volumes", []):
        yield from (volume["name"] for source in volume.get("projected", {}).get("sources", []) if "serviceAccountToken" in source)


def has_limits(pod: Pod) -> Iterator[object]:
    for one in pod.containers:
        limits, requests = one["resources"].get("limits", {}), one["resources"].get("requests", {})
        if "memory" not in limits or not {"cpu", "memory"} <= set(requests):
            yield one["name"]


def writes_to_disks_of_a_size(pod: Pod) -> Iterator[object]:
    for volume in pod.spec.get("volumes", []):
        # A volume of the user's own is his.
        if "emptyDir" in volume and volume["name"] != "more" and not (volume["emptyDir"] or {}).get("sizeLimit"):
            yield volume["name"]


def cannot_write_secrets_or_configuration(pod: Pod) -> Iterator[object]:
    kept = {volume["name"]: volume for volume in pod.spec.get("volumes", []) if {"secret", "projected", "configMap"} & set(volume)}
    for one in pod.containers:
        for mount in one.get("volumeMounts", []):
            if mount["name"] in kept and (mount.get("readOnly") is not True or "subPath" in mount):
                yield one["name"], mount["name"]
    for name, volume in kept.items():
        source = volume.get("secret") or volume.get("projected")
        if source and source.get("defaultMode") != 0o440:
            yield name, source.get("defaultMode")


def has_no_secret_in_a_variable(pod: Pod) -> Iterator[object]:
    yield from (variable["name"] for one in pod.own for variable in one.get("env", []) if "secretKeyRef" in str(variable))


COMPONENTS = {"dblog-sink": "sink", "apache/kafka": "broker", "library/mariadb": "demo"}
"""Of images that are not the worker's, whose values name them."""


def runs_images_by_digest_where_one_is_given(pod: Pod) -> Iterator[object]:
    digests = cases()[pod.case][0]
    for one in pod.own:
        component = next((part for text, part in COMPONENTS.items() if text in one["image"]), "worker")
        given = digests[component]["image"]["digest"]
        if not one["image"].endswith(f"@{given}" if given else ":0.1.0"):
            yield one["image"]


def is_under_a_network_policy(pod: Pod) -> Iterator[object]:
    policy = cases()[pod.case][0]["networkPolicy"]
    if not policy["enabled"]:
        return
    closed = {
        kind
        for item in pod.objects
        if item["kind"] == "NetworkPolicy" and selects(item["spec"]["podSelector"], pod.labels)
        for kind in item["spec"]["policyTypes"]
    }
    yield from {"Ingress", *(["Egress"] if policy["egress"] else [])} - closed


def selects(selector: Json, labels: Json) -> bool:
    """Tell whether a selector of labels takes a pod with these."""
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        (labels.get(one["key"]) in one["values"]) is (one["operator"] == "In") for one in selector.get("matchExpressions", [])
    )


def cannot_be_entered_by_its_console(pod: Pod) -> Iterator[object]:
    yield from (one["name"] for one in pod.containers if one.get("stdin") or one.get("tty"))
    yield from pod.spec.get("ephemeralContainers", [])


POINTS: tuple[Callable[[Pod], Iterator[object]], ...] = (
    runs_as_a_number_that_is_not_root, cannot_write_its_root_file_system, has_no_capabilities, cannot_gain_rights, calls_what_seccomp_lets_it,
    keeps_the_profile_of_apparmor_and_selinux, has_the_default_proc, shares_nothing_with_its_host, mounts_nothing_of_its_host, has_no_token_of_kubernetes,
    has_limits, writes_to_disks_of_a_size, cannot_write_secrets_or_configuration, has_no_secret_in_a_variable, runs_images_by_digest_where_one_is_given,
    is_under_a_network_policy, cannot_be_entered_by_its_console,
)  # fmt: skip
EXCEPTIONS = {
    (
        "has_no_token_of_kubernetes",
        "Deployment rel-dblog-sink",
    ): "a driver of executors makes their pods with it; without executors it has none",
    ("has_no_token_of_kubernetes", "Job rel-dblog-sink"): "a driver of executors makes their pods with it",
    ("has_no_token_of_kubernetes", "CronJob rel-dblog-sink"): "a driver of executors makes their pods with it",
    (
        "has_no_token_of_kubernetes",
        "driver of a SparkApplication",
    ): "it makes its executors' pods with it, and Spark gives the pod no field of its own",
}
"""What is open, and why."""


@pytest.mark.parametrize("point", [point.__name__ for point in POINTS])
def test_every_pod(point: str) -> None:  # number 41 of the chart's safety
    (check,) = [known for known in POINTS if known.__name__ == point]
    wrong = {(pod.case, pod.name): found for pod in pods() if (found := list(check(pod)))}

    assert {key: found for key, found in wrong.items() if (point, key[1]) not in EXCEPTIONS} == {}
    assert {name for known, name in EXCEPTIONS if known == point} == {name for _, name in wrong}, "an exception that nothing needs"


def test_the_readme_has_every_point_and_no_other() -> None:
    lines = (
        (CHART / "README.md").read_text(encoding="utf-8").partition("| every pod | how |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    )

    assert [line.split(" | ")[0].removeprefix("| ").replace(" ", "_") for line in lines] == [point.__name__ for point in POINTS]


def test_a_driver_without_executors_has_no_token() -> None:
    (driver,) = [pod for pod in pods() if pod.case == "everything on, a driver alone" and pod.name == "Deployment rel-dblog-sink"]

    assert list(has_no_token_of_kubernetes(driver)) == []


def test_every_kind_of_pod_is_looked_at() -> None:
    assert {pod.name for pod in pods()} == {
        "StatefulSet rel-dblog-worker", "StatefulSet rel-dblog-broker", "StatefulSet rel-dblog-shop", "Deployment rel-dblog-shop-writer",
        "Deployment rel-dblog-connectors", "Pod rel-dblog-test", "Deployment rel-dblog-sink", "Job rel-dblog-sink",
        "CronJob rel-dblog-sink", "executor of a driver", "driver of a SparkApplication", "executor of a SparkApplication",
    }  # fmt: skip


def test_every_switch_of_the_values_is_on_in_some_case() -> None:
    def switches(values: Json, path: str = "") -> Iterator[str]:
        for key, value in values.items():
            if value is True:
                yield f"{path}{key}"
            elif isinstance(value, dict):
                yield from switches(value, f"{path}{key}.")

    def named(values: Json, path: str = "") -> Iterator[str]:
        for key, value in values.items():
            if isinstance(value, bool):
                yield f"{path}{key}"
            elif isinstance(value, dict):
                yield from named(value, f"{path}{key}.")

    own = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    on = {path for values, _ in cases().values() for path in switches(values)}

    assert {path for path in named(own) if "SecurityContext" not in path} - on == set()


def test_no_account_may_read_secrets_enter_pods_or_give_itself_rights() -> None:
    rules = [rule for _, found in cases().values() for item in found if item["kind"] in ("Role", "ClusterRole") for rule in item["rules"]]

    assert {item["kind"] for _, found in cases().values() for item in found if "Role" in item["kind"]} == {"Role", "RoleBinding"}
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "configmaps", "services"}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch", "create", "delete", "deletecollection"}


BAD: dict[str, Callable[[Json, Json], object]] = {
    "runs_as_a_number_that_is_not_root": lambda spec, _: spec["securityContext"].update(runAsUser=0),
    "cannot_write_its_root_file_system": lambda _, one: one["securityContext"].pop("readOnlyRootFilesystem"),
    "has_no_capabilities": lambda _, one: one["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "cannot_gain_rights": lambda _, one: one["securityContext"].update(privileged=True),
    "calls_what_seccomp_lets_it": lambda _, one: one["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "keeps_the_profile_of_apparmor_and_selinux": lambda spec, _: spec["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
    "has_the_default_proc": lambda _, one: one["securityContext"].update(procMount="Unmasked"),
    "shares_nothing_with_its_host": lambda spec, _: spec.update(shareProcessNamespace=True),
    "mounts_nothing_of_its_host": lambda spec, _: spec["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
    "has_no_token_of_kubernetes": lambda spec, _: spec["volumes"].append(
        {"name": "x", "projected": {"sources": [{"serviceAccountToken": {}}]}}
    ),
    "has_limits": lambda _, one: one["resources"].pop("limits"),
    "writes_to_disks_of_a_size": lambda spec, _: spec["volumes"].append({"name": "x", "emptyDir": {}}),
    "cannot_write_secrets_or_configuration": lambda _, one: one["volumeMounts"][0].pop("readOnly"),
    "has_no_secret_in_a_variable": lambda _, one: one["env"].append({"name": "A", "valueFrom": {"secretKeyRef": {}}}),
    "runs_images_by_digest_where_one_is_given": lambda _, one: one.update(image="dblog-worker:latest"),
    "is_under_a_network_policy": lambda spec, _: None,
    "cannot_be_entered_by_its_console": lambda _, one: one.update(tty=True),
}
"""For each point what makes the worker's pod break it."""


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
def test_a_point_sees_a_pod_that_breaks_it(point: Callable[[Pod], Iterator[object]]) -> None:
    good = next(pod for pod in pods() if pod.case == "minimal" and pod.name == "StatefulSet rel-dblog-worker")
    spec = yaml.safe_load(yaml.safe_dump(good.spec))
    BAD[point.__name__](spec, spec["containers"][0])
    bad = good._replace(spec=spec, labels={} if point is is_under_a_network_policy else good.labels)

    assert (list(point(good)), bool(list(point(bad)))) == ([], True)

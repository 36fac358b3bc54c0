"""Every pod that the chart makes by any values: those of the files of values, and with every switch on; also those that Spark makes by the chart's objects."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from chart.rendered import CHART, VALUES, objects, objects_of, template

Json = dict[str, Any]

EVERYTHING = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text(encoding="utf-8"))
DIGEST = {"digest": f"sha256:{'01234567' * 8}"}
ON = {
    "allowInlineSecrets": True,
    "worker": {"image": DIGEST, "service": {"allowPlain": True, "allowWithoutLogin": True}},
    "ingress": {"allowPlain": True, "allowWithoutLogin": True},
    "httpRoute": {"allowWithoutLogin": True},
    "reconciler": {"paused": True},
    "sink": {"image": DIGEST, "persistence": {"enabled": True, "existingClaim": "lake"}},
}
"""The switches that no file of values has on, over the file that has all others on."""
SWITCHED: dict[str, Json] = {
    "everything on": {},
    "everything on, pods that sleep": {"diagnosticMode": {"enabled": True}},
    "everything on, a driver alone": {"sink": {"master": "local[*]"}},
    "everything on, a Job": {"sink": {"kind": "Job"}},
    "everything on, a CronJob": {"sink": {"kind": "Job", "schedule": "0 3 * * *"}},
    "everything on, a SparkApplication": {"sink": {"kind": "SparkApplication"}},
    "everything on, one broker": {"worker": {"topics": {"replicationFactor": 1, "allowOneReplica": True}}},
}


class Pod(NamedTuple):
    """A pod that some object makes, or that Spark makes from one."""

    case: str
    name: str
    """Kind and name of the object, without the part that a Job's name has from its content."""
    spec: Json
    labels: Json
    annotations: Json
    objects: list[Json]
    """All objects of the release."""

    @property
    def containers(self) -> list[Json]:
        """Containers of every kind."""
        return [one for kind in ("initContainers", "containers", "ephemeralContainers") for one in self.spec.get(kind, [])]

    @property
    def own(self) -> list[Json]:
        """The chart's own containers: images, sizes and numbers of others are their owner's."""
        return [one for one in self.containers if "busybox" not in one.get("image", "")]

    def context(self, container: Json, field: str) -> Any:
        """Return a field of the security context that holds for a container: its own, or else the pod's."""
        return container.get("securityContext", {}).get(field, self.spec.get("securityContext", {}).get(field))


def merged(base: Json, more: Json) -> Json:
    """Return values over values, as helm lays files over each other."""
    return {
        **base,
        **{
            key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
            for key, value in more.items()
        },
    }


@functools.cache
def cases() -> dict[str, tuple[Json, list[Json]]]:
    """The values over the chart's own, and the objects, of each file of values and with every switch on."""
    own = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    found = {}
    for file in VALUES:
        name = file.name.removesuffix("-values.yaml")
        found[name] = merged(own, yaml.safe_load(file.read_text(encoding="utf-8"))), objects(name)
    for name, more in SWITCHED.items():
        values = merged(merged(EVERYTHING, ON), more)
        done = template(values=values)
        assert done.returncode == 0, (name, done.stderr)
        found[name] = merged(own, values), objects_of(done.stdout)
    return found


def of_spark(role: str, spec: Json) -> Json:
    """Return the pod that Spark makes of a SparkApplication's driver or executor, as far as the object decides it."""
    given = spec[role]
    limits = {"memory": given["memory"]}  # Spark sets request and limit of memory, with the overhead
    mounts, volumes = list(given.get("volumeMounts", [])), list(spec["volumes"])
    for key, value in spec["sparkConf"].items():
        match = re.fullmatch(rf"spark\.kubernetes\.{role}\.volumes\.(\w+)\.([\w-]+)\.mount\.path", key)
        if match:
            size = spec["sparkConf"].get(f"spark.kubernetes.{role}.volumes.{match[1]}.{match[2]}.options.sizeLimit")
            mounts.append({"name": match[2], "mountPath": value})
            volumes.append({"name": match[2], match[1]: {} if size is None else {"sizeLimit": size}})
    container = {
        "name": role, "image": spec["image"], "securityContext": given["securityContext"], "volumeMounts": mounts, "ports": given.get("ports", []),
        "env": given.get("env", []), "resources": {"limits": limits, "requests": {**limits, "cpu": given.get("coreRequest", given.get("cores"))}},
    }  # fmt: skip
    mounted = {mount["name"] for mount in mounts}
    return with_local_dirs({
        "securityContext": given["podSecurityContext"], "containers": [container, *given.get("sidecars", [])],
        "initContainers": given.get("initContainers", []), "volumes": [one for one in volumes if one["name"] in mounted],
        **{key: value for key, value in given.get("template", {}).get("spec", {}).items() if key != "containers"},
    })  # fmt: skip


def with_local_dirs(spec: Json) -> Json:
    """Return a pod of Spark with the volume that Spark adds for what it spills, unless one has its name (LocalDirsFeatureStep)."""
    (first, *_) = spec["containers"]
    if any(mount["name"].startswith("spark-local-dir-") for mount in first["volumeMounts"]):
        return spec
    return {**spec, "volumes": [*spec["volumes"], {"name": "spark-local-dir-1", "emptyDir": {}}]}


def pods_of(case: str, found: list[Json]) -> Iterator[Pod]:
    """Yield every pod that objects make, and those that Spark makes by them."""
    for item in found:
        kind, name = item["kind"], re.sub(r"(-sink)-[0-9a-f]{8}$", r"\1", item["metadata"]["name"])
        spec = item.get("spec", {})
        if kind == "SparkApplication":
            for role in ("driver", "executor"):
                part = spec[role]
                yield Pod(case, f"{role} of a SparkApplication", of_spark(role, spec), part["labels"], part.get("annotations", {}), found)
        elif kind == "ConfigMap" and "spark.kubernetes.executor.podTemplateFile" in item["data"].get("sink.yaml", ""):
            pod, sink = (yaml.safe_load(item["data"][file]) for file in ("executor.yaml", "sink.yaml"))
            (container,) = pod["spec"]["containers"]
            size = sink["spark.executor.memory"]
            container |= {
                "image": sink["spark.kubernetes.container.image"],
                "resources": {"limits": {"memory": size}, "requests": {"memory": size, "cpu": "1"}},
            }
            yield Pod(
                case,
                "executor of a driver",
                with_local_dirs(pod["spec"]),
                pod["metadata"]["labels"],
                pod["metadata"].get("annotations", {}),
                found,
            )
        else:
            at = spec.get("jobTemplate", {}).get("spec", spec)
            pod = item if kind == "Pod" else at.get("template") if isinstance(at, dict) else None
            if isinstance(pod, dict) and "containers" in pod.get("spec", {}):
                yield Pod(case, f"{kind} {name}", pod["spec"], pod["metadata"]["labels"], pod["metadata"].get("annotations", {}), found)


@functools.cache
def pods() -> list[Pod]:
    """The pods of every case."""
    return [pod for case, (_, found) in cases().items() for pod in pods_of(case, found)]

"""The chart, rendered by the real helm of both major versions: once for each file of values and each version, and shared by all tests of a process."""

import functools
import subprocess
from pathlib import Path

import yaml
from stack.helm import kubernetes_clients

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
PRODUCTION = CHART / "values-production.yaml"
MAJORS = (3, 4)
OLDEST, NEWEST = "1.29", "1.37"
BROKERS = "kafka.bootstrapServers=broker:9092"
CONNECTOR_CLASS = "io.debezium.connector.mysql.MySqlConnector"


def helm(*arguments, major=4, stdin=None):
    """A finished helm, without a cluster."""
    return subprocess.run(
        [str(kubernetes_clients(major) / "helm"), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, input=stdin, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": "/dev/null"},
    )  # fmt: skip


def template(*arguments, major=4, release="rel", kubernetes=f"{NEWEST}.0-gke.1", values=None):
    stdin = None if values is None else yaml.safe_dump(values)
    given = [] if values is None else ["-f", "-"]
    return helm("template", release, CHART, "-n", "space", "--kube-version", kubernetes, *arguments, *given, major=major, stdin=stdin)


@functools.cache
def text(name, major=4):
    """What helm prints for a file of ci/."""
    done = template("-f", CHART / "ci" / f"{name}-values.yaml", major=major)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects_of(printed):
    # libyaml's, for the whole chart with its boards takes 0.4 s of CPU by Python's own parser, and a tenth of that so.
    return [found for found in yaml.load_all(printed, Loader=yaml.CSafeLoader) if found]


@functools.cache
def objects(name, major=4):
    return objects_of(text(name, major))


def rendered(**values):
    """The objects for values over the minimal ones."""
    kafka = {"bootstrapServers": "broker:9092", **values.pop("kafka", {})}
    done = template(values={"kafka": kafka, **values})
    assert done.returncode == 0, done.stderr
    return objects_of(done.stdout)


def refusal(**values):
    """Why these values are refused."""
    done = template(values={"kafka": {"bootstrapServers": "broker:9092"}, **values})
    assert done.returncode != 0
    return done.stderr


def one(found, kind, suffix=""):
    (match,) = [item for item in found if item["kind"] == kind and item["metadata"]["name"].endswith(suffix)]
    return match


def pod_specs(found):
    """Every pod that the objects make, by kind and name."""
    specs = {}
    for item in found:
        at = item.get("spec", {})
        spec = {
            "Pod": lambda at=at: at,
            "CronJob": lambda at=at: at["jobTemplate"]["spec"]["template"]["spec"],
        }.get(
            item["kind"],
            lambda at=at: (
                at["template"]["spec"]
                if isinstance(at, dict) and isinstance(at.get("template"), dict) and "spec" in at["template"]
                else None
            ),
        )()
        if spec is not None:
            specs[item["kind"], item["metadata"]["name"]] = spec
    return specs


def container(found, kind, suffix):
    return pod_specs([one(found, kind, suffix)]).popitem()[1]["containers"][0]


def worker(found):
    return one(found, "StatefulSet", "-worker")["spec"]["template"]["spec"]

#!/opt/dblog/bin/python
"""Entry point of the sink's image: runs the job, or a part of Spark for Kubernetes.

    submit --config /etc/dblog/sink.yaml    and every other argument of `dblog-sink`
    executor                                an executor, with the variables that Spark on Kubernetes sets for its pods
    driver ...                              the driver of a job submitted in cluster mode; the rest are arguments of spark-submit
    exec PROGRAM ...                        another program with the same settings: spark-submit, python
    health                                  exit status 0 while the job runs

It replaces itself with what it starts, so signals go there. It uses the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HEALTH_URL = "DBLOG_SINK_HEALTH_URL"
"""Variable with the URL of the job's metrics (`metrics.listen`). Without it health means that the
driver's process exists.
"""
DEFAULTS = Path("/opt/dblog/share/dblog-sink/defaults.yaml")
"""File with a container's defaults, which the job's own configuration overrides."""
ACCOUNT = "dblog"
LIBRARIES = Path("/usr/lib")
_JAVA_OPTION = "SPARK_JAVA_OPT_"
_EXECUTOR = (
    ("--driver-url", "SPARK_DRIVER_URL"),
    ("--executor-id", "SPARK_EXECUTOR_ID"),
    ("--cores", "SPARK_EXECUTOR_CORES"),
    ("--app-id", "SPARK_APPLICATION_ID"),
    ("--hostname", "SPARK_EXECUTOR_POD_IP"),
    ("--resourceProfileId", "SPARK_RESOURCE_PROFILE_ID"),
    ("--podName", "SPARK_EXECUTOR_POD_NAME"),
)
"""Options of the executor's program, and the variables of its pod (Spark's
KubernetesExecutorBackend and BasicExecutorFeatureStep).
"""


def command(arguments: Sequence[str], environment: Mapping[str, str], spark_home: Path, *, defaults: Path = DEFAULTS) -> list[str]:
    """Return the command line to become."""
    if arguments[:1] == ["executor"]:
        return _executor(environment, spark_home)
    if arguments[:1] == ["driver"]:
        address = environment.get("SPARK_DRIVER_BIND_ADDRESS", "")
        bound = (
            ["--conf", f"spark.driver.bindAddress={address}", "--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"]
            if address
            else []
        )
        return [str(spark_home / "bin" / "spark-submit"), *bound, "--deploy-mode", "client", *arguments[1:]]
    if arguments[:1] == ["exec"] and len(arguments) > 1:
        return list(arguments[1:])
    if arguments[:1] == ["submit"] and defaults.is_file():
        return ["dblog-sink", "submit", "--config", str(defaults), *arguments[1:]]
    return ["dblog-sink", *arguments]


def _executor(environment: Mapping[str, str], spark_home: Path) -> list[str]:
    if missing := [name for _, name in (*_EXECUTOR, ("", "SPARK_EXECUTOR_MEMORY")) if name not in environment]:
        raise SystemExit(
            f"an executor is started by Spark on Kubernetes, which sets {', '.join(missing)}; this container has no such variables"
        )
    numbered = sorted((int(name.removeprefix(_JAVA_OPTION)), value) for name, value in environment.items() if name.startswith(_JAVA_OPTION))
    classes = [
        environment.get("SPARK_CONF_DIR", ""),
        f"{spark_home}/jars/*",
        environment.get("SPARK_CLASSPATH", ""),
        environment.get("SPARK_DIST_CLASSPATH", ""),
    ]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    java = str(Path(environment["JAVA_HOME"]) / "bin" / "java") if environment.get("JAVA_HOME") else "java"
    options = [option for pair in _EXECUTOR for option in (pair[0], environment[pair[1]])]
    return [
        java,
        *(value for _, value in numbered),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(part for part in classes if part),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *options,
    ]


def named(
    environment: Mapping[str, str], *, known: Callable[[int], object] = pwd.getpwuid, uid: int | None = None, folder: str | None = None
) -> dict[str, str]:
    """Return an environment in which the user id has a name, which Java's login requires."""
    own = os.getuid() if uid is None else uid
    try:
        known(own)
    except KeyError:
        pass
    else:
        return dict(environment)
    library = next(LIBRARIES.glob("*-linux-gnu*/libnss_wrapper.so"), None)
    if library is None:
        return dict(environment)
    made = Path(tempfile.mkdtemp(prefix="account-", dir=folder))
    (made / "passwd").write_text(f"{ACCOUNT}:x:{own}:0:{ACCOUNT}:/tmp:/usr/sbin/nologin\n")
    (made / "group").write_text("root:x:0:\n")
    loaded = " ".join(part for part in (environment.get("LD_PRELOAD", ""), str(library)) if part)
    return {**environment, "LD_PRELOAD": loaded, "NSS_WRAPPER_PASSWD": str(made / "passwd"), "NSS_WRAPPER_GROUP": str(made / "group")}


def healthy(environment: Mapping[str, str], processes: Path = Path("/proc")) -> bool:
    """Return True if the query runs, by the job's metric.

    Without metrics return True if Spark's driver exists.
    """
    if url := environment.get(HEALTH_URL):
        try:
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the address is this container's: no proxy reaches it
            with direct.open(url, timeout=5) as answer:
                return any(line.startswith(b"dblog_sink_running ") and float(line.split()[1]) == 1 for line in answer)
        except (OSError, ValueError):
            return False
    for line in processes.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"org.apache.spark" in line.read_bytes():
                return True
    return False


def main(arguments: Sequence[str]) -> None:
    """Answer the health check, or replace this process with the requested program."""
    if list(arguments[:1]) == ["health"]:
        sys.exit(0 if healthy(os.environ) else 1)
    home = Path(os.environ.get("SPARK_HOME") or next(Path(sys.prefix).glob("lib/python3*/site-packages/pyspark")))
    line = command(arguments, os.environ, home)
    os.execvpe(line[0], line, named({**os.environ, "SPARK_HOME": str(home)}))  # noqa: S606  signals go to it, and its exit status is ours


if __name__ == "__main__":
    main(sys.argv[1:])

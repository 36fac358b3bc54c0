"""Builds the command line of spark-submit: jars, code and options; for printing or running.

Spark needs the jars of Delta, Kafka and Avro in addition to its own. ``make setup`` links them into
the virtual environment's ``share/dblog-sink/jars``; DBLOG_SINK_JARS names another folder. The code
goes as one archive of pure Python (``--py-files``: this package, Delta's, PyYAML), because in
cluster mode Spark copies only submitted files to another machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from dblog_sink.config import job_options
from dblog_sink.errors import DefiniteError
from dblog_sink.job.memory import driver_memory

_ARCHIVED = ("dblog_sink", "delta", "yaml", "prometheus_client")
_OPTIONAL = frozenset({"prometheus_client"})
JAVA_OPTIONS = "-XX:+UseParallelGC -Xss4m -XX:+IgnoreUnrecognizedVMOptions -XX:MaxNodeLimit=10000 -XX:NodeLimitFudgeFactor=500"
"""JVM options of the driver: a collector for throughput, stack for long schemas, and no optimizing
compiler for the largest generated methods, on which it spends most of a young job's time
(tests/bench/README.md). The quick compiler still compiles them.
"""
_DEFAULTS: Mapping[str, tuple[str, str]] = {
    "--driver-memory": ("spark.driver.memory", driver_memory()),
    "--driver-java-options": ("spark.driver.extraJavaOptions", JAVA_OPTIONS),
}
"""Option of spark-submit to the property that a configuration may set for it, and its default."""
_OF_THE_DRIVER = ("spark.driver.cores", "spark.driver.memoryOverhead", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath")
"""Further properties that must be known before the driver runs."""
_STRUCTURED = "spark.log.structuredLogging.enabled"
"""Property for Spark's own log lines in JSON, set when the sink's are."""

RUN = '''"""Entry for spark-submit; the package is in the archive that is submitted with it."""

import sys

from dblog_sink.cli import main

if __name__ == "__main__":
    sys.exit(main())
'''


def archive(folder: Path) -> tuple[Path, Path]:
    """Write the program for spark-submit and the archive of its code into ``folder``.

    Return both paths. If the folder is read-only, as in an image, the files that it already has are
    used. Raise DefiniteError if a package is not installed here.
    """
    program, made = folder / "dblog_sink_run.py", folder / "dblog_sink.zip"
    if program.exists() and made.exists() and not os.access(folder, os.W_OK):
        return program, made
    folder.mkdir(parents=True, exist_ok=True)
    program.write_text(RUN, encoding="utf-8")
    with zipfile.ZipFile(made.with_suffix(".new"), "w", zipfile.ZIP_DEFLATED) as out:
        for name in _ARCHIVED:
            found = importlib.util.find_spec(name)
            if found is None or not found.submodule_search_locations:
                if name in _OPTIONAL:
                    continue
                msg = f"the package {name} is not installed in this Python ({sys.executable}), so the job's code is not complete; pip install ./spark-sink"
                raise DefiniteError(msg)
            package = Path(found.submodule_search_locations[0])
            for file in sorted(package.rglob("*.py")):
                # No file times, so the same code gives the same archive.
                out.writestr(zipfile.ZipInfo(f"{name}/{file.relative_to(package)}"), file.read_bytes(), zipfile.ZIP_DEFLATED)
    made.with_suffix(".new").replace(made)
    return program, made


def line(
    *,
    spark: Sequence[str],
    sink: Sequence[str],
    files: Sequence[Path],
    jars: Sequence[Path],
    program: Path,
    code: Path,
    properties: Mapping[str, str],
) -> list[str]:
    """Return the command of spark-submit with all arguments.

    ``spark`` has options of spark-submit that were given, which win. ``sink`` has the sink's
    arguments without its configuration files, which are ``files``. ``properties`` has the options
    of all of these, because a driver's memory and JVM options must be known before it reads them.
    """
    given = {argument.partition("=")[0] for argument in spark}
    arguments = [spark_submit()]
    if "spark.master" not in properties and "--master" not in given:
        arguments += ["--master", "local[*]"]
    for name, (key, value) in _DEFAULTS.items():
        if name not in given:
            arguments += [name, _resolved(properties, key) if key in properties else value]
    for key in _OF_THE_DRIVER:
        if key in properties:
            arguments += ["--conf", f"{key}={_resolved(properties, key)}"]
    if properties.get("log.format") == "json" and _STRUCTURED not in properties:
        arguments += ["--conf", f"{_STRUCTURED}=true"]
    in_cluster = "--deploy-mode=cluster" in spark or ("--deploy-mode", "cluster") in pairwise(spark)
    arguments += [*spark, "--jars", ",".join(map(str, jars)), "--py-files", str(code)]
    if in_cluster and files:
        # In cluster mode the driver sees only the submitted files, each under its base name.
        arguments += ["--files", ",".join(str(file.absolute()) for file in files)]
    arguments.append(str(program))
    for file in files:
        arguments += ["--config", file.name if in_cluster else str(file.absolute())]
    return [*arguments, *sink]


def _resolved(properties: Mapping[str, str], key: str) -> str:
    # The driver that would resolve it does not run yet.
    try:
        return job_options.resolve(properties[key])
    except ValueError as e:
        msg = f"{key}: {e}"
        raise DefiniteError(msg) from None


def spark_jars() -> Path | None:
    """Return the folder of Spark's own jars, or None if it is not on this machine.

    It belongs to the Spark that ``spark_submit`` starts.
    """
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "jars"
    found = importlib.util.find_spec("pyspark")
    return Path(found.submodule_search_locations[0]) / "jars" if found is not None and found.submodule_search_locations else None


def spark_submit() -> str:
    """Return the path of spark-submit.

    It is in SPARK_HOME, next to this Python (where pip puts PySpark's), or on the path. Raise
    DefiniteError if it is nowhere.
    """
    homes = [os.environ["SPARK_HOME"]] if os.environ.get("SPARK_HOME") else []
    candidates = [Path(sys.executable).with_name("spark-submit"), *(Path(home) / "bin" / "spark-submit" for home in homes)]
    for candidate in reversed(candidates):
        if candidate.exists():
            return str(candidate)
    found = shutil.which("spark-submit")
    if found is None:
        msg = "spark-submit is nowhere: install pyspark==4.1.1 into this Python, or set SPARK_HOME to a Spark 4.1"
        raise DefiniteError(msg)
    return found

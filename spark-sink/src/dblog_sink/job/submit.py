"""The whole command line of spark-submit: which jars, which code, which options; printed or run.

What Spark must have beside its own are the jars of Delta, Kafka and Avro. `make setup` links them into the virtual environment's ``share/dblog-sink/jars``;
DBLOG_SINK_JARS names another folder. The code goes as one archive of pure Python (``--py-files``: this package, Delta's, PyYAML), for in cluster mode
Spark copies what it is given to another machine and nothing beside it.
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
"""Of the driver: a collector for throughput; room on the stack for long schemas; and no optimising compiler for the largest methods that Spark generates, on
which it spends most of a young job's time (tests/bench/README.md). The quick compiler compiles them all the same.
"""
_DEFAULTS: Mapping[str, tuple[str, str]] = {
    "--driver-memory": ("spark.driver.memory", driver_memory()),
    "--driver-java-options": ("spark.driver.extraJavaOptions", JAVA_OPTIONS),
}
"""By option: the property that a configuration may set for it, and the default."""
_OF_THE_DRIVER = ("spark.driver.cores", "spark.driver.memoryOverhead", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath")
"""Other properties that must be known before the driver runs."""
_STRUCTURED = "spark.log.structuredLogging.enabled"
"""Spark's own lines in JSON too, where the sink's are."""

RUN = '''"""Entry for spark-submit; the package is in the archive that is submitted with it."""

import sys

from dblog_sink.cli import main

if __name__ == "__main__":
    sys.exit(main())
'''


def archive(folder: Path) -> tuple[Path, Path]:
    """The program for spark-submit and the archive of its code, written into ``folder``; DefiniteError if a package is not installed here.

    Where the folder cannot be written, the two that were made with it are used: an image has them, and its file system is read-only.
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
                # Without the time of the file: the same code is the same archive.
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
    """spark-submit with all its arguments. ``spark``: options of its own that were given, which win; ``sink``: the sink's, without the files of its
    configuration, which are ``files``; ``properties``: the options of all of these, for a driver's memory and JVM are made before it reads them.
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
        # The driver runs where only what is submitted is: beside it, under its own name.
        arguments += ["--files", ",".join(str(file.absolute()) for file in files)]
    arguments.append(str(program))
    for file in files:
        arguments += ["--config", file.name if in_cluster else str(file.absolute())]
    return [*arguments, *sink]


def _resolved(properties: Mapping[str, str], key: str) -> str:
    # The driver that would resolve it is not there yet.
    try:
        return job_options.resolve(properties[key])
    except ValueError as e:
        msg = f"{key}: {e}"
        raise DefiniteError(msg) from None


def spark_jars() -> Path | None:
    """The folder with Spark's own jars, of the Spark that ``spark_submit`` starts; None where it is not on this machine."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "jars"
    found = importlib.util.find_spec("pyspark")
    return Path(found.submodule_search_locations[0]) / "jars" if found is not None and found.submodule_search_locations else None


def spark_submit() -> str:
    """The program: in SPARK_HOME, beside this Python (where pip puts PySpark's), or on the path; DefiniteError if it is nowhere."""
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

"""The whole line of spark-submit: which jars, which code, which options; printed or run.

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

from dblog_sink import config
from dblog_sink.errors import DefiniteError

JARS_VARIABLE = "DBLOG_SINK_JARS"
NEEDED = ("delta-spark_4.1_2.13", "delta-storage", "spark-sql-kafka-0-10_2.13", "spark-avro_2.13", "kafka-clients")
"""How the names of jars begin without which nothing works."""
PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
"""The same for ``--packages``, where Spark may fetch them from Maven by itself."""
_ARCHIVED = ("dblog_sink", "delta", "yaml", "prometheus_client")
_OPTIONAL = frozenset({"prometheus_client"})
JAVA_OPTIONS = "-XX:+UseParallelGC -Xss4m -XX:+IgnoreUnrecognizedVMOptions -XX:MaxNodeLimit=10000 -XX:NodeLimitFudgeFactor=500"
"""Of the driver: a collector for throughput; room on the stack for long schemas; and no optimising compiler for the largest methods that Spark generates, on
which it spends most of a young job's time (tests/bench/README.md). They stay compiled by the quick one.
"""
_DEFAULTS: Mapping[str, tuple[str, str]] = {
    "--driver-memory": ("spark.driver.memory", "3g"),
    "--driver-java-options": ("spark.driver.extraJavaOptions", JAVA_OPTIONS),
}
"""By option: the property of a configuration that answers it, and what it is otherwise."""
_OF_THE_DRIVER = ("spark.driver.cores", "spark.driver.memoryOverhead", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath")
"""What else must be known before the driver runs."""

RUN = '''"""Entry for spark-submit; the package is in the archive that is submitted with it."""

import sys

from dblog_sink.cli import main

if __name__ == "__main__":
    sys.exit(main())
'''


def jars(environment: Mapping[str, str]) -> list[Path]:
    """The jars for ``--jars``; DefiniteError if there are none, or not all."""
    folder = Path(environment.get(JARS_VARIABLE) or Path(sys.prefix) / "share" / "dblog-sink" / "jars")
    found = sorted(folder.glob("*.jar"))
    if lacking := [name for name in NEEDED if not any(jar.name.startswith(f"{name}-") for jar in found)]:
        msg = (
            f"the jars that Spark needs are not in {folder} ({', '.join(lacking)}); run `make setup` in the repository, or name the folder that has them in "
            f"{JARS_VARIABLE}, or have Spark fetch them: spark-submit --packages {','.join(PACKAGES)}"
        )
        raise DefiniteError(msg)
    return found


def archive(folder: Path) -> tuple[Path, Path]:
    """The program for spark-submit and the archive of its code, made anew in ``folder``; DefiniteError if a package is not installed here."""
    folder.mkdir(parents=True, exist_ok=True)
    program, made = folder / "dblog_sink_run.py", folder / "dblog_sink.zip"
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
                out.write(file, f"{name}/{file.relative_to(package)}")
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
    """spark-submit with all its words. ``spark``: options of its own that were given, which win; ``sink``: the sink's, without the files of its
    configuration, which are ``files``; ``properties``: what all of these say, for a driver's memory and JVM are made before it reads them.
    """
    given = {word.partition("=")[0] for word in spark}
    words = [spark_submit()]
    if "spark.master" not in properties and "--master" not in given:
        words += ["--master", "local[*]"]
    for name, (key, value) in _DEFAULTS.items():
        if name not in given:
            words += [name, _said(properties, key) if key in properties else value]
    for key in _OF_THE_DRIVER:
        if key in properties:
            words += ["--conf", f"{key}={_said(properties, key)}"]
    in_cluster = "--deploy-mode=cluster" in spark or ("--deploy-mode", "cluster") in pairwise(spark)
    words += [*spark, "--jars", ",".join(map(str, jars)), "--py-files", str(code)]
    if in_cluster and files:
        # The driver runs where only what is submitted is: beside it, under its own name.
        words += ["--files", ",".join(str(file.absolute()) for file in files)]
    words.append(str(program))
    for file in files:
        words += ["--config", file.name if in_cluster else str(file.absolute())]
    return [*words, *sink]


def _said(properties: Mapping[str, str], key: str) -> str:
    # The driver that would resolve it is not there yet.
    try:
        return config.resolve(properties[key])
    except ValueError as e:
        msg = f"{key}: {e}"
        raise DefiniteError(msg) from None


def spark_submit() -> str:
    """The program: of SPARK_HOME, beside this Python, of PySpark, or on the path; DefiniteError if it is nowhere."""
    homes = [os.environ["SPARK_HOME"]] if os.environ.get("SPARK_HOME") else []
    places = [Path(sys.executable).with_name("spark-submit"), *(Path(home) / "bin" / "spark-submit" for home in homes)]
    for place in reversed(places):
        if place.exists():
            return str(place)
    found = shutil.which("spark-submit")
    if found is None:
        msg = "spark-submit is nowhere: install pyspark==4.1.1 into this Python, or set SPARK_HOME to a Spark 4.1"
        raise DefiniteError(msg)
    return found

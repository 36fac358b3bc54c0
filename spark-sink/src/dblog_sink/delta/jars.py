"""The jars that Spark needs beside its own: Delta's, Kafka's and Avro's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dblog_sink.errors import DefiniteError

JARS_VARIABLE = "DBLOG_SINK_JARS"
NEEDED = ("delta-spark_4.1_2.13", "delta-storage", "spark-sql-kafka-0-10_2.13", "spark-avro_2.13", "kafka-clients")
"""How the names of the required jars begin."""
OPTIONAL = "jars-s3a"
"""The folder beside, for paths in S3: ``make jars-s3a`` fills it. A folder that DBLOG_SINK_JARS names has all that its owner wants."""
PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
"""The same for ``--packages``, where Spark may fetch them from Maven by itself."""


def jars(environment: Mapping[str, str]) -> list[Path]:
    """The jars for ``--jars``; DefiniteError if there are none, or not all."""
    share = Path(sys.prefix) / "share" / "dblog-sink"
    chosen = environment.get(JARS_VARIABLE)
    folder = Path(chosen) if chosen else share / "jars"
    found = sorted([*folder.glob("*.jar"), *([] if chosen else (share / OPTIONAL).glob("*.jar"))])
    if missing := [name for name in NEEDED if not any(jar.name.startswith(f"{name}-") for jar in found)]:
        msg = (
            f"the jars that Spark needs are not in {folder} ({', '.join(missing)}); run `make setup` in the repository, or name the folder that has them in "
            f"{JARS_VARIABLE}, or have Spark fetch them: spark-submit --packages {','.join(PACKAGES)}"
        )
        raise DefiniteError(msg)
    return found


_SPARK = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<version>\d+\.\d+\.\d+.*)\.jar")
_BUILT = re.compile(r"(?P<name>[a-z0-9-]+?)(?:_(?P<spark>\d+\.\d+))?_(?P<scala>2\.\d+)-(?P<version>.+)\.jar")
"""A jar of Scala code names Scala's line; Delta's names Spark's in front of it."""
_OF_SPARK = ("spark-sql-kafka-0-10", "spark-avro")
"""Parts of Spark itself, which are of its line; the patch may be another one, for a line's patches keep their interfaces."""


def check_versions(found: Sequence[Path], spark: Path) -> None:
    """Compare the jars with those of the Spark whose folder of jars is ``spark``; DefiniteError names each that was built for another one.

    Code that was built for another line of Scala or Spark fails when it is first called, which may be days after the start.
    """
    core = next((match for jar in spark.glob("spark-core_*.jar") if (match := _SPARK.fullmatch(jar.name))), None)
    if core is None:
        return
    line = ".".join(core["version"].split(".")[:2])
    wrong = []
    for jar in found:
        built = _BUILT.fullmatch(jar.name)
        if built is None:
            continue
        if built["scala"] != core["scala"]:
            wrong.append(f"{jar.name} is for Scala {built['scala']}")
        elif built["spark"] not in (None, line):
            wrong.append(f"{jar.name} is for Spark {built['spark']}")
        elif built["name"] in _OF_SPARK and ".".join(built["version"].split(".")[:2]) != line:
            wrong.append(f"{jar.name} is of Spark {built['version']}")
    if wrong:
        msg = (
            f"Spark {core['version']} with Scala {core['scala']} cannot run these jars: {'; '.join(wrong)}. "
            f"Put those of this Spark in their place: {', '.join(PACKAGES)}"
        )
        raise DefiniteError(msg)

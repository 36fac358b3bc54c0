"""Finds the jars that Spark needs in addition to its own: Delta's, Kafka's and Avro's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dblog_sink.errors import DefiniteError

JARS_VARIABLE = "DBLOG_SINK_JARS"
NEEDED = ("delta-spark_4.1_2.13", "delta-storage", "spark-sql-kafka-0-10_2.13", "spark-avro_2.13", "kafka-clients")
"""Beginnings of the names of the required jars."""
OPTIONAL = "jars-s3a"
"""Folder with jars for paths in S3, next to the required ones; ``make jars-s3a`` fills it. It is
not used if DBLOG_SINK_JARS names a folder.
"""
PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
"""The required jars for ``--packages``, if Spark may fetch them from Maven."""


def jars(environment: Mapping[str, str]) -> list[Path]:
    """Return the jars for ``--jars``. Raise DefiniteError if a required one is missing."""
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
"""Matches a jar of Scala code, which names Scala's version; Delta's also names Spark's before
it.
"""
_OF_SPARK = ("spark-sql-kafka-0-10", "spark-avro")
"""Modules of Spark itself. They must have Spark's minor version; the patch may differ, as patches
keep their interfaces.
"""


def check_versions(found: Sequence[Path], spark: Path) -> None:
    """Compare the jars with the Spark whose folder of jars is ``spark``.

    Raise DefiniteError that names each jar built for another version. Code built for another Scala
    or Spark fails only when it is first called, perhaps days after the start.
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

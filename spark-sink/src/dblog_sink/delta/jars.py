"""The jars that Spark needs beside its own: Delta's, Kafka's and Avro's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from dblog_sink.errors import DefiniteError

JARS_VARIABLE = "DBLOG_SINK_JARS"
NEEDED = ("delta-spark_4.1_2.13", "delta-storage", "spark-sql-kafka-0-10_2.13", "spark-avro_2.13", "kafka-clients")
"""How the names of the required jars begin."""
PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
"""The same for ``--packages``, where Spark may fetch them from Maven by itself."""


def jars(environment: Mapping[str, str]) -> list[Path]:
    """The jars for ``--jars``; DefiniteError if there are none, or not all."""
    folder = Path(environment.get(JARS_VARIABLE) or Path(sys.prefix) / "share" / "dblog-sink" / "jars")
    found = sorted(folder.glob("*.jar"))
    if missing := [name for name in NEEDED if not any(jar.name.startswith(f"{name}-") for jar in found)]:
        msg = (
            f"the jars that Spark needs are not in {folder} ({', '.join(missing)}); run `make setup` in the repository, or name the folder that has them in "
            f"{JARS_VARIABLE}, or have Spark fetch them: spark-submit --packages {','.join(PACKAGES)}"
        )
        raise DefiniteError(msg)
    return found

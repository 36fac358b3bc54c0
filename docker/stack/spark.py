"""The jars that are added to PySpark's own, so that `spark-submit --jars` reads Kafka and Avro and writes Delta."""

from pathlib import Path

from stack.maven import jars

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For JVMs that live for minutes: what the optimising compiler costs does not come back. Without it code would have 48 MB, which Spark's generated
classes fill; throwing code out of it and compiling it again takes up to half of a core."""

_ADDED = (
    # Everything else that these depend on is in PySpark already, some of it in other versions: adding it twice breaks Spark.
    "commons-pool2",
    "delta-kernel-api",
    "delta-kernel-defaults",
    "delta-kernel-unitycatalog",
    "delta-spark_4.1_2.13",
    "delta-storage",
    "kafka-clients",
    "spark-avro_2.13",
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "unitycatalog-client",
    "unitycatalog-hadoop",
)


def spark_jars() -> list[Path]:
    """The jars for `--jars`, downloaded when this machine has none yet."""
    return sorted(jars("spark", only=_ADDED).glob("*.jar"))

"""The jars that are added to PySpark's own, so that `spark-submit --jars` reads Kafka and Avro and writes Delta."""

from pathlib import Path

from stack.maven import jars

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For JVMs that run for minutes only: in that time the optimising compiler does not earn what it costs. Without it the code cache would have 48 MB, which
Spark's generated classes fill; evicting code and compiling it again takes up to half of a core."""

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


_IN_SPARK = ("commons-", "httpclient-", "httpcore-", "netty-", "slf4j-")
"""Of the jars that Amazon's bring along, those that PySpark has already, in other versions."""


def s3a_jars() -> list[Path]:
    """The jars with which Spark's files can be in a store with S3's interface (``s3a://``); only tests ask for them."""
    found = sorted(jars("s3a").glob("*.jar"))
    return [jar for jar in found if jar.name.startswith("netty-nio-client-") or not jar.name.startswith(_IN_SPARK)]


def spark_jars() -> list[Path]:
    """The jars for `--jars`, downloaded when this machine has none yet."""
    return sorted(jars("spark", only=_ADDED).glob("*.jar"))

"""Gets the jars with which `spark-submit --jars` reads Kafka and Avro and writes Delta."""

import hashlib
import tomllib
import zipfile
from pathlib import Path

from stack.cache import cached
from stack.commands import run
from stack.java import javac
from stack.maven import jars

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""JVM options for programs that run for minutes, in which the optimizing compiler does not pay.
Without it the code cache would have 48 MB, which Spark's generated classes fill; evicting code and
compiling it again takes up to half of a core.
"""

ADDED = (
    # PySpark already has everything else that these depend on, sometimes in other versions; adding
    # those would break Spark.
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


_SINK = Path(__file__).parents[2] / "spark-sink"
_LOG_STORE = _SINK / "java" / "dblog" / "sink" / "S3ConditionalLogStore.java"

_IN_SPARK = ("commons-", "httpclient-", "httpcore-", "netty-", "slf4j-")
"""Prefixes of jars that Amazon's depend on but that PySpark already has, in other versions."""


def s3a_jars() -> list[Path]:
    """Return the jars for files in a store with S3's interface, with the sink's log store.

    The log store lets several drivers write there.
    """
    return [*_amazons_jars(), log_store_jar()]


def image_jars() -> list[Path]:
    """Return all jars from Maven in the sink's image besides PySpark's, including those for S3."""
    return sorted([*spark_jars(), *_amazons_jars()], key=lambda jar: jar.name)


def _amazons_jars() -> list[Path]:
    found = sorted(jars("s3a").glob("*.jar"))
    return [jar for jar in found if jar.name.startswith("netty-nio-client-") or not jar.name.startswith(_IN_SPARK)]


def log_store_jar() -> Path:
    """Return the sink's log store for S3, compiled from one file against Delta and Hadoop."""
    source = _LOG_STORE.read_bytes()
    version = str(tomllib.loads((_SINK / "pyproject.toml").read_text())["project"]["version"])
    hadoop = jars("spark", only=("hadoop-client-api",)).glob("*.jar")
    against = [*(jar for jar in spark_jars() if jar.name.startswith("delta-storage-")), *hadoop]
    digest = hashlib.sha256(source + "".join([version, *(jar.name for jar in against)]).encode()).hexdigest()[:12]

    def fill(folder: Path) -> None:
        classes = folder / "classes"
        run(
            [javac(), "--release", "17", "-Xlint:all", "-Werror", "-d", str(classes), "-cp", ":".join(map(str, against)), str(_LOG_STORE)],
            what=f"Compiling {_LOG_STORE.name}",
        )
        content = {
            "META-INF/MANIFEST.MF": f"Manifest-Version: 1.0\nImplementation-Version: {version}\nBundle-License: Apache-2.0\n".encode()
        }
        content |= {str(file.relative_to(classes)): file.read_bytes() for file in sorted(classes.rglob("*.class"))}
        with zipfile.ZipFile(folder / "dblog-s3-log-store.jar", "w", zipfile.ZIP_DEFLATED) as out:
            for name, stored in content.items():
                # A fixed time, so that the same classes give the same jar.
                out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), stored)

    return cached(f"log-store-{digest}", fill) / "dblog-s3-log-store.jar"


def spark_jars() -> list[Path]:
    """Return the jars for `--jars`, downloaded if this machine has none yet."""
    return sorted(jars("spark", only=ADDED).glob("*.jar"))

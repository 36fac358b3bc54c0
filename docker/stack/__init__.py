"""Servers for the demo, tests and benchmarks, without root; in containers only if necessary.

A server is a context manager. Entering it installs what is missing (once per machine, see `cache`),
starts the real program on a free loopback port and waits until it answers; leaving it stops the
program. Whatever ends the parent, a guard process (see `guard`) also ends the server, so nothing
keeps running.

    with Kafka(folder / "kafka") as kafka, MariaDb(folder / "mariadb") as source:
        ...  kafka.bootstrap, source.host, source.port, source.user, source.password

Only the standard library is imported, because this package runs before the virtual environment
exists.
"""

from stack.debezium import Debezium
from stack.errors import StackError, Unavailable
from stack.image_registry import ImageRegistry
from stack.kafka import Kafka
from stack.mariadb import MariaDb
from stack.mysql import MySql
from stack.object_store import ObjectStore
from stack.postgres import Postgres, Postgres17, Postgres18
from stack.process import GuardedProcess
from stack.prometheus import Prometheus
from stack.server import Server
from stack.spark import BRIEF_JVM, image_jars, s3a_jars, spark_jars

__all__ = [
    "BRIEF_JVM",
    "Debezium",
    "GuardedProcess",
    "ImageRegistry",
    "Kafka",
    "MariaDb",
    "MySql",
    "ObjectStore",
    "Postgres",
    "Postgres17",
    "Postgres18",
    "Prometheus",
    "Server",
    "StackError",
    "Unavailable",
    "image_jars",
    "s3a_jars",
    "spark_jars",
]

"""The demo of compose.yaml: shops in both databases, connectors by REST, writes, and their arrival.

It checks Kafka and the lake. It runs in the worker's image, which has a driver for both databases
and reads Kafka. It can be run again and keeps what exists.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable

import pymysql
from dblog.apply.interface import Interface, RefusedError
from dblog.errors import TransientError

BROKERS = os.environ.get("DEMO_BROKERS", "kafka:9092")
WORKER = os.environ.get("DEMO_WORKER", "http://worker-1:8083")
NUMBERS = os.environ.get("DEMO_NUMBERS", "http://sink:9404/metrics")
SOURCES = os.environ.get("DEMO_SOURCES", "mariadb,mysql").split(",")
PASSWORD = os.environ.get("DEMO_PASSWORD", "demo")
ROWS = 1000
CONNECTORS = {
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
}


def address(source: str) -> tuple[str, int]:
    """Return host and port of a database; DEMO_MARIADB=host:port names one outside compose."""
    host, _, port = os.environ.get(f"DEMO_{source.upper()}", f"{source}:3306").partition(":")
    return host, int(port)


def write(source: str, *statements: str) -> None:
    host, port = address(source)
    connection = pymysql.connect(host=host, port=port, user="root", password=PASSWORD, autocommit=True)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def connect(source: str) -> None:
    """Make the group run the connector, whichever worker leads. An existing one is updated."""
    host, port = address(source)
    config = {
        "name": f"demo-{source}",
        "connector.class": CONNECTORS[source],
        "tasks.max": "1",
        "database.hostname": host,
        "database.port": str(port),
        "database.user": "root",
        "database.password": "${env:SOURCE_PASSWORD}",
        "database.server.id": str(184054 + len(source)),
        "topic.prefix": f"demo_{source}",
        "database.include.list": f"shop_{source}",
        "schema.history.internal.kafka.bootstrap.servers": BROKERS,
        "schema.history.internal.kafka.topic": f"demo-history-{source}",
    }

    def taken() -> bool:
        try:
            with Interface(WORKER, login=None) as group:
                group.require_ready()
                group.put_config(config)
        # No worker leads yet.
        except TransientError:
            return False
        except RefusedError as e:
            sys.exit(f"the worker refuses the connector of {source}: {e}")
        return True

    wait(taken, f"a leader that takes the connector of {source}")


def written(source: str, operation: str) -> float:
    """Return how many rows of this source the sink has written to Delta, by its own metric."""
    text = urllib.request.urlopen(NUMBERS, timeout=10).read().decode()  # noqa: S310  an address of compose.yaml
    wanted = [line for line in text.splitlines() if line.startswith("dblog_sink_rows_total{") and f'op="{operation}"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in wanted if f"shop_{source}" in line)


def wait(condition: Callable[[], bool], what: str, *, limit_s: float = 600) -> None:
    until = time.monotonic() + limit_s
    while True:
        try:
            if condition():
                return
        # The sink is still starting.
        except OSError:
            pass
        if time.monotonic() > until:
            sys.exit(f"waited {limit_s:.0f} s for {what}; `docker compose logs worker-1 worker-2 sink` says why")
        time.sleep(0.5)


def main() -> None:
    """Run everything once for each source."""
    rows = ", ".join(f"('customer {number}', {number}.25)" for number in range(ROWS))
    for source in SOURCES:
        print(f"{source}: a shop with {ROWS} customers", flush=True)
        write(
            source,
            f"CREATE DATABASE IF NOT EXISTS shop_{source}",
            f"CREATE TABLE IF NOT EXISTS shop_{source}.customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL, credit DECIMAL(10,2) NOT NULL)",
            f"INSERT INTO shop_{source}.customers (name, credit) VALUES {rows}",
        )
        connect(source)
    for source in SOURCES:
        wait(lambda source=source: written(source, "upsert") >= ROWS, f"the rows of {source} in the lake")
        print(f"{source}: {written(source, 'upsert'):.0f} rows are in the lake", flush=True)
        before = written(source, "upsert"), written(source, "delete")
        started = time.monotonic()
        write(
            source,
            f"UPDATE shop_{source}.customers SET credit = credit + 1 ORDER BY id DESC LIMIT 1",
            f"DELETE FROM shop_{source}.customers ORDER BY id LIMIT 1",
        )
        wait(
            lambda source=source, before=before: written(source, "upsert") > before[0] and written(source, "delete") > before[1],
            f"the changes of {source} in the lake",
        )
        print(
            f"{source}: an update and a delete were in the lake {time.monotonic() - started:.1f} s after their commit. The records:",
            flush=True,
        )
        topic = f"demo_{source}.shop_{source}.customers"
        subprocess.run(["dblog", "tail", topic, "-n", "2", "--bootstrap", BROKERS, "--registry", WORKER], check=True)
    print("The tables: docker compose exec sink sink-entrypoint show shop_mariadb.customers --config /etc/dblog/sink.yaml")


if __name__ == "__main__":
    main()

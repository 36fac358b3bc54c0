"""What a release reads and writes outside of its cluster: a broker and a database on this machine, and one table that is written to all the time."""

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Self

import pymysql
from kubernetes import settings
from stack import Kafka, MariaDb
from stack.process import free_port
from support.servers import execute

DATABASE, TABLE = "shop", "numbers"
USER = "dblog"
ROWS_AT_FIRST = 2_000
"""In the table before there is a connector: they are dumped."""


class KafkaOfTwoNetworks(Kafka):
    """A broker that tells clients of the machine its loopback address, and those in the cluster the address that relays lead from."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.node_port = free_port()

    @property
    def node_bootstrap(self) -> str:
        return f"{settings.ADDRESS}:{self.node_port}"

    def _properties(self, address: str) -> dict[str, object]:
        given = super()._properties(address)
        return {
            **given,
            "listeners": f"{given['listeners']},NODE://127.0.0.1:{self.node_port}",
            "advertised.listeners": f"{given['advertised.listeners']},NODE://{self.node_bootstrap}",
            "listener.security.protocol.map": f"{given['listener.security.protocol.map']},NODE:PLAINTEXT",
        }


def create_table(source: MariaDb, *, password: str) -> None:
    """A table with some rows, and the account of a connector with the privileges that it needs."""
    execute(
        source,
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.{TABLE} (number INT PRIMARY KEY, text VARCHAR(40), changed INT NOT NULL DEFAULT 0)",
        f"INSERT INTO {DATABASE}.{TABLE} (number, text) SELECT seq, CONCAT('first ', seq) FROM {DATABASE}.seq_1_to_{ROWS_AT_FIRST}",
        f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}'",
        f"GRANT BINLOG MONITOR, REPLICATION SLAVE ON *.* TO '{USER}'@'%'",
        f"GRANT SELECT ON {DATABASE}.* TO '{USER}'@'%'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO '{USER}'@'%'",
    )


class NumberedRows:
    """While it runs, rows with rising numbers are inserted, each its own transaction, and every tenth one is updated after the next: a writer who never rests.

    Its numbers say what must arrive: every one up to `newest`, once.
    """

    def __init__(self, source: MariaDb, *, rate_per_s: float = 25.0) -> None:
        self._source, self._pause_s = source, 1 / rate_per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="numbered rows", daemon=True)
        self._error: BaseException | None = None
        self.newest = int(execute(source, f"SELECT MAX(number) FROM {DATABASE}.{TABLE}")[0][0])
        self.began_at = self.newest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        if self._error is not None:
            raise self._error

    @property
    def written(self) -> int:
        """Rows inserted so far by this writer."""
        return self.newest - self.began_at

    def _write(self) -> None:
        try:
            with (
                closing(pymysql.connect(**self._source.login, database=DATABASE, autocommit=True)) as connection,
                connection.cursor() as cursor,
            ):
                while not self._stop.is_set():
                    number = self.newest + 1
                    cursor.execute(f"INSERT INTO {TABLE} (number, text) VALUES (%s, %s)", (number, f"at {time.time():.3f}"))
                    if number % 10 == 0:
                        cursor.execute(f"UPDATE {TABLE} SET changed = changed + 1 WHERE number = %s", (number - 1,))
                    self.newest = number
                    self._stop.wait(self._pause_s)
        except pymysql.err.Error as error:  # raised again by whoever ends the writer
            self._error = error

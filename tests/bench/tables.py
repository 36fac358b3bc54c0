"""The tables of the benchmarks and what is written to them; all rows are made by the server, so that the client's speed does not matter.

Values are functions of the row's number `n`: the same table whatever the machine and the run.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

import pymysql
from stack.database import Database

DATABASE = "bench"
NUMBERS = 10_000
"""Rows of the table `numbers`, n from 0 on."""

_DIGITS = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"


@dataclass(frozen=True, slots=True)
class Shape:
    """A table: its columns as DDL, and beside the automatic key the names and the values by number (`{n}`)."""

    columns: str
    names: str
    values: str
    statement_rows: int = NUMBERS
    """Rows that one INSERT of a multi-row writer makes."""

    def insert(self, table: str, n: str, *, numbered: bool = False) -> str:
        """``numbered``: the key is n + 1, without the gaps that the server leaves between statements."""
        names, values = (f"id, {self.names}", f"{n} + 1, {self.values.format(n=n)}") if numbered else (self.names, self.values.format(n=n))
        return f"INSERT INTO {DATABASE}.{table} ({names}) SELECT {values}"


TEN = Shape(
    "id bigint NOT NULL AUTO_INCREMENT, amount int NOT NULL, name varchar(60) NOT NULL, price decimal(12,2) NOT NULL, kind smallint NOT NULL,"
    " flag tinyint(1) NOT NULL, made datetime(6) NOT NULL, seen timestamp(3) NOT NULL, note varchar(200) NULL, weight double NOT NULL, PRIMARY KEY (id)",
    "amount, name, price, kind, flag, made, seen, note, weight",
    "{n} * 7919 % 2000000000, CONCAT('name-', {n}), {n} % 1000000 / 100, {n} % 30000, {n} % 2,"
    " DATE_ADD('2024-01-01', INTERVAL {n} * 1000003 MICROSECOND), DATE_ADD('2024-01-01', INTERVAL {n} * 1003000 MICROSECOND),"
    " RPAD({n}, 30, 'abcdefghij'), {n} / 7",
)
"""The table of the reference figures: 10 columns, a note of 30 characters."""

NARROW = Shape("id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, amount int NOT NULL", "amount", "{n} * 7919 % 2000000000")

TEXT = Shape(
    "id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, body mediumtext NOT NULL",
    "body",
    "REPEAT(CONCAT(SHA2({n}, 512), SHA2({n} + 1, 256), SHA2({n} + 2, 512), ' äöü€ ', SHA2({n} + 4, 384)), 19)",
    statement_rows=500,
)
"""Rows of about 8 KiB, half of a block repeated."""

JSON = Shape(
    "id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, customer json NOT NULL, lines_ json NOT NULL, tags json NULL",
    "customer, lines_, tags",
    "JSON_OBJECT('id', {n}, 'name', CONCAT('name-', {n}), 'email', CONCAT('user', {n}, '@example.com'), 'active', {n} % 2 = 0, 'score', {n} / 7,"
    " 'address', JSON_OBJECT('street', CONCAT({n} % 300, ' Main Street'), 'zip', {n} % 99999, 'city', 'Köln', 'note', NULL)),"
    " JSON_ARRAY(JSON_OBJECT('sku', LEFT(SHA2({n}, 256), 32), 'quantity', {n} % 9, 'price', {n} % 1000 / 4), JSON_OBJECT('sku', LEFT(SHA2({n} + 1, 256), 32), 'quantity', 1, 'price', 12.5),"
    " JSON_OBJECT('sku', LEFT(SHA2({n} + 2, 256), 32), 'quantity', -{n}, 'price', 0.125)), JSON_ARRAY('new', 'gift', {n}, {n} % 3 = 0, NULL)",
    statement_rows=2_000,
)
"""Three documents a row, about 600 characters of text, 30 values."""


def _wide() -> Shape:
    kinds = (
        ("int NOT NULL", "{n} * 7919 % 2000000000"),
        ("varchar(20) NOT NULL", "CONCAT('value-', {n})"),
        ("bigint NULL", "{n} * 1000003"),
        ("decimal(10,2) NOT NULL", "{n} % 1000000 / 100"),
        ("smallint unsigned NULL", "IF({n} % 3 = 0, NULL, {n} % 60000)"),
        ("datetime(3) NOT NULL", "DATE_ADD('2024-01-01', INTERVAL {n} SECOND)"),
        ("double NOT NULL", "{n} / 7"),
        ("tinyint(1) NOT NULL", "{n} % 2"),
        ("date NULL", "DATE_ADD('2000-01-01', INTERVAL {n} % 9000 DAY)"),
        ("char(8) NULL", "LEFT(SHA2({n}, 256), 8)"),
    )
    columns = [(f"c{at:03}", *kinds[at % len(kinds)]) for at in range(199)]
    return Shape(
        "id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, " + ", ".join(f"{name} {kind}" for name, kind, _ in columns),
        ", ".join(name for name, _, _ in columns),
        ", ".join(value for _, _, value in columns),
        statement_rows=1_000,
    )


WIDE = _wide()
"""200 columns of ten types."""

LATENCY = Shape(
    "at_us bigint NOT NULL PRIMARY KEY, amount int NOT NULL, note varchar(200) NOT NULL",
    "at_us, amount, note",
    "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED), {n} % 1000, RPAD({n}, 30, 'abcdefghij')",
)
"""The key is the moment of the insert: whoever sees the key knows how long it took."""


SIGNALS = "debezium_signal"
SIGNAL = Shape("id varchar(64) NOT NULL PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048) NULL", "", "")
"""The table of signals, as Debezium's documentation has it."""


SHAPES = {"TEN": TEN, "NARROW": NARROW, "TEXT": TEXT, "JSON": JSON, "WIDE": WIDE, "LATENCY": LATENCY, "SIGNAL": SIGNAL}


class Source:
    """The database under measurement, as its administrator. ``postgres.PostgresTables`` is the same for PostgreSQL."""

    def __init__(self, server: Database) -> None:
        self.server = server

    def shape(self, name: str) -> Shape:
        """A table of the benchmarks, by its name here."""
        return SHAPES[name]

    def analyze(self, table: str) -> str:
        """The statement that brings its statistics up to date."""
        return f"ANALYZE TABLE {DATABASE}.{table}"

    def drop_slot(self, name: str) -> None:
        """A binlog is kept for nobody."""

    def execute(self, *statements: str, log: bool = True) -> None:
        """Each statement commits; with ``log=False`` the binary log does not see it."""
        with contextlib.closing(pymysql.connect(**self.server.login, autocommit=True)) as connection, connection.cursor() as cursor:
            if not log:
                cursor.execute("SET SESSION sql_log_bin = 0")
            for statement in statements:
                cursor.execute(statement)

    def newest(self, table: str) -> int:
        """The highest key."""
        with contextlib.closing(pymysql.connect(**self.server.login)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT MAX(id) FROM {DATABASE}.{table}")
            return int(cursor.fetchone()[0])

    def prepare(self) -> None:
        """The database and the table of numbers."""
        self.execute(f"CREATE DATABASE {DATABASE}", f"CREATE TABLE {DATABASE}.numbers (n int NOT NULL PRIMARY KEY)")
        d = _DIGITS
        self.execute(
            f"INSERT INTO {DATABASE}.numbers SELECT a.n * 1000 + b.n * 100 + c.n * 10 + d.n FROM {d} a, {d} b, {d} c, {d} d", log=False
        )

    def create(self, table: str, shape: Shape) -> None:
        self.execute(f"CREATE TABLE {DATABASE}.{table} ({shape.columns}) ENGINE=InnoDB")

    def write_many(self, table: str, shape: Shape, rows: int, *, log: bool = True, numbered: bool = False) -> None:
        """Statements of many rows, each a transaction; the server makes rows events of about 8 KiB of each."""
        statements = []
        for start in range(0, rows, shape.statement_rows):
            count = min(shape.statement_rows, rows - start)
            insert = shape.insert(table, f"(t.n + {start})", numbered=numbered)
            statements.append(f"{insert} FROM {DATABASE}.numbers t WHERE t.n < {count}")
        self.execute(*statements, log=log)

    def ask(self, table: str) -> None:
        """A signal that asks for a dump of the table beside the log, as Debezium takes it and dblog too."""
        data = json.dumps({"type": "incremental", "data-collections": [f"{DATABASE}.{table}"]})
        self.execute(f"INSERT INTO {DATABASE}.{SIGNALS} VALUES (UUID(), 'execute-snapshot', '{data}')")

    def write_single(self, table: str, shape: Shape, rows: int) -> None:
        """A transaction a row."""
        self._call("one_by_one", rows, f"{shape.insert(table, 'i')};")

    def write_mixed(self, table: str, shape: Shape, transactions: int) -> None:
        """Transactions of an UPDATE of 5 rows, a DELETE of 2 and an INSERT of 3; `mixed_base` rows must be there."""
        self._call(
            "mixed",
            transactions,
            "START TRANSACTION;"
            f" UPDATE {DATABASE}.{table} SET amount = amount + 1, note = RPAD(i, 30, 'klmnopqrst') WHERE id BETWEEN i * 5 % {MIXED_HOT} + 1 AND i * 5 % {MIXED_HOT} + 5;"
            f" DELETE FROM {DATABASE}.{table} WHERE id BETWEEN {MIXED_HOT} + i * 2 + 1 AND {MIXED_HOT} + i * 2 + 2;"
            f" {shape.insert(table, '(t.n + i)')} FROM {DATABASE}.numbers t WHERE t.n < 3; COMMIT;",
        )

    def write_paced(self, table: str, *, per_s: int, seconds: float) -> None:
        """Single-row transactions on `LATENCY` at an even pace, as far as the server can follow."""
        total = int(per_s * seconds)
        self._call(
            "paced",
            total,
            f"SET ahead_s = started_s + i * 1e0 / {per_s} - UNIX_TIMESTAMP(SYSDATE(6)); IF ahead_s > 0 THEN DO SLEEP(ahead_s); END IF;"
            f" {LATENCY.insert(table, 'i')};",
            declare="DECLARE ahead_s DOUBLE; DECLARE started_s DOUBLE DEFAULT UNIX_TIMESTAMP(SYSDATE(6));",
        )

    def end_paced(self) -> None:
        """End what ``write_paced`` writes in another thread."""
        with contextlib.closing(pymysql.connect(**self.server.login)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT t.PROCESSLIST_ID FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING (THREAD_ID)"
                " WHERE s.SQL_TEXT LIKE 'CALL %.paced(%'"
            )
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")

    def _call(self, procedure: str, times: int, body: str, *, declare: str = "") -> None:
        self.execute(
            f"DROP PROCEDURE IF EXISTS {DATABASE}.{procedure}",
            f"CREATE PROCEDURE {DATABASE}.{procedure}(times INT) BEGIN DECLARE i INT DEFAULT 0; {declare}"
            f" WHILE i < times DO {body} SET i = i + 1; END WHILE; END",
            f"CALL {DATABASE}.{procedure}({times})",
        )


MIXED_HOT = 10_000
"""Rows that are updated again and again; the ones that are deleted lie behind them."""
MIXED_RECORDS = 5 + 2 * 2 + 3
"""Records of one mixed transaction: a delete is followed by a tombstone."""


def mixed_base(transactions: int) -> int:
    """Rows that `write_mixed` wants to find."""
    return MIXED_HOT + 2 * transactions

"""Records the seeds of the fuzzer from real servers: their logs' packets with every kind of event and type, and rows of result sets.

Run by hand when the servers or the kinds of events change: ``PYTHONPATH=docker build/venv/bin/python tests/fuzz/record.py``; the result is kept in the
repository (``seeds.json.zst``), so that fuzzing needs no server and its cases can be had again from a number.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "integration"), str(TESTS.parent / "docker")]

from backports import zstd  # noqa: E402 - the path comes first
from dblog.dialects.mysql.catalog import sql  # noqa: E402
from dblog.dialects.mysql.wire.connect import ConnectSettings  # noqa: E402
from dblog.model import TableId  # noqa: E402
from stack import MariaDb, MySql  # noqa: E402
from stack.database import Database  # noqa: E402
from support.dialects import dialect_of  # noqa: E402
from support.servers import connected  # noqa: E402
from support.sessions import open_dump  # noqa: E402
from test_rowpath_real import CASES  # noqa: E402

SEEDS = Path(__file__).with_name("seeds.json.zst")
DATABASE = "fuzz"
COLUMNS = 6
"""Of a table: few, so that a case takes microseconds."""
BOTH = (
    "CREATE TABLE small (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20), b TEXT, n DECIMAL(9, 2))",
    "INSERT INTO small (a, b, n) VALUES ('one', 'text', 1.5), ('two', NULL, -3), (NULL, REPEAT('x', 300), NULL)",
    "BEGIN",
    "UPDATE small SET a = 'three', n = 9 WHERE id = 1",
    "SAVEPOINT s",
    "DELETE FROM small WHERE id = 2",
    "UPDATE small SET id = 30 WHERE id = 3",
    "COMMIT",
    "XA START 'one'",
    "INSERT INTO small (a) VALUES ('xa')",
    "XA END 'one'",
    "XA PREPARE 'one'",
    "XA COMMIT 'one'",
    "ALTER TABLE small ADD COLUMN e ENUM('x', 'y') DEFAULT 'x'",
    "INSERT INTO small (a, e) VALUES ('new', 'y')",
    "SET SESSION binlog_row_image = 'NOBLOB'",
    "UPDATE small SET n = 1",
    "SET SESSION binlog_row_image = 'MINIMAL'",
    "UPDATE small SET n = 2",
    "DELETE FROM small WHERE id = 30",
    "SET SESSION binlog_row_image = 'FULL'",
    "FLUSH BINARY LOGS",
)
OWN = {
    "mysql": (
        "SET SESSION binlog_rows_query_log_events = ON",
        "SET gtid_next = 'AUTOMATIC:tag_1'",
        "INSERT INTO small (a) VALUES ('tagged')",
        "SET gtid_next = 'AUTOMATIC'",
        "CREATE TABLE documents (id INT PRIMARY KEY, j JSON)",
        "INSERT INTO documents VALUES (1, JSON_OBJECT('a', JSON_ARRAY(1, 2.5, 'x', NULL), 'b c', CAST('12:13' AS TIME))), (2, '[]')",
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE documents SET j = JSON_SET(j, '$.a[1]', 'longer', '$.\"b c\"', CAST(1.1 AS DECIMAL(5, 2)), '$.new', JSON_OBJECT('z', 1)) WHERE id = 1",
        "UPDATE documents SET j = JSON_REMOVE(j, '$.a[0]') WHERE id = 1",
        "SET SESSION binlog_row_value_options = ''",
        "SET SESSION binlog_transaction_compression = ON",
        "BEGIN",
        "INSERT INTO small (a, b) VALUES ('packed', REPEAT('y', 900)), ('two', 'z')",
        "UPDATE small SET b = 'w' WHERE a = 'packed'",
        "COMMIT",
    ),
    "mariadb": (
        "SET GLOBAL log_bin_compress = ON",
        "SET GLOBAL log_bin_compress_min_len = 10",
        "INSERT INTO small (a, b) VALUES ('packed', REPEAT('y', 900)), ('two', 'z')",
        "UPDATE small SET b = REPEAT('w', 500) WHERE a = 'packed'",
        "CREATE TABLE packed_statement (id INT PRIMARY KEY, a_column_with_a_long_name VARCHAR(20))",
        "SET GLOBAL log_bin_compress = OFF",
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=TESTS.parent / "build") as folder:
        servers = [MySql(Path(folder) / "mysql", durable=False), MariaDb(Path(folder) / "mariadb", durable=False)]
        seeds = [record(server) for server in servers]
    SEEDS.write_bytes(zstd.compress(json.dumps(seeds).encode(), 19))
    print([(s["flavor"], len(s["packets"]), len(s["chunks"])) for s in seeds], SEEDS.stat().st_size)


def record(server: Database) -> dict[str, Any]:
    """One flavor's seeds."""
    dialect = dialect_of(server.flavor)
    cases = [case for case in CASES if server.flavor in case.flavors]
    parts = [cases[at : at + COLUMNS] for at in range(0, len(cases), COLUMNS)]
    with server, connected(server) as connection, connection.cursor() as cursor:
        settings = ConnectSettings(host=server.host, port=server.port, user=server.user, password=server.password)
        with contextlib.closing(dialect.connect(settings)) as session:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
            cursor.execute(f"USE {DATABASE}")
            file, pos, _ = session.current_position()
            for statement in (*BOTH, *OWN[server.flavor]):
                cursor.execute(statement)
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            for number, part in enumerate(parts):
                columns = ", ".join(f"c{i} {case.ddl}" for i, case in enumerate(part))
                cursor.execute(f"CREATE TABLE every_{number} (id INT PRIMARY KEY, {columns}) DEFAULT CHARSET utf8mb4")
                rows = min(4, max(len(case.values) for case in part))
                for row in range(rows):
                    values = [case.values[row][0] if row < len(case.values) else "NULL" for case in part]
                    cursor.execute(
                        f"INSERT INTO every_{number} VALUES ({row}, {', '.join('NULL' if 'repeat' in v else v for v in values)})"
                    )
                cursor.execute(f"UPDATE every_{number} SET id = 100 WHERE id = 1")
                cursor.execute(f"DELETE FROM every_{number} WHERE id = 2")
            cursor.execute("CREATE TABLE the_end (id INT)")
            packets = log_packets(session, file, pos)
            charsets = dialect.charsets(session)
            chunks = []
            for name in ("small", *(f"every_{number}" for number in range(len(parts)))):
                table = session.read_catalog(lambda t, name=name: t == TableId(DATABASE, name))[0]
                with contextlib.closing(open_dump(session, TableId(DATABASE, "watermarks"))) as dump:
                    dump.begin_snapshot()
                    statement, parameters = sql.chunk_select(table, None, None, 2)
                    chunks.append({"table": name, "rows": text(dump.select(statement, parameters, key=()).rows)})
    return {
        "flavor": server.flavor,
        "collations": {str(number): pair for number, pair in charsets.collations.items()},
        "widths": dict(charsets.widths),
        "file": file,
        "pos": pos,
        "packets": [text(packet) for packet in packets],
        "chunks": chunks,
    }


def log_packets(session: Any, file: str, pos: int) -> list[bytes]:
    raw = b""
    with contextlib.closing(session.open_log(server_id=4711, file=file, pos=pos, gtids=None, statements=True)) as connection:
        while b"the_end" not in raw:
            raw += connection.recv(1.0)
    packets, at = [], 0
    while at + 4 <= len(raw):
        size = int.from_bytes(raw[at : at + 3], "little")
        packets.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    return packets


def text(raw: bytes) -> str:
    return base64.b64encode(bytes(raw)).decode()


if __name__ == "__main__":
    main()

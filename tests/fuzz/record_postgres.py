"""Makes the seeds of PostgreSQL's decoder from a real server: its log's messages, also of a transaction that comes while it is under way, and rows as COPY prints them.

Run by hand when the kinds of messages or types change: ``PYTHONPATH=docker:tests build/venv/bin/python tests/fuzz/record_postgres.py``; the result is kept in
the repository (``pgoutput_seeds.json.zst``), as `record.py` keeps those of MySQL and MariaDB.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import psycopg2
from backports import zstd
from fuzz.pgoutput_cases import SEEDS
from stack import Postgres
from support.postgres import connected
from support.postgres_type_cases import CASES, PREPARATION, SETTINGS, TypeCase

COLUMNS = 6
"""Of a table: few, so that a case takes microseconds."""
HISTORY = (
    "CREATE TABLE small (id int PRIMARY KEY, a text, n numeric(9, 2), long text)",
    "ALTER TABLE small ALTER long SET STORAGE EXTERNAL",
    "BEGIN",
    "INSERT INTO small VALUES (1, 'one', 1.5, repeat('x', 9000)), (2, NULL, -3, NULL), (3, 'grün', NULL, '')",
    "UPDATE small SET a = 'two' WHERE id = 1",
    "SAVEPOINT s",
    "DELETE FROM small WHERE id = 2",
    "ROLLBACK TO s",
    "UPDATE small SET id = 30 WHERE id = 3",
    "SELECT pg_logical_emit_message(true, 'dblog', '[\"a\", \"b\"]')",
    "COMMIT",
    "SELECT pg_logical_emit_message(false, 'other', 'outside')",
    "ALTER TABLE small REPLICA IDENTITY FULL",
    "UPDATE small SET n = 9 WHERE id = 1",
    "DELETE FROM small WHERE id = 30",
    "ALTER TABLE small ADD COLUMN e int DEFAULT 5",
    "INSERT INTO small VALUES (4, 'new', 0, 'y', 7)",
    "TRUNCATE small",
    "SELECT pg_replication_origin_create('there')",
    "SELECT pg_replication_origin_session_setup('there')",
    "INSERT INTO small VALUES (5, 'from there', 0, 'y', 7)",
    "SELECT pg_replication_origin_session_reset()",
)
UNDER_WAY = (
    "BEGIN",
    "INSERT INTO small SELECT n, repeat('z', 50), n, NULL, n FROM generate_series(100, 900) n",
    "SAVEPOINT s",
    "INSERT INTO small SELECT n, repeat('z', 50), n, NULL, n FROM generate_series(1000, 1400) n",
    "ROLLBACK TO s",
    "UPDATE small SET a = 'other' WHERE id < 110",
    "COMMIT",
)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(dir=Path(__file__).parents[2] / "build") as folder,
        Postgres(Path(folder) / "postgres") as server,
        connected(server) as connection,
        connection.cursor() as cursor,
    ):
        recorded = record(cursor)
    SEEDS.write_bytes(zstd.compress(json.dumps(recorded).encode(), 19))
    print(len(recorded["whole"]), len(recorded["under_way"]), len(recorded["tables"]), SEEDS.stat().st_size)


def record(cursor: Any) -> dict[str, Any]:
    """Run the history and return what the server has written of it."""
    for statement in PREPARATION:
        with contextlib.suppress(psycopg2.Error):  # an extension that this server has not; its types are left out below
            cursor.execute(statement)
    for name, value in SETTINGS.items():
        cursor.execute(f"SET {name} = '{value}'")
    cursor.execute("SET logical_decoding_work_mem = '64kB'")
    cursor.execute("CREATE PUBLICATION p FOR ALL TABLES")
    for slot in ("whole", "under_way"):
        cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    for statement in HISTORY:
        cursor.execute(statement)
    tables = [
        table for number, at in enumerate(range(0, len(CASES), COLUMNS)) if (table := every(cursor, number, CASES[at : at + COLUMNS]))
    ]
    whole = messages(cursor, "whole", proto_version="1")
    cursor.execute("SELECT pg_replication_slot_advance('under_way', pg_current_wal_lsn())")
    for statement in UNDER_WAY:
        cursor.execute(statement)
    return {"whole": whole, "under_way": messages(cursor, "under_way", proto_version="2", streaming="on"), "tables": tables}


def every(cursor: Any, number: int, cases: list[TypeCase]) -> dict[str, Any] | None:
    """Make a table of these types with some rows; None where the server lacks a type."""
    name = f"every_{number}"
    columns = [dataclasses.replace(case.column, name=f"c{at}", nullable=True) for at, case in enumerate(cases)]
    try:
        cursor.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, {', '.join(f'{c.name} {c.type_text}' for c in columns)})")
        for row in range(4):
            values = [case.values[row] if row < len(case.values) else "NULL" for case in cases]
            cursor.execute(f"INSERT INTO {name} VALUES ({row}, {', '.join(values)})")
    except psycopg2.Error as e:
        print(name, e)
        return None
    cursor.execute(f"UPDATE {name} SET id = 100 WHERE id = 1")
    cursor.execute(f"DELETE FROM {name} WHERE id = 2")
    out = io.BytesIO()
    cursor.copy_expert(f"COPY (SELECT * FROM {name} ORDER BY id) TO STDOUT", out)
    return {"name": name, "columns": [dataclasses.asdict(column) for column in columns], "rows": text(out.getvalue())}


def messages(cursor: Any, slot: str, **options: str) -> list[tuple[int, str]]:
    """Return position and content of what a slot has."""
    given = ", ".join(f"'{key}', '{value}'" for key, value in {"publication_names": "p", "messages": "true", **options}.items())
    cursor.execute(f"SELECT lsn - '0/0', data FROM pg_logical_slot_get_binary_changes('{slot}', NULL, NULL, {given})")
    return [(int(lsn), text(data)) for lsn, data in cursor.fetchall()]


def text(raw: Any) -> str:
    return base64.b64encode(bytes(raw)).decode()


if __name__ == "__main__":
    main()

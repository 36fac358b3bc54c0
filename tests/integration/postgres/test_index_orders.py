"""Indexes that give a dump the order of another column than the key, and those that do not: the server's plan decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from dblog.dialects.postgres.catalog import sql
from dblog.errors import DefiniteError
from stack import Postgres
from support.postgres import connected
from support.postgres_follower import PostgresFollower, drop_slots

ORDERED = {
    "ascending": "CREATE INDEX {t}_i ON {t} (a, id)",
    "descending throughout": "CREATE INDEX {t}_i ON {t} (a DESC, id DESC)",
    "unique on it alone": "CREATE UNIQUE INDEX {t}_i ON {t} (a)",
    "unique, descending": "CREATE UNIQUE INDEX {t}_i ON {t} (a DESC)",
    "with more columns": "CREATE INDEX {t}_i ON {t} (a, id, w) INCLUDE (v)",
    "of a text": "CREATE INDEX {t}_i ON {t} (w, id)",
    "of a text in its own collation": 'CREATE INDEX {t}_i ON {t} (w COLLATE "C", id)',
    "of a text by its alias of the usual class": "CREATE INDEX {t}_i ON {t} (w varchar_ops, id)",
}
UNORDERED = {
    "a descending column": ("CREATE INDEX {t}_i ON {t} (a DESC, id)", "has descending and ascending columns"),
    "nulls first": ("CREATE INDEX {t}_i ON {t} (a NULLS FIRST, id)", "has NULLs at the other end"),
    "descending with nulls last": ("CREATE INDEX {t}_i ON {t} (a DESC NULLS LAST, id DESC NULLS LAST)", "has NULLs at the other end"),
    "another collation": ('CREATE INDEX {t}_i ON {t} (w COLLATE "POSIX", id)', "sorts by another collation than its column"),
    "patterns": ("CREATE INDEX {t}_i ON {t} (w varchar_pattern_ops, id)", "sorts by another operator class"),
    "a part of the rows": ("CREATE INDEX {t}_i ON {t} (a, id) WHERE v > 5", "no index begins|has a part of the rows|no index in the order"),
    "an expression": ("CREATE INDEX {t}_i ON {t} ((a + 0), id)", "no index"),
    "hashes": ("CREATE INDEX {t}_i ON {t} USING hash (a)", "no index"),
    "blocks": ("CREATE INDEX {t}_i ON {t} USING brin (a, id)", "no index"),
    "another column behind it": ("CREATE INDEX {t}_i ON {t} (a, v)", "no index"),
    "not valid": (
        "CREATE INDEX {t}_i ON {t} (a, id); UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{t}_i'::regclass",
        "is not valid",
    ),
}


@pytest.fixture
def follower(postgres: Postgres, postgres_database: str) -> Iterator[PostgresFollower]:
    made = PostgresFollower(postgres, postgres_database, **{"snapshot.mode": "no_data"})
    yield made
    made.task.stop()
    drop_slots(postgres, postgres_database)


def plan_of(follower: PostgresFollower, table: Any, key: tuple[str, ...]) -> str:
    """How the server reads a chunk in that order where nothing but the order matters to it."""
    columns = {column.name: column for column in table.columns}
    after = tuple(5 if columns[name].type == "int4" else "row 5" for name in key)
    by = replace(table, key=key)
    text, _ = sql.chunk_select(by, after, None, 20)
    with connected(follower.server, database=follower.database) as connection, connection.cursor() as cursor:
        cursor.execute("SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {text}")
        return "\n".join(line for (line,) in cursor.fetchall())


def test_an_index_is_taken_where_the_server_reads_chunks_without_sorting(follower: PostgresFollower) -> None:
    forms = [(name, index, None) for name, index in ORDERED.items()] + [(name, index, fault) for name, (index, fault) in UNORDERED.items()]
    for number, (_, index, _) in enumerate(forms):
        follower.sql(
            f'CREATE TABLE t{number} (id INT PRIMARY KEY, a INT NOT NULL, w VARCHAR(20) COLLATE "C" NOT NULL, v INT)',
            f"INSERT INTO t{number} SELECT n, n, 'row ' || n, n FROM generate_series(1, 500) n",
            *index.format(t=f"t{number}").split("; "),
            f"ANALYZE t{number}",
        )
    follower.start()
    follower.sql(*(f"UPDATE t{number} SET v = v WHERE id = 1" for number in range(len(forms))))
    follower.until_caught_up()
    tables = {table.id.name: table for table in follower.task.running.server.read_tables(lambda _: True)}

    for number, (name, index, fault) in enumerate(forms):
        column = "w" if "(w" in index else "a"
        key = (column,) if "UNIQUE" in index else (column, "id")
        assert ("Sort" in plan_of(follower, tables[f"t{number}"], key)) == (fault is not None), name
        if fault is None:
            follower.until_state(follower.ask(rf"public\.t{number}", surrogate_key=column), "DONE")
        else:
            with pytest.raises(DefiniteError, match=fault):
                follower.ask(rf"public\.t{number}", surrogate_key=column)


def test_a_partitioned_table_is_read_by_the_index_of_all_its_partitions(postgres: Postgres, postgres_database: str) -> None:
    follower = PostgresFollower(postgres, postgres_database, **{"snapshot.mode": "no_data", "publish.via.partition.root": "true"})
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (100)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 50) n",
        "CREATE INDEX of_root ON ONLY t (a, id)",
        "CREATE INDEX of_low ON low (a, id)",
        "ALTER INDEX of_root ATTACH PARTITION of_low",
    )
    follower.start()
    follower.sql("UPDATE t SET a = a")
    follower.until_caught_up()

    with pytest.raises(DefiniteError, match="its index of_root is not valid"):
        follower.ask(r"public\.t", surrogate_key="a")
    follower.sql("CREATE INDEX of_high ON high (a, id)", "ALTER INDEX of_root ATTACH PARTITION of_high")
    follower.until_state(follower.ask(r"public\.t", surrogate_key="a", chunk_rows=7), "DONE")

    follower.task.stop()
    drop_slots(postgres, postgres_database)

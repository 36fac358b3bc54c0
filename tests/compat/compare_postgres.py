"""The same for PostgreSQL: which connectors there are, what they follow step by step, and which records are compared."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import httpx
import psycopg2
from demo.pipeline import Connector, Worker, create_connector_user
from demo.rest import Rest
from differences import Difference, Differences, keep_common_transactions
from postgres_statements import (
    DDL,
    KEYED,
    KEYED_CHANGES,
    KEYED_ROWS,
    ODD_NAMES,
    ODD_ROWS,
    PREPARATION,
    SCHEMA,
    SENTINEL,
    Generated,
    Typed,
    generated,
    typed,
)
from rich.console import Console
from sides import FOLDER, Sides, create_topics
from stack import Debezium, Kafka, Postgres
from statements import LOGGED
from topics import PREFIX, Decoded, read

ROWS, KEY_ROWS = 150, 40
VALUES_MIN = 15_000
"""Of generated values from the log, in each mode."""

DEFAULT_NAMING = "io.debezium.schema.DefaultTopicNamingStrategy"
_ODD = rf"{SCHEMA}\.odd.*"

MODES: dict[str, dict[str, str]] = {
    "default": {},
    "text": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "include.unknown.datatypes": "true",
        "include.schema.comments": "true",
        "skipped.operations": "none",
    },
    "double": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        "include.unknown.datatypes": "true",
        # Two columns of one struct with parameters of their own are more than Confluent's converter can write.
        "column.propagate.source.type": rf"{SCHEMA}\.(l_)?([tad]_|k_).*",
        "tombstones.on.delete": "false",
    },
    "micro": {
        "time.precision.mode": "microseconds",
        "binary.handling.mode": "base64-url-safe",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
        "skip.messages.without.change": "true",
        "message.prefix.include.list": "on.*",
        "money.fraction.digits": "1",
    },
    "nano": {
        "time.precision.mode": "nanoseconds",
        "schema.name.adjustment.mode": "avro_unicode",
        "field.name.adjustment.mode": "avro_unicode",
        "unavailable.value.placeholder": "(not in the log)",
        "table.exclude.list": rf"{SCHEMA}\.none",
    },
    "transactions": {"provide.transaction.metadata": "true", "skipped.operations": "none", "heartbeat.interval.ms": "300"},
    "shaped": {
        "topic.naming.strategy": DEFAULT_NAMING,
        "time.precision.mode": "adaptive_time_microseconds",
        "column.mask.with.5.chars": rf"{SCHEMA}\.k_shaped\.secret",
        "column.mask.hash.SHA-256.with.salt.pepper": rf"{SCHEMA}\.k_shaped\.hashed",
        "column.mask.hash.v2.MD5.with.salt.pepper": rf"{SCHEMA}\.k_shaped\.other",
        "column.truncate.to.3.chars": rf"{SCHEMA}\.k_shaped\.(cut|bytes|number)",
        "column.exclude.list": rf"{SCHEMA}\.k_shaped\.gone",
        "message.key.columns": rf"{SCHEMA}\.k_rekeyed:a,b;{SCHEMA}\.k_none.*:a",
        "datatype.propagate.source.type": rf"{SCHEMA}\.(l_)?(t_\d+\.(int4|VARCHAR|bpchar)|k_.*\.numeric),.*\.timestamptz",
        "skipped.operations": "d",
        "skip.messages.without.change": "true",
        "message.prefix.exclude.list": "one,dblog",
    },
    "root": {
        "publication.name": "compat_root",
        "publish.via.partition.root": "true",
        "skipped.operations": "u",
        "snapshot.include.collection.list": rf"{SCHEMA}\.(k_|sent).*",
    },
}
"""Connector options of each pair of connectors. Every pair follows all statements."""


OF_THE_PEER = {
    # On a busy machine the registry may answer later than the converter waits.
    "errors.retry.timeout": "-1",
    # It passes over rows that it cannot write, which its snapshot cannot of some types, and does not end with them.
    "event.processing.failure.handling.mode": "warn",
}


class Sql:
    """One session, so that transactions hold from statement to statement."""

    def __init__(self, server: Postgres) -> None:
        self._connection = psycopg2.connect(**server.login)
        self._connection.autocommit = True
        self.refused: list[str] = []

    def run(self, statements: Iterable[str], *, may_fail: bool = False) -> None:
        with self._connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except psycopg2.Error as error:
                    if not may_fail:
                        raise RuntimeError(f"the server refused {statement[:200]}: {error}") from error
                    self.refused.append(f"{statement[:100]}: {str(error).splitlines()[0]}")


def topic(mode: str, prefix: str, table: str) -> str:
    """The name of a table's topic."""
    return f"{prefix}.{table}" if MODES[mode].get("topic.naming.strategy") == DEFAULT_NAMING else f"{prefix}.{SCHEMA}.{table}"


def wanted(name: str) -> bool:
    """Every topic of a connector but our own."""
    return not name.startswith("__dblog-") and not name.endswith("schema-history")


def run(server: Postgres, kafka: Kafka, modes: list[str], console: Console, *, seed: int) -> list[Any]:
    """All phases on servers that are up; the differences."""
    create_connector_user(server)
    sql = Sql(server)
    sql.run(PREPARATION, may_fail=True)
    sql.run([f"CREATE SCHEMA {SCHEMA}", f"SET search_path = {SCHEMA}, public", "SET timezone = 'UTC'", "CREATE SEQUENCE numbers"])
    sql.run(["CREATE PUBLICATION compat FOR ALL TABLES", "CREATE PUBLICATION compat_root FOR ALL TABLES WITH (publish_via_partition_root)"])
    cases, made = typed(version=int(server.version)), generated(seed=seed, rows=ROWS, key_rows=KEY_ROWS)
    sql.run([*(case.create() for case in cases), *(one.create for one in made), *KEYED, *ODD_NAMES, SENTINEL])
    for case in cases:
        sql.run(case.inserts())
    sql.run(one.insert() for one in made)
    sql.run(f"ALTER TABLE {one.name} REPLICA IDENTITY FULL" for one in made)
    sql.run([*KEYED_ROWS, *(text.format(100) for text in ODD_ROWS), "INSERT INTO sentinel VALUES (1)"])

    worker = Worker(kafka, FOLDER / "worker", name="compat")
    debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=server.flavor)
    with worker, debezium:
        httpx.put(f"{worker.url}/config", json={"compatibility": "NONE"}, timeout=60).raise_for_status()
        rest = {"ours": worker.rest, "peer": Rest(debezium.url)}
        prefixes = {(mode, side): f"{side}side{mode}" for mode in modes for side in rest}
        tables = [name for text in (*creates(cases, made), *KEYED) if (name := re.match(r"CREATE TABLE (\w+)", text))]
        names = [topic(mode, prefix, table[1]) for (mode, _), prefix in prefixes.items() for table in tables]
        create_topics(
            kafka.bootstrap,
            [*names, *(f"{prefix}.{tail}" for prefix in prefixes.values() for tail in ("message", "transaction"))],
        )
        for (mode, side), prefix in prefixes.items():
            options = {
                "publication.name": "compat",
                # Our watermarks are messages of the log, which another connector has.
                **({} if "message.prefix.include.list" in MODES[mode] else {"message.prefix.exclude.list": "dblog"}),
                **({} if "table.exclude.list" in MODES[mode] else {"table.exclude.list": _ODD}),
                **(OF_THE_PEER if side == "peer" else {}),
                **MODES[mode],
            }
            connector = Connector(name=prefix, prefix=prefix, source=server, kafka=kafka, database=SCHEMA, options=options)
            rest[side].create(prefix, connector.config)
        sides = Sides(rest, prefixes, kafka.bootstrap, lambda mode, prefix: topic(mode, prefix, "sentinel"))
        sides.passed(1)
        sides.dumped()
        console.print("postgres: everybody has dumped", markup=False)
        time.sleep(3)  # Debezium goes from its snapshot to the log; a statement now would be read from the log by both all the same
        passed = 1
        for case in cases:
            sql.run([case.create(head="l_"), f"ALTER TABLE l_{case.name} REPLICA IDENTITY FULL"])
            sql.run(case.inserts(add=LOGGED))
            sql.run(case.inserts(head="l_"))
            sql.run(case.changes())
        for one in made:
            sql.run([one.insert(add=LOGGED), *one.changes()])
        sql.run(KEYED_CHANGES)
        sql.run(text.format(1) for text in ODD_ROWS)
        for step in DDL:
            passed += 1
            sql.run([f"INSERT INTO sentinel VALUES ({passed})"])
            sides.passed(passed)
            sql.run(step)
        passed += 1
        sql.run([f"INSERT INTO sentinel VALUES ({passed})"])
        sides.passed(passed)
        for text in dict.fromkeys(sql.refused):
            console.print(f"  the server refused: {text}", markup=False, style="dim")
        found: list[Difference] = []
        for mode in modes:
            found += compare(mode, prefixes, kafka, worker, cases, console)
        return found


def creates(cases: list[Typed], made: list[Generated]) -> list[str]:
    """What makes tables, steps of DDL apart."""
    return [*(case.create() for case in cases), *(case.create(head="l_") for case in cases), *(one.create for one in made), SENTINEL]


def compare(
    mode: str, prefixes: dict[tuple[str, str], str], kafka: Kafka, worker: Worker, cases: list[Typed], console: Console
) -> list[Difference]:
    """The records of one pair of connectors."""
    mine, theirs = (split(read(kafka.bootstrap, worker.url, prefixes[mode, side], wanted)) for side in ("ours", "peer"))
    keep_common_transactions(mine[1], theirs[1])
    dump, log = Differences(f"postgres {mode} dump"), Differences(f"postgres {mode} log")
    across = Differences(f"postgres {mode} dump, against the peer's log")
    dump.compare_dumps(mine[0], theirs[0])
    log.compare_logs(mine[1], theirs[1])
    # Of columns with a default some have another value in each row.
    known = {topic(mode, PREFIX, case.name) for case in cases if not case.name.startswith("d_")}
    across.compare_dump_with_log({name: records for name, records in mine[0].items() if name in known}, theirs[1], add=LOGGED)
    values = [sum(map(_generated_values, side.items())) for side in (theirs[0], theirs[1])]
    console.print(
        f"postgres {mode}: {dump.compared:,} dumped and {log.compared:,} logged records compared, {across.compared:,} across; "
        f"of them {values[0]:,} dumped and {values[1]:,} logged values were drawn",
        markup=False,
    )
    if values[1] < VALUES_MIN:
        log.note("all topics", "generated values", values[1], VALUES_MIN, "")
    return [*dump.found.values(), *log.found.values(), *across.found.values()]


_GENERATED = re.compile(r"\.gk?_\d+(_\w+)?$")


def _generated_values(topic_records: tuple[str, list[Decoded]]) -> int:
    """Values of inserted or dumped rows of the generated tables, without their two numbers."""
    name, records = topic_records
    if not _GENERATED.search(name):
        return 0
    return sum(len(r.value["after"]) - 2 for r in records if isinstance(r.value, dict) and r.value["op"] in "rc")


def split(topics: dict[str, list[Decoded]]) -> tuple[dict[str, list[Decoded]], dict[str, list[Decoded]]]:
    """Records of the dump and of the log. Of heartbeats, whose number is chance, the first."""
    dumped: dict[str, list[Decoded]] = {}
    logged: dict[str, list[Decoded]] = {}
    for name, records in topics.items():
        for r in records[:1] if "heartbeat" in name else records:
            known = _with_bare_transaction(r)
            (dumped if isinstance(r.value, dict) and r.value.get("op") == "r" else logged).setdefault(name, []).append(known)
    return dumped, logged


def _with_bare_transaction(r: Decoded) -> Decoded:
    """Of a transaction's id the number alone: behind the colon the peer has the LSN of each event, and we that of the commit."""
    key, value = r.key, r.value
    if isinstance(value, dict) and "status" in value:
        key, value = ({**part, "id": part["id"].partition(":")[0]} for part in (key, value))
    elif isinstance(value, dict) and value.get("transaction"):
        value = {**value, "transaction": {**value["transaction"], "id": value["transaction"]["id"].partition(":")[0]}}
    return replace(r, key=key, value=value)

"""dblog and a real Debezium follow the same statements on the same server; what they wrote is compared record by record.

python tests/compat/compare.py [--source mysql|mariadb|postgres] [--modes NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from dataclasses import asdict
from typing import Any

import httpx
import pymysql
from accepted import RULES
from accepted_postgres import RULES as POSTGRES_RULES
from compare_postgres import MODES as POSTGRES_MODES
from compare_postgres import run as run_postgres
from demo.pipeline import CONNECTOR_USER, ROOT, Connector, Worker, create_connector_user
from demo.rest import Rest
from differences import Difference, Differences, keep_common_transactions, split
from rich.console import Console
from rules import reason
from sides import FOLDER, Sides, create_topics
from stack import Debezium, Kafka, MariaDb, MySql, Postgres17
from stack.database import Database
from statements import DDL, KEYED, KEYED_CHANGES, LOGGED, SENTINEL, Typed, changes, default_rows, default_tables, typed
from topics import read

DATABASE = "compat"
SEED = 20281127

BARE = {"table.exclude.list": rf"{DATABASE}\.(l_)?beyond_.*"}
"""Times of more than a day and zero dates, on which Debezium itself fails in some modes."""

MODES: dict[str, dict[str, str]] = {
    "default": {"bigint.unsigned.handling.mode": "long"},
    "text": {
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64",
        "include.schema.comments": "true",
        "skipped.operations": "none",
        # A type is asked for with its table: the first pattern matches none.
        "datatype.propagate.source.type": rf"{DATABASE}\.(SMALLINT|INT),{DATABASE}\.(l_)?[iu]_.*\.(BIGINT|INT UNSIGNED)",
        **BARE,
    },
    "double": {
        "decimal.handling.mode": "double",
        "bigint.unsigned.handling.mode": "precise",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        # Two geometry columns with parameters of their own are more than Confluent's converter can write.
        "column.propagate.source.type": rf"{DATABASE}\.(l_)?(i_|u_|decimal|float|time|date|enum|set|text|bin|blobs|bit|json|k_|d_).*",
        "tombstones.on.delete": "false",
        "enable.time.adjuster": "false",
        **BARE,
    },
    "micro": {
        "time.precision.mode": "microseconds",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "base64-url-safe",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
    },
    "nano": {
        "time.precision.mode": "nanoseconds",
        "bigint.unsigned.handling.mode": "long",
        "schema.name.adjustment.mode": "avro_unicode",
        "field.name.adjustment.mode": "avro_unicode",
        # Beyond what 64 bits hold in nanoseconds the peer's MySQL reader makes null, and ends where the column may not be null.
        "table.exclude.list": rf"{DATABASE}\.(l_)?(beyond|far)_.*",
    },
    "transactions": {"provide.transaction.metadata": "true", "bigint.unsigned.handling.mode": "long"},
}
"""Connector options of each pair of connectors. Every pair follows all statements."""


class Sql:
    """One session, so that transactions and session variables hold from statement to statement."""

    def __init__(self, server: Database) -> None:
        self._connection = pymysql.connect(**server.login, autocommit=True, charset="utf8mb4")
        self.refused: list[str] = []

    def run(self, statements: list[str] | tuple[str, ...], *, may_fail: bool = False) -> None:
        with self._connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.err.MySQLError as error:
                    if not may_fail:
                        raise RuntimeError(f"the server refused {statement[:200]}: {error}") from error
                    self.refused.append(f"{statement[:100]}: {error.args[-1]}")


def run(server: Database, kafka: Kafka, modes: dict[str, dict[str, str]], console: Console) -> list[Any]:
    """All phases on servers that are up; the differences."""
    flavor = server.flavor
    create_connector_user(server)
    sql = Sql(server)
    sql.run([f"GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO '{CONNECTOR_USER}'@'%'"])
    sql.run([f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4", f"USE {DATABASE}"])
    sql.run(["SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'", "SET SESSION time_zone = '+00:00'"])
    cases = typed(flavor)
    sql.run([case.create for case in cases], may_fail=True)  # a charset or a type that this release does not have
    cases = [case for case in cases if not any(text.startswith(f"CREATE TABLE {case.name} ") for text in sql.refused)]
    sql.run([*default_tables(flavor, "ds"), *KEYED, SENTINEL], may_fail=True)
    for case in cases:
        sql.run(list(case.inserts()), may_fail=True)
    sql.run([*default_rows(flavor, "ds", add=0), "INSERT INTO sentinel VALUES (1)"], may_fail=True)

    worker = Worker(kafka, FOLDER / "worker", name="compat")
    debezium = Debezium(FOLDER / "debezium", kafka, registry_url=worker.url, flavor=flavor)
    with worker, debezium:
        # With bigint.unsigned.handling.mode=precise a column that becomes unsigned becomes a decimal, which no level but this lets pass.
        httpx.put(f"{worker.url}/config", json={"compatibility": "NONE"}, timeout=60).raise_for_status()
        rest = {"ours": worker.rest, "peer": Rest(debezium.url)}
        # Letters only: nothing that a mode could escape in names of schemas.
        prefixes = {(mode, side): f"{side}side{mode}" for mode in modes for side in rest}
        tables = [text.split()[2] for text in (*creates(cases, flavor), SENTINEL)]
        names = [f"{prefix}.{DATABASE}.{table}" for prefix in prefixes.values() for table in tables]
        create_topics(
            kafka.bootstrap, [*names, *(f"{prefix}.transaction" for (mode, _), prefix in prefixes.items() if mode == "transactions")]
        )
        for number, ((mode, side), prefix) in enumerate(prefixes.items()):
            connector = Connector(
                name=prefix,
                prefix=prefix,
                source=server,
                kafka=kafka,
                database=DATABASE,
                options={
                    "database.server.id": str(7000 + number * 10),
                    "include.schema.changes": "true",
                    # On a busy machine the registry may answer later than the converter waits.
                    **({"errors.retry.timeout": "-1"} if side == "peer" else {}),
                    **modes[mode],
                },
            )
            rest[side].create(prefix, connector.config)

        sides = Sides(rest, prefixes, kafka.bootstrap, lambda _, prefix: f"{prefix}.{DATABASE}.sentinel")
        sides.passed(1)
        sides.dumped()
        console.print(f"{flavor}: everybody has dumped", markup=False)
        time.sleep(3)  # Debezium goes from its snapshot to the log; a statement now would be read from the log by both all the same
        sql.run(default_tables(flavor, "dl"), may_fail=True)
        sql.run(default_rows(flavor, "dl", add=LOGGED), may_fail=True)
        sql.run(default_rows(flavor, "ds", add=LOGGED), may_fail=True)
        for case in cases:
            sql.run(list(case.inserts(add=LOGGED)), may_fail=True)
            sql.run(changes(case), may_fail=True)
        sql.run(logged_creates(cases), may_fail=True)
        sql.run([f"INSERT INTO l_{case.name} SELECT * FROM {case.name} WHERE id < {LOGGED} ORDER BY id" for case in cases], may_fail=True)
        sql.run(KEYED_CHANGES)
        sql.run(DDL, may_fail=True)
        sql.run(["INSERT INTO sentinel VALUES (2)"])
        sides.passed(2)
        for text in dict.fromkeys(sql.refused):
            console.print(f"  the server refused: {text}", markup=False, style="dim")
        found = []
        for mode in modes:
            mine, theirs = (split(read(kafka.bootstrap, worker.url, prefixes[mode, side], of_tables)) for side in ("ours", "peer"))
            keep_common_transactions(mine[1], theirs[1])
            dump, log = Differences(f"{flavor} {mode} dump"), Differences(f"{flavor} {mode} log")
            dump.compare_dumps(mine[0], theirs[0])
            log.compare_logs(mine[1], theirs[1])
            across = Differences(f"{flavor} {mode} dump, against the peer's log")
            typed_topics = {f"P.{DATABASE}.{case.name}" for case in cases}
            across.compare_dump_with_log(
                {topic: records for topic, records in mine[0].items() if topic in typed_topics}, theirs[1], add=LOGGED
            )
            console.print(
                f"{flavor} {mode}: {dump.compared:,} dumped and {log.compared:,} logged records compared, {across.compared:,} across",
                markup=False,
            )
            found += [*dump.found.values(), *log.found.values(), *across.found.values()]
        return found


def of_tables(topic: str) -> bool:
    """Topics of tables, schema changes and transactions."""
    return topic in ("P", "P.transaction") or topic.startswith(f"P.{DATABASE}.")


def logged_creates(cases: list[Typed]) -> list[str]:
    """The typed tables again, made while both read the log."""
    return [case.create.replace(f"TABLE {case.name} ", f"TABLE l_{case.name} ") for case in cases]


def creates(cases: list[Typed], flavor: str) -> list[str]:
    """What makes tables, DDL that renames them apart."""
    made = [case.create for case in cases]
    return [*made, *logged_creates(cases), *default_tables(flavor, "ds"), *default_tables(flavor, "dl"), *KEYED]


def report(found: list[Any], console: Console) -> int:
    """Print what differs; the number of differences that nobody has accepted."""
    for difference in found:
        difference.accepted = reason(difference, POSTGRES_RULES if difference.phase.startswith("postgres ") else RULES)
    (FOLDER / "differences.json").write_text(json.dumps([asdict(d) for d in found], indent=1, default=repr) + "\n")
    opened: dict[tuple[str, str, str], list[Difference]] = {}
    for d in found:
        if d.accepted is None:
            opened.setdefault((d.where, repr(d.ours), repr(d.peer)), []).append(d)
    for (where, ours, peer), same in opened.items():
        phases = list(dict.fromkeys(f"{d.phase} {d.topic}" for d in same))
        shown = ", ".join(phases[:4]) + (f" and {len(phases) - 4} more" if len(phases) > 4 else "")
        console.print(f"{where}: {sum(d.count for d in same)}x in {shown}; first in {same[0].record[:80]}", markup=False)
        console.print(f"    ours {ours[:300]}\n    peer {peer[:300]}", markup=False)
    kinds: dict[str, int] = {}
    for d in found:
        if d.accepted:
            kinds[d.accepted] = kinds.get(d.accepted, 0) + d.count
    for text, count in kinds.items():
        console.print(f"accepted, {count}x: {text}", markup=False)
    console.print(f"{len(opened)} differences; all of them in {(FOLDER / 'differences.json').relative_to(ROOT)}", markup=False)
    return len(opened)


def main() -> int:
    parser = argparse.ArgumentParser(description="dblog's records against a real Debezium's.")
    parser.add_argument("--source", choices=("mysql", "mariadb", "postgres"), help="default: all three")
    parser.add_argument(
        "--modes", nargs="*", choices=tuple(dict.fromkeys([*MODES, *POSTGRES_MODES])), help="default: all that the source has"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the random values of PostgreSQL's types")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=200, soft_wrap=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    found: list[Any] = []
    for flavor, kind in (("mysql", MySql), ("mariadb", MariaDb), ("postgres", Postgres17)):
        if arguments.source in {None, flavor}:
            of_flavor = POSTGRES_MODES if flavor == "postgres" else MODES
            modes = {mode: options for mode, options in of_flavor.items() if arguments.modes is None or mode in arguments.modes}
            with contextlib.ExitStack() as stack:
                server: Any = stack.enter_context(kind(FOLDER / flavor, durable=False))
                kafka = stack.enter_context(Kafka(FOLDER / f"kafka-{flavor}"))
                if flavor == "postgres":
                    found += run_postgres(server, kafka, list(modes), console, seed=arguments.seed)
                else:
                    found += run(server, kafka, modes, console)
            for data in (FOLDER / flavor, FOLDER / f"kafka-{flavor}"):
                shutil.rmtree(data, ignore_errors=True)
    return min(1, report(found, console))


if __name__ == "__main__":
    sys.exit(main())

"""The database of a run on PostgreSQL: a database of its own, and a schema in it of the same name."""

from __future__ import annotations

import contextlib
import io
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg2
from chaos import check
from chaos.check import Folded, Problem
from chaos.database import AWAY_S, SENTINEL, Journal, RunDatabase
from chaos.effects import Effect, Statement, Tables, apply
from chaos.kinds import OWN
from chaos.lake import PlainLake
from chaos.plan import DDL_SESSION, Plan, Step
from chaos.postgres.select import compare_select
from chaos.postgres.settings import PUBLICATION, SERVER, SERVER_OPTIONS
from chaos.postgres.statements import COPY, GUARD
from chaos.postgres.tables import PREPARATION, PostgresTable
from demo.pipeline import Connector, create_connector_user
from stack import Kafka, Postgres, Postgres17, Postgres18
from stack.process import wait_until
from support.postgres import execute
from support.postgres_follower import drop_slots
from support.postgres_type_cases import SETTINGS

LAST_ROWS = 12
"""So many rows each table gets at the end, enough for each of its partitions by hash, from each of these numbers on."""
LAST_NUMBERS = (-100, 200)


class PostgresDatabase(RunDatabase):
    """Implements ``chaos.database.RunDatabase``."""

    error = psycopg2.Error
    lake = PlainLake
    source: Postgres
    replica: Postgres | None
    read: Postgres | None
    moving: ClassVar[dict[str, str]] = {"surrogate_key": "at"}

    def __init__(self, plan: Plan, source: Postgres, model: Tables, journal: Journal, *, attempt: int) -> None:
        super().__init__(plan, source, model, journal, attempt=attempt)
        self._noting = threading.Event()

    def own_servers(self, folder: Path, ending: contextlib.ExitStack) -> None:
        """Failover slots are of version 17: the standby keeps them, and no walsender shows what the standby does not have."""
        made = Postgres18 if self.plan.flavor == "postgres18" else Postgres17
        self.source = made(folder / "primary", durable=False, options=dict(SERVER_OPTIONS))
        self.source.start()
        ending.callback(self.source.kill)
        kept = {} if "promotion" in self.plan.kinds else {"sync_replication_slots": "on"}
        follows = {**SERVER_OPTIONS, **kept, "hot_standby_feedback": "on"}
        self.replica = self.source.standby(folder / "standby", options=follows)
        self.replica.start()
        ending.callback(self.replica.kill)
        if "promotion" in self.plan.kinds:
            self.read = self.replica
            ending.callback(self._noting.set)
            threading.Thread(target=self._note, args=(self.source,), daemon=True).start()
        elif "lacking" not in self.plan.kinds:
            self.source.restart(options={"synchronized_standby_slots": "standby"})

    def _note(self, primary: Postgres) -> None:
        """Have the primary note what is under way: a slot of a standby begins there."""
        while not self._noting.wait(0.3):
            with contextlib.suppress(psycopg2.Error):
                execute(primary, "SELECT pg_log_standby_snapshot()")

    def begin(self) -> None:
        self._set(self.plan.settings.log)
        create_connector_user(self.source)
        execute(self.source, f'CREATE DATABASE "{self.name}"')
        prepared = () if self.plan.apart else PREPARATION  # Debezium's task ends at a domain over an enum
        execute(self.source, *prepared, f'CREATE SCHEMA "{self.name}"', database=self.name)
        with self._connected() as cursor:
            cursor.execute(f"CREATE TABLE {SENTINEL} (id INT PRIMARY KEY, v TEXT)")
            for table in self.model.values():
                cursor.execute(table.create)
            if self.plan.settings.autocreate == "disabled":
                by_root = str(self.plan.settings.by_root).lower()
                cursor.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish_via_partition_root = {by_root})")
            for statement in self.plan.own:
                cursor.execute(statement.sql)
            for statement in self.plan.fill:
                with contextlib.suppress(psycopg2.IntegrityError, psycopg2.DataError):
                    cursor.execute(statement.sql)

        if self.read is not None:
            self._replayed(self.source, self.read)

    def connector(self, name: str, excluded: set[str], kafka: Kafka) -> Connector:
        settings = self.plan.settings
        options = {
            **{key: text.replace("{schema}", self.name) for key, text in settings.connector.items()},
            "database.dbname": self.name,
            "slot.failover": str(self.replica is not None and "promotion" not in self.plan.kinds).lower(),
        }
        if name.endswith("b"):
            options.pop("snapshot.include.collection.list", None)
        if settings.autocreate != "disabled" or settings.full:
            # Who makes publications for all tables is a superuser, and who alters tables is their owner.
            options |= {"database.user": self.source.user, "database.password": self.source.password}
        if excluded:
            options["table.exclude.list"] = ",".join(self._excluding(excluded))
        return Connector(name=name, prefix=name, source=self.read or self.source, kafka=kafka, database=self.name, options=options)

    def _excluding(self, excluded: set[str]) -> list[str]:
        """A table's name stands for its partitions, too."""
        return [rf"{self.name}\.{table}(_p\d+)?" for table in sorted(excluded)]

    def end_load(self) -> None:
        """Have the log show what each table and partition is like now: what DDL has done shows with the next row."""
        self._end_prepared()
        for name, table in sorted(self.model.items()):
            self._add_rows(name, table)
        with self._connected() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'", (f'"{self.name}"',))
            for (name,) in cursor.fetchall():
                try:
                    cursor.execute(f'UPDATE "{name}" SET id = id WHERE id = (SELECT min(id) FROM "{name}")')
                except psycopg2.Error:
                    cursor.execute(f'ALTER TABLE "{name}" REPLICA IDENTITY FULL')
                    cursor.execute(f'UPDATE "{name}" SET id = id WHERE id = (SELECT min(id) FROM "{name}")')

    def _add_rows(self, name: str, table: PostgresTable) -> None:
        """A table that was made again may be empty, where a reader has rows of the one before."""
        dice = random.Random(name)
        columns = ", ".join(f'"{column}"' for column in table.named)
        with self._connected() as cursor:
            for first in LAST_NUMBERS:
                rows = ", ".join(table.row(dice, number, frozenset()) for number in range(first, first + LAST_ROWS))
                with contextlib.suppress(psycopg2.Error):
                    cursor.execute(f'INSERT INTO "{name}" ({columns}) VALUES {rows} ON CONFLICT DO NOTHING')

    def tables(self, excluded: set[str]) -> list[str]:
        kinds = "c.relkind IN ('r', 'p') AND NOT c.relispartition" if self.plan.settings.by_root else "c.relkind = 'r'"
        with self._connected() as cursor:
            cursor.execute(
                f"SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace(%s) AND {kinds} ORDER BY 1", (f'"{self.name}"',)
            )
            found = [str(name) for (name,) in cursor.fetchall()]
        narrowed = {t.name for t in self.model.values() if t.born in excluded}
        out = re.compile("|".join(self._excluding(excluded)) or "$.")
        return [name for name in found if name not in narrowed | {SENTINEL} and not out.fullmatch(f"{self.name}.{name}")]

    def compared_topics(self, table: str, old: Folded, fresh: Folded) -> list[Problem]:
        known = self._table_of(table)
        # A table of no plan was a partition, and may have been a table before, whose rows of then nothing takes back.
        was_partition = known is None and self.plan.settings.by_root and (not table.startswith(OWN) or table == "y_root")
        return check.compare_folded(table, old, fresh, excess=was_partition or (known is not None and known.again))

    def compare(self, table: str, fresh: Folded) -> list[Problem]:
        settings = self.plan.settings
        known = self._table_of(table)
        if known is not None:
            with self._connected() as cursor:
                return compare_select(cursor, known, table, settings.modes, fresh, converter=settings.converter)
        if (count := self.count(table)) != len(fresh.rows) + len(fresh.unkeyed):
            return [Problem("dump", table, f"{count} rows by SELECT, {len(fresh.rows) + len(fresh.unkeyed)} in a fresh dump")]
        return []

    def _table_of(self, name: str) -> PostgresTable | None:
        """The model of a table, or of the one that it is a partition of."""
        if name in self.model:
            return self.model[name]
        with self._connected() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE oid = pg_partition_root(to_regclass(%s)) AND relkind = 'p'", (f'"{name}"',))
            found = cursor.fetchall()
        return self.model.get(found[0][0]) if found else None

    def count(self, table: str) -> int:
        with self._connected() as cursor:
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            return int(cursor.fetchall()[0][0])

    def in_delta(self, table: str) -> bool:
        known = self._table_of(table)
        if table == "y_root" or (known is not None and known.again):
            return False
        with self._connected() as cursor:
            cursor.execute("SELECT FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique", (f'"{table}"',))
            return bool(cursor.fetchall())

    def sentinel(self, number: int, text: str) -> None:
        with self._connected() as cursor:
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES ({number}, '{text}')")

    def leave(self) -> None:
        self._set({name: values[0] for name, values in SERVER.items()})
        self._end_prepared()
        drop_slots(self.source, self.name)
        execute(self.source, f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')

    # -- sessions

    def login(self) -> Any:
        connection = self.logged_in(self._connect, psycopg2.OperationalError)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '3s'")
            cursor.execute("SET statement_timeout = '60s'")
        return connection

    def _connect(self) -> Any:
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        path = f'-c search_path="{self.name}",public'
        connection = psycopg2.connect(**{**self.source.login, "dbname": self.name}, options=f"{options} {path} -c lock_timeout=60s")
        connection.autocommit = True
        return connection

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        with contextlib.closing(self._connect()) as connection, connection.cursor() as cursor:
            yield cursor

    def do(self, connection: Any, step: Step, *, begin: int = 0) -> None:
        """A refused statement ends its transaction, unless that goes on behind a savepoint. What a transaction did to tables holds when it has committed."""
        del begin
        taken: list[Effect] = []
        inside = False
        with connection.cursor() as cursor:
            for statement in step.statements:
                word = statement.sql if statement.kind == "border" else ""
                refused = self._refused(connection, cursor, step, statement)
                inside = (inside or word == "BEGIN") and not word.startswith(("COMMIT", "ROLLBACK PREPARED", "PREPARE"))
                if refused and inside and step.kind == "guarded" and word == "":
                    cursor.execute(f"ROLLBACK TO {GUARD}")
                elif refused and (inside or word):
                    cursor.execute("ROLLBACK")
                    return
                if not refused and statement.effect is not None:
                    taken.append(statement.effect)
                if not inside:
                    for effect in taken:
                        if effect.table in self.model and (effect.what != "swap" or effect.to in self.model):
                            apply(self.model, effect)
                    taken.clear()
            if inside:
                cursor.execute("ROLLBACK")

    def _refused(self, connection: Any, cursor: Any, step: Step, statement: Statement) -> bool:
        try:
            if statement.sql.startswith(COPY):
                self._copy(cursor, statement.sql)
            else:
                cursor.execute(statement.sql)
        except psycopg2.Error as e:
            if connection.closed or e.pgcode is None or e.pgcode.startswith(("57P", "08")):
                raise
            self.journal.counts[f"refused {statement.kind} {e.pgcode}"] += 1
            text = " ".join(str(e).split())
            self.journal.log(f"{step.at_s:.2f} refused {e.pgcode} {text[:160]}: {statement.sql[:200]}")
            return True
        self.journal.counts[statement.kind if statement.kind != "border" else step.kind] += 1
        if step.session == DDL_SESSION:
            self.journal.log(statement.sql[:400])
        return False

    @staticmethod
    def _copy(cursor: Any, sql: str) -> None:
        into, _, rows = sql.partition(" FROM ")
        lines = io.StringIO()
        cursor.copy_expert(f"COPY (SELECT * FROM {rows} v) TO STDOUT", lines)
        lines.seek(0)
        cursor.copy_expert(f"{into} FROM STDIN", lines)

    def go_on(self, step: Step) -> Any:
        """A transaction that is prepared outlives its connection, and keeps its locks."""
        if step.kind.startswith("prepared"):
            with contextlib.suppress(psycopg2.Error):
                connection = self.login()
                with connection.cursor() as cursor:
                    for statement in step.statements[-1:]:
                        cursor.execute(statement.sql)
                return connection
        return None

    def _end_prepared(self) -> None:
        with self._connected() as cursor:
            cursor.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
            for (name,) in cursor.fetchall():
                with contextlib.suppress(psycopg2.Error):
                    cursor.execute(f"COMMIT PREPARED '{name}'")

    def case(self, step: Step) -> None:
        raise AssertionError(step)

    # -- what befalls the server

    def restarted(self) -> None:
        """What ALTER SYSTEM has set is kept."""

    def _set(self, values: dict[str, str]) -> None:
        statements = [f"ALTER SYSTEM SET {name} = '{text}'" for name, text in values.items()]
        execute(self.source, *statements, "SELECT pg_reload_conf()")

    def fault_switch_wal(self) -> None:
        execute(self.source, "SELECT pg_switch_wal()", "CHECKPOINT")

    def fault_end_walsender(self) -> None:
        execute(self.source, f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '{self.name}'")

    def fault_end_sessions(self) -> None:
        """Those of the connector that read rows and the catalog."""
        execute(
            self.source,
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}' AND application_name LIKE 'dblog%'",
        )

    def fail_over(self) -> None:
        primary, standby = self.source, self.replica
        assert standby is not None
        self._synced(primary, standby)
        self._replayed(primary, standby)
        primary.kill()
        self._lead(standby)

    def _synced(self, primary: Postgres, standby: Postgres) -> None:
        """Wait until the standby keeps the connector's slot."""

        def kept() -> bool:
            """A slot of the standby stays temporary until the primary's has moved beyond what the standby could reserve."""
            self.sentinel_for_slot()
            execute(primary, "SELECT pg_log_standby_snapshot()")
            slots = execute(
                standby, f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.name}' AND synced AND NOT temporary"
            )
            return bool(slots)

        wait_until(kept, timeout_s=AWAY_S, what="the slot on the standby", pause_s=0.2)

    def _replayed(self, primary: Postgres, standby: Postgres) -> None:
        ((end,),) = execute(primary, "SELECT pg_current_wal_flush_lsn()::text")
        wait_until(
            lambda: execute(standby, f"SELECT pg_last_wal_replay_lsn() >= '{end}'") == [(True,)],
            timeout_s=AWAY_S,
            what="the standby",
            pause_s=0.2,
        )

    def _lead(self, standby: Postgres) -> None:
        standby.promote()
        self.source, self.replica, self.read = standby, standby, None
        self._set(self.plan.settings.log)

    def part(self) -> None:
        """Stop the standby: one that only replays nothing would receive all the same."""
        assert self.replica is not None
        self._synced(self.source, self.replica)
        self.replica.stop()

    def fail_over_parted(self) -> None:
        assert self.replica is not None
        self.source.kill()
        self.replica.start()
        self._lead(self.replica)
        self._end_prepared()

    def promote(self) -> None:
        assert self.replica is not None
        self._replayed(self.source, self.replica)
        self._noting.set()
        self.source.kill()
        self._lead(self.replica)

    def sentinel_for_slot(self) -> None:
        """Something to read, by which the slot moves on."""
        execute(self.source, "SELECT pg_logical_emit_message(false, 'chaos', 'move on')", database=self.name)

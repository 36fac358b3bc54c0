"""Runs a plan on real servers: sessions write, faults happen, and when the log has been read to its end the four sides are compared.

``Servers`` are the broker, the worker and the sink, which serve many runs; a run has a database, two connectors and topics of its own. A plan with a
failover has two database servers of its own besides.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pymysql
from chaos import check, tables
from chaos.check import Problem
from chaos.plan import DDL_SESSION, SESSIONS, Plan, Step
from chaos.settings import DEFAULTS
from chaos.statements import Statement
from confluent_kafka import KafkaException
from demo.lake import Lake
from demo.pipeline import Connector, Sink, Worker, create_connector_user
from demo.rest import NO_TLS, ConnectorFailedError
from stack import Kafka, MariaDb, MySql
from stack.database import Database
from stack.errors import StackError
from stack.process import wait_until
from support.ddl_cases import STREAMED_CASES
from support.ddl_replay import Replay
from support.topicfold import last_value

SOURCES: dict[str, type[Database]] = {"mariadb": MariaDb, "mysql": MySql}
CATCH_UP_S = 240.0
SINK_S = 600.0
REST_S = 90.0
AWAY_S = 120.0
LOST_RACES = {1205, 1213, 1412}
SWAP_TRIES = 10
SENTINEL = "zz_end"
Report = Callable[[str], None]


def cases_of(flavor: str) -> list[Any]:
    """The cases of DDL that a server knows, in their order."""
    return [case for case in STREAMED_CASES if flavor in case.servers]


@dataclass(slots=True)
class Servers:
    """What serves many runs. The sink starts with the first plan that needs it: Spark's start is dear."""

    folder: Path
    kafka: Kafka
    worker: Worker
    sink: Sink | None = None
    with_sink: bool = True
    ending: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def started_sink(self) -> Sink | None:
        """The sink, running; None when it is not wanted."""
        if self.with_sink and self.sink is None:
            self.sink = Sink(self.kafka, self.folder / "sink", registry_url=self.worker.url, prefix="chaos", database="chaos", name="chaos")
            options = json.loads(self.sink.config_file.read_text())
            options |= {
                "topics.pattern": r"chaos\d+[a-z]+x\d+[ab]\.chaos_.*",
                "topics.name": r"(?P<prefix>[^.]+)\.(?P<db>[^.]+)\.(?P<table>[^.]+)",
                "target.template": "{base}/{prefix}/{db}/{table}",
                "merge.age.max.s": 3,
                # DDL of a plan gives columns other types, and its decimals have up to 65 digits.
                "table.all.match": ".*",
                "table.all.evolution.incompatible": "column",
                "table.all.decimal.overflow": "string",
                "kafka.metadata.max.age.ms": 2000,
            }
            self.sink.config_file.write_text(json.dumps(options, indent=2))
            self.ending.enter_context(self.sink)
        return self.sink


@contextlib.contextmanager
def servers(folder: Path, *, kafka: Kafka | None = None, with_sink: bool = True) -> Iterator[Servers]:
    """A worker, a broker if none is given, and later a sink."""
    with contextlib.ExitStack() as ending:
        broker = kafka or ending.enter_context(Kafka(folder / "kafka"))
        worker = Worker(
            broker,
            folder / "worker",
            name=f"chaos{int(time.time())}",
            options={"offset.flush.interval.ms": "1000", "dblog.registry.topic": "chaos-schemas"},
        )
        ending.enter_context(worker)
        yield Servers(folder, broker, worker, with_sink=with_sink, ending=ending)


@dataclass(slots=True)
class Result:
    """What a run came to."""

    problems: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    records: int = 0
    elapsed_s: float = 0.0

    @property
    def check(self) -> str:
        """What failed first; empty when nothing did."""
        return self.problems[0].check if self.problems else ""


class Run:
    """One plan on servers that are up."""

    def __init__(self, plan: Plan, servers: Servers, source: Database, *, attempt: int, folder: Path, report: Report) -> None:
        self.plan, self.servers, self.folder = plan, servers, folder
        self.source = source
        self.replica: Database | None = None
        self.prefix = f"chaos{plan.seed}{plan.flavor}x{attempt}"  # servers may share a broker
        self.connector = f"{self.prefix}a"
        self.database = f"chaos_{plan.seed}_{attempt}"
        self.model = copy.deepcopy({name: table.without(plan.mask) for name, table in plan.tables.items()})
        self.excluded = {plan.outside} - {""}
        self.result = Result()
        self.fresh: dict[str, check.Folded] = {}
        self.locks = [threading.Lock() for _ in range(SESSIONS + 1)]
        self._sessions: list[threading.Thread] = []
        self._over = threading.Event()
        self._swap_at = 0
        self.sentinels = 0
        self.began_s = time.monotonic()
        self._report, self._log_lock = report, threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.txt").write_text("\n".join(plan.lines()) + "\n", encoding="utf-8")
        self._log = (folder / "log.txt").open("w", encoding="utf-8")

    def run(self) -> Result:
        """Everything; what fails on the way is a problem too."""
        began_s = time.monotonic()
        try:
            with contextlib.ExitStack() as ending:
                if any(fault.kind == "failover" for fault in self.plan.faults):
                    self._own_servers(ending)
                ending.callback(self._leave)
                ending.callback(self._end_sessions)
                self._begin()
                self._load()
                self._compare()
        except ConnectorFailedError as e:
            self.result.problems.append(Problem("failed", "", str(e)[:3000]))
        except (StackError, pymysql.MySQLError, AssertionError, httpx.HTTPError, KafkaException) as e:
            self.result.problems.append(Problem("stuck", "", f"{type(e).__name__}: {e}"[:3000]))
        self.result.elapsed_s = time.monotonic() - began_s
        for problem in self.result.problems:
            self.log(f"PROBLEM {problem}")
        self._log.close()
        return self.result

    def log(self, text: str, *, aloud: bool = False) -> None:
        """A line of the log of what was done."""
        with self._log_lock:
            self._log.write(f"{time.monotonic() - self.began_s:8.2f} {text}\n")
            self._log.flush()
        if aloud:
            self._report(text)

    # -- the steps ---------------------------------------------------------------------------------------------------------------

    def _own_servers(self, ending: contextlib.ExitStack) -> None:
        """A primary and a replica: what becomes of them is of no use to other runs."""
        made = SOURCES[self.plan.flavor]
        self.source = made(self.folder / "primary", durable=False)
        self.replica = made(self.folder / "replica", durable=False, options={"server_id": 2, "log_bin": "other-name"})
        for server in (self.source, self.replica):
            server.start()
            ending.callback(server.kill)
        follow_primary(self.replica, self.source)

    def _begin(self) -> None:
        self._globals(self.plan.settings.log)
        create_connector_user(self.source)
        with self._connected(database=None) as cursor:
            cursor.execute(f"CREATE DATABASE `{self.database}` CHARACTER SET utf8mb4")
            cursor.execute(f"USE `{self.database}`")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id INT PRIMARY KEY, v VARCHAR(40))")
            for table in self.model.values():
                cursor.execute(table.create)
            for statement in self.plan.fill:
                with contextlib.suppress(pymysql.err.IntegrityError, pymysql.err.OperationalError):
                    cursor.execute(statement.sql)
        if self.plan.sink:
            self.servers.started_sink()
        # DDL changes types as it likes; the registry's default rule would end the connector at the first such statement.
        self._rest("PUT", "/config", json={"compatibility": "NONE"})
        self.servers.worker.rest.create(self.connector, self._config(self.connector))
        # The dump may well go on under faults, but a task that starts behind the last one has seen none.
        wait_until(
            lambda: self.servers.worker.rest.state(self.connector) == "RUNNING", timeout_s=REST_S, what="a running task", pause_s=0.2
        )
        self.log("the connector runs", aloud=True)

    def _config(self, name: str) -> dict[str, str]:
        options = {
            **self.plan.settings.connector,
            "database.include.list": rf"{self.database},replay_\d+(_b)?",
            "database.server.id": str(5000 + self.plan.seed % 50_000 + (60_000 if name.endswith("b") else 0)),
        }
        if self.excluded:
            options["table.exclude.list"] = ",".join(rf"{self.database}\.{table}" for table in sorted(self.excluded))
        connector = Connector(name=name, prefix=name, source=self.source, kafka=self.servers.kafka, database=self.database, options=options)
        return connector.config

    def _load(self) -> None:
        self.began_s = time.monotonic()
        self._sessions = [threading.Thread(target=self._session, args=(number,), daemon=True) for number in range(SESSIONS + 1)]
        for session in self._sessions:
            session.start()
        for fault in self.plan.faults:
            wait_until(
                lambda at=fault.at_s: time.monotonic() - self.began_s >= at, timeout_s=self.plan.seconds + 5, what="a fault's moment"
            )
            self.log(f"fault {fault.kind}", aloud=True)
            getattr(self, f"_fault_{fault.kind}")()
            self.result.counts[f"fault {fault.kind}"] += 1
            self.log(f"fault {fault.kind} is over")
        for session in self._sessions:
            session.join(self.plan.seconds + AWAY_S)
            assert not session.is_alive(), "a session has not ended"
        with self._connected(database=None) as cursor:
            cursor.execute("XA RECOVER")
            for _, _, _, name in cursor.fetchall():
                # Its connection was lost behind XA PREPARE. On MySQL its rows are logged, so it is not rolled back.
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"XA COMMIT '{name if isinstance(name, str) else name.decode()}'")
        self.log(f"the load has ended: {dict(self.result.counts)}", aloud=True)

    def _compare(self) -> None:
        self._caught_up(self.connector)
        fresh = f"{self.prefix}b"
        self.servers.worker.rest.create(fresh, self._config(fresh))
        self._caught_up(fresh)
        self.log("both connectors have read everything; comparing", aloud=True)
        problems: list[Problem] = []
        for patience_s in (0.0, 4.0, 8.0):
            time.sleep(patience_s)  # nothing changes any more; what comes now was not seen from outside
            problems = self._compare_topics(fresh)
            if not problems:
                break
            self._caught_up(self.connector)
        history = f"{self.connector}.schema-history"
        problems += check.check_history(self.servers.kafka.bootstrap, history, self.connector)
        if self.plan.sink and self.servers.sink is not None and not problems:
            problems += self._compare_delta(fresh)
        self.result.problems += problems

    def _names(self) -> list[str]:
        """Tables that are there and were followed."""
        with self._connected() as cursor:
            cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
            found = [str(row[0]) for row in cursor.fetchall()]
        narrowed = {t.name for t in self.model.values() if t.born in self.excluded}
        return [name for name in found if name != SENTINEL and name not in narrowed | self.excluded]

    def _compare_topics(self, fresh: str) -> list[Problem]:
        decode = check.Decoder(self.servers.worker.url)
        bootstrap = self.servers.kafka.bootstrap
        self.result.rows = self.result.records = 0
        problems: list[Problem] = []
        for name in self._names():
            old, new = (check.fold(bootstrap, f"{prefix}.{self.database}.{name}", decode) for prefix in (self.connector, fresh))
            self.result.rows += len(new.rows) + len(new.unkeyed)
            self.result.records += old.records
            self.fresh[name] = new
            settings = self.plan.settings
            problems += check.compare_folded(name, old, new, reread=settings.rereads)
            if name in self.model:
                problems += check.compare_select(
                    self.source, self.database, self.model[name], settings.modes, new, as_json=settings.converter != "avro"
                )
            elif (count := check.count_select(self.source, self.database, name)) != len(new.rows) + len(new.unkeyed):
                problems.append(Problem("dump", name, f"{count} rows by SELECT, {len(new.rows) + len(new.unkeyed)} in a fresh dump"))
        return problems

    def _compare_delta(self, fresh: str) -> list[Problem]:
        sink = self.servers.sink
        assert sink is not None

        def problems() -> list[Problem]:
            return [
                problem
                for name in self._names()
                if self._has_key(name)
                for prefix in (self.connector, fresh)
                for problem in check.compare_delta(
                    Lake(sink.lake / prefix, sink.jars),
                    self.database,
                    name,
                    self.fresh[name],
                    check.count_select(self.source, self.database, name),
                )
            ]

        deadline_s = time.monotonic() + SINK_S
        found = [Problem("delta", "", f"the sink has not come to an end in {SINK_S:g} s")]
        while found and time.monotonic() < deadline_s:
            if not sink.running:
                text = sink.log_end()
                self.servers.sink = None
                return [Problem("sink", "", f"the sink has ended by itself\n{text}")]
            if self._sink_idle(sink):
                found = problems()
            if found:
                time.sleep(2)  # the sink commits now and then
        return found

    @staticmethod
    def _sink_idle(sink: Sink) -> bool:
        if not sink.progress_file.exists():
            return False
        counts = [line for line in map(json.loads, sink.progress_file.read_text(encoding="utf-8").splitlines()) if "rows_waiting" in line]
        return bool(counts) and counts[-1]["records_behind"] == counts[-1]["rows_waiting"] == 0

    def _has_key(self, table: str) -> bool:
        with self._connected() as cursor:
            cursor.execute(f"SHOW KEYS FROM `{table}` WHERE Non_unique = 0")
            return bool(cursor.fetchall())

    def _leave(self) -> None:
        """Take the run's things away; its topics and Delta tables stay, for whoever looks."""
        for name in (self.connector, f"{self.prefix}b"):
            with contextlib.suppress(StackError, httpx.HTTPError):
                self._rest("DELETE", f"/connectors/{name}", fine=(204, 404))
        with contextlib.suppress(pymysql.MySQLError, StackError):
            self._globals(DEFAULTS[self.plan.flavor])
            with self._connected(database=None) as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS `{self.database}`")

    # -- sessions ----------------------------------------------------------------------------------------------------------------

    def _session(self, number: int) -> None:
        connection = None
        for step in (step for step in self.plan.steps if step.session == number):
            if self._over.wait(max(0.0, self.began_s + step.at_s - time.monotonic())):
                break
            with self.locks[number]:
                try:
                    if step.kind == "case":
                        self._case(step)
                        continue
                    if connection is None:
                        connection = self._login()
                    self._do(connection, step)
                except (pymysql.MySQLError, OSError) as e:
                    self.log(f"session {number} lost its connection: {e}")
                    self.result.counts["lost connection"] += 1
                    with contextlib.suppress(Exception):
                        connection.close()
                    connection = self._go_on(step) if step.kind == "ghost" else None
        if connection is not None:
            connection.close()

    def _go_on(self, step: Step) -> Any:
        """A new connection, which does what is left of a swap: without its last copy the table would have lost rows, of which the log shows nothing."""
        for _ in range(SWAP_TRIES):
            connection = None
            try:
                connection = self._login()
                self._do(connection, step, begin=self._swap_at)
            except (pymysql.MySQLError, OSError) as e:
                self.log(f"session {step.session} lost its connection again: {e}")
            else:
                return connection
            with contextlib.suppress(Exception):
                connection.close()
        return None

    def _end_sessions(self) -> None:
        """A run that has failed writes no more."""
        self._over.set()
        for session in self._sessions:
            session.join(AWAY_S)

    def _do(self, connection: Any, step: Step, *, begin: int = 0) -> None:
        """A step's statements. What the server refuses is passed over, as long as the transaction is open; a swap is done whole, or not begun."""
        with connection.cursor() as cursor:
            swap = step.kind == "ghost"
            for at, statement in enumerate(step.statements[begin:], begin):
                if swap:
                    self._swap_at = at
                code = self._execute(connection, cursor, step, statement)
                tries = SWAP_TRIES if swap else 0
                while code in LOST_RACES and tries > 0:
                    code, tries = self._execute(connection, cursor, step, statement), tries - 1
                if code in LOST_RACES or (code and swap and not begin):
                    break
            # After a lost race a transaction of two phases is still open.
            xa = next((s.sql for s in step.statements if s.sql.startswith("XA START")), None)
            for rest in (f"XA END {xa[9:]}", f"XA ROLLBACK {xa[9:]}") if xa else ("ROLLBACK",):
                with contextlib.suppress(pymysql.err.OperationalError, pymysql.err.InternalError, pymysql.err.ProgrammingError):
                    cursor.execute(rest)

    def _execute(self, connection: Any, cursor: Any, step: Step, statement: Statement) -> int:
        """The error with which the server refuses it, or 0."""
        try:
            cursor.execute(statement.sql)
            cursor.fetchall()
        except pymysql.MySQLError as e:
            code = int(e.args[0]) if e.args else 0
            if code in (0, 2006, 2013) or not connection.open:
                raise
            self.result.counts[f"refused {statement.kind} {code}"] += 1
            self.log(f"{step.at_s:.2f} refused {code} {str(e.args[-1])[:120]}: {statement.sql[:200]}")
            return code
        self.result.counts[statement.kind if statement.kind != "border" else step.kind] += 1
        if step.session == DDL_SESSION:
            self.log(statement.sql[:400])
        if statement.effect is not None and statement.effect.table in self.model:
            tables.apply(self.model, statement.effect)
        return 0

    def _case(self, step: Step) -> None:
        """A case of DDL in databases of its own, on a connection of its own: it changes the session."""
        case = cases_of(self.plan.flavor)[int(step.statements[0].sql)]
        self.log(f"DDL case {case.name}")
        with self._connected(database=None) as cursor:
            try:
                Replay(self.source, cursor).run(case, int(step.at_s * 1000))
                self.result.counts["case"] += 1
            except (pymysql.MySQLError, AssertionError) as e:
                self.log(f"DDL case {case.name}: {e}")
                self.result.counts["refused case"] += 1

    def _login(self) -> Any:
        """A session as the load's are; a server that is away is waited for."""
        deadline_s = time.monotonic() + AWAY_S
        while True:
            try:
                connection = pymysql.connect(
                    **self.source.login, database=self.database, charset="utf8mb4", autocommit=True, read_timeout=60
                )
                break
            except pymysql.err.OperationalError:
                if time.monotonic() > deadline_s or self._over.is_set():
                    raise
                time.sleep(0.2)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00', lock_wait_timeout=10, innodb_lock_wait_timeout=3")
        return connection

    @contextlib.contextmanager
    def _connected(self, database: str | None = "") -> Iterator[Any]:
        login = {**self.source.login, "database": self.database if database == "" else database}
        with contextlib.closing(pymysql.connect(**login, charset="utf8mb4", autocommit=True)) as connection, connection.cursor() as cursor:
            if database is None or database == "":
                cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
            yield cursor

    def _globals(self, values: dict[str, str]) -> None:
        """The log's settings, for sessions that begin from now on; on the replica too."""
        for server in (self.source, self.replica):
            if server is None or not server.running:
                continue
            with contextlib.closing(pymysql.connect(**server.login, autocommit=True)) as connection, connection.cursor() as cursor:
                for name, text in values.items():
                    cursor.execute(f"SET GLOBAL {name} = '{text}'")

    # -- faults ------------------------------------------------------------------------------------------------------------------

    def _fault_kill_task(self) -> None:
        self.servers.worker.kill_task()

    def _fault_kill_worker(self) -> None:
        self.servers.worker.kill()
        self.servers.worker.start()

    def _fault_kill_sink(self) -> None:
        if self.servers.sink is not None:
            self.servers.sink.kill()
            self.servers.sink.start()

    def _fault_restart_broker(self) -> None:
        self.servers.kafka.restart()

    def _fault_kill_broker(self) -> None:
        self.servers.kafka.kill()
        self.servers.kafka.start()

    def _fault_restart_server(self) -> None:
        self.source.restart()
        self._globals(self.plan.settings.log)

    def _fault_kill_server(self) -> None:
        self.source.kill()
        self.source.start()
        self._globals(self.plan.settings.log)

    def _fault_flush_logs(self) -> None:
        with self._connected() as cursor:
            cursor.execute("FLUSH BINARY LOGS")

    def _fault_pause(self) -> None:
        self._rest("PUT", f"/connectors/{self.connector}/pause")
        time.sleep(2)  # how long a pause is
        self._rest("PUT", f"/connectors/{self.connector}/resume")

    def _fault_stop(self) -> None:
        self._rest("PUT", f"/connectors/{self.connector}/stop")
        time.sleep(1.5)  # how long a stop is
        self._rest("PUT", f"/connectors/{self.connector}/resume")

    def _fault_widen(self) -> None:
        self.excluded.discard(self.plan.outside)
        self._edit()

    def _fault_narrow(self) -> None:
        if len(self.model) > 1:
            self.excluded.add(min(name for name in self.model if name not in self.excluded))
            self._edit()

    def _edit(self) -> None:
        self._rest("PUT", f"/connectors/{self.connector}/config", json=self._config(self.connector))

    def _fault_reset(self) -> None:
        """Offsets away while nothing is written: what was deleted between the old end and the new beginning would be lost by right."""
        with self._held():
            self._caught_up(self.connector)
            self._rest("PUT", f"/connectors/{self.connector}/stop")
            self._rest("DELETE", f"/connectors/{self.connector}/offsets")
            self._rest("PUT", f"/connectors/{self.connector}/resume")
            self._caught_up(self.connector)

    def _fault_failover(self) -> None:
        """The replica has everything, the primary ends, and connector and sessions go on at the replica."""
        assert self.replica is not None
        with self._held():
            with self._connected() as cursor:
                cursor.execute(f"INSERT INTO {SENTINEL} VALUES (-1, 'failover')")
            replica = self.replica
            wait_until(lambda: has_row(replica, self.database), timeout_s=AWAY_S, what="the replica", pause_s=0.2)
            stop_following(replica)
            self.source.kill()
            self.source = replica
            self._globals(self.plan.settings.log)
            self._edit()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """No session is in a step, and none begins one."""
        with contextlib.ExitStack() as held:
            for lock in self.locks:
                held.enter_context(lock)
            yield

    # -- watching ----------------------------------------------------------------------------------------------------------------

    def _caught_up(self, connector: str) -> None:
        """What is in the log now has been written, and no dump is left to do."""
        topic = f"{connector}.{self.database}.{SENTINEL}"
        rest = self.servers.worker.rest

        def read() -> bool:
            try:
                return rest.state(connector) == "RUNNING" and text in (last_value(self.servers.kafka.bootstrap, topic) or b"")
            except KafkaException:  # the broker has come back a moment ago
                return False

        def dumped() -> bool:
            return rest.state(connector) == "RUNNING" and rest.dump(connector).done

        for condition in (lambda: True, dumped):
            wait_until(condition, timeout_s=CATCH_UP_S, what=f"the dump of {connector}", pause_s=0.3)
            self.sentinels += 1
            text = f"sentinel {self.sentinels}.".encode()
            with self._connected() as cursor:
                cursor.execute(f"INSERT INTO {SENTINEL} VALUES ({self.sentinels}, '{text.decode()}')")
            wait_until(read, timeout_s=CATCH_UP_S, what=f"the end of the log in {connector}", pause_s=0.3)

    def _rest(self, method: str, path: str, *, fine: tuple[int, ...] = (), **more: Any) -> None:
        """A call that is made again while the worker is away or busy."""
        deadline_s = time.monotonic() + REST_S
        while True:
            try:
                answer = httpx.request(method, f"{self.servers.worker.url}{path}", timeout=60, verify=NO_TLS, **more)
                if answer.is_success or answer.status_code in fine:
                    return
                text = f"{answer.status_code} {answer.text[:300]}"
            except httpx.HTTPError as e:
                text = repr(e)
            if time.monotonic() > deadline_s:
                raise StackError(f"{method} {path}: {text}")
            time.sleep(0.5)


def follow_primary(replica: Database, primary: Database) -> None:
    """By GTIDs, from the beginning."""
    mysql = primary.flavor == "mysql"
    word = "SOURCE_" if mysql else "MASTER_"
    login = f"{word}HOST='{primary.host}', {word}PORT={primary.port}, {word}USER='{primary.user}', {word}PASSWORD='{primary.password}'"
    how = "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1" if mysql else "MASTER_USE_GTID=slave_pos"
    with contextlib.closing(pymysql.connect(**replica.login, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CHANGE {'REPLICATION SOURCE' if mysql else 'MASTER'} TO {login}, {how}")
        cursor.execute("START REPLICA" if mysql else "START SLAVE")


def stop_following(replica: Database) -> None:
    with contextlib.closing(pymysql.connect(**replica.login, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("STOP REPLICA" if replica.flavor == "mysql" else "STOP SLAVE")


def has_row(replica: Database, database: str) -> bool:
    """Whether the replica has the row that was written last."""
    try:
        with contextlib.closing(pymysql.connect(**replica.login, database=database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {SENTINEL} WHERE id = -1")
            return bool(cursor.fetchall())
    except pymysql.MySQLError:
        return False

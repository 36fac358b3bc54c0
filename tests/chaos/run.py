"""Runs a plan on real servers: sessions write, faults happen, and when the log has been read to its end the four sides are compared.

``Servers`` are the broker, the worker and the sink, which serve many runs; a run has a database, two connectors and topics of its own. A plan with a
failover has two database servers of its own besides.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from chaos import check, handover, kind_faults, repairs
from chaos.check import Problem
from chaos.database import AWAY_S, SENTINEL, Journal, RunDatabase
from chaos.kinds import KIND_SESSION
from chaos.mysql.database import MySqlDatabase
from chaos.plan import Plan
from chaos.postgres.database import PostgresDatabase
from chaos.sources import is_postgres
from confluent_kafka import KafkaException
from demo.pipeline import ROOT, Sink, Worker
from demo.rest import NO_TLS, ConnectorFailedError
from stack import Kafka
from stack.database import Database
from stack.errors import StackError
from stack.process import wait_until
from support.json_lines import json_lines
from support.topicfold import last_value

CATCH_UP_S = 240.0
SINK_S = 600.0
REST_S = 90.0
Report = Callable[[str], None]


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
                "topics.pattern": r"chaos\d+[a-z]+\d*x\d+[ab]\.chaos_.*",
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
def servers(folder: Path, *, kafka: Kafka | None = None, with_sink: bool = True, before: Path | None = None) -> Iterator[Servers]:
    """A worker, a broker if none is given, and later a sink; ``before``: the worker of another checkout."""
    with contextlib.ExitStack() as ending:
        broker = kafka or ending.enter_context(Kafka(folder / "kafka"))
        worker = Worker(
            broker,
            folder / "worker",
            name=f"chaos{int(time.time())}",
            options={"offset.flush.interval.ms": "1000", "dblog.registry.topic": "chaos-schemas"},
            checkout=before or ROOT,
        )
        worker.env["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).with_name('standing')}"
        worker.env["CHAOS_STANDS_STILL"] = str(worker.folder / "stands-still")
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
        # Servers may share a broker. A sink that an earlier plan has started reads each topic that begins so, and stops at records that it cannot read.
        self.prefix = f"{'chaos' if plan.sink else 'bare'}{plan.seed}{plan.flavor}x{attempt}"
        self.connector = f"{self.prefix}a"
        self.model = copy.deepcopy({name: table.without(plan.mask) for name, table in plan.tables.items()})
        self.excluded = {plan.outside} - {""}
        self.result = Result()
        self.journal = Journal(log=self.log, counts=self.result.counts)
        made = PostgresDatabase if is_postgres(plan.flavor) else MySqlDatabase
        self.database: RunDatabase = made(plan, source, self.model, self.journal, attempt=attempt)
        self.fresh: dict[str, check.Folded] = {}
        self.locks = [threading.Lock() for _ in range(KIND_SESSION + 1)]
        self._sessions: list[threading.Thread] = []
        self.sentinels = 0
        self.peer_url = ""
        """Kafka Connect's with Debezium, where the plan has it."""
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
                if any(fault.kind == "failover" for fault in self.plan.faults) or kind_faults.needs_servers(self.plan):
                    self.database.own_servers(self.folder, ending)
                ending.callback(self._leave)
                ending.callback(self._end_sessions)
                ending.callback(self._note_failures)
                self._begin(ending)
                self._load()
                self._compare()
        except ConnectorFailedError as e:
            self.result.problems.append(Problem("failed", "", str(e)[:3000]))
        except (StackError, self.database.error, AssertionError, httpx.HTTPError, KafkaException) as e:
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

    def _note_failures(self) -> None:
        """Write down why tasks of this run have failed: a call that is refused for it does not say."""
        with contextlib.suppress(httpx.HTTPError):
            statuses = httpx.get(f"{self.servers.worker.url}/connectors?expand=status", timeout=30, verify=NO_TLS).json()
            for name, found in sorted(statuses.items()):
                for task in found["status"]["tasks"] if name.startswith(self.prefix) else ():
                    if task["state"] == "FAILED":
                        self.log(f"FAILED {name}: {task.get('trace', '')[:3000]}")

    # -- the steps ---------------------------------------------------------------------------------------------------------------

    def _begin(self, ending: contextlib.ExitStack) -> None:
        self.database.begin()
        if self.plan.sink:
            self.servers.started_sink()
        # DDL changes types as it likes; the registry's default rule would end the connector at the first such statement.
        self.rest("PUT", "/config", json={"compatibility": "NONE"})
        if self.plan.apart:
            handover.begin(self, ending)
        else:
            self.servers.worker.rest.create(self.connector, self.config(self.connector))
        # The dump may well go on under faults, but a task that starts behind the last one has seen none.
        wait_until(
            lambda: self.servers.worker.rest.state(self.connector) == "RUNNING", timeout_s=REST_S, what="a running task", pause_s=0.2
        )
        self.log("the connector runs", aloud=True)

    def config(self, name: str) -> dict[str, str]:
        return self.database.connector(name, self.excluded, self.servers.kafka).config

    def _load(self) -> None:
        self.began_s = time.monotonic()
        self._sessions = [threading.Thread(target=self._session, args=(number,), daemon=True) for number in range(KIND_SESSION + 1)]
        for session in self._sessions:
            session.start()
        for fault in self.plan.faults:
            wait_until(
                lambda at=fault.at_s: time.monotonic() - self.began_s >= at, timeout_s=self.plan.seconds + 5, what="a fault's moment"
            )
            self.log(f"fault {fault.kind}", aloud=True)
            if (of_kind := kind_faults.FAULTS.get(fault.kind)) is not None:
                of_kind(self)
            else:
                own = getattr(self, f"_fault_{fault.kind}", None) or getattr(self.database, f"fault_{fault.kind}")
                own()
            self.result.counts[f"fault {fault.kind}"] += 1
            self.log(f"fault {fault.kind} is over")
        for session in self._sessions:
            session.join(self.plan.seconds + AWAY_S)
            assert not session.is_alive(), "a session has not ended"
        self.database.end_load()
        self.log(f"the load has ended: {dict(self.result.counts)}", aloud=True)

    def _compare(self) -> None:
        self.caught_up(self.connector)
        if self.plan.kinds:
            repairs.settle(self)
            self.caught_up(self.connector)
        if "stalled" in self.plan.kinds:
            kind_faults.wait_for_offset(self)
        fresh = f"{self.prefix}b"
        self.servers.worker.rest.create(fresh, self.config(fresh))
        self.caught_up(fresh)
        self.log("both connectors have read everything; comparing", aloud=True)
        problems: list[Problem] = []
        for patience_s in (0.0, 4.0, 8.0, *((20.0,) if self.plan.kinds else ())):
            time.sleep(patience_s)  # nothing changes any more; what comes now was not seen from outside
            problems = self._compare_topics(fresh)
            if not problems:
                break
            self.caught_up(self.connector)
        history = f"{self.connector}.schema-history"
        problems += check.check_history(self.servers.kafka.bootstrap, history, self.connector)
        if self.plan.sink and self.servers.sink is not None and not problems:
            problems += self._compare_delta(fresh)
        self.result.problems += problems

    def _compare_topics(self, fresh: str) -> list[Problem]:
        decode = check.Decoder(self.servers.worker.url, decimals=not is_postgres(self.plan.flavor))
        bootstrap = self.servers.kafka.bootstrap
        self.result.rows = self.result.records = 0
        repaired = repairs.repaired(bootstrap, self.connector, decode) if self.plan.kinds else {}
        problems: list[Problem] = []
        for name in self.database.tables(self.excluded):
            old, new = (
                check.fold(bootstrap, topic, decode, repaired=repaired.get(topic), as_they_come=self.plan.apart)
                for topic in (f"{prefix}.{self.database.name}.{name}" for prefix in (self.connector, fresh))
            )
            self.result.rows += len(new.rows) + len(new.unkeyed)
            self.result.records += old.records
            self.fresh[name] = new
            problems += self.database.compared_topics(name, old, new)
            problems += check.check_whole(name, old, new)
            problems += self.database.compare(name, new)
        return problems

    def _compare_delta(self, fresh: str) -> list[Problem]:
        sink = self.servers.sink
        assert sink is not None

        def problems() -> list[Problem]:
            return [
                problem
                for name in self.database.tables(self.excluded)
                if self.database.in_delta(name)
                for prefix in (self.connector, fresh)
                for problem in check.compare_delta(
                    self.database.lake(sink.lake / prefix, sink.jars), self.database.name, name, self.fresh[name], self.database.count(name)
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
        counts = [line for line in json_lines(sink.progress_file) if "rows_waiting" in line]
        return bool(counts) and counts[-1]["records_behind"] == counts[-1]["rows_waiting"] == 0

    def _leave(self) -> None:
        """Take the run's things away; its topics and Delta tables stay, for whoever looks."""
        for name in (self.connector, f"{self.prefix}b"):
            with contextlib.suppress(StackError, httpx.HTTPError):
                self.rest("DELETE", f"/connectors/{name}", fine=(204, 404))
        with contextlib.suppress(self.database.error, StackError):
            self.database.leave()

    # -- sessions ----------------------------------------------------------------------------------------------------------------

    def _session(self, number: int) -> None:
        connection = None
        for step in (step for step in self.plan.steps if step.session == number):
            if self.journal.over.wait(max(0.0, self.began_s + step.at_s - time.monotonic())):
                break
            with self.locks[number]:
                try:
                    if step.kind == "case":
                        self.database.case(step)
                        continue
                    if connection is None:
                        connection = self.database.login()
                    self.database.do(connection, step)
                except (self.database.error, OSError) as e:
                    self.log(f"session {number} lost its connection: {e}")
                    self.result.counts["lost connection"] += 1
                    with contextlib.suppress(Exception):
                        connection.close()
                    connection = self.database.go_on(step)
        if connection is not None:
            connection.close()

    def _end_sessions(self) -> None:
        """A run that has failed writes no more."""
        self.journal.over.set()
        for session in self._sessions:
            session.join(AWAY_S)

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
        self.database.source.restart()
        self.database.restarted()

    def _fault_kill_server(self) -> None:
        self.database.source.kill()
        self.database.source.start()
        self.database.restarted()

    def _fault_pause(self) -> None:
        self.rest("PUT", f"/connectors/{self.connector}/pause")
        time.sleep(2)  # how long a pause is
        self.rest("PUT", f"/connectors/{self.connector}/resume")

    def _fault_stop(self) -> None:
        self.rest("PUT", f"/connectors/{self.connector}/stop")
        time.sleep(1.5)  # how long a stop is
        self.rest("PUT", f"/connectors/{self.connector}/resume")

    def _fault_widen(self) -> None:
        self.excluded.discard(self.plan.outside)
        self.edit()

    def _fault_narrow(self) -> None:
        if len(self.model) > 1:
            self.excluded.add(min(name for name in self.model if name not in self.excluded))
            self.edit()

    def edit(self) -> None:
        self.rest("PUT", f"/connectors/{self.connector}/config", json=self.config(self.connector))

    def _fault_reset(self) -> None:
        """Offsets away while nothing is written: what was deleted between the old end and the new beginning would be lost by right."""
        with self.held():
            self.caught_up(self.connector)
            self.rest("PUT", f"/connectors/{self.connector}/stop")
            self.rest("DELETE", f"/connectors/{self.connector}/offsets")
            self.rest("PUT", f"/connectors/{self.connector}/resume")
            self.caught_up(self.connector)

    def _fault_failover(self) -> None:
        """Connector and sessions go on at the replica."""
        with self.held():
            self.database.fail_over()
            self.edit()

    @contextlib.contextmanager
    def held(self, *sessions: int) -> Iterator[None]:
        """Have none of these sessions in a step, nor begin one; without numbers, none at all."""
        with contextlib.ExitStack() as held:
            for number in sessions or range(len(self.locks)):
                held.enter_context(self.locks[number])
            yield

    # -- watching ----------------------------------------------------------------------------------------------------------------

    def caught_up(self, connector: str) -> None:
        """What is in the log now has been written, and no dump is left to do."""
        topic = f"{connector}.{self.database.name}.{SENTINEL}"
        worker = self.servers.worker.rest

        def read() -> bool:
            try:
                return worker.state(connector) == "RUNNING" and text in (last_value(self.servers.kafka.bootstrap, topic) or b"")
            except KafkaException:  # the broker has come back a moment ago
                return False

        def dumped() -> bool:
            # Where Debezium began, its snapshot was the dump.
            began = self.plan.apart and connector == self.connector
            return worker.state(connector) == "RUNNING" and (began or worker.dump(connector).done)

        for condition in (lambda: True, dumped):
            wait_until(condition, timeout_s=CATCH_UP_S, what=f"the dump of {connector}", pause_s=0.3)
            self.sentinels += 1
            text = f"sentinel {self.sentinels}.".encode()
            self.database.sentinel(self.sentinels, text.decode())
            wait_until(read, timeout_s=CATCH_UP_S, what=f"the end of the log in {connector}", pause_s=0.3)

    def rest(self, method: str, path: str, *, fine: tuple[int, ...] = (), **more: Any) -> Any:
        """Make a call, again while the worker is away or busy; return what it answers."""
        deadline_s = time.monotonic() + REST_S
        while True:
            try:
                answer = httpx.request(method, f"{self.servers.worker.url}{path}", timeout=60, verify=NO_TLS, **more)
                if answer.is_success or answer.status_code in fine:
                    return answer.json() if answer.content else None
                text = f"{answer.status_code} {answer.text[:300]}"
            except httpx.HTTPError as e:
                text = repr(e)
            if time.monotonic() > deadline_s:
                raise StackError(f"{method} {path}: {text}")
            time.sleep(0.5)

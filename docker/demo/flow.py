"""A whole run: copies a shop to Delta under writes, kills parts of the pipeline, compares.

``run`` has the steps in order. Servers, worker and Spark start at the same time, because each of them
takes seconds. Every wait is for a condition, with a limit, and is shown. The comparison may be
repeated, because only arrived rows show from outside that everything has caught up. The source no
longer changes then, so a real difference remains.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from stack import Kafka
from stack.database import Database
from stack.process import GuardedProcess, wait_until

from demo.compare import TableResult
from demo.connection import Connect, connect_to
from demo.destination import DeltaLake, Destination, RunFailedError
from demo.load import Load
from demo.pipeline import Connector, Worker, create_connector_user
from demo.progress import Progress
from demo.rest import ConnectorFailedError, Rest
from demo.screen import Numbers
from demo.second_dump import Operator, dump_again, heal
from demo.shop import DATABASE, TABLES, Sizes, create_shop
from demo.topics import Topics

COMPARE_PAUSE_S = 5.0
COMMITS_LOOK_S = 0.3
STATE_LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A SIGKILL during a run.

    Task and worker are killed at a share of the dumped rows, or some seconds after the end of the
    dump. The sink is killed when its tables together have a certain number of commits, so between
    two commits.
    """

    target: Literal["task", "worker", "sink"]
    dump_share: float | None = None
    log_s: float | None = None
    commits: int | None = None

    def __str__(self) -> str:
        if self.commits is not None:
            return f"{self.target} after {self.commits} commits"
        moment = f"at {self.dump_share:.0%} of the dump" if self.dump_share is not None else f"{self.log_s:.1f} s after the dump"
        return f"{self.target} {moment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The plan of a run. ``log_s`` is how long writes go on after the dump and the last kill."""

    name: str
    sizes: Sizes
    kills: tuple[Kill, ...]
    rate_per_s: float
    changes_max: int
    log_s: float
    dumped_again: str | None = None
    """Pattern of tables for which a second dump is requested while the shop is open."""
    healed: tuple[str, str] | None = None
    """Table and text column of which a row is damaged in the lake, found and healed."""
    seed: int = 1
    alter_at_dump_share: float | None = 0.08
    chunk_rows: int = 2000
    dump_timeout_s: float = 180.0
    catch_up_timeout_s: float = 1800.0
    standstill_timeout_s: float = 600.0
    """Seconds without any arrival after which a run fails. A slow machine has time as long as
    something arrives; on a very busy one the first large batch takes minutes.
    """


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    results: list[TableResult] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    changes: int = 0
    key_changes: int = 0
    elapsed_s: float = 0.0
    first_rows_s: float | None = None
    """Seconds from the opening of the shop to its first rows in the lake; None if nobody looked."""

    @property
    def identical(self) -> bool:
        """True if every table equals its Delta table; never true if nothing was compared."""
        return len(self.results) == len(TABLES) and all(result.identical for result in self.results)


@dataclass(slots=True)
class Run:
    """A run. ``worker`` and ``destination`` are started and stopped by it.

    ``owns_servers`` is True if it starts and stops source and broker too; else they run already.
    """

    scenario: Scenario
    source: Database
    kafka: Kafka
    destination: Destination
    folder: Path
    progress: Progress
    owns_servers: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    began_s: float = field(default_factory=time.monotonic)
    opened_s: float = 0.0
    sink_kills: int = 0
    commits_looked_s: float = 0.0
    state_looked_s: float = 0.0
    _load: Load | None = None

    @property
    def connect(self) -> Connect:
        """Function that opens connections to the source."""
        return connect_to(self.source)

    def run(self) -> Outcome:
        """Carry out all steps. Raise RunFailedError, or the error of a program of the run."""
        scenario = self.scenario
        self.progress.numbers.rows_to_dump = scenario.sizes.total
        worker = Worker(self.kafka, self.folder, name=scenario.name)
        with contextlib.ExitStack() as ending:
            ending.callback(self._stop, worker)
            self._start(worker)
            load = self._load = Load(
                self.connect,
                flavor=self.source.flavor,
                sizes=scenario.sizes,
                rate_per_s=scenario.rate_per_s,
                changes_max=scenario.changes_max,
                seed=scenario.seed,
            )
            topics = Topics(self.kafka.bootstrap, [f"{scenario.name}.{DATABASE}.{table}" for table in TABLES])
            self.progress.sample = self._sampler(load, topics, worker)
            self.opened_s = time.monotonic()
            self.progress.phase("the shop is open: writing, dumping and following the log")
            load.start()
            connector = Connector(
                name=scenario.name,
                prefix=scenario.name,
                source=self.source,
                kafka=self.kafka,
                database=DATABASE,
                options={"dblog.chunk.rows": str(scenario.chunk_rows)},
            )
            with self.progress.waits("the worker to check the connector"):
                worker.rest.create(scenario.name, connector.config)
            self._dump(load, topics, worker)
            self._follow(load, worker)
            load.stop()
            self.progress.event(f"the shop has closed after {load.changes:,} changes, {load.key_changes} of them to primary keys")
            if load.key_changes == 0:
                raise RunFailedError("the load changed no primary key: it has not tested what it is for")
            load.write_sentinels()
            self.outcome.changes, self.outcome.key_changes = load.changes, load.key_changes
            self._catch_up(worker)
            if self.sink_kills < sum(kill.commits is not None for kill in scenario.kills):
                raise RunFailedError("everything had arrived before the sink was killed as often as the run is to show")
            if scenario.healed is not None:
                self._heal(worker, *scenario.healed)
            self._compare(worker)
        self.outcome.elapsed_s = time.monotonic() - self.began_s
        return self.outcome

    # -- start and stop ---------------------------------------------------------------------------------------------------------------

    def _start(self, worker: Worker) -> None:
        """Start everything at once and fill the shop.

        The Spark job is first, since its JVM takes longest. It waits for the broker and for topics.
        """
        self.progress.phase(f"starting {self.source.flavor}, Kafka, the worker and Spark, all at once")
        self.destination.start(worker)
        with ThreadPoolExecutor() as pool:
            left: dict[Future[None], str] = {
                pool.submit(self._fill): "the shop to be filled",
                pool.submit(self._start_worker, worker): "the worker to start",
            }
            try:
                while left:
                    with self.progress.waits(" and ".join(left.values())):
                        done, _ = wait(left, return_when=FIRST_COMPLETED)
                    for one in done:
                        del left[one]
                        one.result()
            except BaseException:
                # The other thread need not come to its end.
                for server in (worker, *self._servers):
                    server.kill()
                raise

    @property
    def _servers(self) -> Sequence[GuardedProcess]:
        return (self.source, self.kafka) if self.owns_servers else ()

    def _fill(self) -> None:
        if self.owns_servers:
            self.source.start()
        self.progress.event(f"{self.source.flavor} is ready; filling the shop: {self.scenario.sizes.total:,} rows")
        create_shop(self.connect, sizes=self.scenario.sizes, flavor=self.source.flavor)
        create_connector_user(self.source)
        self.progress.event("the shop is filled")

    def _start_worker(self, worker: Worker) -> None:
        if self.owns_servers:
            self.kafka.start()
        self.progress.event("Kafka is ready; starting the worker")
        worker.start()
        self.progress.event("the worker is ready")

    def _stop(self, worker: Worker) -> None:
        """Stop everything: first what uses the servers, then the servers."""
        self.progress.phase("stopping everything")
        self.progress.sample = self.progress.dump = None
        # Its error is raised where the run goes on.
        with contextlib.suppress(Exception):
            if self._load is not None:
                self._load.stop()
        with self.progress.waits("the programs to end"):
            stop_together([*self.destination.programs, worker])
            stop_together(self._servers)

    # -- steps ----------------------------------------------------------------------------------------------------------------------

    def _dump(self, load: Load, topics: Topics, worker: Worker) -> None:
        """Wait for the moments of the dump at which something happens, and then for its end."""
        total = self.scenario.sizes.total
        moments: list[tuple[float, Kill | None]] = [(kill.dump_share, kill) for kill in self.scenario.kills if kill.dump_share is not None]
        if self.scenario.alter_at_dump_share is not None:
            moments.append((self.scenario.alter_at_dump_share, None))
        for share, kill in sorted(moments, key=lambda moment: moment[0]):
            records = share * total
            self._wait(partial(_reached, topics, load, records), worker, load, what=f"{share:.0%} of the dump")
            if kill is None:
                self._alter(load)
            else:
                self._kill(kill, worker)
        self._wait(lambda: worker.rest.dump(self.scenario.name).done, worker, load, what="the end of the dump")
        self.progress.phase("the dump is done; following the log")

    def _follow(self, load: Load, worker: Worker) -> None:
        """Follow the log: kill at the given moments, then let the writes go on for a while."""
        began_s = time.monotonic()
        kills = sorted((kill for kill in self.scenario.kills if kill.log_s is not None), key=lambda kill: kill.log_s or 0)
        for kill in kills:
            self._wait(partial(_is_past, began_s + (kill.log_s or 0)), worker, load, what="the moment of a kill")
            self._kill(kill, worker)
        self._wait(lambda: worker.rest.state(self.scenario.name) == "RUNNING", worker, load, what="the task to run")
        if self.scenario.dumped_again is not None:
            self.progress.phase("a second dump, asked for while the shop is open")
            operator = Operator(worker, self.scenario.name, self.progress)
            dump_again(operator, self.scenario.dumped_again, lambda condition, what: self._wait(condition, worker, load, what=what))
        until_s = time.monotonic() + self.scenario.log_s
        self._wait(lambda: load.ended or time.monotonic() >= until_s, worker, load, what="the end of the writes")

    def _kill(self, kill: Kill, worker: Worker) -> None:
        """Kill with SIGKILL now.

        A killed worker is started again, as its supervisor would; it starts its task.
        """
        dump = worker.rest.dump(self.scenario.name)
        if kill.target == "worker":
            worker.kill()
            pid: int | None = worker.pid
            with self.progress.waits("the worker to start"):
                worker.start()
        else:
            self._wait(lambda: worker.task_pid() is not None, worker, None, what="the task's process")
            pid = worker.kill_task()
        during, when = ("log", "while the log is followed") if dump.done else ("dump", "in the middle of the dump")
        again = "started again with its file" if kill.target == "worker" else "the worker starts another"
        self._killed(kill, pid, f"{when}; {again}", f"{kill.target} ({during})")

    def _killed(self, kill: Kill, pid: int | None, when: str, short: str) -> None:
        self.outcome.kills.append(short)
        self.progress.killed(short, f"kill -9 of the {kill.target}'s process {pid}, {when}")

    def _kill_sink(self) -> None:
        """Kill the sink with SIGKILL once its tables have the scenario's next number of commits.

        It continues from its checkpoint.
        """
        left = sorted((kill for kill in self.scenario.kills if kill.commits is not None), key=lambda kill: kill.commits or 0)[
            self.sink_kills :
        ]
        if not left or time.monotonic() - self.commits_looked_s < COMMITS_LOOK_S:
            return
        self.commits_looked_s = time.monotonic()
        commits = self.destination.moved()
        if commits >= (left[0].commits or 0):
            self.sink_kills += 1
            self._killed(
                left[0],
                self.destination.kill(),
                f"after {commits} commits of its tables; submitted again, it goes on from its checkpoint",
                f"sink ({commits} commits)",
            )

    def _alter(self, load: Load) -> None:
        load.add_column()
        self.progress.event("ALTER TABLE orders ADD COLUMN, under the dump and the writes")

    def _catch_up(self, worker: Worker) -> None:
        self.progress.phase("waiting until everything has arrived")
        missing: Sequence[str] = TABLES

        seen, seen_at_s = -1, time.monotonic()

        def arrived() -> bool:
            nonlocal seen, seen_at_s, missing
            self._check(worker, None)
            self.destination.check()
            if (moved := self.destination.moved()) != seen:
                seen, seen_at_s = moved, time.monotonic()
            if time.monotonic() - seen_at_s > self.scenario.standstill_timeout_s:
                raise RunFailedError(f"nothing has arrived for {self.scenario.standstill_timeout_s:.0f} s, and the last rows are missing")
            missing = self.destination.missing()
            return not missing

        with self.progress.waits(lambda: f"the last row of {', '.join(missing)}"):
            wait_until(arrived, timeout_s=self.scenario.catch_up_timeout_s, what="the last row of every table to arrive", pause_s=0.25)

    def _heal(self, worker: Worker, table: str, column: str) -> None:
        self.progress.phase("a damaged row is found, and healed")
        assert isinstance(self.destination, DeltaLake), "rows are damaged in a lake"

        def wait(condition: Callable[[], bool], what: str) -> None:
            self._wait(condition, worker, None, what=what)
            self.destination.check()

        heal(Operator(worker, self.scenario.name, self.progress), self.destination, table, column, wait)

    def _compare(self, worker: Worker) -> None:
        """Compare all tables, and those that differ again, until they agree or time is up."""
        self.progress.phase("comparing every row and column")
        deadline_s = time.monotonic() + 45.0
        found = {table: self._compared(table) for table in TABLES}
        while time.monotonic() < deadline_s and (late := [table for table, result in found.items() if not result.identical]):
            self._check(worker, None)
            self.destination.check()
            self.progress.event(f"not the same yet: {', '.join(late)}; comparing again")
            with self.progress.waits("what is late"):
                time.sleep(COMPARE_PAUSE_S)
            found.update({table: self._compared(table) for table in late})
        self.outcome.results = [found[table] for table in TABLES]

    def _compared(self, table: str) -> TableResult:
        with self.progress.waits(f"the comparison of {table}"):
            result = self.destination.compare(self.connect, table)
        self.progress.event(f"  {table}: {result.rows_source:,} rows, {'identical' if result.identical else 'not identical'}")
        return result

    # -- waiting and watching -------------------------------------------------------------------------------------------------------

    def _wait(self, condition: Callable[[], bool], worker: Worker, load: Load | None, *, what: str) -> None:
        def holds() -> bool:
            self._check(worker, load)
            return condition()

        with self.progress.waits(what):
            wait_until(holds, timeout_s=self.scenario.dump_timeout_s, what=what, pause_s=0.1)

    def _check(self, worker: Worker, load: Load | None) -> None:
        """Raise as soon as something has failed for good, instead of waiting for the limit."""
        if not worker.running:
            raise RunFailedError(f"the worker has ended by itself\n{worker.log_end()}")
        if time.monotonic() - self.state_looked_s >= STATE_LOOK_S:
            self.state_looked_s = time.monotonic()
            worker.rest.state(self.scenario.name)
        self._kill_sink()
        if load is not None and load.error is not None:
            raise RunFailedError(f"the load failed: {load.error}") from load.error

    def _sampler(self, load: Load, topics: Topics, worker: Worker) -> Callable[[Numbers], None]:
        def sample(numbers: Numbers) -> None:
            numbers.changes = load.changes
            numbers.newest_order_at = load.newest_order_at
            numbers.records = topics.records()
            numbers.task = _state(worker.rest, self.scenario.name)
            dump = worker.rest.dump(self.scenario.name)
            if dump.known:
                numbers.rows_dumped, numbers.dump_done = dump.rows, dump.done
            before = numbers.rows_lake
            self.destination.sample(numbers)
            if numbers.rows_lake and not before:
                self.outcome.first_rows_s = time.monotonic() - self.opened_s
                self.progress.event(
                    f"the lake has its first {numbers.rows_lake:,} rows, {self.outcome.first_rows_s:.0f} s after the shop opened"
                )

        return sample


def stop_together(programs: Sequence[GuardedProcess]) -> None:
    """Stop programs at the same time. A second Ctrl-C kills them."""
    with ThreadPoolExecutor(max(1, len(programs))) as pool:
        stopping = [pool.submit(program.stop) for program in programs]
        try:
            for one in stopping:
                one.result()
        except BaseException:
            for program in programs:
                program.kill()
            raise


def _reached(topics: Topics, load: Load, records: float) -> bool:
    """Return True if the dump has written this many records.

    The load's records are in the same topics, at least one for each change, and do not count.
    """
    return topics.records() - load.changes >= records


def _is_past(moment_s: float) -> bool:
    return time.monotonic() >= moment_s


def _state(rest: Rest, name: str) -> str:
    try:
        return rest.state(name)
    # It is shown here; the current step raises it.
    except ConnectorFailedError:
        return "FAILED"

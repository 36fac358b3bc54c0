"""The sink among strangers: kinds of topics, others who write to its tables, a second sink, kills between all commits,
by seed, against the model.

``make chaos-sink RUNS=60 SEED=1``, or a few seeds in CI (test_chaos_sink.py). A seed draws a kind of topic, a mode,
settings, and what happens at which step between two commits: the process ends there, somebody else does something to
the table, or the process sleeps while another sink takes over, and wakes. Many seeds share one JVM; real kills of it
are in kills.py.

After that each seed tells one story, of the kinds in stories/ in turn; ``ONLY=hand_overs`` tells stories of one kind
alone, ``ONLY=strangers`` none. ``BEFORE=/path`` runs all of it against the sink of another checkout: a kind that was
mended since shows a difference there.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dblog_sink.delta.fence import Fence
from dblog_sink.errors import DefiniteError
from pyspark.sql import SparkSession
from sink.feed import append_rows, difference, history_rows, mirror_rows
from sink.harness import HeldLease, Record, Sink, local_session
from sink.stories import STORIES
from sink.stories.play import Play
from sink.topics import KINDS, Course, Kind
from support.registry_server import RegistryServer

UNIVERSES = 60
BATCHES = 4
_STEPS_A_BATCH = 5
_ATTEMPTS_MAX = 12
_UNDO = re.compile(r"is a RESTORE.* undo that \((RESTORE TABLE .* TO VERSION AS OF \d+)\)", re.DOTALL)


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a seed decides. ``at``: by number of a step, counted over the whole run, what happens behind it; ``between``: the same before a batch."""

    seed: int
    kind: Kind
    mode: str
    settings: Mapping[str, str]
    at: Mapping[int, str]
    between: Mapping[int, str]

    def __str__(self) -> str:
        done = [f"{what} at step {step}" for step, what in sorted(self.at.items())]
        done += [f"{what} before batch {batch}" for batch, what in sorted(self.between.items())]
        return f"{self.kind.name} topic, mode {self.mode}, {dict(self.settings)}: {', '.join(done) or 'nothing'}"


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    dice = random.Random(f"chaos {seed}")
    kind = KINDS[seed % len(KINDS)]
    mode = dice.choice(kind.modes)
    settings = {
        "trigger.interval.s": dice.choice(["0", "1000"]),
        "merge.rows.min": dice.choice(["1000", "1000000"]),
        "rewrite.rows.max": dice.choice(["0", "200", "50000"]),
        "control.interval.s": dice.choice(["0", "1000"]),
        "compact.commits": dice.choice(["2", "50"]),
    }
    steps = range(1, BATCHES * _STEPS_A_BATCH)
    at = {dice.choice(steps): "kill" for _ in range(dice.randint(0, 3))}
    # Dump rows of PostgreSQL's kind have no position, so a later dump replaces no row that an older change brought back after rows were deleted.
    strangers = [name for name, one in STRANGERS.items() if mode in one.modes and (one.healed or kind.name != "postgres")]
    if dice.random() < 0.3:
        at[dice.choice(steps)] = "takeover"
    at |= {dice.choice(steps): dice.choice(strangers) for _ in range(dice.randint(0, 2))}
    pauses = [*strangers, "restart", "lose control table", "lose checkpoint", "restore"]
    between = {dice.randrange(1, BATCHES): dice.choice(pauses) for _ in range(dice.randint(0, 2))}
    if mode == "append":  # without its high-water marks a list of changes recognises no record that comes again
        between = {batch: what for batch, what in between.items() if what != "lose control table"}
    return Plan(seed=seed, kind=kind, mode=mode, settings=settings, at=at, between=between)


@dataclass(frozen=True, slots=True)
class Stranger:
    """What somebody else does to a table at ``{path}``. ``healed`` False: rows are gone, and only another dump brings them."""

    sql: tuple[str, ...]
    modes: tuple[str, ...] = ("mirror", "history", "append")
    healed: bool = True


STRANGERS: Mapping[str, Stranger] = {
    "optimize": Stranger(("OPTIMIZE delta.`{path}`",)),
    "vacuum": Stranger(("VACUUM delta.`{path}`",)),
    "property": Stranger(("ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kept.by' = 'somebody')",)),
    "no vectors": Stranger(("ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",)),
    "column": Stranger(("ALTER TABLE delta.`{path}` ADD COLUMNS (note STRING)",)),
    "purge": Stranger(("REORG TABLE delta.`{path}` APPLY (PURGE)",)),
    "touch": Stranger(("UPDATE delta.`{path}` SET v = v WHERE universe % 3 = 0",)),
    "delete": Stranger(("DELETE FROM delta.`{path}` WHERE universe % 3 = 1",), modes=("mirror",), healed=False),
}


@dataclass
class Run:
    """One seed over a folder of its own."""

    session: SparkSession
    plan: Plan
    folder: Path
    done: list[str] = field(default_factory=list)
    """What really happened, in order."""
    _fence: Fence | None = None
    _heir: Fence | None = None
    """Of the sink that has taken over from the one that runs, and that does not know it yet."""
    _left: dict[str, int] = field(default_factory=dict)
    _step: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> None:
        """Raises AssertionError where the table is not what the model expects."""
        try:
            self._run()
        finally:
            for fence in (self._fence, self._heir):
                if fence is not None:
                    fence.remove()

    def _run(self) -> None:
        with RegistryServer() as registry:
            course = Course(self.plan.kind, self.plan.mode, self.plan.seed, registry, count=UNIVERSES, batches=BATCHES)
            rules = {"table.all.match": ".*", "table.all.mode": self.plan.mode}
            sink = Sink(self.session, registry, self.folder, settings=dict(self.plan.settings) | rules)
            if self.plan.kind.compacted:
                sink.compacted.add(course.topic.table.topic)
            self._fence = self._new_fence(alone=True)
            self._fence.install()
            sink.reached = lambda step: self._reached(sink, course, step)
            batches = list(course.batches)
            dice = random.Random(f"run {self.plan.seed}")
            between = dict(self.plan.between)
            number = 0
            while number < len(batches):
                if (what := between.pop(number, None)) is not None:
                    self._between(sink, course, what)
                    if what == "lose checkpoint":
                        sink.query_id, number = f"behind batch {number}", 0
                self._write(sink, number, batches[number], drained=dice.random() < 0.6)
                number += 1
                if number == len(batches) and self._robbed and number == BATCHES:
                    batches.append(course.dumped_again(dice))
            self._merge(sink)
            self._compare(sink, course)
            self._ended(sink)

    @property
    def _robbed(self) -> bool:
        return any(what in STRANGERS and not STRANGERS[what].healed for what in self.done)

    def _write(self, sink: Sink, number: int, batch: list[Record], *, drained: bool) -> None:
        """Write a batch, as a query begins it again after whatever ended it."""

        def attempt() -> None:
            sink.writer(sink.frame(batch), number)
            if drained:
                sink.drain()

        self._surely(sink, attempt, f"batch {number} was not written")

    def _merge(self, sink: Sink) -> None:
        def attempt() -> None:
            self._ended(sink)
            sink.writer  # noqa: B018
            sink.drain()

        self._surely(sink, attempt, "what had landed was not merged")

    def _surely(self, sink: Sink, attempt: Callable[[], None], otherwise: str) -> None:
        """Again until nobody is killed, and by the other sink where one has taken over."""
        for _ in range(_ATTEMPTS_MAX):
            try:
                attempt()
            except Kill:
                sink.killed()
            except Exception as e:
                if (undo := _UNDO.search(str(e))) is not None:
                    self.session.newSession().sql(undo[1]).collect()
                    self._ended(sink)
                    continue
                if self._heir is None or "another sink has taken" not in str(e):
                    raise
            else:
                if self._heir is None:
                    return
            self._succeeded(sink)
        msg = f"seed {self.plan.seed}: {otherwise} in {_ATTEMPTS_MAX} attempts"
        raise AssertionError(msg)

    def _new_fence(self, *, alone: bool) -> Fence:
        clock = itertools.count(step=10.0)  # each look at the control table is a real one
        fence = Fence(self.session, str(self.folder / "lake" / "_dblog" / "control"), lease=HeldLease(), now_s=lambda: next(clock))
        fence.take(alone=alone)
        return fence

    def _taken_over(self, sink: Sink) -> None:
        """Another sink takes over, as in a JVM of its own, while this one sleeps."""
        assert self._fence is not None
        self._fence.remove()
        self._heir = self._new_fence(alone=False)
        self._heir.claim(sink.writer.paths().values(), threads=2)
        self._left = versions(self.folder / "lake")
        self._fence.install()
        self.done.append("taken over")

    def _succeeded(self, sink: Sink) -> None:
        """The sink that has slept ends, without having committed anything, and the other one goes on."""
        if self._heir is None:
            return
        assert self._fence is not None
        sink.killed()
        assert versions(self.folder / "lake") == self._left, f"seed {self.plan.seed}: a sink that was taken over from has committed"
        self._fence.remove()
        self._fence, self._heir = self._heir, None
        self._fence.install()

    @staticmethod
    def _ended(sink: Sink) -> None:
        """The process ends in order, or is killed on the way."""
        try:
            sink.restarted()
        except Kill:
            sink.killed()

    def _reached(self, sink: Sink, course: Course, step: str) -> None:
        with self._lock:
            self._step += 1
            what = self.plan.at.get(self._step)
            if what == "kill":
                self.done.append(f"killed at {step}")
                raise Kill(step)
            if what == "takeover" and self._heir is None:
                self._taken_over(sink)
        if what is not None and what in STRANGERS and self._heir is None:
            self._strange(sink, course, what)

    def _between(self, sink: Sink, course: Course, what: str) -> None:
        if what in STRANGERS:
            self._strange(sink, course, what)
            return
        self._ended(sink)
        assert self._fence is not None
        self._fence.remove()
        if what == "lose control table":
            sink.lose("control")
        if what == "restore":
            self._restored(sink.path(course.topic.table))
        self._fence = self._new_fence(alone=True)
        self._fence.install()
        self.done.append(what)

    def _restored(self, path: str) -> None:
        """Somebody brings an earlier version of the table back. The sink's error shows how to undo that, where it takes rows away."""
        if (Path(path) / "_delta_log").exists():
            session = self.session.newSession()
            newest = session.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]["version"]
            to = random.Random(f"restore {self.plan.seed}").randrange(max(0, newest - 4), newest + 1)
            session.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {to}").collect()

    def _strange(self, sink: Sink, course: Course, what: str) -> None:
        path = sink.path(course.topic.table)
        if not (Path(path) / "_delta_log").exists():
            return
        session = self.session.newSession()
        for statement in STRANGERS[what].sql:
            try:
                session.sql(statement.format(path=path)).collect()
            except Exception as e:  # noqa: BLE001  the sink's commit came first, or the column is there: what a stranger fails at does not matter here
                self.done.append(f"{what} refused ({type(e).__name__})")
                return
        self.done.append(what)

    def _compare(self, sink: Sink, course: Course) -> None:
        expected: Any = course.expected
        read: dict[str, Callable[[Sink, Any], Any]] = {"mirror": mirror_rows, "history": history_rows, "append": append_rows}
        found = read[self.plan.mode](sink, course.topic.table)
        if self.plan.mode == "append" and not self.plan.kind.once:
            short = {one: count - found[one] for one, count in expected.items() if found[one] < count}
            assert not short, f"seed {self.plan.seed}: missing {list(short)[:4]}"
            assert set(found) == set(expected), difference(found, expected, self.plan.seed)
        elif found != expected:
            sides = [set(side) if isinstance(side, set | Counter) else set(side.items()) for side in (found, expected)]
            raise AssertionError(difference(*sides, self.plan.seed))
        bad = sink.quarantined()
        assert not bad, f"seed {self.plan.seed}: {bad[0]['reason']}"


def versions(lake: Path) -> dict[str, int]:
    """Of every Delta table in the lake."""
    return {
        str(log.parent.relative_to(lake)): max(int(one.stem) for one in log.glob("*.json") if one.stem.isdigit())
        for log in lake.rglob("_delta_log")
    }


def run(session: SparkSession, seed: int, folder: Path) -> list[str]:
    """One seed; what happened in it. AssertionError: the table is not what the model expects."""
    made = Run(session, plan_of(seed), folder)
    made()
    return made.done


def tell(session: SparkSession, kind: str, seed: int, folder: Path) -> list[str]:
    """Play one story; return what happened in it. AssertionError: the tables are not what the source has."""
    dice = random.Random(f"{kind} {seed}")
    with RegistryServer() as registry:
        play = Play(session, folder, registry, dice)
        try:
            STORIES[kind](play)
        finally:
            play.close()
    return play.done


def main() -> int:
    """Many seeds, one after the other, in one JVM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the first run; the others follow")
    parser.add_argument("--only", choices=["strangers", *STORIES], help="instead of strangers and then one of the stories, in turn")
    parser.add_argument("--until-different", action="store_true", help="end with the first difference, as to see that a seed shows one")
    given = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dblog-chaos-") as spark:
        session = local_session(Path(spark), lasting=True)
        for seed in range(given.seed, given.seed + given.runs):
            kinds = [given.only] if given.only else ["strangers", list(STORIES)[seed % len(STORIES)]]
            wrong += [f"{kind} {seed}" for kind in kinds if not _told(session, kind, seed)]
            if wrong and given.until_different:
                break
        session.stop()
    print(f"{given.runs} seeds{f', of {given.only}' if given.only else ''}: {f'differences in {wrong}' if wrong else 'no difference'}")
    return 1 if wrong else 0


def _told(session: SparkSession, kind: str, seed: int) -> bool:
    """Run one seed of one kind, print what came of it, and return whether nothing differed."""
    folder = Path(tempfile.mkdtemp(prefix=f"dblog-chaos-{seed}-"))
    plan = str(plan_of(seed)) if kind == "strangers" else kind
    began_s = time.monotonic()
    try:
        done = run(session, seed, folder) if kind == "strangers" else tell(session, kind, seed, folder)
    except Exception as e:  # noqa: BLE001  whatever it is, the seed found it
        (folder / "trace").write_text(traceback.format_exc(), encoding="utf-8")
        print(f"seed {seed}, {kind}: {type(e).__name__}: {str(e)[:400]}\n  {plan}\n  its files are in {folder}", flush=True)
        return False
    kind = f"{kind} ({plan_of(seed).kind.name}, {plan_of(seed).mode})" if kind == "strangers" else kind
    print(f"seed {seed}, {kind}: identical, {'; '.join(done) or 'undisturbed'}, {time.monotonic() - began_s:.0f} s", flush=True)
    shutil.rmtree(folder)
    return True


if __name__ == "__main__":
    sys.exit(main())

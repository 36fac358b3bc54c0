"""The command: read the configuration, build every part, keep the query running, stop it between two batches.

``dblog-sink submit --config sink.yaml --set key=value -- <options of spark-submit>`` starts the job by spark-submit (``--print``: shows the line), and
``dblog-sink jars`` prints what it needs in ``--jars``. With another verb before the options it asks something of the job that
runs, or of the next one: ``park TABLE``, ``resume TABLE``, ``replay [TABLE]``, ``maintain [TABLE]`` (``commands``); ``explain TABLE KEY``, ``show TABLE``,
``cuts`` and
``as-of POINT`` answer by themselves. Exit status 0: asked to stop, or trigger.once is done; 1: a failure that needs a person, told in one sentence;
2: a configuration that cannot be accepted. Failures that may pass restart the query from its checkpoint with growing pauses.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlparse

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from dblog_sink import (
    __version__,
    binding,
    brokers,
    commands,
    config,
    explain,
    files,
    internals,
    loss,
    manifest,
    replay,
    show,
    source,
    stores,
    submit,
)
from dblog_sink import target as targets
from dblog_sink.apply import Applier, History
from dblog_sink.arrivals import Arrivals, Ends
from dblog_sink.batch import BatchWriter, TopicIds
from dblog_sink.chunks import ReadTo
from dblog_sink.commands import Command
from dblog_sink.cutter import Cutter, Kafka, Offsets
from dblog_sink.errors import ConfigError, DefiniteError, SinkError, TransientError
from dblog_sink.fence import Fence
from dblog_sink.landing import Landing
from dblog_sink.lease import Lease
from dblog_sink.loss import Loss
from dblog_sink.manifest import Manifest
from dblog_sink.marks import Marks, read_state
from dblog_sink.merge import Txn
from dblog_sink.merger import Merger
from dblog_sink.progress import Progress
from dblog_sink.quarantine import Quarantine
from dblog_sink.registry import Registry
from dblog_sink.session import SessionPool, another, spark_session
from dblog_sink.steps import Reached, nothing
from dblog_sink.upkeep import Upkeep
from dblog_sink.view import reader

log = logging.getLogger("dblog_sink")

_LOOK_EVERY_S = 0.2
_COMMANDS_EVERY_S = 2.0
_STOP_BATCH_S = 15.0
"""What a batch that runs gets to come to its end when the job is to stop; the whole stop takes less than the 30 s that Kubernetes gives by default."""
_STOP_BREAK_S = 4.0
"""What a batch that is broken off gets to notice."""
_STOP_COMMIT_S = 3.0
_STOP_MERGE_S = 20.0
"""From the beginning of a stop: then merges that run are broken off too."""
_STOP_HOOK_S = 40.0
_RESTART_PAUSE_MAX_S = 30.0
_REPORT_FAULT = 'because the return value of "scala.Option.get()" is null'
"""Spark 4.1.1 repeats an open batch after a restart, commits it, and then fails in KafkaMicroBatchStream.metrics: it reports on offsets that it
had no reason to ask for yet. The next start has no batch to repeat."""
_DISK_FULL = "No space left on device"
_DATA_LOSS = ("DATA_LOSS", "failOnDataLoss", "Some data may have been lost")


def main(arguments: list[str] | None = None) -> int:
    """Run the sink until it is stopped, or do what the verb says; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)  # what a batch failed of; the job tells it itself
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["jars"]:
            print(",".join(map(str, submit.jars(os.environ))))
            return 0
        if words[:1] == ["submit"]:
            return _submitted(words[1:])
        return _obeyed(words)
    except ConfigError as e:
        for key, text in e.errors.items():
            log.error("%s %s", key, text)
        return 2
    except DefiniteError as e:
        log.error("the sink does not start: %s", e)
        return 1


def _submitted(words: Sequence[str]) -> int:
    """Become spark-submit, or print its line. ``words``: the sink's options, and behind ``--`` options of spark-submit."""
    own, spark = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(
        prog="dblog-sink submit", description="Run the job by spark-submit. Behind --: options of spark-submit."
    )
    parser.add_argument("--config", type=Path, action="append", default=[], help="YAML or properties file; may be given more than once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one option; wins over files")
    parser.add_argument("--print", action="store_true", help="only print the line")
    parsed = parser.parse_args(own)
    properties: dict[str, str] = {}
    for file in parsed.config:
        properties.update(config.read_file(file))
    properties.update(pair.split("=", 1) for pair in parsed.set if "=" in pair)
    program, code = submit.archive(Path(sys.prefix) / "share" / "dblog-sink")
    line = submit.line(
        spark=spark,
        sink=[word for pair in parsed.set for word in ("--set", pair)],
        files=parsed.config,
        jars=submit.jars(os.environ),
        program=program,
        code=code,
        properties=properties,
    )
    if not parsed.print:
        os.execve(line[0], line, {"PYSPARK_PYTHON": sys.executable, **os.environ})  # noqa: S606  signals go to it, and its exit status is ours
    print(shlex.join(line))
    return 0


def _obeyed(words: Sequence[str]) -> int:
    settings, command = _settings(words)
    if isinstance(command, Question):
        return _explained(settings, command)
    if isinstance(command, AtCut):
        return _shown(settings, command)
    if isinstance(command, Look):
        return _looked(settings, command)
    if command is not None:
        return _asked(settings, command)
    try:
        progress = _progress(settings)
    except DefiniteError as e:
        log.error("the sink does not start: %s", e)
        return 1
    stopping = threading.Event()
    session = spark_session(settings["name"], settings.spark)
    ended = threading.Event()
    forget_hook = _stop_on_signal(session, stopping, ended)
    lease: Lease | None = None
    try:
        merge_only = _merge_only(session)
        _check_places(session, settings)
        lease = Lease(files.folder(session, settings.state_path), name=settings["name"], where=settings.state_path)
        fence = _fenced(session, settings, lease)
        cluster_id = brokers.first_answer(session, settings, stopping)
        if cluster_id is None:
            return 0
        binding.check(files.folder(session, settings.checkpoint_path), settings, cluster_id)
        return _Runner(session, settings, progress, stopping, lease, fence, merge_only=merge_only).run()
    except DefiniteError as e:
        progress.say("failed", reason=str(e))
        log.error("the sink does not start: %s", e)
        return 1
    finally:
        with contextlib.suppress(Py4JError, OSError):
            if lease is not None:
                lease.give_back()
        ended.set()
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
            forget_hook()
            session.stop()


def _merge_only(session: SparkSession) -> bool:
    """Whether this Delta lacks what our own upsert calls; DefiniteError if it lacks more than that."""
    internals.require(session)
    lacking = internals.missing(session, internals.UPSERT)
    if lacking:
        log.warning("this Delta has no %s: tables are written by MERGE, which is slower", ", no ".join(lacking))
    return bool(lacking)


def _check_places(session: SparkSession, settings: config.Settings) -> None:
    """Raise DefiniteError if the lake may not be where the configuration puts it."""
    given = session.sparkContext.getConf()
    paths = {option: files.qualified(session, path) for option, path in settings.places.items()}
    schemes = {urlparse(path).scheme for path in paths.values()}
    log_stores = {scheme: given.get(stores.log_store_key(scheme)) or given.get(stores.LOG_STORE) for scheme in schemes}
    found = stores.refusals(
        paths,
        master=str(session.sparkContext.master),
        log_stores={scheme: one for scheme, one in log_stores.items() if one is not None},
        shared_mount=settings["storage.shared.mount"],
        single_driver=settings["storage.single.driver"],
    )
    if found:
        raise DefiniteError("; ".join(f"{option}: {reason}" for option, reason in found.items()))


def _fenced(session: SparkSession, settings: config.Settings, lease: Lease) -> Fence:
    """Take the lease and a fencing token; nobody else commits from now on to what this sink is going to read."""
    try:
        alone = lease.take()
    except (OSError, Py4JJavaError) as e:
        msg = f"{settings.state_path} (state.path, in target.path if it is not given) cannot be written: {_sentence(e)}"
        raise DefiniteError(msg) from e
    control = f"{settings.state_path}/marks"
    fence = Fence(another(session), control, unheld=lambda: lease.lost)
    fence.take(alone=alone)
    fence.install()
    if not alone:
        log.info("the former sink did not end by itself; its tables are claimed, so that it commits nothing more")
        paths = settings.paths(read_state(session, control).targets)
        fence.claim(paths.values(), threads=settings["merge.threads"])
    return fence


def _progress(settings: config.Settings) -> Progress:
    file = None if settings["progress.file"] is None else Path(settings["progress.file"])
    if settings["metrics.listen"] is None:
        return Progress(file)
    from dblog_sink.metrics import Metrics  # noqa: PLC0415  the one place that needs prometheus-client

    metrics = Metrics(version=__version__)
    log.info("metrics are at port %d under /metrics", metrics.serve(settings["metrics.listen"]))
    return Progress(file, listener=metrics.take)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What ``explain`` asks."""

    table: str
    key: str
    as_json: bool


def _explained(settings: config.Settings, question: Question) -> int:
    """Answer on standard output, beside a job that may be running."""
    session = spark_session(f"{settings['name']}-explain", settings.spark)
    try:
        applier, registry = reader(session, settings, read_state(session, f"{settings.state_path}/marks"))
        found = explain.explain(session, settings, applier, registry, table=question.table, key=question.key)
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    print(json.dumps(asdict(found), indent=2) if question.as_json else "\n".join(explain.lines_of(found)))
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What ``show`` asks."""

    table: str
    rows_max: int


def _looked(settings: config.Settings, look: Look) -> int:
    """Rows on standard output, one JSON object a line, beside a job that may be running."""
    session = spark_session(f"{settings['name']}-show", settings.spark)
    try:
        found = show.show(session, settings, table=look.table, rows_max=look.rows_max)
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    log.info("%s has %d rows in version %d of %s; the newest %d:", found.table, found.rows, found.version, found.path, len(found.newest))
    for row in found.newest:
        print(row)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtCut:
    """What ``cuts`` (``point`` None) and ``as-of`` ask."""

    point: Mapping[str, Any] | None
    as_json: bool


def _shown(settings: config.Settings, question: AtCut) -> int:
    """List cuts, or show one, beside a job that may be running."""
    session = spark_session(f"{settings['name']}-cuts", settings.spark)
    try:
        path = settings.state_path
        found = manifest.cuts(session, path) if question.point is None else [manifest.as_of(session, path, **question.point)]
        text = [
            json.dumps(manifest.facts(cut)) if question.as_json else "\n".join(manifest.lines_of(cut, tables=question.point is not None))
            for cut in found
        ]
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    print("\n".join(text))
    return 0


def _asked(settings: config.Settings, command: Command) -> int:
    """Leave a command for the job."""
    path = f"{settings.state_path}/commands"
    session = None if files.is_local(path, settings.spark) else spark_session(f"{settings['name']}-{command.verb}", settings.spark)
    name = commands.ask(files.folder(session, path), command)
    log.info("%s is left in %s as %s; the job does it between two batches, or when it starts", command.verb, path, name)
    if session is not None:
        session.stop()
    return 0


def built(
    session: SparkSession,
    settings: config.Settings,
    progress: Progress,
    *,
    generation: Callable[[DataFrame], str],
    topic_ids: TopicIds,
    ends: Ends,
    compacted: Callable[[str], bool],
    kafka: Kafka,
    history: History,
    stopping: Callable[[], bool] = lambda: False,
    reached: Reached = nothing,
    merge_only: bool = False,
) -> tuple[BatchWriter, Merger]:
    """The parts that write, put together."""
    cache = settings["registry.cache.path"]
    quarantine = Quarantine(
        f"{settings.state_path}/quarantine", rows_max=settings["quarantine.rows.max"], fraction_max=settings["quarantine.fraction.max"]
    )
    threads, background = settings["merge.threads"], settings["merge.background.threads"]
    state = another(session)
    marks = Marks(state, f"{settings.state_path}/marks", interval_s=settings["marks.interval.s"], now_s=time.monotonic, reached=reached)
    applier = Applier(
        settings=settings,
        registry=Registry(
            settings["registry.url"],
            auth=settings["registry.auth"],
            cache_path=None if cache is None else Path(cache),
            wait_max_s=settings["registry.wait.max.s"],
            unknown_wait_s=settings["registry.unknown.wait.s"],
            stopping=stopping,
        ),
        pool=SessionPool(session, threads + background),
        quarantine=quarantine,
        renames=marks.state.renames,
        logs=marks.state.logs,
        tidied=marks.state.tidied,
        partitions=marks.partitions,
        history=history,
        note=lambda note, at_once: marks.say(note, "marked", at_once=at_once),
        compacted=compacted,
        reached=reached,
        merge_only=merge_only,
    )
    landing = Landing(state, f"{settings.state_path}/landing", keep_h=settings["landing.keep.h"], reached=reached)
    merger = Merger(
        settings=settings,
        applier=applier,
        landing=landing,
        marks=marks,
        progress=progress,
        cancel=session.sparkContext.cancelAllJobs,
    )
    arrivals = Arrivals(
        state,
        f"{settings.state_path}/chunks",
        settings=settings,
        applier=applier,
        progress=progress,
        reached=reached,
        ends=ends,
        compacted=compacted,
        midway=lambda: not marks.state.counting,
    )
    if settings.cuts or marks.state.cut is not None:
        own = another(session)
        cutter = Cutter(
            own,
            settings=settings,
            applier=applier,
            landing=landing,
            marks=marks,
            merger=merger,
            manifest=Manifest(own, settings.state_path, keep_h=settings["manifest.keep.h"]),
            progress=progress,
            kafka=kafka,
            undumped=arrivals.undumped,
            reached=reached,
        )
        merger.cut, merger.uncut = cutter.cut, cutter.uncut
    writer = BatchWriter(
        settings=settings,
        applier=applier,
        quarantine=quarantine,
        landing=landing,
        marks=marks,
        merger=merger,
        arrivals=arrivals,
        progress=progress,
        generation=generation,
        topic_ids=topic_ids,
    )
    return writer, merger


def _files_keep_h(session: SparkSession, settings: config.Settings, published: Manifest, path: str) -> float:
    """How long VACUUM keeps a table's files: as configured, and as long as any cut in the manifest needs them; the newest one stays however old it is.

    A cut may name a version that was an old one when it was published, of a parked table: the files that it alone needs were removed by the next commit.
    """
    keep_h = settings.table_keep_h
    if not settings.cuts:
        return keep_h
    keep_h = max(keep_h, published.newest_age_h() + 1.0)
    oldest = published.oldest(path)
    next_ms = None if oldest is None else targets.committed_ms(session, path, oldest + 1)
    return keep_h if next_ms is None else max(keep_h, time.time() / 3600.0 - next_ms / 3_600_000.0 + 1.0)


class _Runner:
    """The life of the query: start, look, restart, stop."""

    def __init__(
        self,
        session: SparkSession,
        settings: config.Settings,
        progress: Progress,
        stopping: threading.Event,
        lease: Lease,
        fence: Fence | None = None,
        *,
        merge_only: bool = False,
    ) -> None:
        self._session = session
        self._lease = lease
        self._fence = fence
        self._commands = files.folder(session, f"{settings.state_path}/commands")
        self._looked_s = 0.0
        self._stop_began_s: float | None = None
        self._settings = settings
        self._progress = progress
        self._stopping = stopping
        self._writer, self._merger = built(
            session,
            settings,
            progress,
            stopping=stopping.is_set,
            generation=query_id,
            topic_ids=partial(source.topic_ids, session, settings),
            ends=lambda topics: brokers.ends(session, settings, topics)[1],
            compacted=partial(brokers.compacted, session, settings),
            kafka=self._offsets,
            merge_only=merge_only,
            history=partial(source.so_far, settings),
        )
        if fence is not None and fence.claims:  # a commit in every table that is known, also in those that rest
            self._writer.look()
        published = Manifest(another(session), settings.state_path, keep_h=settings["manifest.keep.h"])
        self._upkeep = Upkeep(
            another(session),
            paths=self._writer.paths,
            tidy=self._tidied,
            marks=self._writer.marks,
            progress=progress,
            interval_h=settings["vacuum.interval.h"],
            keep_h=partial(_files_keep_h, another(session), settings, published),
            share_max=settings["vacuum.share.max"],
            expire=published.expire if settings.cuts else lambda: None,
            check=lambda: None if fence is None else fence.check(),
        )

    def run(self) -> int:
        """Run to the end; returns the exit status. No merge runs any more then: the lease may be given back."""
        try:
            return self._run()
        finally:
            self._upkeep.stop()
            with contextlib.suppress(Py4JError, OSError):
                self._writer.abandon(wait_s=0.0)

    def _run(self) -> int:
        self._progress.say("started", name=self._settings["name"], version=__version__, checkpoint=self._settings.checkpoint_path)
        attempt, done_before = 0, 0
        self._merger.start()
        self._upkeep.start()
        while True:
            failure = self._until_it_ends()
            if (lost := self._lost()) is not None:
                self._progress.say("failed", reason=lost)
                log.error("the sink stops: %s", lost)
                return 1
            if isinstance(failure, _Again):
                continue
            if self._stopping.is_set() or failure is None:
                began_s = time.monotonic() if self._stop_began_s is None else self._stop_began_s
                self._writer.close(wait_s=began_s + _STOP_MERGE_S - time.monotonic())
                self._progress.say("stopped", batches=self._writer.batches_done)
                log.info("stopped after %d batches", self._writer.batches_done)
                return 0
            if not self._spark_lives():
                log.error("Spark is gone; the sink starts again from its checkpoint when it is submitted again")
                return 1
            progressed = self._writer.batches_done > done_before
            if progressed:
                attempt, done_before = 0, self._writer.batches_done
            if progressed and _REPORT_FAULT in str(failure):
                log.info("the repeated batch is done; Spark failed only in reporting it, the query goes on")
                continue
            attempt += 1
            if isinstance(failure, DefiniteError) or attempt > self._settings["restart.attempts.max"]:
                reason = _sentence(failure)
                self._progress.say("failed", reason=reason)
                log.error("the sink stops: %s", reason, exc_info=_unforeseen(failure))
                return 1
            pause_s = min(0.5 * 2**attempt, _RESTART_PAUSE_MAX_S)
            self._progress.say("restarting", reason=_sentence(failure), attempt=attempt, pause_s=pause_s)
            log.warning("restart %d in %.0f s: %s", attempt, pause_s, _sentence(failure), exc_info=_unforeseen(failure))
            self._stopping.wait(pause_s)

    def _lost(self) -> str | None:
        """Why this sink may commit no more, None while it may."""
        return self._lease.lost if self._fence is None else self._fence.lost

    def _spark_lives(self) -> bool:
        """Whether there is a JVM and a context to restart in: spark-submit's JVM may have been killed under this process."""
        try:
            return not self._session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001  PySpark has no public word for it
        except (Py4JError, OSError):
            return False

    def _until_it_ends(self) -> Exception | None:
        """Start the query and watch it; returns why it ended, None if it was asked to or is done."""
        self._writer.failure, self._writer.last_batch_id = None, -1
        self._writer.stopped.clear()
        self._merger.resume()
        try:
            if self._fence is not None:
                self._fence.check()  # a checkpoint and commands are no tables
            self._pass_losses()
            self._obey()
            query = self._start()
        except Exception as e:  # noqa: BLE001  whatever the start met decides between restart and stop above
            return e
        said = ""
        try:
            while query.isActive:
                if (lost := self._lost()) is not None:
                    self._merger.begin_no_more()
                    self._stop_between_batches(query)
                    return DefiniteError(lost)
                self._obey_between_batches()
                if self._stopping.is_set() or self._merger.failure is not None:
                    self._stop_between_batches(query)
                    return None if self._stopping.is_set() else self._merger.failure
                said = self._tell(query, said)
                time.sleep(_LOOK_EVERY_S)
            self._tell(query, said)
            error = query.exception()
        except (Py4JError, OSError) as e:
            return e
        if error is None:
            return self._drained()
        if any(words in str(error) for words in _DATA_LOSS):
            if self._losses():
                return _Again("records are gone")  # the next start tells of each partition
            msg = (
                "records expired in Kafka, or their topic was made anew, before the sink had read them; remove the checkpoint "
                f"{self._settings.checkpoint_path} to go on from what is there, then dump the tables again ({_sentence(error)})"
            )
            return DefiniteError(msg)
        return self._writer.failure or error

    def _drained(self) -> Exception | None:
        """With ``trigger.once``: merge what has landed before the end."""
        try:
            self._merger.drain(self._stopping.is_set)
        except Exception as e:  # noqa: BLE001  judged by the caller like a failure of the query
            return e
        return None

    def _offsets(self, topics: Collection[str]) -> tuple[Offsets, Offsets, Offsets]:
        """Where these topics begin and end, and how far they are read."""
        first, end = brokers.ends(self._session, self._settings, topics)
        checkpoint = self._settings.checkpoint_path
        read = loss.committed(files.folder(self._session, f"{checkpoint}/commits"), files.folder(self._session, f"{checkpoint}/offsets"))
        return first, end, read

    def _losses(self) -> list[Loss]:
        checkpoint = self._settings.checkpoint_path
        wanted = loss.committed(files.folder(self._session, f"{checkpoint}/commits"), files.folder(self._session, f"{checkpoint}/offsets"))
        if not wanted:
            return []
        return loss.losses(wanted, *brokers.ends(self._session, self._settings, wanted))

    def _pass_losses(self) -> None:
        """Tell of records that Kafka has no more, park the tables concerned, and lead the checkpoint past the gap: the others go on."""
        found = self._losses()
        by_topic: dict[str, list[str]] = {}
        for one in found:
            by_topic.setdefault(one.topic, []).append(str(one))
        for topic, told in by_topic.items():
            reason = f"data loss: {'; '.join(told)}. Dump the table again, then resume it"
            self._progress.say("data_loss", topic=topic, reason=reason)
            if self._settings["topics.exclude"].fullmatch(topic) is None and not self._writer.arrivals.of_markers(topic):
                self._merger.park(topic, reason)
        if found:
            # By Hadoop's client also where the path is local: it keeps checksums of Spark's files beside them.
            offsets = files.HadoopFolder(self._session, f"{self._settings.checkpoint_path}/offsets")
            loss.lead_past(files.folder(self._session, f"{self._settings.checkpoint_path}/commits"), offsets, found)

    def _obey_between_batches(self) -> None:
        """Look for commands now and then, and carry them out while no batch runs."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _COMMANDS_EVERY_S:
            return
        self._looked_s = now_s
        if self._commands.names() and self._writer.running.acquire(timeout=_COMMANDS_EVERY_S):
            try:
                if self._fence is not None:
                    with contextlib.suppress(DefiniteError):  # whoever watches the query stops it
                        self._fence.check()
                if self._lost() is None:
                    self._obey()
            finally:
                self._writer.running.release()

    def _obey(self) -> None:
        """Carry out what was asked, oldest first; a command is gone when it is done."""
        for name, command in commands.waiting(self._commands):
            if command is None:
                self._commands.remove(name)
                self._progress.say("command", file=name, failed="it is none that the sink knows")
                log.error("the command %s is none that the sink knows; it was removed", name)
                continue
            facts: dict[str, Any] = {"verb": command.verb, "table": command.table, "topics": []}
            try:
                topics = self._topics(command)
                facts |= {"topics": sorted(topics)} | self._carried_out(name, command, topics)
            except Exception as e:  # noqa: BLE001  a wish that cannot be met stops nothing
                if self._lost() is not None:
                    return  # it is for the sink that has taken over
                facts["failed"] = _sentence(e)
            self._commands.remove(name)
            self._progress.say("command", **facts)
            told = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in ("verb", "table", "topics"))
            log.log(logging.ERROR if "failed" in facts else logging.INFO, "%s %s: %s", command.verb, command.table or "all", told or "done")

    def _topics(self, command: Command) -> frozenset[str]:
        """Of which a command speaks; DefiniteError if there are none of the name."""
        known = set(self._merger.topics())
        if command.verb == "replay" and command.table is not None:  # records in quarantine may be all that there is of a topic
            known |= self._writer.quarantine.topics(self._session, command.version)
        topics = frozenset(topic for topic in known if command.table in (None, topic, self._table_name(topic)))
        if command.table is not None and not topics:
            source.topic_of(self._settings, self._writer.marks.state, command.table)
        return topics

    def _carried_out(self, name: str, command: Command, topics: frozenset[str]) -> dict[str, Any]:
        if command.verb == "replay":
            return self._replayed(name, command, None if command.table is None else topics)
        if command.verb == "maintain":
            self._upkeep.ask({table: topic for topic in topics if (table := self._table_name(topic)) is not None})
            return {}
        for topic in topics:
            if command.verb == "park":
                self._merger.park(topic, command.reason or "asked for by command")
            else:
                self._merger.unpark(topic)
        return {}

    def _tidied(self, topic: str) -> None:
        with self._merger.alone(topic):
            self._writer.applier.tidied(topic)

    def _table_name(self, topic: str) -> str | None:
        spec = self._settings.table(topic)
        return None if spec is None else spec.name

    def _replayed(self, name: str, command: Command, topics: frozenset[str] | None) -> dict[str, Any]:
        quarantine = self._writer.quarantine
        version = command.version
        if version is None:
            version = replay.version_of(self._session, quarantine.path)
            if version is None:
                return {"records": 0, "still_bad": 0}
            commands.begun(self._commands, name, replace(command, version=version))
        if self._settings.cuts:  # what it writes lies beside the cuts: the tables are complete in those behind it
            now_ms = round(time.time() * 1000)
            beside = topics if topics is not None else frozenset(self._writer.marks.state.targets)
            self._writer.marks.say({"dumped": dict.fromkeys(beside, now_ms)}, "marked", at_once=True)
        outcome = replay.replay(
            self._session,
            quarantine,
            self._writer.applier,
            self._merger,
            command=command,
            topics=topics,
            version=version,
            txn=Txn(f"{self._settings['name']}/replay/{name}", version),
            logs=self._writer.marks.state.logs,
        )
        return {"records": outcome.records, "still_bad": outcome.still_bad}

    def _start(self) -> StreamingQuery:
        writer = (
            source.stream(self._session, self._settings)
            .writeStream.queryName(self._settings["name"])
            .option("checkpointLocation", self._settings.checkpoint_path)
            .foreachBatch(self._writer)
        )
        if self._settings["trigger.once"]:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(self._settings['trigger.interval.s'] * 1000)} milliseconds").start()

    def _tell(self, query: StreamingQuery, said: str) -> str:
        """Say how far behind Kafka's end the query is, once for each of its progress reports."""
        report = _report(query)
        if report is None or report["timestamp"] == said:
            return said
        behind = source.records_behind(report)
        if behind is not None:
            waiting = self._merger.rows_waiting()
            self._progress.say(
                "behind" if behind or waiting else "idle", batch_id=report["batchId"], records_behind=behind, rows_waiting=waiting
            )
        self._look_at_chunks(source.read_to(report))
        return str(report["timestamp"])

    def _look_at_chunks(self, read_to: ReadTo) -> None:
        """What arrived against what chunk markers count. It stops nothing: what could not be looked at waits for the next look."""
        try:
            self._writer.arrivals.look(read_to)
        except Exception as e:  # noqa: BLE001  see above
            log.warning("chunk markers are compared with what arrived later: %s", _sentence(e))

    def _stop_between_batches(self, query: StreamingQuery) -> None:
        """``stop()`` interrupts a batch (spark#36589), so it is called while none is running; a batch that takes too long is broken off after
        all, which its replay mends.
        """
        self._stop_began_s = time.monotonic()
        if self._stopping.is_set():
            self._merger.begin_no_more()
        held = self._writer.running.acquire(timeout=_STOP_BATCH_S)
        done = held
        if not held:
            log.warning("the batch takes too long to be waited for; it is broken off and will be repeated")
            self._writer.stopped.set()
            limit_s = time.monotonic() + _STOP_BREAK_S
            while not held and time.monotonic() < limit_s:
                # Its tables are written by threads of their own, whose jobs a stop of the query would leave alone, and then wait for.
                self._session.sparkContext.cancelAllJobs()
                held = self._writer.running.acquire(timeout=_LOOK_EVERY_S)
        try:
            limit_s = time.monotonic() + _STOP_COMMIT_S
            while done and self._writer.last_batch_id >= 0 and time.monotonic() < limit_s:
                report = _report(query)
                if report is not None and report["batchId"] >= self._writer.last_batch_id:
                    break  # its offsets are committed: nothing to replay
                time.sleep(0.05)
            self._writer.stopped.set()
            query.stop()
        finally:
            if held:
                self._writer.running.release()


def _report(query: StreamingQuery) -> Mapping[str, Any] | None:
    """The query's newest progress report, as Spark's JSON says it."""
    newest = query.lastProgress
    if newest is None:
        return None
    report: Mapping[str, Any] = json.loads(newest.json)
    return report


def query_id(frame: DataFrame) -> str:
    """The id that a checkpoint keeps for its life: a new checkpoint numbers its batches anew, and must not be taken for the old one."""
    found = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found, "foreachBatch runs on the query's own thread"
    return found


def _settings(arguments: Sequence[str]) -> tuple[config.Settings, Command | Question | Look | AtCut | None]:
    parser = argparse.ArgumentParser(
        prog="dblog-sink", description=__doc__, epilog=config.help_text(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "verb",
        nargs="?",
        choices=("run", *commands.VERBS, "explain", "show", "cuts", "as-of"),
        default="run",
        help="run the job, or ask something of it",
    )
    parser.add_argument(
        "table", nargs="?", help="db.table or a topic; replay, maintain: all without it; as-of: position=, gtid=, lsn= or time="
    )
    parser.add_argument("key", nargs="?", help="explain: the key of a row, 4711 or order_id=4711,line=2")
    parser.add_argument("-n", type=int, default=10, metavar="ROWS", help="show: how many of the newest rows; 0: only how many there are")
    parser.add_argument("--json", action="store_true", help="explain, cuts, as-of: answer in JSON")
    parser.add_argument("--reason", help="park: why; replay: only records whose reason contains this")
    parser.add_argument("--config", type=Path, action="append", default=[], help="YAML or properties file; may be given more than once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one option; wins over files")
    parsed = parser.parse_args(arguments)
    properties: dict[str, str] = {}
    for file in parsed.config:
        properties.update(config.read_file(file))
    for pair in parsed.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError({f"--set {pair}": "must be KEY=VALUE"})
        properties[key.strip()] = value
    settings = config.parse(properties)
    if parsed.verb == "run":
        return settings, None
    if parsed.verb in ("cuts", "as-of"):
        return settings, AtCut(point=None if parsed.verb == "cuts" else _point(parsed.table), as_json=parsed.json)
    if parsed.table is None and parsed.verb not in ("replay", "maintain"):
        raise ConfigError({parsed.verb: "needs a table: db.table, or a topic"})
    if parsed.verb == "show":
        return settings, Look(table=parsed.table, rows_max=max(0, parsed.n))
    if parsed.verb == "explain":
        if parsed.key is None:
            raise ConfigError({"explain": "needs a table and a key: explain shop.orders 4711"})
        return settings, Question(table=parsed.table, key=parsed.key, as_json=parsed.json)
    return settings, Command(verb=parsed.verb, table=parsed.table, reason=parsed.reason)


def _point(given: str | None) -> dict[str, Any]:
    """Of ``gtid=0-1-5`` what ``as_of`` takes; nothing: the newest cut."""
    if given is None:
        return {}
    name, equals, value = given.partition("=")
    if not equals or name not in ("position", "gtid", "lsn", "time"):
        raise ConfigError({"as-of": "needs position=, gtid=, lsn= or time=, or nothing for the newest cut"})
    if name != "time":
        return {name: value}
    try:
        return {name: datetime.fromisoformat(value)}
    except ValueError:
        raise ConfigError({"as-of": f"{value} is no time; write it as 2026-01-31T12:00:00, with +00:00 or in UTC"}) from None


class _Again(TransientError):  # noqa: N818  it is no error
    """The query is to be started once more; nothing is wrong with it."""


def _unforeseen(error: Exception) -> Exception | None:
    """The error, where its trace tells more than its sentence."""
    return None if isinstance(error, SinkError) or _DISK_FULL in str(error) else error


def _sentence(error: Exception) -> str:
    """One line of an error; Spark's carry a whole JVM trace."""
    if isinstance(error, SinkError):
        return str(error)
    if _DISK_FULL in str(error):
        return (
            "no space is left where the job writes (target.path, state.path, checkpoint.path or Spark's local folders); make room: the job goes on by itself "
            "while it still tries, or when it is started again. The checkpoint is intact"
        )
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:2000]


def _stop_on_signal(session: SparkSession, stopping: threading.Event, ended: threading.Event) -> Callable[[], None]:
    """SIGTERM to Python, or to the JVM that spark-submit is, both mean: finish the batch, then stop.

    Under spark-submit the process that gets the signal is the JVM, whose shutdown would stop Spark at once. Hadoop's hooks run in order of
    priority, one after the other; ours comes before Spark's and waits for the batch. Returns what takes the hook away again.
    """

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    from pyspark.core.context import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001  the only way to the JVM
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    hook = jvm.java.lang.Thread(_ShutdownHook(stopping, ended))  # never started, only run: hooks are hashed, which Python objects are not
    hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    hooks.addShutdownHook(hook, 1000, 60, jvm.java.util.concurrent.TimeUnit.SECONDS)

    def forget() -> None:
        if not hooks.isShutdownInProgress():
            hooks.removeShutdownHook(hook)

    return forget


class _ShutdownHook:
    """A java.lang.Runnable that asks the job to stop and waits until it has."""

    def __init__(self, stopping: threading.Event, ended: threading.Event) -> None:
        self._stopping = stopping
        self._ended = ended

    def run(self) -> None:
        """Called by the JVM when it begins to shut down."""
        if not self._ended.is_set():
            self._stopping.set()
            self._ended.wait(_STOP_HOOK_S)

    class Java:
        """What py4j must know to hand this object to the JVM."""

        implements = ("java.lang.Runnable",)


if __name__ == "__main__":
    sys.exit(main())

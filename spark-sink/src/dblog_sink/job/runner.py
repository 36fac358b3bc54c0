"""Runs the query: starts, watches, restarts and stops it, between two batches if possible."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from dblog_sink import __version__
from dblog_sink.batches.failures import pause_s
from dblog_sink.config.job_options import Settings
from dblog_sink.config.log_retention import LOG_LONGER_H, is_own_hot
from dblog_sink.delta import target as targets
from dblog_sink.delta.fence import Fence
from dblog_sink.delta.session import another
from dblog_sink.errors import DefiniteError, TransientError
from dblog_sink.job.build import built
from dblog_sink.job.log_cleanup import LogCleanup, follow_own_logs
from dblog_sink.job.losses import CheckpointOffsets
from dblog_sink.job.messages import error_class, one_line, with_trace
from dblog_sink.job.obey import CommandFolder
from dblog_sink.job.reporting import Reporting
from dblog_sink.job.vacuum import Vacuum
from dblog_sink.kafka import brokers, source
from dblog_sink.observe.lag import AppliedUpTo
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.chunk_ledger import ReadTo
from dblog_sink.snapshots.manifest import Manifest
from dblog_sink.state.lease import Lease
from dblog_sink.state.notes import Compacted
from dblog_sink.tables.quarantine import QUARANTINE

if TYPE_CHECKING:
    from dblog_sink.observe.traces import Traces

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_COMMANDS_EVERY_S = 2.0
STOP_BATCH_S = 15.0
"""Seconds that a running batch may take to end at a stop. The whole stop takes less than the 30 s
that Kubernetes gives by default.
"""
_STOP_BREAK_S = 4.0
"""Seconds that an interrupted batch may take to notice."""
_STOP_COMMIT_S = 3.0
STOP_MERGE_S = 20.0
"""Seconds from the beginning of a stop until running merges are interrupted too."""
_RESTART_PAUSE_MAX_S = 30.0
_REPORT_FAULT = 'because the return value of "scala.Option.get()" is null'
"""Text of a Spark fault. After a restart Spark 4.1.1 repeats an open batch, commits it, and then
fails in KafkaMicroBatchStream.metrics, because it reports on offsets that it has not asked for yet.
The next start has no batch to repeat.
"""
_DATA_LOSS = ("DATA_LOSS", "failOnDataLoss", "Some data may have been lost")


class Runner:
    """A run of the job. ``fence`` is None only in tests."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        progress: Progress,
        stopping: threading.Event,
        lease: Lease,
        fence: Fence | None = None,
        *,
        merge_only: bool = False,
        traces: Traces | None = None,
        reporting: Reporting | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._progress = progress
        self._stopping = stopping
        self._lease = lease
        self._fence = fence
        self._commands_looked_s = 0.0
        self._stop_began_s: float | None = None
        self._applied_up_to = AppliedUpTo(began_s=time.time())
        self._checkpoint = CheckpointOffsets(session, settings)
        pipeline = built(
            session,
            settings,
            progress,
            stopping=stopping.is_set,
            may_commit=lambda: self._lost() is None,
            query_id_of=query_id,
            topic_ids=partial(source.topic_ids, session, settings),
            ends=lambda topics: brokers.ends(session, settings, topics)[1],
            compacted=partial(brokers.compacted, session, settings),
            offsets=self._checkpoint.of,
            so_far=partial(source.so_far, settings),
            merge_only=merge_only,
            traces=traces,
        )
        self._parts, self._arrivals = pipeline.parts, pipeline.arrivals
        if reporting is not None:
            reporting.follow(pipeline.parts)
        self._quarantine = pipeline.quarantine
        self._writer, self._scheduler = pipeline.writer, pipeline.scheduler
        # The claim makes a commit in every known table, including idle ones.
        if fence is not None and fence.claims:
            self._writer.check_histories()
        follow_own_logs(another(session), settings)
        self._vacuum = self._vacuum_of(session)
        self._commands = CommandFolder(session, settings, pipeline, self._vacuum, self._lost)

    def _vacuum_of(self, session: SparkSession) -> Vacuum:
        manifest = Manifest(
            another(session), self._settings.state_path, keep_h=self._settings["manifest.keep.h"], log_h=self._settings.log_h
        )
        return Vacuum(
            another(session),
            paths=self._writer.paths,
            compact=self._compact,
            control=self._parts.control,
            progress=self._progress,
            interval_h=self._settings["vacuum.interval.h"],
            keep_h=partial(files_keep_h, another(session), self._settings, manifest),
            share_max=self._settings["vacuum.share.max"],
            expire=manifest.expire if self._settings.snapshots else lambda: None,
            logs=LogCleanup(
                another(session),
                keep_h=partial(logs_keep_h, another(session), self._settings, manifest),
                checked=self._writer.checked,
                control=self._parts.control,
                vacuums=self._settings["vacuum.interval.h"] > 0,
                check=self._check,
                stopping=self._stopping.is_set,
            ),
            check=self._check,
            quarantine=self._compact_quarantine,
        )

    def _check(self) -> None:
        if self._fence is not None:
            self._fence.check()

    def _compact_quarantine(self, session: SparkSession) -> None:
        """Compact the quarantine if it is due.

        The control table remembers the last time, since a job that is started every hour makes few
        commits.
        """
        control, every = self._parts.control, self._settings["compact.commits"]
        version = self._quarantine.compact(session, every, since=control.state.compacted_at.get(QUARANTINE))
        if version is not None:
            control.record([Compacted(QUARANTINE, version)], "recorded")

    def _compact(self, topic: str) -> None:
        with self._parts.book.alone(topic):
            self._parts.applier.compact(topic)

    # -- the run ----------------------------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the job to its end and return the exit status.

        No merge is running afterwards, so the lease may be given back.
        """
        try:
            return self._run()
        finally:
            self._vacuum.stop()
            with contextlib.suppress(Py4JError, OSError):
                self._writer.abandon(wait_s=0.0)

    def _run(self) -> int:
        self._progress.emit("started", name=self._settings["name"], version=__version__, checkpoint=self._settings.checkpoint_path)
        attempt, done_before = 0, 0
        self._scheduler.start()
        self._vacuum.start()
        while True:
            failure = self._until_it_ends()
            if (lost := self._lost()) is not None and self._is_gone():
                self._progress.emit("failed", reason=lost)
                log.error("the sink stops: %s", lost)
                return 1
            if isinstance(failure, _StartAgain):
                continue
            if self._stopping.is_set() or failure is None:
                began_s = time.monotonic() if self._stop_began_s is None else self._stop_began_s
                self._writer.close(wait_s=began_s + STOP_MERGE_S - time.monotonic())
                self._progress.emit("stopped", batches=self._writer.batches_done)
                log.info("stopped after %d batches", self._writer.batches_done)
                return 0
            if not self._spark_is_running():
                log.error("Spark is gone; the sink starts again from its checkpoint when it is submitted again")
                return 1
            progressed = self._writer.batches_done > done_before
            if progressed:
                attempt, done_before = 0, self._writer.batches_done
            if progressed and _REPORT_FAULT in str(failure):
                log.info("the repeated batch is done; Spark failed only in reporting it, the query goes on")
                continue
            attempt += 1
            self._progress.count("error", of=error_class(failure))
            if isinstance(failure, DefiniteError) or attempt > self._settings["restart.attempts.max"]:
                reason = one_line(failure)
                self._progress.emit("failed", reason=reason)
                log.error("the sink stops: %s", reason, exc_info=with_trace(failure))
                return 1
            wait_s = pause_s(attempt, pause_max_s=_RESTART_PAUSE_MAX_S)
            self._progress.emit("restarting", reason=one_line(failure), attempt=attempt, pause_s=wait_s)
            log.warning("restart %d in %.0f s: %s", attempt, wait_s, one_line(failure), exc_info=with_trace(failure))
            self._stopping.wait(wait_s)

    def _until_it_ends(self) -> Exception | None:
        """Start the query and watch it until it ends.

        Return the reason, None if it was asked to stop or is done.
        """
        self._writer.failure, self._writer.last_batch_id = None, -1
        self._writer.stopped.clear()
        self._scheduler.restarted()
        try:
            if self._fence is not None:
                # No Delta transaction guards the checkpoint and the commands.
                self._fence.check()
            self._checkpoint.pass_losses(self._parts.control.state, self._parts.book, self._progress, self._arrivals)
            self._commands.obey()
            query = self._start()
        except Exception as e:  # noqa: BLE001  whatever the start met decides between restart and stop above
            return e
        reported = ""
        try:
            while query.isActive:
                if (lost := self._lost()) is not None:
                    if self._is_gone():
                        self._scheduler.begin_no_more()
                    self._stop_between_batches(query)
                    return DefiniteError(lost) if self._is_gone() else TransientError(lost)
                self._obey_between_batches()
                if self._stopping.is_set() or self._scheduler.failure is not None:
                    self._stop_between_batches(query)
                    return None if self._stopping.is_set() else self._scheduler.failure
                self._write_notes()
                reported = self._report(query, reported)
                time.sleep(_LOOK_EVERY_S)
            self._report(query, reported)
            error = query.exception()
        except (Py4JError, OSError) as e:
            return e
        if error is None:
            return self._drained()
        if any(text in str(error) for text in _DATA_LOSS):
            if self._checkpoint.losses(self._parts.control.state):
                # The next start reports each partition.
                return _StartAgain("records are lost")
            msg = (
                "records expired in Kafka, or their topic was recreated, before the sink had read them; remove the checkpoint "
                f"{self._settings.checkpoint_path} to continue with the records that are there, then dump the tables again ({one_line(error)})"
            )
            return DefiniteError(msg)
        return self._writer.failure or error

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

    def _drained(self) -> Exception | None:
        """Merge everything that has landed, as ``trigger.once`` needs.

        Return the error, None on success.
        """
        try:
            self._scheduler.drain(self._stopping.is_set)
        except Exception as e:  # noqa: BLE001  judged by the caller like a failure of the query
            return e
        return None

    def _lost(self) -> str | None:
        """Return why this sink must not commit now, or None if it may."""
        return self._lease.lost if self._fence is None else self._fence.lost

    def _is_gone(self) -> bool:
        """Return True if this sink can never commit again.

        A lapsed lease is not gone: it is renewed as soon as the store answers.
        """
        return self._lease.is_gone if self._fence is None else self._fence.is_gone

    def _spark_is_running(self) -> bool:
        """Return True if there is a JVM and a context to restart in.

        spark-submit's JVM may have been killed while this process runs.
        """
        try:
            return not self._session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001  PySpark has no public name for it
        except (Py4JError, OSError):
            return False

    # -- between batches --------------------------------------------------------------------------------------------------------------------

    def _obey_between_batches(self) -> None:
        """Carry out commands while no batch runs, if it is time to look for them."""
        now_s = time.monotonic()
        if now_s - self._commands_looked_s < _COMMANDS_EVERY_S:
            return
        self._commands_looked_s = now_s
        if self._commands.waits() and self._writer.running.acquire(timeout=_COMMANDS_EVERY_S):
            try:
                if self._fence is not None:
                    # The loop that watches the query stops it.
                    with contextlib.suppress(DefiniteError, TransientError):
                        self._fence.check()
                if self._lost() is None:
                    self._commands.obey()
            finally:
                self._writer.running.release()

    def _write_notes(self) -> None:
        """Write notes that wait while the source is idle.

        No table depends on them, so a failure is only logged and the next time tries again.
        """
        try:
            self._parts.control.flush_due()
        except Exception as e:  # noqa: BLE001  see above
            log.warning("the notes of the job are not written yet: %s", one_line(e))

    def _report(self, query: StreamingQuery, reported: str) -> str:
        """Report how far the query is behind Kafka's end, once for each progress report."""
        report = _newest_report(query)
        if report is None or report["timestamp"] == reported:
            return reported
        behind = source.records_behind(report)
        if behind is not None:
            waiting = self._parts.book.rows_waiting()
            self._progress.emit(
                "behind" if behind or waiting else "idle",
                batch_id=report["batchId"],
                records_behind=behind,
                rows_waiting=waiting,
                lag_s=self._lag_s(report),
            )
        self._reconcile(source.read_to(report))
        return str(report["timestamp"])

    def _lag_s(self, report: Mapping[str, Any]) -> float:
        """Return the seconds since the tables had everything that Kafka had then.

        A report's time is the start of its batch, which may be long ago.
        """
        now_s, waited_s = time.time(), self._parts.book.waited_s()
        up_to_s = self._applied_up_to.reported(
            datetime.fromisoformat(str(report["timestamp"])).timestamp(),
            there=source.there(report),
            read=source.read_to(report),
            landed_s=None if waited_s is None else now_s - waited_s,
        )
        return round(max(0.0, now_s - up_to_s), 3)

    def _reconcile(self, read_to: ReadTo) -> None:
        """Compare arrived rows with the counts of chunk markers.

        A failure is only logged, and the next time tries again.
        """
        try:
            self._arrivals.look(read_to)
        except Exception as e:  # noqa: BLE001  see above
            log.warning("the comparison of chunk markers with what arrived is postponed: %s", one_line(e))

    def _stop_between_batches(self, query: StreamingQuery) -> None:
        """Stop the query while no batch runs, because ``stop()`` interrupts a batch (spark#36589).

        A batch that takes too long is interrupted after all, and the next start repeats it.
        """
        if self._stopping.is_set():
            self._stop_began_s = time.monotonic()
            self._scheduler.begin_no_more()
        held = self._writer.running.acquire(timeout=STOP_BATCH_S)
        done = held
        if not held:
            log.warning("the batch takes too long to be waited for; it is broken off and will be repeated")
            self._writer.stopped.set()
            limit_s = time.monotonic() + _STOP_BREAK_S
            while not held and time.monotonic() < limit_s:
                # Separate threads write its tables. Stopping the query would not cancel their jobs,
                # and would then wait for them.
                self._session.sparkContext.cancelAllJobs()
                held = self._writer.running.acquire(timeout=_LOOK_EVERY_S)
        try:
            limit_s = time.monotonic() + _STOP_COMMIT_S
            while done and self._writer.last_batch_id >= 0 and time.monotonic() < limit_s:
                report = _newest_report(query)
                if report is not None and report["batchId"] >= self._writer.last_batch_id:
                    # Its offsets are committed, so there is nothing to replay.
                    break
                time.sleep(0.05)
            self._writer.stopped.set()
            query.stop()
        finally:
            if held:
                self._writer.running.release()


class _StartAgain(TransientError):  # noqa: N818  it is no error
    """Raised to start the query again although nothing is wrong with it."""


def query_id(frame: DataFrame) -> str:
    """Return the query's id, which a checkpoint keeps for as long as it exists.

    A new checkpoint counts its batches from 0 and must not be taken for the former one.
    """
    found = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found, "foreachBatch runs on the query's own thread"
    return found


def files_keep_h(session: SparkSession, settings: Settings, manifest: Manifest, path: str) -> float:
    """Return how long VACUUM keeps a table's files, in hours.

    That is the configured time, and as long as any snapshot in the manifest needs them; the newest
    snapshot stays however old it is. For a parked table a snapshot may name a version that was old
    when it was published: files that only this version needs were removed by the next commit after
    it.
    """
    keep_h = settings.table_keep_h
    if not settings.snapshots:
        return keep_h
    keep_h = max(keep_h, manifest.newest_age_h() + 1.0)
    oldest = manifest.oldest(path)
    next_ms = None if oldest is None else targets.committed_ms(session, path, oldest + 1)
    return keep_h if next_ms is None else max(keep_h, time.time() / 3600.0 - next_ms / 3_600_000.0 + 1.0)


def logs_keep_h(session: SparkSession, settings: Settings, manifest: Manifest, name: str, path: str) -> float:
    """Return how long the log of a table is kept, in hours.

    That is the configured time, and a day longer than files that a snapshot in the manifest needs.
    """
    if is_own_hot(name):
        return settings.log_h_of(name)
    return max(settings.log_h, files_keep_h(session, settings, manifest, path) + LOG_LONGER_H)


def _newest_report(query: StreamingQuery) -> Mapping[str, Any] | None:
    """Return the query's newest progress report, parsed from Spark's JSON, or None."""
    newest = query.lastProgress
    if newest is None:
        return None
    report: Mapping[str, Any] = json.loads(newest.json)
    return report

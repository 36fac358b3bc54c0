"""Builds the parts that write and connects them: the composition root of the sink."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from dblog_sink.batches.after_dumps import AfterDumps
from dblog_sink.batches.failures import Failures
from dblog_sink.batches.landing import Landing
from dblog_sink.batches.merge_by_batches import MergeByBatches
from dblog_sink.batches.micro_batch import BatchWriter, TopicIds
from dblog_sink.batches.parts import Parts
from dblog_sink.batches.scheduler import MergeScheduler, Strategy
from dblog_sink.batches.table_book import TableBook
from dblog_sink.config.job_options import Settings
from dblog_sink.delta.session import SessionPool, another
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.arrivals import Arrivals, Ends
from dblog_sink.schema.registry import Registry, tls_context
from dblog_sink.snapshots.manifest import Manifest
from dblog_sink.snapshots.publish import SnapshotPublisher
from dblog_sink.snapshots.strategy import LastSnapshotThenBatches, MergeBySnapshots
from dblog_sink.snapshots.unmerged_records import OutsideSnapshots
from dblog_sink.snapshots.waivers import TopicOffsets
from dblog_sink.state.control_table import ControlTable, path_of
from dblog_sink.state.crash_points import Reached, nothing
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.quarantine import Quarantine
from dblog_sink.tables.schema_changes import TopicSoFar

if TYPE_CHECKING:
    from dblog_sink.observe.traces import Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The parts that write.

    ``writer`` is the function of each batch; ``scheduler`` merges landed records.
    """

    parts: Parts
    writer: BatchWriter
    scheduler: MergeScheduler
    by_batches: MergeByBatches
    publisher: SnapshotPublisher | None
    """Publisher of snapshots; None without a manifest and without a snapshot to finish."""
    arrivals: Arrivals
    quarantine: Quarantine


def built(
    session: SparkSession,
    settings: Settings,
    progress: Progress,
    *,
    query_id_of: Callable[[DataFrame], str],
    topic_ids: TopicIds,
    ends: Ends,
    compacted: Callable[[str], bool],
    offsets: TopicOffsets,
    so_far: TopicSoFar,
    stopping: Callable[[], bool] = lambda: False,
    may_commit: Callable[[], bool] = lambda: True,
    reached: Reached = nothing,
    merge_only: bool = False,
    now_s: Callable[[], float] = time.time,
    traces: Traces | None = None,
) -> Pipeline:
    """Build the parts of one job.

    Functions give access to Kafka. ``may_commit`` returns False while the lease has lapsed.
    ``reached`` is called at each crash point. ``now_s`` is the clock by which snapshots age.
    """
    state_session = another(session)
    control = ControlTable(
        state_session,
        path_of(settings.state_path),
        interval_s=settings["control.interval.s"],
        now_s=time.monotonic,
        reached=reached,
    )
    quarantine = Quarantine(
        f"{settings.state_path}/quarantine",
        rows_max=settings["quarantine.rows.max"],
        fraction_max=settings["quarantine.fraction.max"],
        log_h=settings.log_h,
    )
    applier = Applier(
        settings=settings,
        registry=registry_of(settings, stopping, asked=lambda result: progress.count("registry", result=result)),
        pool=SessionPool(session, settings["merge.threads"] + settings["merge.background.threads"]),
        quarantine=quarantine,
        state=control.state,
        record=lambda notes, at_once: control.record(notes, "recorded", at_once=at_once),
        so_far=so_far,
        topic_id=lambda topic: topic_ids([topic])[topic],
        compacted=compacted,
        reached=reached,
        merge_only=merge_only,
        conflicted=lambda topic: progress.count("conflict", table=settings.table_name(topic)),
    )
    landing = Landing(state_session, f"{settings.state_path}/landing", keep_h=settings["landing.keep.h"], reached=reached)
    parts = Parts(
        settings=settings,
        applier=applier,
        landing=landing,
        control=control,
        book=TableBook(settings, landing, control, progress),
        progress=progress,
        reached=reached,
        batch_failures=Failures(settings, may_commit=may_commit),
        merge_failures=Failures(settings, may_commit=may_commit),
    )
    arrivals = Arrivals(
        state_session,
        f"{settings.state_path}/chunks",
        settings=settings,
        applier=applier,
        progress=progress,
        reached=reached,
        ends=ends,
        compacted=compacted,
        midway=lambda: not control.state.counted_from_start,
    )
    by_batches = MergeByBatches(parts, outside_snapshots=OutsideSnapshots(applier, control.state))
    publisher = _publisher(session, parts, by_batches, arrivals, offsets, now_s)
    strategy: Strategy = by_batches
    if publisher is not None:
        by_snapshots = MergeBySnapshots(parts, publisher)
        strategy = by_snapshots if settings.snapshots else LastSnapshotThenBatches(by_snapshots, by_batches, control.state)
    scheduler = MergeScheduler(parts, AfterDumps(strategy, parts, arrivals), cancel=session.sparkContext.cancelAllJobs)
    writer = BatchWriter(
        parts,
        by_batches=by_batches,
        scheduler=scheduler,
        arrivals=arrivals,
        query_id_of=query_id_of,
        topic_ids=topic_ids,
        offsets=offsets,
        traces=traces,
    )
    return Pipeline(
        parts=parts,
        writer=writer,
        scheduler=scheduler,
        by_batches=by_batches,
        publisher=publisher,
        arrivals=arrivals,
        quarantine=quarantine,
    )


def registry_of(
    settings: Settings, stopping: Callable[[], bool] = lambda: False, *, asked: Callable[[str], None] = lambda _result: None
) -> Registry:
    """Return the configured schema registry."""
    cache = settings["registry.cache.path"]
    return Registry(
        settings["registry.url"],
        auth=settings["registry.auth"],
        token=settings["registry.token"],
        tls=tls_context(
            ca=settings["registry.ssl.ca.file"],
            certificate=settings["registry.ssl.certificate.file"],
            key=settings["registry.ssl.key.file"],
        ),
        cache_path=None if cache is None else Path(cache),
        wait_max_s=settings["registry.wait.max.s"],
        unknown_wait_s=settings["registry.unknown.wait.s"],
        stopping=stopping,
        asked=asked,
    )


def _publisher(
    session: SparkSession,
    parts: Parts,
    by_batches: MergeByBatches,
    arrivals: Arrivals,
    offsets: TopicOffsets,
    now_s: Callable[[], float],
) -> SnapshotPublisher | None:
    settings = parts.settings
    if not settings.snapshots and parts.control.state.snapshot is None:
        return None
    own = another(session)
    return SnapshotPublisher(
        own,
        parts,
        by_batches=by_batches,
        manifest=Manifest(own, settings.state_path, keep_h=settings["manifest.keep.h"], log_h=settings.log_h),
        offsets=offsets,
        dumps_incomplete=arrivals.dumps_incomplete,
        dumped_since=arrivals.dumped_since,
        now_s=now_s,
    )

"""Starts the job: checks its needs, takes the lease and the fencing token, and runs."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from dblog_sink import __version__
from dblog_sink.config import lake_paths
from dblog_sink.config.insecure_choices import insecure_choices
from dblog_sink.config.job_options import Settings
from dblog_sink.delta import internals
from dblog_sink.delta.fence import Fence
from dblog_sink.delta.session import another, spark_session
from dblog_sink.errors import DefiniteError
from dblog_sink.job.messages import one_line
from dblog_sink.job.reporting import Reporting, report_of
from dblog_sink.job.runner import Runner
from dblog_sink.job.shutdown import stop_on_signal
from dblog_sink.kafka import brokers, checkpoint_binding
from dblog_sink.kafka.report_topic import ReportTopic
from dblog_sink.observe.progress import Listener, Progress
from dblog_sink.observe.report import Report
from dblog_sink.state import files
from dblog_sink.state.control_table import path_of, read_state
from dblog_sink.state.lease import Lease

if TYPE_CHECKING:
    from dblog_sink.observe.traces import Traces

log = logging.getLogger(__name__)

_SPANS_WAIT_S = 2.0
"""Seconds to wait at the end of the job for a collector that does not answer."""
_REPORT_WAIT_S = 2.0
"""Seconds to wait at the end of the job for the last report."""


def run(settings: Settings) -> int:
    """Run the job to its end and return the exit status.

    0 means that it was asked to stop, or trigger.once is done. 1 means a failure that needs a
    person, logged in one sentence.
    """
    try:
        report = None if settings["report.topic"] is None else report_of(settings, program=__version__)
        progress, traces = observers_of(settings, report)
    except DefiniteError as e:
        log.error("the sink does not start: %s", e)
        return 1
    for key, reason in insecure_choices(settings).items():
        log.warning("%s: %s", key, reason)
    stopping, ended = threading.Event(), threading.Event()
    session = spark_session(settings["name"], settings.spark)
    forget_hook = stop_on_signal(session, stopping, ended)
    lease: Lease | None = None
    fence: Fence | None = None
    reporting: Reporting | None = None
    try:
        merge_only = lacks_upsert(session) or settings["merge.path"] == "merge"
        check_paths(session, settings)
        lease = Lease(files.folder(session, settings.state_path), name=settings["name"], where=settings.state_path)
        fence = fenced(session, settings, lease)
        cluster_id = brokers.first_answer(session, settings, stopping, unanswered=lambda: progress.count("error", of="kafka"))
        if cluster_id is None:
            return 0
        checkpoint_binding.check(files.folder(session, settings.checkpoint_path), settings, cluster_id)
        if report is not None:
            reporting = Reporting(
                report, partial(ReportTopic, session, settings, settings["report.topic"]), interval_s=settings["report.interval.s"]
            )
            reporting.start()
        return Runner(session, settings, progress, stopping, lease, fence, merge_only=merge_only, traces=traces, reporting=reporting).run()
    except DefiniteError as e:
        progress.emit("failed", reason=str(e))
        log.error("the sink does not start: %s", e)
        return 1
    finally:
        with contextlib.suppress(Py4JError, OSError):
            if lease is not None:
                lease.give_back(ended_well=fence is not None and not fence.is_gone)
        if reporting is not None:
            reporting.close(_REPORT_WAIT_S)
        ended.set()
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
            forget_hook()
            session.stop()
        if traces is not None:
            traces.close(_SPANS_WAIT_S)


def fenced(session: SparkSession, settings: Settings, lease: Lease) -> Fence:
    """Take the lease and a fencing token.

    From then on no other sink commits to what this one is going to read. Raise DefiniteError if the
    state cannot be written.
    """
    try:
        alone = lease.take()
    except (OSError, Py4JJavaError) as e:
        msg = f"{settings.state_path} (state.path, in target.path if it is not given) cannot be written: {one_line(e)}"
        raise DefiniteError(msg) from e
    fence = Fence(another(session), path_of(settings.state_path), lease=lease)
    fence.take(alone=alone)
    fence.install()
    if not alone:
        log.info("the former sink did not end by itself; its tables are claimed, so that it commits nothing more")
        paths = settings.paths(read_state(session, settings.state_path).table_ids)
        fence.claim(paths.values(), threads=settings["merge.threads"])
    return fence


def observers_of(settings: Settings, report: Report | None = None) -> tuple[Progress, Traces | None]:
    """Return the progress, which writes to its file, metrics, report and traces, and the traces or
    None.
    """
    file = None if settings["progress.file"] is None else Path(settings["progress.file"])
    listeners: list[Listener] = []
    if settings["metrics.listen"] is not None:
        from dblog_sink.observe.metrics import Metrics  # noqa: PLC0415  the one file that needs prometheus-client

        metrics = Metrics(version=__version__, once=settings["trigger.once"])
        log.info("metrics are at port %d under /metrics", metrics.serve(settings["metrics.listen"]))
        listeners.append(metrics.take)
    if report is not None:
        listeners.append(lambda kind, facts: report.take(kind, facts, now_s=time.time()))

    def listener(kind: str, facts: Mapping[str, Any]) -> None:
        for take in listeners:
            take(kind, facts)

    traces = _traces_of(settings, counted=listener)
    if traces is not None:
        listeners.append(traces.take)
    bytes_max = settings["progress.file.mib.max"] << 20
    return Progress(file, listener=listener, log_facts=settings["log.format"] == "json", bytes_max=bytes_max), traces


def _traces_of(settings: Settings, *, counted: Listener) -> Traces | None:
    """Return the traces, or None if tracing is off.

    ``counted`` receives the number of sent spans.
    """
    if not settings["tracing.enabled"]:
        return None
    try:
        from dblog_sink.observe.traces import Traces  # noqa: PLC0415  the one file that needs OpenTelemetry
    except ModuleNotFoundError as e:
        msg = (
            f"tracing.enabled needs OpenTelemetry's packages where the driver runs ({e}); install them with: pip install 'dblog-sink[tracing]', "
            "or leave the option out"
        )
        raise DefiniteError(msg) from e
    return Traces(name=settings["name"], counted=counted)


def lacks_upsert(session: SparkSession) -> bool:
    """Return True if this Delta lacks methods that our own upsert calls.

    Raise DefiniteError if it lacks needed ones.
    """
    internals.require(session)
    missing = internals.missing(session, internals.UPSERT)
    if missing:
        log.warning("this Delta has no %s: tables are written by MERGE, which is slower", ", no ".join(missing))
    return bool(missing)


def check_paths(session: SparkSession, settings: Settings) -> None:
    """Raise DefiniteError if the configured paths are not allowed for the lake."""
    given = session.sparkContext.getConf()
    paths = {option: files.qualified(session, path) for option, path in settings.paths_by_option.items()}
    schemes = {urlparse(path).scheme for path in paths.values()}
    named = {scheme: given.get(lake_paths.log_store_key(scheme)) or given.get(lake_paths.LOG_STORE) for scheme in schemes}
    log_stores = {scheme: one for scheme, one in named.items() if one is not None}
    found = lake_paths.refusals(
        paths,
        master=str(session.sparkContext.master),
        log_stores=log_stores,
        shared_mount=settings["storage.shared.mount"],
        single_driver=settings["storage.single.driver"],
    )
    stores: dict[str, str | None] = {}
    for option, path in paths.items():
        scheme, store = urlparse(path)[:2]
        if option not in found and scheme != "file":
            if f"{scheme}://{store}" not in stores:
                conditional = log_stores.get(scheme) == lake_paths.CONDITIONAL
                stores[f"{scheme}://{store}"] = _unusable(
                    session, paths["state.path"] if store in paths["state.path"] else path, conditional=conditional
                )
            if (reason := stores[f"{scheme}://{store}"]) is not None:
                found[option] = reason
    if found:
        raise DefiniteError("; ".join(f"{option}: {reason}" for option, reason in found.items()))


def _unusable(session: SparkSession, path: str, *, conditional: bool) -> str | None:
    """Return why the store of the path cannot be used, None if it can.

    ``conditional`` is True if the log store needs conditional writes.
    """
    try:
        folder = files.HadoopFolder(session, path)
    except Py4JJavaError as e:
        scheme, _, rest = path.partition(":")
        if scheme in lake_paths.S3 and scheme != "s3a":
            return f"Spark has no client for {path} ({one_line(e)}); Hadoop's client for S3 has the scheme s3a: write s3a:{rest}"
        return (
            f"Spark has no client for {path} ({one_line(e)}); add its jars (for s3a: make jars-s3a, or "
            "--packages org.apache.hadoop:hadoop-aws:3.4.2) and its settings; spark-sink/docs/object-stores.md has both"
        )
    if not conditional:
        return None
    try:
        if folder.heeds_conditions():
            return None
    except Py4JJavaError as e:
        return f"{path} cannot be written: {one_line(e)}"
    return (
        f"the store of {path} does not heed If-None-Match, so with {lake_paths.CONDITIONAL} two drivers would overwrite each other's Delta commits. Set "
        f"{lake_paths.log_store_key(urlparse(path).scheme)}={lake_paths.DYNAMODB} with its DynamoDB table, or storage.single.driver=true if no other "
        "driver ever writes to these tables, without a log store"
    )

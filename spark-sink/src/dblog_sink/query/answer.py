"""Answers questions on standard output, beside a job that may be running.

The questions are explain, show, verified, snapshots and as-of. Each function returns the exit
status.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dblog_sink.config.job_options import Settings
from dblog_sink.delta.session import spark_session
from dblog_sink.errors import SinkError
from dblog_sink.query import explain, show, verified
from dblog_sink.query.freshest import reader
from dblog_sink.snapshots import manifest
from dblog_sink.state.control_table import read_state

log = logging.getLogger(__name__)


def explain_row(settings: Settings, *, table: str, key: str, as_json: bool) -> int:
    """Show where the state of one key comes from."""
    session = spark_session(f"{settings['name']}-explain", settings.spark)
    try:
        applier, registry = reader(session, settings, read_state(session, settings.state_path))
        found = explain.explain(session, settings, applier, registry, table=table, key=key)
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    print(json.dumps(asdict(found), indent=2) if as_json else "\n".join(explain.lines_of(found)))  # noqa: T201  the answer
    return 0


def show_rows(settings: Settings, *, table: str, rows_max: int) -> int:
    """Show a table's newest rows, one JSON object a line."""
    session = spark_session(f"{settings['name']}-show", settings.spark)
    try:
        found = show.show(session, settings, table=table, rows_max=rows_max)
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    log.info("%s has %d rows in version %d of %s; the newest %d:", found.table, found.rows, found.version, found.path, len(found.newest))
    for row in found.newest:
        print(row)  # noqa: T201  the answer
    return 0


def show_verified(settings: Settings, *, table: str | None, as_json: bool) -> int:
    """Show the newest verdict of each table, or of one.

    Return the status of ``verified.answer``.
    """
    session = spark_session(f"{settings['name']}-verified", settings.spark)
    try:
        found = verified.verified(session, settings, table=table)
    finally:
        session.stop()
    if not found:
        log.info(
            "%s was not compared with its source yet; dblog dumps start CONNECTOR TABLE --mode verify does it, where the job reads the topic of chunk "
            "markers (__dblog-chunks.PREFIX)",
            table or "no table",
        )
    lines, status = verified.answer(found, as_json=as_json)
    for line in lines:
        print(line)  # noqa: T201  the answer
    return status


def show_snapshots(settings: Settings, *, point: Mapping[str, Any] | None, as_json: bool) -> int:
    """List the published snapshots, or show the one as of a point of the source."""
    session = spark_session(f"{settings['name']}-snapshots", settings.spark)
    try:
        path = settings.state_path
        found = manifest.snapshots(session, path) if point is None else [manifest.as_of(session, path, **point)]
        text = [
            json.dumps(manifest.facts(one)) if as_json else "\n".join(manifest.lines_of(one, tables=point is not None)) for one in found
        ]
    except SinkError as e:
        log.error("%s", e)
        return 1
    finally:
        session.stop()
    print("\n".join(text))  # noqa: T201  the answer
    return 0

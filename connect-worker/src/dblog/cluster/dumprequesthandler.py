"""Answers requests about dumps in the herder's thread by storing them. The task gets them when
their records are read back.

Nothing here waits for the task: the task checks first whether a request can be carried out, and the
REST interface waits for that check.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from dblog.cluster.decisions import Phase
from dblog.cluster.dumprecords import KnownDump
from dblog.cluster.dumpstore import OPEN_MAX, DumpStore
from dblog.cluster.localdumps import LocalDumps
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import Target, TaskId
from dblog.cluster.requests import (
    ChangeDump,
    CheckDump,
    FindTable,
    RequestError,
    SendSignal,
    SetDump,
    StartDump,
    bad_request,
    conflict,
    not_found,
)
from dblog.cluster.stores import ConfigStore
from dblog.config.worker_options import DUMPS_TOPIC
from dblog.core.dumprequests import (
    INITIAL,
    DumpRequest,
    DumpStateError,
    UnknownTableError,
    changed,
    with_table_wanted,
    with_wanted,
)
from dblog.errors import DblogError

_log = structlog.get_logger("dblog.cluster.dumps")

NO_DUMPS = f"This worker takes no requests for dumps: {DUMPS_TOPIC} is empty in its file; leave the key out, or name a topic, and restart the worker"


class DumpRequests:
    """Handles one request at a time, in their order."""

    def __init__(self, store: DumpStore, dumps: LocalDumps, *, configs: ConfigStore, tasks: LocalTasks) -> None:
        self._store = store
        self._dumps = dumps
        self._configs = configs
        self._tasks = tasks

    def answer(self, request: CheckDump | StartDump | ChangeDump | FindTable | SetDump | SendSignal) -> object:
        """Return the stored request, or a future of table names for requests that the task answers.

        Raise RequestError if the request is refused.
        """
        match request:
            case CheckDump(asked):
                self._require_running(asked.connector)
                self._require_room(asked)
                return self._dumps.check(asked)
            case StartDump(asked):
                # Checked again, because the task's check has taken its time.
                self._require_running(asked.connector)
                self._require_room(asked)
                self._write(asked)
                _log.info(
                    "dump requested",
                    connector=asked.connector,
                    dump=asked.id,
                    mode=asked.mode.value,
                    patterns=len(asked.tables),
                    by=asked.requested_by,
                )
                return asked
            case SendSignal(name, signal):
                self._require_running(name)
                self._dumps.signal(name, signal)
                return None
            case ChangeDump(name, dump, body):
                before = self._open(name, dump)
                return self._change(before, lambda: changed(before, body))
            case FindTable(name, dump, table):
                before = self._open(name, dump)
                return self._dumps.find_table(before, table) if self._dumps.tables_of(name, dump) is None else None
            case SetDump(name, dump, wanted, table, found):
                before = self._open(name, dump)
                if table is None:
                    return self._change(before, lambda: with_wanted(before, wanted))
                shown = self._dumps.tables_of(name, dump)
                tables = found if shown is None else shown
                return self._change(before, lambda: with_table_wanted(before, table, wanted, tables=tables))

    def offsets_changed(self, name: str) -> None:
        """Note that a connector's offsets have changed since its task's last report."""
        self._dumps.offsets_changed(name)

    def connector_deleted(self, name: str) -> None:
        """Remove a deleted connector's requests, which a later one of that name must not get."""
        self._dumps.forget(name)
        try:
            self._store.forget(name)
        except DblogError as e:
            # The connector is deleted all the same; the next reconcile removes its requests.
            _log.warning("the requests for dumps of a deleted connector are removed later", connector=name, reason=str(e))

    def _change(self, before: DumpRequest, change: Callable[[], DumpRequest]) -> DumpRequest:
        try:
            after = change()
        except DumpStateError as e:
            raise conflict(str(e)) from e
        except UnknownTableError as e:
            raise not_found(str(e)) from e
        if after is not before:
            if self._store.size_left(after) < 0:
                raise bad_request(
                    f"The dump {after.id} has changes of too many of its tables to be stored; pause, resume or stop it as a whole"
                )
            self._write(after)
            _log.info("dump changed", connector=after.connector, dump=after.id, revision=after.revision, wanted=after.wanted.value)
        return after

    def _write(self, request: DumpRequest) -> None:
        self._store.write(request)
        written = self._store.get((request.connector, request.id))
        if written is None or written.request != request:
            raise conflict(f"The dump {request.id} was changed at the same time by a worker that led until now; look at it, and try again")

    def _open(self, name: str, dump: str) -> DumpRequest:
        """Return a request that has not ended. Raise RequestError if there is none."""
        if self._configs.view(name) is None:
            raise not_found(f"Connector {name} not found")
        if dump == INITIAL:
            raise conflict(
                f"The dump {INITIAL} is the connector's own: it follows the connector's configuration (snapshot.mode, dblog.dump.threads, dblog.chunk.rows), "
                f"and pauses with it (PUT /connectors/{name}/pause)"
            )
        known = self._store.get((name, dump))
        if known is None:
            raise not_found(f"Connector {name} has no dump {dump} that was requested; GET /connectors/{name}/dumps lists those it has")
        _require_not_ended(known)
        return known.request

    def _require_running(self, name: str) -> None:
        """Refuse a dump of a connector that cannot run one.

        A paused connector accepts it: the dump is checked now and begins when the connector
        resumes.
        """
        view = self._configs.view(name)
        if view is None:
            raise not_found(f"Connector {name} not found")
        if view.target is Target.STOPPED:
            raise conflict(
                f"Connector {name} is stopped, so nothing can be dumped: PUT /connectors/{name}/resume, then request the dump again"
            )
        task = self._tasks.get(TaskId(name, 0))
        if task is not None and task.phase is Phase.FAILED:
            raise conflict(
                f"The task of connector {name} has failed, so nothing can be dumped: GET /connectors/{name}/status has the reason; mend it, POST "
                f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true, then request the dump again"
            )

    def _require_room(self, request: DumpRequest) -> None:
        if len(self._store.open(request.connector)) >= OPEN_MAX:
            raise conflict(
                f"Connector {request.connector} has {OPEN_MAX} dumps that have not ended, and takes no more; wait for them, or stop some"
            )
        if (left := self._store.size_left(request)) < 0:
            raise bad_request(
                f"The request is {-left} bytes larger than the topic {self._store.log.topic} takes; ask for its keys or tables in several dumps, or raise "
                "producer.max.request.size in the worker's configuration and max.message.bytes of the topic"
            )


def _require_not_ended(known: KnownDump) -> None:
    if known.end is not None:
        raise RequestError(
            409, f"The dump {known.request.id} has ended ({known.end['state']}), so nothing of it can be changed; request another one"
        )

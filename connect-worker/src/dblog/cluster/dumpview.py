"""Answers to GETs about a connector's dumps: the topic's requests joined with the task's reports,
without waiting for the herder's thread.

Only the worker that runs the task knows a dump's progress. The last report of an ended task stays
valid except for its state: nothing runs then, and the reason says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.cluster.decisions import Phase
from dblog.cluster.dumprecords import BLANK_STATUS, ENDED, DumpStatus, KnownDump
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.localdumps import LocalDumps
from dblog.cluster.localtasks import LocalTasks
from dblog.cluster.records import State, Target, TaskId
from dblog.cluster.requests import not_found
from dblog.cluster.state import ConnectorView
from dblog.cluster.stores import ConfigStore
from dblog.core.chunkmap import cells_of
from dblog.core.dumprequests import INITIAL, DumpRequest, Wanted
from dblog.readers.start import may_start_over

DETAILS = ("predicate", "keys")
"""Fields of a request with SQL and keys of rows, which not every caller may see."""
_RATES = ("rows_per_s", "eta_s", "governor")
_LISTED = ("id", "connector", "revision", "created_ms", "requested_by", "mode", "tables", "wanted")


class DumpView:
    """View of all dumps. Any thread may call it."""

    def __init__(self, store: DumpStore, dumps: LocalDumps, *, configs: ConfigStore, tasks: LocalTasks) -> None:
        self._store = store
        self._dumps = dumps
        self._configs = configs
        self._tasks = tasks

    def listed(self, connector: str) -> list[dict[str, Any]]:
        """Return all dumps in short: the connector's own first, then the requested ones, oldest
        first.

        Raise RequestError 404 for an unknown connector.
        """
        return [_in_short(each) for each in self._all(connector).values()]

    def detail(self, connector: str, dump: str, *, maps: bool = False) -> dict[str, Any]:
        """Return one dump with its request and its tables. Raise RequestError 404 for an unknown
        one.

        ``maps`` adds to each table a map of the ranges that have been read.
        """
        found = self._all(connector).get(dump)
        if found is None:
            raise not_found(f"Connector {connector} has no dump {dump}; GET /connectors/{connector}/dumps lists those it has")
        return _with_maps(found) if maps else found

    def _all(self, connector: str) -> dict[str, dict[str, Any]]:
        view = self._configs.view(connector)
        if view is None:
            raise not_found(f"Connector {connector} not found")
        waits = self._waits(view)
        reported = self._dumps.reported(connector)
        known = {each.request.id: each for each in self._store.of(connector)}
        # The task's own dump, then those of its signals, then the requested ones.
        own = sorted((dump for dump in reported.statuses if dump not in known), key=lambda dump: dump != INITIAL)
        again = not reported.fresh and may_start_over(view.config.get("snapshot.mode") or "")
        shown = {
            dump: _of_task(connector, _shown(reported.statuses[dump], reported.fresh, waits, may_begin_again=again and dump == INITIAL))
            for dump in own
        }
        for dump, each in known.items():
            status = each.end or _current(each, reported.statuses.get(dump), reported.fresh, waits)
            shown[dump] = {**each.request.to_json(), "status": _in_detail(status)}
        return shown

    def _waits(self, view: ConnectorView) -> str | None:
        """Return why none of the connector's dumps can run now, or None if they can."""
        task = self._tasks.get(TaskId(view.name, 0))
        if view.target is Target.STOPPED:
            return "the connector is stopped: PUT /connectors/NAME/resume lets it go on"
        if task is not None and task.phase is Phase.FAILED:
            return "the connector's task has failed: its status has the reason"
        if view.target is Target.PAUSED:
            return "the connector is paused: PUT /connectors/NAME/resume lets it go on"
        if task is None or task.run is None:
            return "the connector's task does not run yet: its status has the reason"
        if task.state is State.UNASSIGNED:
            return f"the connector's task starts: {task.waits}" if task.waits else "the connector's task starts"
        return None


def fresh_status(request: DumpRequest, tables: list[str] | None = None) -> dict[str, Any]:
    """Return the status of a request that no task has begun.

    ``tables`` are those found by its check.
    """
    state = Wanted.PAUSED.value if request.wanted is Wanted.PAUSED else "WAITING"
    return {**BLANK_STATUS, "state": state, "tables_total": None if tables is None else len(tables), "tables": []}


def _with_maps(detail: Mapping[str, Any]) -> dict[str, Any]:
    status = detail["status"]
    tables = [
        {
            **table,
            "map": cells_of(table.get("rows") or 0, table.get("rows_estimated"), done=table.get("state") == "DONE", left=table.get("left")),
        }
        for table in status.get("tables", ())
    ]
    return {**detail, "status": {**status, "tables": tables}}


def _current(known: KnownDump, reported: DumpStatus | None, fresh: bool, waits: str | None) -> DumpStatus:  # noqa: FBT001  what it is about
    if reported is None:
        status = fresh_status(known.request)
        return {**status, "reason": waits}
    return _shown(reported, fresh, waits)


def _shown(status: DumpStatus, fresh: bool, waits: str | None, *, may_begin_again: bool = False) -> DumpStatus:  # noqa: FBT001
    """Return a status as it is now. A task that does not run, or was restarted, has nothing under
    way.

    ``may_begin_again``: the task's start decides whether this ended dump is made again.
    """
    if (status["state"] in ENDED and not may_begin_again) or (fresh and waits is None):
        return status
    state = status["state"] if status["state"] == "PAUSED" else "WAITING"
    return {**status, **dict.fromkeys(_RATES), "state": state, "reason": waits or status.get("reason")}


def _of_task(connector: str, status: DumpStatus) -> dict[str, Any]:
    """Return a dump that was not requested here."""
    by = "connector" if status["id"] == INITIAL else "signal"
    return {
        "id": status["id"],
        "connector": connector,
        "requested_by": by,
        "mode": status.get("mode", "rows"),
        "status": _in_detail(status),
    }


def _in_detail(status: DumpStatus) -> dict[str, Any]:
    """Return all fields for an answer. A task does not report when a dump ended."""
    return {"ended_ms": None, **{name: value for name, value in status.items() if name != "id"}}


def _in_short(detail: Mapping[str, Any]) -> dict[str, Any]:
    status = {name: value for name, value in detail["status"].items() if name != "tables"}
    return {**{name: detail[name] for name in _LISTED if name in detail}, "status": status}

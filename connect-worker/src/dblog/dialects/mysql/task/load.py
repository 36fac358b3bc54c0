"""The load of the server that chunks are read from, measured on a session of its own by cheap
queries. A query that the account may not make is not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from dblog.abort import Abort
from dblog.core.pressure import Limit
from dblog.core.quantiles import Times, p95_between
from dblog.dialects.mysql.task.connections import Connections, chunk_settings_of
from dblog.dialects.mysql.task.dialect import writes_watermarks
from dblog.dialects.mysql.wire.connect import PrivilegeError
from dblog.dialects.mysql.wire.session import settings_of
from dblog.errors import DefiniteError, TransientError
from dblog.readers.contract import Load

ANSWER_LIMIT_S = 5.0

STATEMENTS_EVERY_S = 5.0
"""Seconds between two reads of the statement times, which are hundreds of rows."""

_UNKNOWN = {Limit.REPLICA_LAG: "replication does not run there, so the replica's lag is unknown"}


class ServerLoad:
    """The load of one server. Implements ``readers.contract.LoadWatch``."""

    def __init__(self, connections: Connections, abort: Abort) -> None:
        chunks = settings_of(connections.settings) if writes_watermarks(connections.settings) else chunk_settings_of(connections.settings)
        settings = replace(chunks, connect_timeout_s=ANSWER_LIMIT_S, statement_timeout_s=ANSWER_LIMIT_S, abort=abort)
        with connections.opening():
            self._session = session = connections.dialect.connect(settings, again=True)
        if writes_watermarks(connections.settings) and session.identity != connections.identity:
            session.close()
            message = f"another server answers at {settings.address}"
            raise TransientError(message)
        self._questions: dict[Limit, Callable[[], float | None]] = {
            Limit.THREADS_RUNNING: session.threads_running,
            Limit.STATEMENT_P95: self._statement_p95_ms,
            Limit.REPLICA_LAG: session.replica_lag_ms,
            Limit.HISTORY_LENGTH: session.history_list_length,
            Limit.TRANSACTION_AGE: session.transaction_age_s,
        }
        self._refused: dict[Limit, str] = {}
        self._times: Times | None = None
        self._times_at_s = float("-inf")
        self._p95_ms: float | None = None

    def measure(self, wanted: Collection[Limit]) -> Load:
        """Measure the wanted limits. Each query takes less than a millisecond, except for the
        statement times: seven milliseconds, every five seconds.
        """
        measured: dict[Limit, float] = {}
        missing = {limit: why for limit, why in self._refused.items() if limit in wanted}
        for limit in wanted:
            if limit in missing:
                continue
            try:
                value = self._questions[limit]()
            except DefiniteError as e:
                missing[limit] = self._refused[limit] = _refusal(e)
            else:
                if value is not None:
                    measured[limit] = value
                # The connector's own SELECTs count in any case.
                elif limit is not Limit.STATEMENT_P95:
                    missing[limit] = _UNKNOWN.get(limit, "the server does not count it")
        return Load(measured=measured, missing=missing)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def _statement_p95_ms(self) -> float | None:
        now_s = time.monotonic()
        if now_s - self._times_at_s >= STATEMENTS_EVERY_S:
            before, self._times, self._times_at_s = self._times, self._session.statement_times(), now_s
            self._p95_ms = None if before is None or self._times is None else p95_between(before, self._times)
        return self._p95_ms


def _refusal(error: DefiniteError) -> str:
    remedy = "; grant it, and it counts from the next dump on" if isinstance(error, PrivilegeError) else ""
    return f"{error}{remedy}"

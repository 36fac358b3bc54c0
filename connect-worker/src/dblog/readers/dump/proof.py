"""Proves that a snapshot was taken after a watermark, so that it shows every change committed
before the watermark. # I2

A commit may become visible to other connections a moment after it returned. So a snapshot that does
not show the watermark is dropped and another one is taken. If none ever shows it, the connection
reads from another server than the one that got the watermark.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dblog.errors import DefiniteError, TransientError
from dblog.ports import DumpConnection

Found = TypeVar("Found")

PROOFS_MAX = 50
PROOF_INTERVAL_S = 0.05

POSITION_PROOF_S = 60.0
"""Seconds to wait for a snapshot that shows a log position: a replica lags, and a commit may wait
for one before it is visible.
"""


def read_behind_watermark(
    connection: DumpConnection,
    read: Callable[[], Found],
    *,
    watermark: str,
    token: str,
    wanted_for: str,
    stopped: threading.Event,
    retried: Callable[[], None] = lambda: None,
) -> Found:
    """Return the result of ``read`` in a snapshot that shows the watermark.

    ``token`` was committed under the name ``watermark``; ``wanted_for`` names the reading in
    errors. ``retried`` is called for each snapshot that does not show the watermark. Raise
    TransientError if the task stops meanwhile, DefiniteError if no snapshot shows the watermark.
    """
    for _ in range(PROOFS_MAX):
        with snapshot(connection):
            if connection.read_watermark(watermark) == token:
                return read()
        retried()
        if stopped.wait(PROOF_INTERVAL_S):
            message = "the task is stopping"
            raise TransientError(message)
    message = (
        f"a watermark was committed {wanted_for}, but {PROOFS_MAX} snapshots did not show it; the connection does not reach the server whose log is "
        "read (a load balancer, or a replica that lags?): point database.hostname at one server"
    )
    raise DefiniteError(message)


@contextlib.contextmanager
def snapshot_behind(
    connection: DumpConnection, low: Any, *, wanted_for: str, stopped: threading.Event, retried: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Provide a snapshot that provably shows everything in the log up to ``low``; nothing is
    written.

    ``retried`` is called for each snapshot that does not. Raise TransientError if the task stops
    meanwhile, or if no snapshot comes to show it.
    """
    for _ in range(max(1, int(POSITION_PROOF_S / PROOF_INTERVAL_S))):
        if connection.begin_snapshot_behind(low):
            yield
            connection.end_snapshot()
            return
        retried()
        if stopped.wait(PROOF_INTERVAL_S):
            message = "the task is stopping"
            raise TransientError(message)
    message = (
        f"a chunk of {wanted_for} waits: no snapshot shows what the log has up to {low}; the server that chunks are read from lags, or its commits wait for "
        "a replica"
    )
    raise TransientError(message)


@contextlib.contextmanager
def snapshot(connection: DumpConnection) -> Iterator[None]:
    """Provide a snapshot. After an error only the connection's end closes it: a failing ROLLBACK
    would hide the error.
    """
    connection.begin_snapshot()
    yield
    connection.end_snapshot()

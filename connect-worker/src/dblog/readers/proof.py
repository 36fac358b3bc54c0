"""A snapshot that is proved to lie behind a watermark: what is read in it has every change that was committed before the watermark. # I2

A commit may become visible to other connections a moment after it returned, so a snapshot that does not show the watermark yet is given up and a new one
begun. One that never does reads from another server than the watermark was written to.
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
"""A snapshot that has to show a position of the log is waited for so long: a replica lags, and a commit may wait for one before it is visible."""


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
    """What ``read`` gives in such a snapshot. ``token`` was committed under the name ``watermark``; ``wanted_for`` names the reading in errors.
    ``retried`` is called for each snapshot that does not show the watermark.

    TransientError when the task stops meanwhile, DefiniteError when no snapshot shows the watermark.
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
    """A snapshot that is proved to show everything that a reader of the log has brought up to ``low``, with nothing written. Each one that is not
    is given up and counted by ``retried``.

    TransientError when the task stops meanwhile, or the server does not come to show it.
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
    """A snapshot for a while. After an error it is left to the connection's end: the error shows more than a failing ROLLBACK."""
    connection.begin_snapshot()
    yield
    connection.end_snapshot()

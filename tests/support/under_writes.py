"""Writes to a source on a thread during a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from support.follower import Follower


@contextmanager
def under_writes(follower: Follower, statements: Callable[[int], Sequence[str]], *, pause_s: float = 0.0) -> Iterator[None]:
    """Run the statements of rounds 1, 2, ... until the end of the block; pause after each round.

    A failure in a round fails the test.
    """
    with in_rounds(lambda n: follower.sql(*statements(n)), pause_s=pause_s):
        yield


@contextmanager
def in_rounds(write: Callable[[int], object], *, pause_s: float) -> Iterator[None]:
    """Call ``write`` with 1, 2, ... until the end of the block; pause after each round."""
    stop, failures = threading.Event(), []

    def run() -> None:
        n = 0
        try:
            while not stop.is_set():
                n += 1
                write(n)
                stop.wait(pause_s)
        except BaseException as e:  # noqa: BLE001 - raised below
            failures.append(e)

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
    if failures:
        raise failures[0]

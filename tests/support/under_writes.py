"""Writes a source on a thread while a test goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from support.follower import Follower


@contextmanager
def under_writes(follower: Follower, statements: Callable[[int], Sequence[str]], *, pause_s: float = 0.0) -> Iterator[None]:
    """The statements of round 1, 2, ... until the end of the block, with a pause behind each round; what fails there fails the test."""
    with in_rounds(lambda n: follower.sql(*statements(n)), pause_s=pause_s):
        yield


@contextmanager
def in_rounds(write: Callable[[int], object], *, pause_s: float) -> Iterator[None]:
    """The same of whatever writes a round."""
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

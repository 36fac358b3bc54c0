"""What is read in a proved snapshot has everything that was committed before the watermark. # I2"""

from __future__ import annotations

import threading

import pytest
from dblog.errors import DefiniteError, TransientError
from dblog.readers.dump import proof
from dblog.readers.dump.proof import PROOFS_MAX, read_behind_watermark


class Connection:
    """Snapshots that show an old watermark at first, as a server does whose commits become visible late."""

    def __init__(self, old: int) -> None:
        self.old = old
        self.begun = 0
        self.ended = 0

    def begin_snapshot(self) -> None:
        self.begun += 1

    def read_watermark(self, name: str) -> str:
        assert name == "watermark"
        return "new" if self.begun > self.old else "old"

    def end_snapshot(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PROOF_INTERVAL_S", 0.0)


def read_in(connection: Connection, stopped: threading.Event | None = None, *, fails: bool = False) -> int:
    def read() -> int:
        if fails:
            raise ValueError("reading")
        return connection.begun

    return read_behind_watermark(
        connection, read, watermark="watermark", token="new", wanted_for="to test", stopped=stopped or threading.Event()
    )  # type: ignore[arg-type]


def test_a_snapshot_that_does_not_show_the_watermark_yet_is_abandoned_and_the_reading_is_in_the_one_that_does() -> None:
    connection = Connection(old=3)

    assert read_in(connection) == 4
    assert (connection.begun, connection.ended) == (4, 4)


def test_a_server_that_never_shows_its_own_watermark_is_not_the_one_whose_log_is_read() -> None:
    connection = Connection(old=PROOFS_MAX)

    with pytest.raises(DefiniteError, match="to test.*point database.hostname at one server"):
        read_in(connection)

    assert connection.begun == connection.ended == PROOFS_MAX


def test_a_task_that_stops_does_not_wait_for_the_watermark() -> None:
    stopped = threading.Event()
    stopped.set()

    with pytest.raises(TransientError, match="stopping"):
        read_in(Connection(old=PROOFS_MAX), stopped)


def test_an_error_while_reading_leaves_the_snapshot_to_the_connections_end() -> None:
    connection = Connection(old=0)

    with pytest.raises(ValueError, match="reading"):
        read_in(connection, fails=True)

    assert (connection.begun, connection.ended) == (1, 0)

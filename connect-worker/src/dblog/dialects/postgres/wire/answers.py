"""Limits how much a server may send in answer to one statement.

libpq stores a whole answer, even a single message of a gibibyte, before it returns a row, and
stores notices and settings as well. So the bytes are counted at the socket, where all of them pass:
the kernel counts them (Linux, ``struct tcp_info``, tcpi_bytes_received). A thread looks while
statements are running, and shuts the socket of an answer that is too long. Bytes that arrive
between two looks come on top of the limit, some ten MiB.

Limits are in bytes on the wire. One byte is estimated to take four bytes of memory in libpq and
Python.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

from dblog.dialects.answer_budget import AnswerBudget
from dblog.errors import DblogError, DefiniteError, TransientError

MEMORY_PER_BYTE = 4

ANSWER_BYTES_MAX = 64 << 20
"""Limit of a normal answer: 256 MiB of memory."""

CATALOG_BYTES_MAX = 512 << 20
"""Limit of an answer about a database's tables, columns or indexes: 2 GiB of memory. 15 000 tables
of 100 columns take 0.2 GiB.
"""

ROW_BYTES_MAX = (1 << 30) + (64 << 20)
"""Limit of an answer with rows by their keys. A server cannot send a row of more than a GiB
(MaxAllocSize).
"""

_ROW_BYTES, _VALUE_BYTES = 64, 48
"""Bytes that Python needs for a row, and for each value in it."""

_LOOK_S = 0.01
_RECEIVED = struct.Struct("<Q")
_RECEIVED_AT = 128
_INFO_BYTES = _RECEIVED_AT + _RECEIVED.size


class Answer:
    """The answer to one running statement. ``descriptor`` is that of the connection. The answer
    duplicates it, so that it cannot refer to another socket after the connection is closed.
    """

    def __init__(self, descriptor: int, *, bytes_max: int, budget: AnswerBudget | None) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self.bytes_max = bytes_max
        self._budget = budget
        self._from = _received(self._socket)
        self._look = threading.Lock()
        self.budget_taken = 0
        self.is_too_long = False
        self.exceeds_budget = False

    def check(self) -> bool:
        """Cut the connection if too much has arrived, and return False then."""
        with self._look:
            if self._is_over():
                return False
            self._weigh((_received(self._socket) - self._from) * MEMORY_PER_BYTE)
            if self._is_over():
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return False
            return True

    def weigh_rows(self, rows: int, columns: int) -> bool:
        """Return False for rows that take more memory than their bytes suggest, such as very many
        NULLs. Call it before the rows become objects.
        """
        with self._look:
            self._weigh(rows * (_ROW_BYTES + _VALUE_BYTES * columns))
            return not self._is_over()

    def _is_over(self) -> bool:
        return self.is_too_long or self.exceeds_budget

    def _weigh(self, memory_bytes: int) -> None:
        self.is_too_long = self.is_too_long or memory_bytes > self.bytes_max * MEMORY_PER_BYTE
        if self._budget is not None and not self._is_over() and (more := memory_bytes - self.budget_taken) > 0:
            self.exceeds_budget = not self._budget.take(more)
            self.budget_taken += 0 if self.exceeds_budget else more

    def close(self) -> None:
        """Close the descriptor."""
        with self._look:
            self._socket.close()

    def error(self, address: str) -> DblogError | None:
        """Return the error to raise; None for an answer within its limits."""
        if self.is_too_long:
            return DefiniteError(
                f"the server at {address} answers a statement with more than {self.bytes_max >> 20} MiB, which is more than its kind of answer can have; "
                "check that database.hostname and database.port lead to a PostgreSQL server"
            )
        if self.exceeds_budget and self._budget is not None:
            return TransientError(
                f"the answers of databases to the running checks take more than {self._budget.bytes_max >> 20} MiB, so the check of {address} "
                "was given up; try again when fewer checks run"
            )
        return None


class Answers:
    """The answers of this process that are being received."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[Answer] = set()
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watched(self, answer: Answer) -> Iterator[None]:
        """Watch an answer for as long as the block runs, and check it once at the end."""
        with self._lock:
            self._under_way.add(answer)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="answers", daemon=True)
                self._thread.start()
        self._begun.set()
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(answer)
            answer.check()
            answer.close()

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            with self._lock:
                under_way = list(self._under_way)
            if not under_way:
                self._begun.clear()
                with self._lock:
                    nothing = not self._under_way
                if nothing:
                    self._begun.wait()
                continue
            pause.wait(_LOOK_S)
            for answer in under_way:
                with contextlib.suppress(OSError):  # the answer has ended meanwhile
                    answer.check()


ANSWERS = Answers()


def _received(connection: socket.socket) -> int:
    """Return the number of bytes received; 0 if the kernel does not count them."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return 0
    return int(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0]) if len(info) >= _INFO_BYTES else 0

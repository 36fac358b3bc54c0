"""Signals from a local file, one JSON object a line, as in Debezium's file channel; the file is
emptied after reading.

The read position in the file is part of the state that its signals change. The file is emptied only
after that state is in the stored offset. After a kill in between, the lines are found again and
recognized by their bytes, so no kill loses a signal or makes it be carried out twice. The file's
name in the offset also counts how often this run has emptied it: the same lines written again are
not those that an older offset knows. # I1

The file must be in the one folder that the worker's owner names. Otherwise anybody who may create a
connector could have any file of this machine emptied.
"""

from __future__ import annotations

import os
import stat
import threading
import uuid
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import structlog

from dblog.core.requested import Requests
from dblog.readers.dump_progress import DumpProgress
from dblog.readers.signals.signals import SignalDesk
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

PREFIX = "file:"
BYTES_MAX = 1 << 20
"""Maximum size in bytes. The file is emptied as a whole, so it is read as a whole."""

UNREADABLE = "signal file"
"""Key of the standing warning about a file that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFileSettings:
    """Path of the file with signals, and the seconds between two looks at it."""

    path: Path
    interval_s: float


class SignalFile:
    """Reader of the signal file in one run; ``run`` is the body of its thread."""

    def __init__(
        self,
        settings: SignalFileSettings,
        *,
        desk: SignalDesk,
        progress: DumpProgress,
        stopped: threading.Event,
        warnings: StandingWarnings | None = None,
    ) -> None:
        self._warnings = warnings or StandingWarnings()
        self._settings = settings
        self._desk = desk
        self._progress = progress
        self._stopped = stopped
        self._stored: str | None = None
        self._run = uuid.uuid4().hex
        self._emptied = 0
        self._warned = ""
        self._seen = b""

    def stored(self, requests: Requests) -> None:
        """Note that the offset with these requests is stored."""
        self._stored = _known(requests)

    def run(self) -> None:
        """Look at the file until the task stops."""
        while not self._stopped.wait(self._settings.interval_s):
            try:
                self._look()
            except FileNotFoundError:
                self._readable()
            except OSError as e:
                if (reason := e.strerror or type(e).__name__) != self._warned:
                    self._warned = reason
                    log.warning("the file of signals cannot be read", reason=reason)
                    text = f"the file of signals (signal.file) cannot be read, so no signal in it is carried out: {reason}"
                    self._warnings.raise_warning(UNREADABLE, text)
            else:
                self._readable()

    def _readable(self) -> None:
        self._warned = ""
        self._warnings.withdraw(UNREADABLE)

    def _look(self) -> None:
        # Neither follow a link nor wait for a pipe.
        fd = os.open(self._settings.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "r+b") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(0, "it is not a regular file")
            data = file.read(BYTES_MAX + 1)
            if len(data) > BYTES_MAX:
                raise OSError(0, f"it has more than {BYTES_MAX} bytes, and is left as it is; take lines out of it")
            at = self._read_upto(data)
            self._take(data, at)
            if data and self._is_stored(data) and os.fstat(fd).st_size == len(data):  # nothing was added since it was read
                file.truncate(0)
                self._emptied += 1
                self._progress.change_requests(lambda requests: _with(requests, None, 0))
            self._seen = data

    def _read_upto(self, data: bytes) -> int:
        """Return the number of bytes that have been read already."""
        requests = self._progress.requests
        known = _known(requests)
        upto = 0 if known is None else requests.signals_read[known]
        return upto if known is not None and upto <= len(data) and _is_of(known, data[:upto]) else 0

    def _take(self, data: bytes, at: int) -> None:
        digest = sha256(data[:at])
        while at < len(data):
            end = data.find(b"\n", at) + 1
            if not end:
                if data != self._seen:
                    return  # an unfinished line, unless it is still the same at the next look
                end = len(data)
            digest.update(data[at:end])
            line, name = data[at:end].strip(), f"{_named(digest.hexdigest())}.{self._emptied}"

            def read(requests: Requests, name: str = name, end: int = end) -> Requests:
                return _with(requests, name, end)

            if line:
                self._desk.take_json(line, f"{self._run}:{self._emptied}:{end}", read)
            else:
                self._progress.change_requests(read)
            at = end

    def _is_stored(self, data: bytes) -> bool:
        """Return True if all of it has been read, and the stored offset contains that."""
        known = _known(self._progress.requests)
        return known is not None and known == self._stored and _is_of(known, data)


def _is_of(name: str, data: bytes) -> bool:
    return name.partition(".")[0] == _named(sha256(data).hexdigest())


def _named(digest: str) -> str:
    return f"{PREFIX}{digest[:24]}"


def _known(requests: Requests) -> str | None:
    """Return the offset's name for the part of the file that was read; None without one."""
    return next((name for name in requests.signals_read if name.startswith(PREFIX)), None)


def _with(requests: Requests, name: str | None, upto: int) -> Requests:
    known = _known(requests)
    requests = requests if known is None else requests.without_signals_read(known)
    return requests if name is None else requests.with_signals_read(name, upto)

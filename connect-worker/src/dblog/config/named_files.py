"""Reads a file that a configuration names: a regular one, of bounded size, within bounded time, and
with the same error for every fault.

A user who may post a connector may name any path of this machine. So pipes and devices are never
opened, since some block and some never end. The caller's thread does not wait for a file system
that does not answer. The error is the same for a file that is missing, unreadable, not a file or
not the expected content, because the answers would otherwise reveal what this machine has. The
worker's log has the reason, for its operator.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from dblog.errors import ConfigError

_log = structlog.get_logger("dblog.config")

FILE_BYTES_MAX = 1024 * 1024
"""Four times the size of a bundle of all public authorities."""
ANSWER_S = 2.0
"""Seconds that a file system may take to answer."""
ANSWER_BESIDE_S = 0.2
"""Seconds that it may take while another file's system does not answer, so that reading many files
of a dead file system does not take long.
"""
_UNANSWERED_MAX = 64

_HIDES: ContextVar[Callable[[str], str]] = ContextVar("hides", default=str)
"""Replaces the values of the current configuration's placeholders in log lines about files."""


@contextmanager
def hidden_from_log(hide: Callable[[str], str]) -> Iterator[None]:
    """Let ``hide`` replace secrets in log lines about files that are read meanwhile, also in
    threads started with a copy of the context.
    """
    token = _HIDES.set(hide)
    try:
        yield
    finally:
        _HIDES.reset(token)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and the option that names it."""

    named_by: str
    """The option or placeholder, for messages."""
    path: str
    expected: str
    """The expected content for messages, such as 'a PEM file'."""
    within: tuple[Path, ...] = ()
    """Folders that may contain the file after following links. Empty for any."""
    for_owner: bool = False
    """True if the worker's operator has named the file. The error then has the reason, and the log
    does not repeat it.
    """

    def read(self) -> bytes:
        """Return the content. Raise ConfigError if it cannot be read."""
        try:
            return READS.read(self.path, within=self.within)
        except (OSError, ValueError) as e:
            raise self.unusable((e.strerror if isinstance(e, OSError) else None) or str(e)) from None

    def unusable(self, reason: str) -> ConfigError:
        """Return the error for any fault of the file or its content.

        ``reason`` goes only to the log, or with ``for_owner`` only into the error.
        """
        wanted = f"{self.expected}, a readable regular file of at most {FILE_BYTES_MAX // 1024 // 1024} MiB"
        if self.for_owner:
            return ConfigError({self.named_by: [f"the file {self.path} cannot be used ({reason}): it has to be {wanted}"]})
        hide = _HIDES.get()
        _log.warning("a file that a configuration names cannot be used", named_by=self.named_by, path=hide(self.path), reason=hide(reason))
        return ConfigError(
            {self.named_by: [f"the file {self.path} cannot be used: it has to be {wanted}; the worker's log has the reason"]}
        )


@contextmanager
def in_memory(data: bytes) -> Iterator[str]:
    """Yield a path to these bytes, for libraries that accept only a path.

    They then get what was read, not what the file contains by now.
    """
    descriptor = os.memfd_create("named-file")
    try:
        os.fchmod(descriptor, 0o600)  # libpq accepts no private key that others may read
        with os.fdopen(descriptor, "wb", closefd=False) as anonymous:
            anonymous.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def files_in_memory(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a Kafka client's settings with each ``NamedFile`` replaced by a path to its content.

    The paths are valid while the client is created, which reads them once. If the client refuses a
    file, its error becomes the file's own, because it names the setting and more.
    """
    named = {key: value for key, value in settings.items() if isinstance(value, NamedFile)}
    with ExitStack() as files:
        paths = {key: files.enter_context(in_memory(file.read())) for key, file in named.items()}
        try:
            yield {**settings, **paths}
        except Exception as e:
            for key, file in named.items():
                if key in str(e):
                    raise file.unusable(str(e)) from None
            raise


class Reads:
    """Reads files in separate threads, and abandons those whose file system does not answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unanswered: set[str] = set()

    def read(self, path: str, *, within: tuple[Path, ...] = ()) -> bytes:
        """Return a file's content. Raise OSError or ValueError, also if nothing answers in time."""
        answer: Future[bytes] = Future()

        def work() -> None:
            try:
                data = read_regular(path, within=within)
            except BaseException as e:  # noqa: BLE001  raised again by the thread that waits
                outcome: bytes | BaseException = e
            else:
                outcome = data
            with self._lock:
                self._unanswered.discard(path)
                if isinstance(outcome, bytes):
                    answer.set_result(outcome)
                else:
                    answer.set_exception(outcome)

        with self._lock:
            if path in self._unanswered or len(self._unanswered) >= _UNANSWERED_MAX:
                raise TimeoutError("its file system does not answer")
            limit_s = ANSWER_BESIDE_S if self._unanswered else ANSWER_S
        threading.Thread(target=work, name="named-file", daemon=True).start()
        try:
            return answer.result(limit_s)
        except TimeoutError:
            with self._lock:
                if not answer.done():
                    self._unanswered.add(path)
                    raise TimeoutError(f"its file system does not answer within {limit_s:g} s") from None
            return answer.result()


def read_regular(path: str, *, within: tuple[Path, ...] = ()) -> bytes:
    """Return the content of a regular file.

    The file may change its kind, or a link its target, between two checks. The second check
    therefore looks at the opened file, and opening never blocks.
    """
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise ValueError("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        if within and not any(Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(root.resolve()) for root in within):
            raise ValueError("it lies outside of the folders that are allowed")
        data = bytearray()
        while piece := file.read(FILE_BYTES_MAX + 1 - len(data)):
            data += piece
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
    return bytes(data)


READS = Reads()

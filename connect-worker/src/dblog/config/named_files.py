"""Reads a file that a configuration names: a regular one, of bounded size, within bounded time, and with one sentence for whatever is wrong.

Whoever may post a connector may name any path of this machine. So a pipe or a device is never opened, since one waits for ever and another never ends; a file
system that does not answer is not waited for by the caller's thread; and the error text is the same for a file that is missing, may not be read, is no file or
holds something else, or else the answers would show what this machine has. The reason is in the worker's log, for whoever runs it.
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
"""A bundle of all public authorities has a quarter of it."""
ANSWER_S = 2.0
"""How long a file system may take to answer."""
ANSWER_BESIDE_S = 0.2
"""How long it may take while another file's does not answer: whoever reads many files of a dead file system must not wait long for each of them."""
_UNANSWERED_MAX = 64

_HIDES: ContextVar[Callable[[str], str]] = ContextVar("hides", default=str)
"""Takes out of a text what placeholders of the configuration stand for, whose files are read now."""


@contextmanager
def hidden_from_log(hide: Callable[[str], str]) -> Iterator[None]:
    """Have ``hide`` take secrets out of the lines about files that are read meanwhile, also in threads that are started with a copy of the context."""
    token = _HIDES.set(hide)
    try:
        yield
    finally:
        _HIDES.reset(token)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and what names it."""

    named_by: str
    """The option or placeholder, for messages."""
    path: str
    expected: str
    """What it has to be, for messages: 'a PEM file'."""
    within: tuple[Path, ...] = ()
    """The folders that the file has to lie in, links followed; empty: anywhere."""
    for_owner: bool = False
    """Whoever runs the worker has named it, and reads the error: it has the reason, and no line of the log repeats it."""

    def read(self) -> bytes:
        """All of it. Raises ConfigError."""
        try:
            return READS.read(self.path, within=self.within)
        except (OSError, ValueError) as e:
            raise self.unusable((e.strerror if isinstance(e, OSError) else None) or str(e)) from None

    def unusable(self, reason: str) -> ConfigError:
        """The error for whatever is wrong with the file or its content; ``reason`` goes to the log and nowhere else, unless the error is for the owner."""
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
    """A path that leads to these bytes, for libraries that take nothing but a path: they get what has been read, not what is there by now."""
    descriptor = os.memfd_create("named-file")
    try:
        os.fchmod(descriptor, 0o600)  # libpq takes no private key that others may read
        with os.fdopen(descriptor, "wb", closefd=False) as anonymous:
            anonymous.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def files_in_memory(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings of a Kafka client in which each ``NamedFile`` is read and has become a path; they hold while the client is made, which reads them once.

    A client that does not take one of the files reports it with the name of its setting and more: that becomes the file's own error.
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
    """Reads files in threads of their own; those whose file system does not answer are left to themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unanswered: set[str] = set()

    def read(self, path: str, *, within: tuple[Path, ...] = ()) -> bytes:
        """All of a file. OSError or ValueError, also when nothing answers in time."""
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
    """All of a regular file. It may change its kind, or a link where it leads, between the two looks: the second is at what was opened, and opening waits for
    nobody.
    """
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise ValueError("it is no regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        if within and not any(Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(root.resolve()) for root in within):
            raise ValueError("it lies outside of the folders that are allowed")
        data = bytearray()
        while piece := file.read(FILE_BYTES_MAX + 1 - len(data)):
            data += piece
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
    return bytes(data)


READS = Reads()

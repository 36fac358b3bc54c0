"""One sink at a time over one state: a lease in a file, held while the job runs; the second sink refuses.

A running sink says every few seconds that it lives. Who finds a lease takes it over when its holder is known to be gone: a process of this very machine
and boot that is no more, or a lease that has not been renewed for ``LOST_AFTER_S``. A holder that was taken for dead and is not finds another's name in
the lease at its next renewal and stops; until then Delta's own transaction ids keep the two apart (delta-sink.md 2.2: a commit under an application id
that somebody else used in between fails).
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dblog_sink.errors import DefiniteError
from dblog_sink.files import Folder

FILE = "lease.json"
RENEW_EVERY_S = 10.0
LOST_AFTER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds the lease."""

    id: str
    name: str
    host: str
    boot: str
    pid: int
    started: str
    """When the process began, as the kernel counts: process ids come back."""
    at_s: float


def this_process(name: str, now_s: float) -> Holder:
    """A holder for the calling process."""
    pid = os.getpid()
    return Holder(id=uuid.uuid4().hex, name=name, host=platform.node(), boot=_boot(), pid=pid, started=started_at(pid) or "", at_s=now_s)


def _boot() -> str:
    """Of this machine's present life (proc(5), random/boot_id); a process id of another one says nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def started_at(pid: int) -> str | None:
    """When a process of this machine began (proc(5), /proc/pid/stat, field 22); None if there is none of this id, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def gone(holder: Holder, here: Holder, *, started: Callable[[int], str | None]) -> bool:
    """Whether the holder of a lease is known to be dead, or has not been heard of for too long; ``here`` is the one who asks."""
    if here.at_s - holder.at_s > LOST_AFTER_S:
        return True
    same_machine = (holder.host, holder.boot) == (here.host, here.boot) and bool(here.boot)
    return same_machine and started(holder.pid) != holder.started


class Lease:
    """The lease of one state folder."""

    def __init__(self, folder: Folder, *, name: str, where: str, now_s: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._name = name
        self._where = where
        self._now_s = now_s
        self._mine = this_process(name, now_s())
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._empty = False
        self.lost: str | None = None
        """Why the lease is ours no more."""

    def take(self, *, wait_max_s: float = 20.0, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the lease; DefiniteError if another sink runs and does not end within the wait: one that was killed takes a moment to die."""
        until_s = self._now_s() + wait_max_s
        while not self._taken():
            held = self._held()
            if held is not None and self._now_s() >= until_s:
                age_s = max(0.0, self._now_s() - held.at_s)
                msg = (
                    f"another sink runs on {self._where}: {held.name}, process {held.pid} on {held.host}, heard of {age_s:.0f} s ago. Stop it first; if it "
                    f"is gone, wait until its lease is {LOST_AFTER_S:.0f} s old"
                )
                raise DefiniteError(msg)
            sleep(0.5)
        self._thread = threading.Thread(target=self._renew, name="dblog-lease", daemon=True)
        self._thread.start()

    def _taken(self) -> bool:
        here = self._renewed()
        if self._folder.create(FILE, here):
            return True
        held = self._held()
        if held is None and not self._empty:
            self._empty = True  # its maker may be writing it just now: look again
            return False
        if held is not None and not gone(held, self._mine, started=started_at):
            return False
        self._folder.replace(FILE, here)
        return True

    def give_back(self) -> None:
        """The sink stops."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            held = self._held()
            if held is not None and held.id == self._mine.id:
                self._folder.remove(FILE)

    def renew(self) -> None:
        """Say that we live, if the lease is still ours."""
        held = self._held()
        if held is not None and held.id != self._mine.id:
            self.lost = (
                f"another sink has taken {self._where} over: {held.name}, process {held.pid} on {held.host}; this one was not heard of for "
                f"{LOST_AFTER_S:.0f} s, and stops"
            )
            return
        self._folder.replace(FILE, self._renewed())

    def _renewed(self) -> str:
        mine = asdict(self._mine) | {"at_s": self._now_s()}
        self._mine = Holder(**mine)
        return json.dumps(mine)

    def _renew(self) -> None:
        while self.lost is None and not self._ended.wait(RENEW_EVERY_S):
            try:
                self.renew()
            except Exception:  # noqa: BLE001, S112  the store is away for a moment: the next renewal tells
                continue

    def _held(self) -> Holder | None:
        text = self._folder.read(FILE)
        if not text:
            return None  # made, and not yet written, by a sink that died in between
        try:
            return Holder(**json.loads(text))
        except (ValueError, TypeError):
            return None

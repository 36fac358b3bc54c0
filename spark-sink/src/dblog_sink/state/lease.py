"""One sink at a time over one state: a lease in a file, renewed while the job runs; the second sink refuses.

No clock is compared with another machine's. A lease is stale when whoever wants it has seen the same content for ``LOST_AFTER_S`` on its own clock, or when
its holder was a process of this very machine, boot and process namespace that has ended. A holder that cannot renew in time expires by itself
after ``EXPIRES_AFTER_S``, counted from before its last renewal: sooner than anybody else may take the lease. So holders do not overlap while their clocks
run about as fast; what a process that slept does before it looks at its clock is refused by the fence (``delta/fence.py``).
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
from dblog_sink.state.files import Folder

FILE = "lease.json"
RENEW_EVERY_S = 10.0
_TRY_AGAIN_S = 2.0
EXPIRES_AFTER_S = 40.0
"""A holder that could not renew its lease for so long has lost it."""
LOST_AFTER_S = 60.0
"""A lease that did not change for so long may be taken over: more than it lasts."""
_SETTLES_S = 2.0
"""After a takeover: of two that take one stale lease over, the one that finds its own name then has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds the lease."""

    id: str
    name: str
    host: str
    boot: str
    """Within which process ids mean something: this run of the machine's kernel, and the process namespace."""
    pid: int
    started: str
    """When the process began, as the kernel counts: process ids come back."""
    at_s: float
    """When the lease was renewed, on the holder's clock; others see only that it changes."""


def this_process(name: str) -> Holder:
    """A holder for the calling process."""
    pid = os.getpid()
    return Holder(
        id=uuid.uuid4().hex, name=name, host=platform.node(), boot=_boot(), pid=pid, started=started_at(pid) or "", at_s=time.time()
    )


def _boot() -> str:
    """Boot and process namespace (proc(5), random/boot_id; namespaces(7)), empty where they are not known: containers of one machine share the boot."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii').strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started_at(pid: int) -> str | None:
    """When a process of this machine began (proc(5), /proc/pid/stat, field 22); None if there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def is_dead(holder: Holder, here: Holder, *, started: Callable[[int], str | None]) -> bool:
    """Whether the holder of a lease is known to be dead: a process of the same boot and namespace as ``here``, the one who asks, that does not run any more."""
    if not here.boot or (holder.host, holder.boot) != (here.host, here.boot):
        return False
    if started(1) is None:  # the processes of others are hidden here (proc(5), hidepid)
        return False
    return started(holder.pid) != holder.started


def elapsed_s() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine is suspended, where there is such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The lease of one state folder. ``holder``: who takes it, this process unless given."""

    def __init__(
        self, folder: Folder, *, name: str, where: str, now_s: Callable[[], float] = elapsed_s, holder: Holder | None = None
    ) -> None:
        self._folder = folder
        self._where = where
        self._now_s = now_s
        self._mine = holder or this_process(name)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed_s: float | None = None
        self._lost: str | None = None

    @property
    def lost(self) -> str | None:
        """Why the lease is not ours any more. Asked before each commit."""
        if self._lost is None and self._renewed_s is not None and self._now_s() - self._renewed_s > EXPIRES_AFTER_S:
            self._lost = (
                f"the lease on {self._where} could not be renewed for {EXPIRES_AFTER_S:.0f} s (the process slept, or the store was away), so another sink may "
                "take it; this one stops"
            )
        return self._lost

    def take(self, *, wait_max_s: float = 20.0, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Take the lease. Returns whether there was none at the first look, so that nobody else can be at work. DefiniteError if another sink runs.

        One that is renewed meanwhile gets ``wait_max_s`` to end: a sink that was asked to stop takes a moment.
        """
        began_s = self._now_s()
        free = self._write(lambda text: self._folder.create(FILE, text))
        seen: str | None = None
        seen_s, renewals = began_s, -1
        alone = free
        while not free:
            text = self._folder.read(FILE)
            if text is None and self._write(lambda text: self._folder.create(FILE, text)):
                break  # given back, or absent for the moment in which a store replaces it: a sink may be at work
            if text != seen:
                seen, seen_s, renewals = text, self._now_s(), renewals + 1
            holder = _holder(text)
            dead = holder is not None and is_dead(holder, self._mine, started=started_at)
            if dead or self._now_s() - seen_s >= LOST_AFTER_S:
                self._write(self._replaced)
                sleep(_SETTLES_S)
                seen = self._folder.read(FILE)
                if (held := _holder(seen)) is not None and held.id == self._mine.id:
                    break
                seen_s, renewals, self._renewed_s = self._now_s(), renewals + 1, None
            elif renewals > 0 and self._now_s() - began_s >= wait_max_s:
                msg = (
                    f"another sink runs on {self._where}: {_named(holder)}, renewed {self._now_s() - seen_s:.0f} s ago. Stop it first; if it is dead, its "
                    f"lease can be taken over when it was not renewed for {LOST_AFTER_S:.0f} s"
                )
                raise DefiniteError(msg)
            else:
                sleep(0.5)
        self._thread = threading.Thread(target=self._renew, name="dblog-lease", daemon=True)
        self._thread.start()
        return alone and self._folder.exclusive

    def give_back(self) -> None:
        """The sink stops; it commits nothing any more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._lost = self._lost or f"the lease on {self._where} was given back"
            held = _holder(self._folder.read(FILE))
            if held is not None and held.id == self._mine.id:
                self._folder.remove(FILE)

    def renew(self) -> None:
        """Renew, if the lease is still ours."""
        text = self._folder.read(FILE)
        held = _holder(text)
        if text is not None and (held is None or held.id != self._mine.id):
            self._lost = f"another sink has taken {self._where} over: {_named(held)}; this one had not renewed its lease in time, and stops"
            return
        if text is not None:
            self._write(self._replaced)
        elif not self._write(lambda text: self._folder.create(FILE, text)):  # somebody removed it, and somebody else was faster
            self.renew()

    def _replaced(self, text: str) -> bool:
        self._folder.replace(FILE, text)
        return True

    def _write(self, how: Callable[[str], bool]) -> bool:
        """Write our name, which counts from before it was written."""
        began_s = self._now_s()
        self._mine = Holder(**(asdict(self._mine) | {"at_s": time.time()}))
        done = how(json.dumps(asdict(self._mine)))
        if done:
            self._renewed_s = began_s
        return done

    def _renew(self) -> None:
        pause_s = RENEW_EVERY_S
        while self.lost is None and not self._ended.wait(pause_s):
            try:
                self.renew()
                pause_s = RENEW_EVERY_S
            except Exception:  # noqa: BLE001  the store is away for a moment: ``lost`` decides when it was for too long
                pause_s = _TRY_AGAIN_S


def _named(holder: Holder | None) -> str:
    return "one of another version" if holder is None else f"{holder.name}, process {holder.pid} on {holder.host}"


def _holder(text: str | None) -> Holder | None:
    """None where there is no lease, or one without the name of its holder: written by another version, or not written to its end."""
    try:
        return Holder(**json.loads(text or ""))
    except (ValueError, TypeError):
        return None

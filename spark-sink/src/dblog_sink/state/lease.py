"""A lease in a file, renewed while the job runs, so that one sink at a time uses a state.

A second sink refuses to start. Clocks of two machines are never compared. A lease is stale if a
sink that wants it has seen the same content for ``LOST_AFTER_S`` on its own clock, or if its holder
was a process of the same machine, boot and process namespace that has ended. The lease of a holder
that cannot renew in time lapses after ``EXPIRES_AFTER_S``, counted from before its last renewal, and
so before any other sink may take it. Holders therefore do not overlap while their clocks run about
equally fast. The fence (``delta/fence.py``) refuses what a suspended process does before it looks
at its clock.

A lapsed lease that no other sink has taken is renewed and held again, so a store that is away for a
moment does not end the sink. ``lapses`` counts how often that happened: a transaction that began
before a lapse is not committed after it.

A renewal is a read and a write, and a slow store may write long after it has read, when another sink
has taken the lease over in between. Not all stores have a write with a condition, so the taker
settles it: it remembers the holders before it, and writes its own name again over one of theirs.
The former holder ends at its next read, or by the fence.
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
RENEW_EVERY_S = 3.0
_TRY_AGAIN_S = 1.0
EXPIRES_AFTER_S = 9.0
"""Seconds without a renewal after which a holder must not commit."""
LOST_AFTER_S = 12.5
"""Seconds without a change after which a lease may be taken over. The holder no longer commits then."""
_SETTLES_S = 1.5
"""Seconds to wait after a takeover. Of two sinks that take over one stale lease, the one whose name
it then has keeps it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a lease."""

    id: str
    name: str
    host: str
    boot: str
    """Scope in which process ids are unique: this boot of the machine and the process namespace."""
    pid: int
    started: str
    """Start time of the process by the kernel's count, since process ids are reused."""
    at_s: float
    """Time of the last renewal on the holder's clock; others only see that it changes."""


def this_process(name: str) -> Holder:
    """Return a holder for the calling process."""
    pid = os.getpid()
    return Holder(
        id=uuid.uuid4().hex, name=name, host=platform.node(), boot=_boot(), pid=pid, started=started_at(pid) or "", at_s=time.time()
    )


def _boot() -> str:
    """Return boot id and process namespace, empty if unknown.

    Containers of one machine share the boot (proc(5), random/boot_id; namespaces(7)).
    """
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii').strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started_at(pid: int) -> str | None:
    """Return the start time of a process of this machine, None if it does not run.

    It is field 22 of /proc/pid/stat (proc(5)). A zombie does not run.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def is_dead(holder: Holder, here: Holder, *, started: Callable[[int], str | None]) -> bool:
    """Return True if the holder of a lease is known to be dead.

    It must be a process of the same boot and namespace as ``here``, the asking one, that does not
    run.
    """
    if not here.boot or (holder.host, holder.boot) != (here.host, here.boot):
        return False
    # Processes of others are hidden here (proc(5), hidepid).
    if started(1) is None:
        return False
    return started(holder.pid) != holder.started


def elapsed_s() -> float:
    """Return seconds on a clock that is never set.

    If possible, it also counts while the machine is suspended.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The lease of one state folder. ``holder`` takes it, by default this process."""

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
        self._lapses = 0
        self._lost: str | None = None
        self._former: set[str] = set()
        """Ids of the holders before this one. One of them may still write its name once."""

    @property
    def lost(self) -> str | None:
        """Reason why the lease is not held now, None while it is. Checked before each commit."""
        if self._lost is None and self._has_lapsed(self._now_s()):
            return (
                f"the lease on {self._where} could not be renewed for {EXPIRES_AFTER_S:.0f} s (the process slept, or the store was away), so another sink may "
                "take it; nothing is committed until it is renewed"
            )
        return self._lost

    @property
    def is_gone(self) -> bool:
        """True once another sink has taken the lease, or it was given back."""
        return self._lost is not None

    @property
    def lapses(self) -> int:
        """Number of times that the lease lapsed and was renewed afterwards."""
        return self._lapses

    def take(self, *, wait_max_s: float = 20.0, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Take the lease.

        Return True if there was none at first, so that no other sink can be running.

        A holder that renews it meanwhile gets ``wait_max_s`` to end, since a sink that was asked to
        stop takes a moment. Raise DefiniteError if another sink runs.
        """
        began_s = self._now_s()
        free = self._write(lambda text: self._folder.create(FILE, text))
        seen: str | None = None
        seen_s, renewals = began_s, -1
        alone = free
        while not free:
            text = self._folder.read(FILE)
            if text is None and self._write(lambda text: self._folder.create(FILE, text)):
                # It was given back, or is briefly absent while a store replaces it; a sink may be
                # running.
                break
            if text != seen:
                seen, seen_s, renewals = text, self._now_s(), renewals + 1
            holder = _holder(text)
            if holder is not None and holder.id != self._mine.id:
                self._former.add(holder.id)
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

    def give_back(self, *, ended_well: bool = True) -> None:
        """Give the lease back when the sink stops. The sink must commit nothing afterwards.

        The file stays unless this sink certainly was the last holder: without a file the next sink
        takes it that none is running. ``ended_well`` is False if the fence has shown another sink.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            held_to_the_end = ended_well and self.lost is None
            self._lost = self._lost or f"the lease on {self._where} was given back"
            held = _holder(self._folder.read(FILE))
            if held_to_the_end and held is not None and held.id == self._mine.id:
                self._folder.remove(FILE)

    def renew(self) -> None:
        """Renew the lease if no other sink has taken it.

        A former holder's name is the late end of its last renewal, and is written over.
        """
        text = self._folder.read(FILE)
        held = _holder(text)
        if text is not None and (held is None or held.id not in {self._mine.id, *self._former}):
            self._lost = f"another sink has taken {self._where} over: {_named(held)}; this one had not renewed its lease in time, and stops"
            return
        if text is not None:
            self._write(self._replaced)
        # Somebody removed it, and somebody else was faster.
        elif not self._write(lambda text: self._folder.create(FILE, text)):
            self.renew()

    def _replaced(self, text: str) -> bool:
        self._folder.replace(FILE, text)
        return True

    def _write(self, how: Callable[[str], bool]) -> bool:
        """Write this process as the holder with ``how``.

        The renewal counts from before the write.
        """
        began_s = self._now_s()
        self._mine = Holder(**(asdict(self._mine) | {"at_s": time.time()}))
        done = how(json.dumps(asdict(self._mine)))
        if done:
            # Count the lapse first: a thread that sees the lease held again must also see the lapse.
            self._lapses += self._has_lapsed(self._now_s())
            self._renewed_s = began_s
        return done

    def _has_lapsed(self, now_s: float) -> bool:
        return self._renewed_s is not None and now_s - self._renewed_s > EXPIRES_AFTER_S

    def _renew(self) -> None:
        pause_s = RENEW_EVERY_S
        while self._lost is None and not self._ended.wait(pause_s):
            try:
                self.renew()
                pause_s = RENEW_EVERY_S
            except Exception:  # noqa: BLE001  the store is away for a moment: ``lost`` decides when it was for too long
                pause_s = _TRY_AGAIN_S


def _named(holder: Holder | None) -> str:
    return "one of another version" if holder is None else f"{holder.name}, process {holder.pid} on {holder.host}"


def _holder(text: str | None) -> Holder | None:
    """Return the holder in a lease's text.

    Return None if there is no lease or no holder in it, because another version wrote it or it was
    not completely written.
    """
    try:
        return Holder(**json.loads(text or ""))
    except (ValueError, TypeError):
        return None

"""The end of a task's lease, kept by the kernel: at that moment it kills the process, whatever the process is doing.

A task may send and commit only while its worker leads its group; a worker that has been paused, or cut off from Kafka, or that hangs, can no longer show
that it does. Code that looks at a clock does not help: the producer's threads send what lies in their queue as soon as a paused process goes on, before
any line of ours runs. A kernel timer (timer_create(2)) whose signal is SIGKILL ends even a stopped process, at its time. # I7
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

_TIMER_ABSTIME = 1
_SIGEV_SIGNAL = 0


class _SigEvent(ctypes.Structure):
    """struct sigevent of 64-bit Linux: value, signal, kind, and room for the rest."""

    _fields_ = (("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_byte * 48))


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Deadline:
    """One timer of this process; not armed until the first ``set``."""

    def __init__(self) -> None:
        self._timer: ctypes.c_void_p | None = None
        self._library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._library, "timer_create"):
            self._library = ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34

    def set(self, until_s: float) -> None:
        """Die at that second of ``clock.lease_clock_s``; one that has passed is now. A later call moves it."""
        if sys.platform != "linux":
            return
        if self._timer is None:
            self._timer = self._create()
        seconds, rest = divmod(max(until_s, 0.001), 1)
        at = _TimerSpec(value=_TimeSpec(int(seconds), int(rest * 1e9) or 1))
        if self._library.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(at), None) != 0:
            raise OSError(ctypes.get_errno(), f"timer_settime: {os.strerror(ctypes.get_errno())}")

    def _create(self) -> ctypes.c_void_p:
        timer = ctypes.c_void_p()
        event = _SigEvent(signo=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        if self._library.timer_create(time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(timer)) != 0:
            raise OSError(ctypes.get_errno(), f"timer_create: {os.strerror(ctypes.get_errno())}")
        return timer

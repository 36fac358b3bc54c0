"""Enforces the end of a task's lease: a kernel timer kills the process at that moment.

A task may send and commit only while its worker leads its group. A worker that was paused, hangs or
is cut off from Kafka cannot show that it still leads. Checking a clock in our code does not help:
when a paused process continues, the producer's threads send their queue before any line of ours
runs. A kernel timer (timer_create(2)) with SIGKILL ends even a stopped process in time. # I7
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
    """``struct sigevent`` of 64-bit Linux: value, signal, kind, and padding."""

    _fields_ = (("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_byte * 48))


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Deadline:
    """Timer that kills this process; it is armed by the first ``set``."""

    def __init__(self) -> None:
        self._timer: ctypes.c_void_p | None = None
        self._library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._library, "timer_create"):
            self._library = ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34

    def set(self, until_s: float) -> None:
        """Kill this process when ``clock.lease_clock_s`` reaches ``until_s``; at once if that has
        passed.

        A later call replaces the time. Do nothing on systems other than Linux.
        """
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

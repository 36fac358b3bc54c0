"""SIGTERM to Python, or to spark-submit's JVM, means: finish the batch, then stop.

Under spark-submit the process that gets the signal is the JVM, whose shutdown would stop Spark at once. Hadoop's hooks run in order of priority, one after
the other; ours comes before Spark's and waits for the batch.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

_HOOK_S = 40.0


def stop_on_signal(session: SparkSession, stopping: threading.Event, ended: threading.Event) -> Callable[[], None]:
    """Set ``stopping`` at a signal and wait for ``ended``; returns what takes the JVM's hook away again."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    from pyspark.core.context import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001  the only way to the JVM
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    hook = jvm.java.lang.Thread(_ShutdownHook(stopping, ended))  # never started, only run: hooks are hashed, which Python objects are not
    hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    hooks.addShutdownHook(hook, 1000, 60, jvm.java.util.concurrent.TimeUnit.SECONDS)

    def forget() -> None:
        if not hooks.isShutdownInProgress():
            hooks.removeShutdownHook(hook)

    return forget


class _ShutdownHook:
    """A java.lang.Runnable that asks the job to stop and waits until it has."""

    def __init__(self, stopping: threading.Event, ended: threading.Event) -> None:
        self._stopping = stopping
        self._ended = ended

    def run(self) -> None:
        """Called by the JVM when it begins to shut down."""
        if not self._ended.is_set():
            self._stopping.set()
            self._ended.wait(_HOOK_S)

    class Java:
        """What py4j must know to hand this object to the JVM."""

        implements = ("java.lang.Runnable",)

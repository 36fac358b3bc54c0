"""Makes SIGTERM, to Python or to spark-submit's JVM, finish the batch before stopping.

Under spark-submit the JVM gets the signal, and its shutdown would stop Spark at once. Hadoop's
shutdown hooks run one after the other, by priority. The hook added here runs before Spark's and
waits for the batch.
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
    """Set ``stopping`` on a signal and let the JVM's shutdown wait for ``ended``.

    Return a function that removes the JVM's hook.
    """

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
    # The thread is never started, only run. Hooks are hashed, which Python objects are not.
    hook = jvm.java.lang.Thread(_ShutdownHook(stopping, ended))
    hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    hooks.addShutdownHook(hook, 1000, 60, jvm.java.util.concurrent.TimeUnit.SECONDS)

    def forget() -> None:
        if not hooks.isShutdownInProgress():
            hooks.removeShutdownHook(hook)

    return forget


class _ShutdownHook:
    """A java.lang.Runnable that asks the job to stop and waits until it has stopped."""

    def __init__(self, stopping: threading.Event, ended: threading.Event) -> None:
        self._stopping = stopping
        self._ended = ended

    def run(self) -> None:
        """Ask the job to stop and wait. The JVM calls this when it begins to shut down."""
        if not self._ended.is_set():
            self._stopping.set()
            self._ended.wait(_HOOK_S)

    class Java:
        """The interface, for py4j to hand this object to the JVM."""

        implements = ("java.lang.Runnable",)

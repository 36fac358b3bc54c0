"""Turns errors into one line for a person; Spark's errors contain a whole JVM trace."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError

from dblog_sink.delta.merge import is_conflict
from dblog_sink.errors import AwayError, DefiniteError, SinkError

_DISK_FULL = "No space left on device"


def one_line(error: Exception) -> str:
    """Return the error as one line."""
    if isinstance(error, SinkError):
        return str(error)
    if _DISK_FULL in str(error):
        return (
            "no space is left where the job writes (target.path, state.path, checkpoint.path or Spark's local folders); make room: the job goes on by itself "
            "while it still tries, or when it is started again. The checkpoint is intact"
        )
    # The error's own first line names only the method that was called.
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).strip().partition("\n")[0][:2000]
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:2000]


def error_class(error: Exception) -> str:
    """Return the error's class, one of ERROR_CLASSES in ``observe/metrics.py``."""
    text = str(error)
    if isinstance(error, DefiniteError):
        return "definite"
    if "org.apache.kafka" in text or "KafkaException" in text:
        return "kafka"
    if isinstance(error, AwayError):
        return "registry"
    if is_conflict(error):
        return "conflict"
    return "storage" if _DISK_FULL in text or "java.io." in text or "org.apache.hadoop.fs" in text else "other"


def with_trace(error: Exception) -> Exception | None:
    """Return the error if its trace adds to its one line, else None."""
    return None if isinstance(error, SinkError) or _DISK_FULL in str(error) else error

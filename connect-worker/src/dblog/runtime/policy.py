"""Builds the trace of a FAILED task: what happened and what to do. # I5

Connect shows the trace to operators, so it opens with the message of the error. A Python trace
follows only for a bug, that is, an exception that is not a DblogError: there it is the only clue.
"""

from __future__ import annotations

import traceback
from urllib.parse import quote

from confluent_kafka import KafkaError, KafkaException

from dblog.errors import DblogError
from dblog.observe.logs import shortened


def trace_of(error: BaseException) -> str:
    """Return the trace for the status topic: the error's message, then its causes.

    A cause whose text the message already contains is named by its class alone. A bug gets its
    whole Python trace.
    """
    if isinstance(error, DblogError):
        lines = [f"{type(error).__name__}: {error}"]
        cause = error.__cause__
        while cause is not None:
            # Skip the errors of libraries: their text may hold row data, and the class name alone
            # says less than our message.
            if isinstance(cause, DblogError):
                is_shown = str(cause) in lines[-1]
                lines.append(f"Caused by: {type(cause).__name__}" + ("" if is_shown else f": {cause}"))
            cause = cause.__cause__
        return "\n".join(lines)
    if isinstance(error, KafkaException):
        reason = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
        return (
            f"Kafka's client refused a call: {reason}. Check the brokers, their limits and the ACLs, and the settings of the task's clients"
        )
    text = shortened("".join(traceback.format_exception(error)))
    return f"Unexpected {type(error).__name__}: this is a bug in dblog, please report it with this trace.\n{text}"


ONCE_GONE = "Once the cause is gone: "
"""Beginning of a trace's last line."""


def failed_trace(error: BaseException, connector: str) -> str:
    """Return the trace of a FAILED task, ending with the request that restarts the task."""
    name = quote(connector, safe="")
    return f"{trace_of(error).rstrip()}\n{ONCE_GONE}POST /connectors/{name}/restart?includeTasks=true&onlyFailed=true"

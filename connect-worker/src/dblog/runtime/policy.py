"""Decides what an error means for the task: wait and try again, or FAILED with a trace that says what to do. # I5

Connect shows the trace to operators, so it opens with our sentence; the Python trace follows only for bugs (anything that is not an error of
ours), because there it is the only clue.
"""

from __future__ import annotations

import traceback
from urllib.parse import quote

from dblog.errors import DblogError, DefiniteError, TransientError
from dblog.observe.logs import shortened


def may_retry(error: BaseException) -> bool:
    """Whether trying again may help."""
    return isinstance(error, TransientError)


def trace_of(error: BaseException) -> str:
    """The text for the status topic: the sentence first, then its causes, no text twice; for a bug of ours the whole trace."""
    if isinstance(error, DblogError):
        lines = [f"{type(error).__name__}: {error}"]
        cause = error.__cause__
        while cause is not None:
            # A library's error has words that may hold data, so only its class could be shown, which says less than the sentence made of it.
            if isinstance(cause, DblogError):
                told = str(cause) in lines[-1]
                lines.append(f"Caused by: {type(cause).__name__}" + ("" if told else f": {cause}"))
            cause = cause.__cause__
        return "\n".join(lines)
    text = shortened("".join(traceback.format_exception(error)))
    return f"Unexpected {type(error).__name__}: this is a bug in dblog, please report it with this trace.\n{text}"


def failed_trace(error: BaseException, connector: str) -> str:
    """The trace of a task that is FAILED: what happened first, as tools read it, and last how the task is started again."""
    name = quote(connector, safe="")
    return f"{trace_of(error).rstrip()}\nOnce the cause is gone: POST /connectors/{name}/restart?includeTasks=true&onlyFailed=true"


def gave_up(error: TransientError, *, tries: int, waited_s: float) -> DefiniteError:
    """The definite error a transient one turns into when trying again has not helped for too long."""
    message = f"gave up after {tries} tries in {waited_s:.0f} s: {error}; nothing is lost, restart the task once the cause is gone"
    return DefiniteError(message)

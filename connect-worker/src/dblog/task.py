"""The program of one task, started by a worker: ``python -m dblog task --control-fd N``.

It is separate from the command line: nobody types it, and the command line's imports would cost
each start of a task a tenth of a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import dblog.bare_structlog  # noqa: F401  first, for its effect
from dblog.observe.logs import TAP, configure_logs
from dblog.runtime.control import Control

FORMAT_VARIABLE = "DBLOG_LOG_FORMAT"
LEVEL_VARIABLE = "DBLOG_LOG_LEVEL"


def main(arguments: Sequence[str]) -> int:
    """Run the task that the worker orders over the inherited socket, and return the exit status."""
    match arguments:
        case ["--control-fd", number]:
            control_fd = int(number)
        case _:
            message = "a task is started by a worker, not by hand: dblog worker PROPERTIES"
            raise SystemExit(message)
    configure_logs(format=os.environ.get(FORMAT_VARIABLE, "json"), level=os.environ.get(LEVEL_VARIABLE, "INFO"))
    control = Control(control_fd)
    TAP.set(lambda line, _fields: control.lines.add(line))
    # Imported late: its modules log, so log levels come first; and they are many, so the control
    # channel must be open meanwhile.
    from dblog.runtime import supervisor  # noqa: PLC0415

    return supervisor.main(control)

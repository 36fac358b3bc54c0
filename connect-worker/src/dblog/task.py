"""The program that one task runs in, begun by a worker: ``python -m dblog task --control-fd N``.

Beside the command line and not in it: nobody types this one, and what the command line imports would cost each start of a task a tenth of a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from dblog.observe.logs import configure_logs
from dblog.runtime.control import Control

FORMAT_VARIABLE = "DBLOG_LOG_FORMAT"
LEVEL_VARIABLE = "DBLOG_LOG_LEVEL"


def main(arguments: Sequence[str]) -> int:
    """Run the task that the worker orders over the inherited socket; the exit status."""
    match arguments:
        case ["--control-fd", number]:
            control_fd = int(number)
        case _:
            message = "a task is started by a worker, not by hand: dblog worker PROPERTIES"
            raise SystemExit(message)
    configure_logs(format=os.environ.get(FORMAT_VARIABLE, "json"), level=os.environ.get(LEVEL_VARIABLE, "INFO"))
    control = Control(control_fd)
    from dblog.runtime import supervisor  # noqa: PLC0415 - its modules log, so their levels come first, and are many, so the herder is heard meanwhile

    return supervisor.main(control)

"""``python -m dblog``.

A task process first asks the kernel to be killed with its parent, before slow imports: a herder
killed at that moment must not leave an orphan. When the task has ended, the process exits without
the interpreter's cleanup, which nobody needs. Kafka clients waiting for their threads could keep a
stopped task from ending.
"""

import os
import sys

from dblog.cores import leave_no_core


def _die_with_parent() -> None:
    import ctypes  # noqa: PLC0415  only task processes need it
    import signal  # noqa: PLC0415

    pr_set_pdeathsig = 1
    if sys.platform == "linux":
        if ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL) != 0:
            # The next run of the worker would take this task as ended, and start another.
            sys.exit(
                "the kernel refuses prctl(PR_SET_PDEATHSIG), so this task could outlive its worker; allow it where seccomp limits the worker"
            )
        if os.getppid() != int(os.environ.get("DBLOG_HERDER_PID", os.getppid())):
            os._exit(1)  # the herder died before prctl took effect


if __name__ == "__main__":
    leave_no_core()
    if sys.argv[1:2] == ["task"]:
        _die_with_parent()
        from dblog.task import main as run_task

        status = run_task(sys.argv[2:])
        sys.stdout.flush()
        os._exit(status)
    from dblog.cli import main

    main()

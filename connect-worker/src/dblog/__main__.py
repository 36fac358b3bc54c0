"""``python -m dblog``.

A task process asks the kernel first of all to die with its parent, before anything slow is imported: a herder that is killed in that moment must not leave
an orphan. The process ends where the task ends: what the interpreter would still take down in order (Kafka clients that wait for their threads) could keep
a stopped task from ending, and nobody needs it.
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
            # The worker's next run would take it for ended, and start another.
            sys.exit(
                "the kernel refuses prctl(PR_SET_PDEATHSIG), so this task could outlive its worker; allow it where seccomp limits the worker"
            )
        if os.getppid() != int(os.environ.get("DBLOG_HERDER_PID", os.getppid())):
            os._exit(1)  # it was killed before


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

"""``python -m dblog``.

A task process asks the kernel first of all to die with its parent, before anything slow is imported: a herder that is killed in that
moment must not leave an orphan.
"""

import sys


def _die_with_parent() -> None:
    import ctypes  # noqa: PLC0415  only task processes need it
    import signal  # noqa: PLC0415

    pr_set_pdeathsig = 1
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        _die_with_parent()
        from dblog.task import main as run_task

        sys.exit(run_task(sys.argv[2:]))
    from dblog.cli import main

    main()

"""Runs a program to its end and turns a failure into a readable error."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from stack.errors import StackError, Unavailable

_SHOWN_LINES = 25


def run(
    argv: Sequence[str], *, what: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> str:
    """Return the standard output of `argv`.

    Raise StackError with `what` and the end of the output if it fails.
    """
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        shown = "\n  ".join(lines[-_SHOWN_LINES:])
        raise StackError(f"{what} failed (exit status {done.returncode}): output of {argv[0]}:\n  {shown}")
    return done.stdout.decode(errors="replace")


def program(name: str, *, install: str) -> str:
    """Return the path of an installed program.

    `install` is the command for the error if it is missing.
    """
    if found := shutil.which(name):
        return found
    raise Unavailable(f"{name} is not on this machine. Install it: {install}")

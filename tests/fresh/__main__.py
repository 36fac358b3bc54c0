"""`python -m fresh`: runs targets of the Makefile on a machine that has neither a JDK nor Maven, nor anything else of the project.

A machine is a bare Debian 12 in a folder, made by debootstrap as root: Python, make and a C compiler are all it has. Where the user is not
root, or with `--here`, it is this machine with a PATH that leaves Java and Maven out, an empty home and an empty cache. Either gets a copy of
this checkout's files, and the settings of its package clients: the Debian archive, pip's index, the authorities that it trusts.

    make fresh-machine-test [TARGETS="demo test"] [ARGS="--here --keep"]

Exit status 0 if each target ends well, and `make demo` with `identical: yes`. Minutes to an hour, of which most are downloads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stack.commands import run
from stack.debian import mirror, unpacked
from stack.environment import BUILD, ROOT
from stack.errors import StackError
from stack.java import LEAST

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "libpython3-dev", "gcc", "libc6-dev", "make", "apt", "ca-certificates")
"""Packages of the bare Debian besides the essential ones."""
LEFT_OUT = ("java", "javac", "jar", "keytool", "mvn", "mvnDebug")
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_FILES = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf")
_CLONE, _HOME, _MAVEN = "clone", "home", Path.home() / ".m2" / "settings.xml"
_SETTINGS = (
    "PIP_",
    "SSL_",
    "CURL_",
    "REQUESTS_",
    "DBLOG_DEBIAN_",
    "http_",
    "https_",
    "no_",
    "HTTP_",
    "HTTPS_",
    "NO_",
    "ftp_",
    "all_",
    "ALL_",
)
"""Beginnings of variables that set package clients."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A fresh machine: its folder, the command before each program, its environment, the clone as its programs see it."""

    folder: Path
    prefix: Sequence[str]
    environment: dict[str, str]
    clone: str

    def make(self, target: str) -> str:
        """Return the output of `make TARGET`, which is shown as it comes. Raise StackError if it fails."""
        lines: list[str] = []
        line = [*self.prefix, "make", "-C", self.clone, *target.split("+")]
        with subprocess.Popen(
            line, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            assert running.stdout is not None
            for text in running.stdout:
                lines.append(text)
                print(f"  {text}", end="", flush=True)
        if running.returncode != 0:
            raise StackError(f"make {target} failed on the fresh machine (exit status {running.returncode})")
        return "".join(lines)


@contextlib.contextmanager
def bare_debian(*, keep: bool) -> Iterator[Machine]:
    """Make a bare Debian in a folder, and remove it afterwards unless it is to be kept."""
    archive = mirror()
    if archive is None:
        raise StackError("debootstrap needs a Debian archive, and apt has none here: name one in DBLOG_DEBIAN_MIRROR, or use --here")
    folder = BUILD / "fresh"
    root = folder / "root"
    shutil.rmtree(folder, ignore_errors=True)
    root.mkdir(parents=True)
    try:
        print(f"making a bare Debian {SUITE} from {archive}", flush=True)
        program, env = debootstrap()
        run(
            [*program, "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), archive],
            what="debootstrap",
            env={**env, "DEBIAN_FRONTEND": "noninteractive"},
        )
        (root / "etc/apt/sources.list").write_text(f"deb {archive} {SUITE} main\n")
        for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), BUNDLE, *PIP_FILES[:1]):
            if file.is_file():
                shutil.copy(file, root / str(file).lstrip("/"))
        _copy_clone(root / _CLONE)
        _copy_home(root / "root")
        inside = 'mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" "$@"'
        prefix = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", inside, "sh", str(root)]
        environment = {**_settings(), "PATH": ":".join(FOLDERS), "HOME": "/root", "LANG": "C.UTF-8", "DBLOG_CACHE": "/cache"}
        yield Machine(folder, prefix, environment, f"/{_CLONE}")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def this_machine_without_java(*, keep: bool) -> Iterator[Machine]:
    """Make a PATH with every program of this machine but Java's and Maven's, beside an empty home, cache and clone."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fresh-", dir=BUILD))
    try:
        programs = folder / "programs"
        programs.mkdir()
        for name, found in _programs().items():
            (programs / name).symlink_to(found)
        _copy_clone(folder / _CLONE)
        _copy_home(folder / _HOME)
        environment = {
            **_settings(),
            "PATH": str(programs),
            "HOME": str(folder / _HOME),
            "LANG": "C.UTF-8",
            "DBLOG_CACHE": str(folder / "cache"),
        }
        yield Machine(folder, [], environment, str(folder / _CLONE))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def debootstrap() -> tuple[list[str], dict[str, str]]:
    """Return the command that runs debootstrap, and its environment: that of this machine, else the archive's package, unpacked."""
    if found := shutil.which("debootstrap"):
        return [found], {}
    root = unpacked("debootstrap", package="debootstrap", suite=SUITE, alone=True).root
    return ["sh", str(root / "usr/sbin/debootstrap")], {"DEBOOTSTRAP_DIR": str(root / "usr/share/debootstrap")}


def _programs() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name not in LEFT_OUT and program.exists():
                found.setdefault(program.name, program)
    return found


def _copy_clone(clone: Path) -> None:
    """Copy the files that git knows or would add, as they are here now."""
    for name in run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], what="git").split("\0"):
        if name and (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)


def _copy_home(home: Path) -> None:
    """Make a home that has nothing but the settings of pip and Maven."""
    home.mkdir(parents=True, exist_ok=True)
    for file in (*PIP_FILES[1:], _MAVEN):
        if file.is_file():
            copy = home / file.relative_to(Path.home())
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}


def main(arguments: list[str]) -> int:
    """Run the targets on a fresh machine. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fresh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["demo"], help="targets of the Makefile; test+TESTS=tests/demo has a variable")
    parser.add_argument("--here", action="store_true", help="this machine without Java and Maven, instead of a bare Debian")
    parser.add_argument("--keep", action="store_true", help="leave the machine in build/ for a look")
    given = parser.parse_args(arguments)
    here = given.here or os.geteuid() != 0
    try:
        with this_machine_without_java(keep=given.keep) if here else bare_debian(keep=given.keep) as machine:
            if (
                subprocess.run(
                    [*machine.prefix, "sh", "-c", "command -v java || command -v mvn"], env=machine.environment, check=False
                ).returncode
                == 0
            ):
                raise StackError(f"this machine is not fresh: it has Java or Maven, and should unpack Java {LEAST} by itself")
            for target in given.targets:
                began_s = time.monotonic()
                print(f"make {target}", flush=True)
                output = machine.make(target)
                if target.startswith("demo") and not output.rstrip().endswith("identical: yes"):
                    raise StackError("make demo did not end with identical: yes")
                print(f"make {target}: done in {time.monotonic() - began_s:.0f} s", flush=True)
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

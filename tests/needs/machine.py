"""Looks at this machine. Each function says what is wrong in a few words, or returns None; none takes longer than a second on an idle machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from images.engine import engine, working
from stack.cache import cache_folder
from stack.debian import mirror
from stack.environment import BUILD
from stack.errors import Unavailable

_LIMIT_S = 10.0
"""For a program that does not answer: a busy machine may take seconds for what is done in a moment otherwise."""
_GB = 1e9
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of the machine's own control group, which is that of a container."""
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def program(name: str) -> str | None:
    """Look for a program."""
    return None if shutil.which(name) else f"{name} is not on the PATH"


def version(argv: Sequence[str], pattern: str, least: tuple[int, ...]) -> str | None:
    """Look for a program of at least this version, which it prints as `pattern` captures it."""
    if wrong := program(argv[0]):
        return wrong
    printed = _printed(argv)
    found = re.search(pattern, printed)
    if found is None:
        said = printed.strip().splitlines()
        return f"`{' '.join(argv)}` names no version" + (f" and says: {said[0].rstrip('.')}" if said else "")
    has = tuple(int(part) for part in found[1].split(".")[: len(least)])
    return None if has >= least else f"{shutil.which(argv[0])} is version {found[1]}"


def _printed(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"(no answer within {_LIMIT_S:g} s)"
    except OSError as error:
        return str(error)
    return done.stdout.decode(errors="replace")


def system(*, processor: bool) -> str | None:
    """Look whether this is Linux, and on request a processor with the instructions of x86-64."""
    if sys.platform != "linux":
        return f"this is {platform.system()}"
    if processor and platform.machine() not in ("x86_64", "amd64"):
        return f"this processor is {platform.machine()}"
    return None


def root() -> str | None:
    """Look whether the user is root."""
    return None if os.geteuid() == 0 else f"the user is number {os.geteuid()}"


def can_install() -> bool:
    """Tell whether packages of Debian can be installed here without asking anybody."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def module(name: str) -> str | None:
    """Look for a module of this Python's library, which `make setup` installs where it may."""
    if can_install() or subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0:
        return None
    return f"{sys.executable} has no module {name}"


def compiler() -> str | None:
    """Look for a C compiler and the headers of this Python, which `make setup` installs where it may."""
    if can_install():
        return None
    lacking = [] if shutil.which("gcc") or shutil.which("cc") else ["neither gcc nor cc is on the PATH"]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    lacking += [] if headers.exists() else [f"there is no {headers}"]
    return ", and ".join(lacking) or None


def in_cache(pattern: str) -> bool:
    """Tell whether the cache folder has a complete entry of this name."""
    return any(entry.is_dir() and entry.suffix != ".partial" for entry in cache_folder().glob(pattern))


def debian(*entries: str) -> str | None:
    """Look whether packages of Debian can be downloaded and unpacked, unless the cache has these entries of them already."""
    if all(in_cache(entry) for entry in entries):
        return None
    lacking = [f"{name} is not on the PATH" for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if not lacking and mirror() is None:
        lacking = ["apt has no Debian archive among its sources"]
    return ", and ".join(lacking) or None


def server(entry: str, *programs: str, image: bool) -> str | None:
    """Look whether a server can be had: from the cache, from Debian, as programs of this machine, or by an engine from an `image`."""
    if all(shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin") for name in programs):
        return None
    wrong = debian(entry)
    return None if wrong is None or (image and container_engine(may_install=False) is None) else wrong


def container_engine(*, may_install: bool = True, kinds: Sequence[str] = ("docker", "podman")) -> str | None:
    """Look for an engine of these kinds that works, or can be installed."""
    try:
        if chosen := os.environ.get("ENGINE"):
            engine(chosen, kinds=kinds)
            return None
    except Unavailable as wrong:
        return str(wrong)
    if working(kinds) or (may_install and can_install() and debian() is None):
        return None
    there = [name for name in kinds if shutil.which(name)]
    if not there:
        return "none of them is on the PATH"
    return f"{' and '.join(there)} {'does' if len(there) == 1 else 'do'} not answer `info`"


def disk(wanted_gb: Mapping[Path, float]) -> str | None:
    """Look for room: folders of one file system are added up."""
    by_device: dict[int, list[tuple[Path, float]]] = {}
    for folder, gb in wanted_gb.items():
        there = next(each for each in (folder, *folder.parents) if each.exists())
        by_device.setdefault(there.stat().st_dev, []).append((there, gb))
    lacking = []
    for folders in by_device.values():
        gb, free_gb = sum(each for _, each in folders), shutil.disk_usage(folders[0][0]).free / _GB
        if free_gb < gb:
            names = ", ".join(dict.fromkeys(str(folder) for folder, _ in folders))
            lacking.append(f"{names}: {free_gb:.1f} GB are free and {gb:.1f} GB are needed")
    return "; ".join(lacking) or None


def memory(wanted_gb: float, *, meminfo: Path = Path("/proc/meminfo"), limits: Iterable[str] = _MEMORY_LIMITS) -> str | None:
    """Look for memory that is free, within the limit of a container."""
    if not meminfo.exists():
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    free = [int(found[1]) * 1024] if found else []
    free += [int(text) for file in map(Path, limits) if file.exists() and (text := file.read_text().strip()).isdigit()]
    free_gb = min(free, default=wanted_gb * _GB) / _GB
    return None if free_gb >= wanted_gb else f"{free_gb:.1f} GB are free and {wanted_gb:g} GB are needed"


_IN_NAMESPACES = """
tried() { what=$1; shift; message=$("$@" 2>&1) || echo "$what ($(echo "$message" | head -n 1))"; }
tried 'a tmpfs' mount -t tmpfs tmpfs /run
mkdir "$1/lower" "$1/upper" "$1/work" "$1/merged"
tried "an overlay in $2" mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" "$1/merged"
tried 'a bridge' ip link add probe0 type bridge
tried 'a pair of interfaces' ip link add probe1 type veth peer name probe2
tried 'forwarding of packets' sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
"""


def kernel() -> str | None:
    """Try in namespaces of their own, which end with the trial, the mounts and interfaces that a node makes; and look at the control groups."""
    if any(shutil.which(name) is None for name in ("unshare", "mount", "ip")) or os.geteuid() != 0:
        return None  # said elsewhere
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=BUILD) as folder:
        line = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _IN_NAMESPACES, "sh"]
        printed = _printed([*line, folder, str(BUILD)])
    refused = [text.strip() for text in printed.splitlines() if text.strip()]
    return ", and ".join(f"the kernel refuses {text}" for text in [*refused, *_control_groups()]) or None


def _control_groups(top: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Look whether groups can be made for each controller, in either version of control groups."""
    if (top / "cgroup.controllers").exists():
        lacking = sorted(set(CONTROLLERS) - set((top / "cgroup.controllers").read_text().split()))
        folders = [top]
    else:
        lacking = [name for name in CONTROLLERS if not (top / name).is_dir()]
        folders = [top / name for name in CONTROLLERS if name not in lacking]
    refused = [f"control groups ({', '.join(lacking)} missing in {top})"] if lacking else []
    closed = [str(folder) for folder in folders if not os.access(folder, os.W_OK)]
    return [*refused, *([f"new control groups in {', '.join(closed)}"] if closed else [])]

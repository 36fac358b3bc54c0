"""What of a node is to be seen on the machine: after its end there is nothing."""

import contextlib
from pathlib import Path

from kubernetes.node import BRIDGES, cgroups


def traces(folder: Path) -> list[str]:
    """Processes, mounts, control groups and interfaces of a node whose files are in `folder`, in words."""
    return [
        *(f"process {process}" for process in _processes(folder)),
        *(f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line),
        *(f"control group {group}" for group in cgroups()),
        *(f"interface {name}" for name in BRIDGES if Path("/sys/class/net", name).exists()),
    ]


def _processes(folder: Path) -> list[str]:
    """Those whose command line names the folder, and those of Pods."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            arguments = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in arguments or "/kubepods/" in (process / "cgroup").read_text():
                found.append(f"{process.name} {arguments[:80]}")
    return found

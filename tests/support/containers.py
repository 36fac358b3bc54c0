"""A client of an engine that runs containers, by Docker's interface.

The engine is Docker's daemon, or Podman, whose service is started for the duration of the tests.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from docker.errors import DockerException
from docker.models.containers import Container
from images.engine import RUNNING, Engine
from images.engine import engine as chosen_engine
from stack import GuardedProcess

import docker

HARDENED = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    # No other folder of a container is writable.
    "tmpfs": {"/tmp": "rw,mode=1777,size=512m"},  # noqa: S108
    "user": "54321:0",
}
"""Settings of Kubernetes' restricted profile, with a user number that the image does not know."""

_OF_DOCKER = {"noexec": "exec", "nosuid": "suid", "nodev": "dev"}
"""Options with which Docker mounts every tmpfs, and the option that lifts each of them.

Podman allows programs in a tmpfs by default.
"""
_PROCESSES = 16384
"""Limit of processes: more than a test's containers have, less than any machine's limit."""


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[docker.DockerClient]:
    """Yield a client of the engine that also builds the images.

    Raise Unavailable if there is none.
    """
    using = running_engine()
    if using.kind == "docker":
        with contextlib.closing(docker.from_env(timeout=600)) as client:
            yield client
        return
    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "podman.sock"
    (folder / "containers.conf").write_text(podman_settings())
    line = [using.program, "system", "service", "--time=0", f"unix://{address}"]
    with (
        GuardedProcess(
            "podman",
            line,
            log=folder / "podman.log",
            env={"CONTAINERS_CONF": str(folder / "containers.conf")},
            ready=lambda: _listens(address),
        ),
        contextlib.closing(docker.DockerClient(base_url=f"unix://{address}", timeout=600)) as client,
    ):
        yield client


def running_engine() -> Engine:
    """Return the engine named by `ENGINE`, or the first that works, as for `python -m images`."""
    return chosen_engine(os.environ.get("ENGINE"), kinds=RUNNING)


def _listens(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(address)) == 0


def podman_settings() -> str:
    """Return Podman's settings for this machine.

    They are necessary without systemd, with older control groups, and for limits on containers.
    """
    # An image built here is in no registry.
    lines = ["[engine]", "compat_api_enforce_docker_hub = false"]
    if not Path("/run/systemd/system").exists():
        lines.append('cgroup_manager = "cgroupfs"')
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists() and shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin"):
        # crun refuses them.
        lines.append('runtime = "runc"')
    files, processes = (
        min(resource.getrlimit(kind)[1] % (1 << 32), _PROCESSES) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    lines += ["[containers]", f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]']
    return "\n".join(lines) + "\n"


def mounted_by_docker(services_tmpfs: list[str]) -> dict[str, str]:
    """Return the `tmpfs` of a compose file's service, by folder, with Docker's mount options.

    With them, any engine restricts the folders as Docker does.
    """
    found = {}
    for each in services_tmpfs:
        folder, _, text = each.partition(":")
        options = [option for option in text.split(",") if option]
        found[folder] = ",".join([*(closed for closed, lifted in _OF_DOCKER.items() if lifted not in options), *options])
    return found


@contextlib.contextmanager
def container(client: docker.DockerClient, image: str, command: list[str] | None = None, **settings: object) -> Iterator[Container]:
    """Run a container and yield it; remove it at the end.

    If the block fails, the container's output is added to the error.
    """
    running = client.containers.run(image, command, detach=True, **{**HARDENED, **settings})
    try:
        yield running
    except BaseException as error:
        with contextlib.suppress(DockerException):
            error.add_note(f"{image} printed:\n{running.logs(tail=60).decode(errors='replace')}")
        raise
    finally:
        with contextlib.suppress(DockerException):
            running.kill()
        with contextlib.suppress(DockerException):
            running.remove(force=True)


def ended(running: Container, *, limit_s: float) -> tuple[int, str]:
    """Wait until a container ends. Return its exit status and its output."""
    status = running.wait(timeout=limit_s)["StatusCode"]
    return status, running.logs().decode(errors="replace")

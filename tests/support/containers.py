"""An engine that runs containers, spoken to by Docker's interface: Docker's own daemon, or Podman, whose service is started for the time of the tests."""

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
    "tmpfs": {"/tmp": "rw,mode=1777,size=512m"},  # noqa: S108  the one place where a container may write
    "user": "54321:0",
}
"""As Kubernetes' restricted profile runs a pod, under a number that the image does not know."""

_OF_DOCKER = {"noexec": "exec", "nosuid": "suid", "nodev": "dev"}
"""Options with which Docker mounts every tmpfs, and what lifts each. Podman allows programs there by itself."""
_PROCESSES = 16384
"""More than the containers of a test have, less than the limit of any machine."""


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[docker.DockerClient]:
    """A client of the engine that also builds the images. Raises Unavailable where there is none."""
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
    """The engine that runs containers: the one that `ENGINE` names, or the first that works, which `python -m images build` takes too."""
    return chosen_engine(os.environ.get("ENGINE"), kinds=RUNNING)


def _listens(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(address)) == 0


def podman_settings() -> str:
    """What Podman must know of this machine: no systemd, the older control groups, limits that a container may not exceed."""
    lines = ["[engine]", "compat_api_enforce_docker_hub = false"]  # an image made here has no registry
    if not Path("/run/systemd/system").exists():
        lines.append('cgroup_manager = "cgroupfs"')
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists() and shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin"):
        lines.append('runtime = "runc"')  # crun refuses them
    files, processes = (
        min(resource.getrlimit(kind)[1] % (1 << 32), _PROCESSES) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    lines += ["[containers]", f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]']
    return "\n".join(lines) + "\n"


def mounted_by_docker(services_tmpfs: list[str]) -> dict[str, str]:
    """The `tmpfs` of a service of a compose file, folder by folder, with the options that Docker mounts them with: whatever engine runs it, it is as closed."""
    found = {}
    for each in services_tmpfs:
        folder, _, text = each.partition(":")
        options = [option for option in text.split(",") if option]
        found[folder] = ",".join([*(closed for closed, lifted in _OF_DOCKER.items() if lifted not in options), *options])
    return found


@contextlib.contextmanager
def container(client: docker.DockerClient, image: str, command: list[str] | None = None, **settings: object) -> Iterator[Container]:
    """A container that runs, and is removed at the end; what it printed is in the error of a test that fails."""
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
    """Exit status and output of a container that ends by itself."""
    status = running.wait(timeout=limit_s)["StatusCode"]
    return status, running.logs().decode(errors="replace")

"""Runs servers in containers of pinned official images, if the machine has no other way.

That is so if it has neither Debian's packages nor the server. Only the program comes from the
image. The server's folder is mounted at its own path, and configuration, administrator, data and
port are the same as for a local program. The image's entry point and variables are not used, so any
image with the program works.

Docker or Podman is called by its command line instead of a client library, because this package
runs before there is a virtual environment. `run` in the foreground is a process like every other
server here, with the same log, end and guard. A container outlives the process that shows it, so
the guard removes it afterwards (`Container.removal`).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stack.errors import Unavailable

IMAGES = {
    "kafka": "docker.io/apache/kafka:4.1.1",
    "mariadb": "docker.io/library/mariadb:10.11.14",
    "mysql": "docker.io/library/mysql:8.4.7",
    "postgres": "docker.io/library/postgres:15.15",
    "postgres17": "docker.io/library/postgres:17.7",
    "postgres18": "docker.io/library/postgres:18.1",
}
"""Images of docker/compose.yaml, and PostgreSQL's. `DBLOG_KAFKA_IMAGE` and the like name others."""

ENGINES = ("docker", "podman")
LOOPBACK = "127.0.0.1"
_PULL_S = 1200.0
_INSTALL = "Docker or Podman (macOS: brew install podman, then podman machine init and podman machine start)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A server's container.

    Its name comes from the folder, so a start finds what a killed guard left.
    """

    engine: str
    image: str
    folder: Path
    ports: tuple[int, ...]
    host_network: bool
    """True if the container has this machine's network, False if it has published ports."""

    @property
    def name(self) -> str:
        return f"dblog-{self.folder.name}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    @property
    def address(self) -> str:
        """Address on which a server in it listens: loopback, or with published ports the
        container's interface.
        """
        return LOOPBACK if self.host_network else "0.0.0.0"  # noqa: S104 - of a container, published on loopback only

    def command(self, program: str, *, once: bool = False, passed: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs the image's `program` in the foreground.

        The program's arguments follow it.

        `once` is for a program that ends, after which nothing of the container remains. A server's
        container is removed by its guard, which waits for that: the next start needs the name, and
        an engine that removes automatically does it some time later. `passed` are variables of the
        showing process that the container gets.
        """
        network = ["--network=host"] if self.host_network else [f"--publish={LOOPBACK}:{port}:{port}" for port in self.ports]
        # Files belong to the user who starts the server, like those of its other programs.
        user = [f"--user={os.geteuid()}:{os.getegid()}"]
        if os.geteuid() != 0 and Path(self.engine).name == "podman":
            user.append("--userns=keep-id")
        return [
            *(self.engine, "run", "--pull=never", f"--name={self.name}"),
            *(["--rm"] if once else []),
            *network,
            *user,
            f"--volume={self.folder}:{self.folder}",
            f"--workdir={self.folder}",
            # Otherwise SELinux would require the folder to be relabelled.
            "--security-opt=label=disable",
            "--env=HOME=/tmp",
            *(f"--env={name}" for name in passed),
            f"--entrypoint={program}",
            self.image,
        ]

    @property
    def removal(self) -> list[str]:
        """Command line that kills and removes the container, if it exists, and its volumes."""
        return [self.engine, "rm", "--force", "--volumes", self.name]

    def remove(self) -> None:
        """Remove what an earlier run may have left."""
        subprocess.run(self.removal, capture_output=True, check=False)


def wanted() -> bool:
    """Return True if servers run in containers wherever possible (`DBLOG_STACK=containers`)."""
    chosen = os.environ.get("DBLOG_STACK", "")
    if chosen not in ("", "containers"):
        raise Unavailable(f"DBLOG_STACK={chosen} is not a way to start servers; it may be containers, or unset")
    return chosen == "containers"


def container(server: str, folder: Path, *ports: int, missing: Unavailable | None = None) -> Container:
    """Return the container of one of `IMAGES`, with its image downloaded.

    Raise Unavailable if there is no engine; `missing` is why there is no local program.
    """
    before = f"{missing}. " if missing else ""
    engine = _engine()
    if engine is None:
        raise Unavailable(f"{before}Or install {_INSTALL}: servers then run in containers") from missing
    image = os.environ.get(f"DBLOG_{server.upper()}_IMAGE") or IMAGES[server]
    if not _answers(engine, "image", "inspect", image) and not _answers(engine, "pull", "--quiet", image, limit_s=_PULL_S):
        other = f"DBLOG_{server.upper()}_IMAGE"
        raise Unavailable(f"{before}{engine} cannot fetch the image {image}; name another one in {other}") from missing
    # Docker may run on another machine, or hide its network; it publishes ports in any case.
    own = Path(engine).name == "podman" and sys.platform == "linux"
    return Container(engine=engine, image=image, folder=folder, ports=ports, host_network=own)


def _engine() -> str | None:
    """Return the engine that `ENGINE` names, or the first that works on this machine."""
    if chosen := os.environ.get("ENGINE"):
        if Path(chosen).name not in ENGINES or not shutil.which(chosen):
            raise Unavailable(
                f"ENGINE={chosen} is not a program of this machine that is called {' or '.join(ENGINES)}, which run containers"
            )
        return chosen
    return next((name for name in ENGINES if shutil.which(name) and _answers(name, "info")), None)


def _answers(*line: str, limit_s: float = 60.0) -> bool:
    try:
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False).returncode == 0
    # The engine's daemon or registry hangs.
    except subprocess.TimeoutExpired:
        return False

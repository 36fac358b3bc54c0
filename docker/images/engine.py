"""Builds images with Docker, Podman or Buildah, and hides how their command lines differ."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stack.commands import run
from stack.errors import StackError, Unavailable

ENGINES = ("docker", "podman", "buildah")
RUNNING = ("docker", "podman")
"""Engines that also run containers."""
_PACKAGES = ("podman", "buildah", "runc", "debootstrap")
"""Packages of an engine without a daemon, a runtime for older control groups, debootstrap."""
_INSTALL = "Install one of them (Debian: apt-get install podman), or name one that is elsewhere: ENGINE=/path/to/podman"
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its program."""

    program: str

    @property
    def kind(self) -> str:
        """Name of the program: `docker`, `podman` or `buildah`."""
        return Path(self.program).name

    def build(
        self,
        *,
        file: Path,
        context: Path,
        tag: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        secrets: Mapping[str, Path],
        epoch: int,
        fresh: bool = False,
        layers: bool = True,
    ) -> None:
        """Build `file` as `tag`, with layers dated `epoch`; output goes to this process's.

        `fresh` uses nothing of earlier builds. Without `layers` Podman and Buildah keep nothing for
        the next build, which saves gigabytes and half of the time if there will be none. `labels`
        are set in addition to those of the file, because Buildah reuses a cached label even if its
        argument has changed.
        """
        given = {**arguments, "SOURCE_DATE_EPOCH": str(epoch)}
        line = [self.program, "build", "--file", str(file), "--tag", tag]
        line += [part for key, value in given.items() for part in ("--build-arg", f"{key}={value}")]
        line += [part for key, value in labels.items() for part in ("--label", f"org.opencontainers.image.{key}={value}")]
        line += [part for name, path in secrets.items() for part in ("--secret", f"id={name},src={path}")]
        if fresh:
            line.append("--no-cache")
        environment = dict(os.environ)
        if self.kind == "docker":
            # Older engines need it for build secrets.
            environment["DOCKER_BUILDKIT"] = "1"
        else:
            # Docker's format, because the other one has no health check. With kept layers a second
            # build takes only what has changed.
            line += ["--format", "docker", f"--layers={'true' if layers else 'false'}", "--timestamp", str(epoch)]
            # This needs no daemon, no cgroup and no runtime.
            environment.setdefault("BUILDAH_ISOLATION", "chroot")
        status = subprocess.run([*line, str(context)], env=environment, check=False).returncode
        if status != 0:
            raise StackError(f"{self.kind} could not build {file.name} (exit status {status}); its last lines say why")

    def has(self, image: str) -> bool:
        """Return True if the image is on this machine."""
        return subprocess.run([*self._inspect(), image], capture_output=True, check=False).returncode == 0

    def pull(self, image: str) -> bool:
        """Fetch the image from its registry. Return False if that fails."""
        return subprocess.run([self.program, "pull", "--quiet", image], capture_output=True, check=False).returncode == 0

    def size(self, image: str) -> int:
        """Return the size of all layers, unpacked, in bytes."""
        if self.kind == "buildah":
            with self._mounted(image) as root:
                return sum(path.lstat().st_size for path in root.rglob("*") if path.is_symlink() or path.is_file())
        return int(run([*self._inspect(), "--format", "{{.Size}}", image], what=f"Asking for the size of {image}").strip())

    def digest(self, image: str) -> str:
        """Return the image's digest in its registry; empty for an image made here."""
        if self.kind == "buildah":
            return ""
        found = run(
            [*self._inspect(), "--format", "{{range .RepoDigests}}{{.}} {{end}}", image], what=f"Asking for the digest of {image}"
        ).split()
        return next((each.partition("@")[2] for each in found if not each.startswith("localhost/")), "")

    def copy_out(self, image: str, folder: str, target: Path) -> None:
        """Copy a folder of the image to `target`, without running anything of the image."""
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.kind == "buildah":
            with self._mounted(image) as root:
                shutil.copytree(root / folder.lstrip("/"), target)
            return
        container = run([self.program, "create", image], what=f"Opening {image}").strip()
        try:
            run([self.program, "cp", f"{container}:{folder}", str(target)], what=f"Reading {folder} of {image}")
        finally:
            run([self.program, "rm", container], what=f"Closing {image}")

    def save(self, image: str, target: Path) -> None:
        """Write the image as an archive that Docker, Podman and containerd load.

        Raise Unavailable if it is not built yet.
        """
        if not self.has(image):
            raise Unavailable(f"{self.kind} has no image {image}. Build it: make images")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if self.kind == "docker":
            line = [self.program, "save", "--output", str(target), image]
        elif self.kind == "podman":
            line = [self.program, "save", "--quiet", "--format", "docker-archive", "--output", str(target), image]
        else:
            line = [self.program, "push", "--quiet", image, f"docker-archive:{target}:{image}"]
        run(line, what=f"Saving {image}")

    def _inspect(self) -> Sequence[str]:
        return [self.program, "inspect", "--type", "image"] if self.kind == "buildah" else [self.program, "image", "inspect"]

    @contextlib.contextmanager
    def _mounted(self, image: str) -> Iterator[Path]:
        container = run([self.program, "from", "--pull=false", image], what=f"Opening {image}").strip()
        try:
            yield Path(run([self.program, "mount", container], what=f"Opening {image}").strip())
        finally:
            run([self.program, "rm", container], what=f"Closing {image}")


def engine(chosen: str | None = None, *, kinds: Sequence[str] = ENGINES) -> Engine:
    """Return the named engine, or the first of these kinds that works on this machine.

    Raise Unavailable if there is none.
    """
    if chosen:
        if shutil.which(chosen) is None or Path(chosen).name not in kinds:
            raise Unavailable(f"ENGINE={chosen} is not a program of this machine that is called {' or '.join(kinds)}. {_INSTALL}")
        return Engine(chosen)
    if found := working(kinds):
        return found
    raise _none_works(kinds)


def working(kinds: Sequence[str] = ENGINES) -> Engine | None:
    """Return the first engine of these kinds that works on this machine, or None."""
    return next((Engine(name) for name in kinds if shutil.which(name) and _works(name)), None)


def install(*, kinds: Sequence[str] = ENGINES) -> None:
    """Install Podman and debootstrap from Debian if no engine of these kinds works.

    Raise Unavailable if that needs another user.
    """
    if chosen := os.environ.get("ENGINE"):
        engine(chosen, kinds=kinds)
    elif working(kinds) is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise _none_works(kinds)
        install_packages(*_PACKAGES)


def install_packages(*names: str) -> None:
    """Install Debian packages, as root."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    print(f"images: installing {', '.join(names)}", flush=True)
    run(["apt-get", "update", "--quiet", "-oDPkg::Lock::Timeout=300"], what="apt-get update", env=environment)
    line = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "-oDPkg::Lock::Timeout=300", *names]
    run(line, what=f"Installing {', '.join(names)}", env=environment)


def _none_works(kinds: Sequence[str]) -> Unavailable:
    used = "built" if "buildah" in kinds else "built and run"
    return Unavailable(f"images are {used} by {' or '.join(kinds)}, and none works on this machine. {_INSTALL}")


def _works(name: str) -> bool:
    """Return True if the engine answers in time; a Docker client without its daemon does not."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([name, "info"], capture_output=True, timeout=_ANSWER_S, check=False).returncode == 0
    return False

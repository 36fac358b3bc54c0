"""Unpacks Debian packages into a folder instead of installing them.

This needs no root, starts no service and changes nothing on the system. apt itself resolves,
downloads and verifies, with this machine's proxy and certificate settings. It uses a separate state
folder (so an empty system package list and an empty `sources.list` do not matter) with "nothing is
installed" as its status, so it fetches every library down to libc. A program is run by the dynamic
loader that was unpacked with it (`Unpacked.command`), so it uses the libraries of its own Debian
release whatever the machine runs. debootstrap and chroot would give the same, but need root, mounts
or maintainer scripts.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stack.cache import cached
from stack.commands import run
from stack.errors import StackError, Unavailable
from stack.steps import current

_SIZE = re.compile(r"^'\S+' \S+ (\d+) ", re.MULTILINE)
"""Size in bytes of a package in what ``apt-get --print-uris`` prints."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A folder that looks like the root of a Debian system with a few packages."""

    root: Path

    def command(self, path: str, *, flushing: bool = True) -> list[str]:
        """Return the command line that starts the program `path` with the libraries of this folder.

        `path` is relative to the root. Without `flushing` its flushes to disk do nothing: its
        writes survive a kill, but not a power failure.
        """
        loader = next(
            path
            for pattern in ("usr/lib64/ld-*.so.*", "lib64/ld-*.so.*", "lib/ld-linux-*.so.*", "usr/lib/ld-linux-*.so.*")
            for path in self.root.glob(pattern)
        )
        libraries = [folder for pattern in ("lib/*-linux-gnu*", "usr/lib/*-linux-gnu*") for folder in sorted(self.root.glob(pattern))]
        preloaded = [] if flushing else ["--preload", str(_unflushing())]
        return [str(loader), *preloaded, "--library-path", ":".join(map(str, libraries)), str(self.root / path)]


def mirror() -> str | None:
    """Return the Debian archive that this machine uses, or None on other systems.

    `DBLOG_DEBIAN_MIRROR` overrides it.
    """
    if chosen := os.environ.get("DBLOG_DEBIAN_MIRROR"):
        return chosen
    for address in _source_addresses():
        # This includes the mirror list of a cloud image, but not debian-security or a vendor's
        # archive.
        if re.search(r"/debian(\.list)?/?$", address):
            return address
    return None


def unpacked(
    name: str,
    *,
    package: str,
    suite: str,
    links: Mapping[str, str] | None = None,
    alone: bool = False,
    installed: Sequence[str] = (),
    settled: Callable[[Path], None] = lambda _root: None,
) -> Unpacked:
    """Unpack `package` of Debian's `suite` with all its dependencies as the cache entry `name`.

    `package` may name several, separated by spaces. `links` maps paths in the root to the targets
    of symbolic links that a maintainer script would make; `settled` does what else one would. With
    `alone` dependencies are left out, and `installed` names those that count as installed. Raise
    Unavailable if no archive has the package.
    """

    def fill(folder: Path) -> None:
        _unpack(folder, package=package, suite=suite, alone=alone, installed=installed)
        for path, target in (links or {}).items():
            (folder / "root" / path).symlink_to(target)
        settled(folder / "root")

    return Unpacked(cached(f"{name}-{suite}", fill) / "root")


def _unflushing() -> Path:
    """Return a library whose fsync and similar calls do nothing.

    It is from an old release, because it then also runs with the C library of newer ones.
    """
    root = unpacked("libeatmydata", package="libeatmydata1", suite="bookworm").root
    return next(root.glob("usr/lib/*-linux-gnu*/libeatmydata.so.1"))


def _unpack(folder: Path, *, package: str, suite: str, alone: bool, installed: Sequence[str]) -> None:
    archive = mirror()
    if archive is None or not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise Unavailable(
            f"{package} comes from a Debian archive and this machine has no apt set up for one (DBLOG_DEBIAN_MIRROR can name one)"
        )
    state = folder / "apt"
    for part in ("lists/partial", "archives/partial", "none"):
        (state / part).mkdir(parents=True)
    (state / "status").write_text(
        "".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: 99:1\nArchitecture: all\nMaintainer: none\nDescription: none\n\n"
            for name in installed
        )
    )
    signed = f"Signed-By: {_KEYRING}\n" if _KEYRING.exists() else ""
    (state / "archive.sources").write_text(f"Types: deb\nURIs: {archive}\nSuites: {suite}\nComponents: main\n{signed}")
    (state / "apt.conf").write_text(
        f"""Dir::State "{state}";
Dir::State::Lists "{state}/lists";
Dir::State::Status "{state}/status";
Dir::Cache "{state}";
Dir::Etc::SourceList "{state}/archive.sources";
Dir::Etc::SourceParts "{state}/none";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "{state}/none";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
"""
    )
    env = {"APT_CONFIG": str(state / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    archives = state / "archives"
    fetch = ["download"] if alone else ["install", "--yes", "--download-only"]
    try:
        current().note("reading the list of packages")
        run(["apt-get", "update", "--error-on=any"], what=f"Reading the package list of Debian {suite}", env=env)
        uris = ["apt-get", *fetch, "--print-uris", "--quiet", *package.split()]
        current().expect(archives, sum(int(size) for size in _SIZE.findall(run(uris, what=f"Looking for {package}", env=env))))
        run(["apt-get", *fetch, *package.split()], what=f"Downloading {package} of Debian {suite}", env=env, cwd=archives)
    # The archive is out of reach, or a private one without this suite.
    except StackError as error:
        raise Unavailable(
            f"{error}\nLook at the network and at apt's proxy, or name another archive in DBLOG_DEBIAN_MIRROR, then run make again"
        ) from error
    (folder / "root").mkdir()
    for archive_file in sorted(archives.glob("*.deb")):
        current().note(f"unpacking {archive_file.name}")
        run(
            ["dpkg-deb", "--extract", str(archive_file), str(folder / "root")],
            what=f"{archive_file.name} is broken, or the disk is full ({shutil.disk_usage(folder).free >> 20:,} MiB are free); run make again. Unpacking it",
        )
    shutil.rmtree(state)


def _source_addresses() -> Iterator[str]:
    """Yield the archive addresses of apt's sources, in both formats, in the order of the files."""
    try:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=False
        ).stdout
    except FileNotFoundError:
        return
    yield from dict.fromkeys(line.strip() for line in listed.splitlines())

"""Copies the sources of a commit and writes the release's version into the copy.

A release is made of a commit, never of files that are only on this machine: what was not committed
could not be found again from the release.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from stack.environment import ROOT
from stack.errors import StackError

from release.version import Version

PACKAGES = {"connect-worker": "dblog", "spark-sink": "dblog_sink"}
"""Folders of the Python packages, and the packages in them."""
_SHOWN_FILES = 5
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit that a release is made of."""

    revision: str
    epoch: int
    """Time of the commit, in seconds since 1970."""
    source: str
    """Public address of the repository; empty if there is none."""


def commit_of(root: Path = ROOT) -> Commit:
    """Return the checked-out commit. Raise StackError if files differ from it."""
    changed = _git(root, "status", "--porcelain").decode().splitlines()
    if changed:
        more = len(changed) - _SHOWN_FILES
        shown = ", ".join(line[3:] for line in changed[:_SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
        raise StackError(f"a release is made of a commit, and these files are not as committed: {shown}. Commit or remove them")
    remote = subprocess.run(
        ["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True, check=False
    ).stdout.strip()
    source = remote if remote.startswith("https://") and "@" not in remote else ""
    revision, epoch = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Commit(revision, int(epoch), source)


def copy_sources(commit: Commit, folder: Path, root: Path = ROOT) -> None:
    """Write the files of the commit to `folder`."""
    with tarfile.open(fileobj=BytesIO(_git(root, "archive", "--format=tar", commit.revision))) as archive:
        archive.extractall(folder, filter="data")


def stamp_packages(folder: Path, version: Version) -> None:
    """Write the version into the Python packages of the copied sources."""
    for place, package in PACKAGES.items():
        _replace(folder / place / "pyproject.toml", r'^version = "[^"]+"$', f'version = "{version.python}"')
        _replace(folder / place / "src" / package / "__init__.py", r'^__version__ = "[^"]+"$', f'__version__ = "{version.python}"')


def stamp_chart(folder: Path, version: Version, *, registry: str, digests: Mapping[str, str]) -> None:
    """Write version, registry and the images' digests into a copied chart.

    `registry` may be empty: then those who install name it. `digests` has that of each image by its
    name.
    """
    described, values = folder / "Chart.yaml", folder / "values.yaml"
    _replace(described, r"^version: .+$", f"version: {version.text}")
    _replace(described, r"^appVersion: .+$", f'appVersion: "{version.text}"')
    _replace(described, r"^(  artifacthub.io/prerelease: ).+$", rf'\g<1>"{str(version.is_candidate).lower()}"')
    prefix = f"{registry}/" if registry else ""
    for image, digest in digests.items():
        if _DIGEST.fullmatch(digest) is None:
            raise AssertionError(digest)
        _replace(described, rf"^(      image: ){image}:\S+$", rf"\g<1>{prefix}{image}:{version.text}")
        section = image.removeprefix("dblog-")
        # From the section's own line to the lines of its image, which are indented.
        before = rf"^({section}:\n(?:[ #].*\n|\n)*?  image:\n(?:    .*\n)*?    %s: ).*$"
        _replace(values, before % "registry", rf'\g<1>"{registry}"')
        _replace(values, before % "digest", rf"\g<1>{digest}")


def _replace(file: Path, pattern: str, text: str) -> None:
    """Replace the one match of `pattern` in a file. Raise StackError unless there is exactly one."""
    content, count = re.subn(pattern, text, file.read_text(), flags=re.MULTILINE)
    if count != 1:
        raise StackError(
            f"{file.name} has {count} lines like {pattern!r}, and a release replaces one. Mend the pattern in docker/release/stamp.py"
        )
    file.write_text(content)


def _git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode != 0:
        raise StackError(
            f"git {arguments[0]} failed in {root}: {done.stderr.decode(errors='replace').strip()}. A release is made in a clone, by git"
        )
    return done.stdout

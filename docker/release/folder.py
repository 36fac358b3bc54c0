"""The folder of a release: what is in it, its checksums and their signature.

    release.json                 version, commit, the registry that signatures name, digests
    SHA256SUMS, SHA256SUMS.sig   checksums of every other file; their signature, by the key of dblog.pub
    dblog.pub                    the public key
    provenance.intoto.jsonl      how all of it was built, signed
    chart/  python/  sbom/       the chart; wheels, source archives, the code for spark-submit; bills of materials
    images/                      images, chart, signatures and attestations, as one image layout

The blobs of `images` are not in SHA256SUMS: their names are their digests, and its index.json is.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from stack.environment import BUILD
from stack.errors import StackError

from release.layout import Layout
from release.signing import Key, verify
from release.statements import digests_of

RELEASES = BUILD / "release"
SUMS, SIGNATURE, PUBLIC_KEY = "SHA256SUMS", "SHA256SUMS.sig", "dblog.pub"
DESCRIPTION, PROVENANCE_FILE = "release.json", "provenance.intoto.jsonl"
LAYOUT = "images"
_AGAIN = "Make the release again, or take it again from where it came"


@dataclass(frozen=True, slots=True)
class Description:
    """The contents of release.json."""

    version: str
    revision: str
    registry: str
    """Registry and path that the chart takes its images from and that signatures name; may be empty."""
    digests: dict[str, str]
    """Digest of each image's index, and of the chart's manifest, by repository."""


def layout_of(folder: Path) -> Layout:
    """Return the image layout of a release."""
    return Layout(folder / LAYOUT)


def write_description(folder: Path, description: Description) -> None:
    """Write release.json."""
    (folder / DESCRIPTION).write_text(json.dumps(asdict(description), indent=1) + "\n")


def seal(folder: Path, key: Key) -> None:
    """Write the checksums of everything in the folder, their signature, and the public key."""
    (folder / PUBLIC_KEY).write_bytes(key.public_pem)
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests_of(_listed(folder), folder).items())
    (folder / SUMS).write_text(sums)
    (folder / SIGNATURE).write_text(key.sign(sums.encode()) + "\n")


def open_release(folder: Path, *, trusted: bytes | None = None) -> Description:
    """Check a whole release, and return its description.

    `trusted` is the public key it must be signed with, in PEM; None takes the release's own, which
    shows damage but no forgery. Raise StackError that names the first file that is not as signed.
    """
    try:
        sums, signature = (folder / SUMS).read_bytes(), (folder / SIGNATURE).read_text()
        public = trusted or (folder / PUBLIC_KEY).read_bytes()
    except OSError as error:
        raise StackError(f"{folder} is no complete release: {error.filename} cannot be read ({error.strerror}). {_AGAIN}") from error
    if not verify(public, sums, signature):
        raise StackError(f"{folder / SUMS} is not signed with this key: somebody changed it, or the key is another. {_AGAIN}")
    stated = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (.+)$", sums.decode(), re.MULTILINE)}
    found = digests_of(_listed(folder), folder)
    for name in sorted(stated.keys() | found.keys()):
        if stated.get(name) != found.get(name):
            what = "is missing" if name not in found else "is not in" if name not in stated else "differs from"
            raise StackError(f"{folder / name} {what}{'' if name not in found else f' {SUMS}'}. {_AGAIN}")
    layout_of(folder).check()
    return Description(**json.loads((folder / DESCRIPTION).read_text()))


def chosen_release(version: str | None, releases: Path = RELEASES) -> Path:
    """Return the folder of a version, or of the only release there is. Raise StackError if that is not one."""
    if version:
        folder = releases / version
        if not folder.is_dir():
            raise StackError(f"there is no release {version} in {releases}. Make it: make release VERSION={version} KEY=...")
        return folder
    made = sorted(path for path in releases.glob("*") if (path / SUMS).is_file())
    if len(made) != 1:
        named = ", ".join(path.name for path in made)
        raise StackError(
            f"which release? {releases} has {named}. Name one: VERSION=..."
            if made
            else f"there is no release in {releases}. Make one: make release VERSION=... KEY=..."
        )
    return made[0]


def _listed(folder: Path) -> list[Path]:
    """Return the files that checksums cover, sorted."""
    blobs = folder / LAYOUT / "blobs"
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in {SUMS, SIGNATURE} and not path.is_relative_to(blobs)
    )

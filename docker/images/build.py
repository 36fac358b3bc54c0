"""Builds the images for `make images`, and a base if there is none; writes bills of materials."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stack.commands import run
from stack.debian import mirror
from stack.environment import BUILD, ROOT
from stack.errors import StackError, Unavailable

from images.engine import Engine, engine, install_packages
from images.settings import build_secrets

FOLDER = Path(__file__).parent
OUT = BUILD / "images"
OWN_BASE = "localhost/dblog-base:bookworm"
"""Name of a base image that base.sh has made here."""

_LABELS = {
    "BASE_IMAGE": "base.name",
    "BASE_DIGEST": "base.digest",
    "REVISION": "revision",
    "SOURCE": "source",
    "CREATED": "created",
}
"""Build arguments, and the labels that they become."""


@dataclass(frozen=True, slots=True)
class Image:
    """A container image of the project."""

    name: str
    package: str
    """Folder of its Python package."""
    mb_over_base_max: int
    """Maximum size in MB over its base; a larger image fails the build."""

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name.removeprefix('dblog-')}.Dockerfile"

    @property
    def version(self) -> str:
        project = tomllib.loads((ROOT / self.package / "pyproject.toml").read_text())["project"]
        return str(project["version"])

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}"


IMAGES = (
    Image("dblog-worker", "connect-worker", mb_over_base_max=200),
    Image("dblog-sink", "spark-sink", mb_over_base_max=1000),
)


def build(names: Sequence[str] = (), *, fresh: bool = False, layers: bool = True) -> None:
    """Build the named images, or both. Raise StackError if one cannot be built or is too large."""
    using = engine(os.environ.get("ENGINE"))
    chosen = [image for image in IMAGES if not names or image.name in names]
    base = base_image(using)
    epoch = source_date()
    arguments = {
        "BASE_IMAGE": base,
        "BASE_DIGEST": base.partition("@")[2] or using.digest(base),
        "REVISION": _git("rev-parse", "HEAD") or "unknown",
        "SOURCE": os.environ.get("DBLOG_SOURCE_URL") or _public(_git("remote", "get-url", "origin")) or "unknown",
        "CREATED": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    base_bytes = using.size(base)
    too_large = []
    with tempfile.TemporaryDirectory() as folder:
        secrets = build_secrets(Path(folder))
        for image in chosen:
            print(f"images: {image.tag} by {using.kind} on {base}", flush=True)
            using.build(
                file=image.file,
                context=ROOT,
                tag=image.tag,
                arguments={**arguments, "VERSION": image.version},
                labels={"version": image.version, **{label: arguments[name] for name, label in _LABELS.items()}},
                secrets=secrets,
                epoch=epoch,
                fresh=fresh,
                layers=layers,
            )
            using.copy_out(image.tag, "/opt/dblog/share/sbom", OUT / image.name)
            over_mb = (using.size(image.tag) - base_bytes) / 1e6
            print(
                f"images: {image.tag} has {over_mb:.0f} MB over the {base_bytes / 1e6:.0f} MB of its base (limit {image.mb_over_base_max} MB)",
                flush=True,
            )
            print(f"images: what it consists of is in {OUT / image.name}", flush=True)
            if over_mb > image.mb_over_base_max:
                too_large.append(image.tag)
    if too_large:
        raise StackError(
            f"larger than its limit: {', '.join(too_large)}; look for what was added, or raise the limit in docker/images/build.py"
        )


def base_image(using: Engine) -> str:
    """Return the image to build on.

    It is BASE_IMAGE, or the official one that the Dockerfiles name, or one made by base.sh if no
    registry can be reached.
    """
    if chosen := os.environ.get("BASE_IMAGE"):
        return chosen
    official = default_base(IMAGES[0].file)
    if using.has(official) or using.pull(official):
        return official
    if not using.has(OWN_BASE):
        print(f"images: {official} cannot be reached; making {OWN_BASE} by debootstrap, which takes a minute or two", flush=True)
        make_base(using, OWN_BASE)
    return OWN_BASE


def default_base(dockerfile: Path) -> str:
    """Return the default of BASE_IMAGE in a Dockerfile."""
    match = re.search(r"^ARG BASE_IMAGE=(\S+)$", dockerfile.read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def make_base(using: Engine, tag: str) -> None:
    """Make the base image with debootstrap.

    This needs root, because debootstrap enters the folder.
    """
    if os.geteuid() != 0:
        raise Unavailable(
            "no registry of images can be reached, and only root can make a base image; name one that is there: BASE_IMAGE=..."
        )
    if shutil.which("debootstrap") is None:
        if shutil.which("apt-get") is None:
            raise Unavailable(
                "no registry of images can be reached, and a base image is made by debootstrap, which is not on the PATH;"
                " install it, or name an image that is there: BASE_IMAGE=..."
            )
        install_packages("debootstrap")
    archive = mirror()
    environment = {"DBLOG_DEBIAN_MIRROR": archive} if archive else {}
    if security := _security_archive():
        environment["DBLOG_DEBIAN_SECURITY"] = security
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run([str(FOLDER / "base.sh"), str(folder / "base.tar")], what="Making the base image", env=environment)
        (folder / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["python3"]\n')
        using.build(file=folder / "Dockerfile", context=folder, tag=tag, arguments={}, labels={}, secrets={}, epoch=0)


def source_date() -> int:
    """Return SOURCE_DATE_EPOCH, the time of all files in an image; by default the commit's time."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def _security_archive() -> str | None:
    """Return the archive of security updates that this machine uses, or None."""
    if chosen := os.environ.get("DBLOG_DEBIAN_SECURITY"):
        return chosen
    listed = subprocess.run(
        ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=False
    ).stdout
    return next((line.rstrip("/") for line in listed.splitlines() if line.rstrip("/").endswith("debian-security")), None)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _public(remote: str) -> str:
    """Return the remote if it is a public URL; otherwise an empty string, as for a local path."""
    return remote if remote.startswith("https://") and "@" not in remote else ""

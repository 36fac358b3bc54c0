"""A whole release of small images, with the real chart: everything but what engines and compilers make."""

import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from release.make import IMAGES, Parts, assemble
from release.signing import Key, make_key, read_key
from release.stamp import Commit
from release.version import Version
from stack.environment import ROOT

COMMIT = Commit("ab" * 20, 1_700_000_000, "https://git.example/dblog")
BASE_DIGEST = "sha256:" + "5" * 64
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Made:
    """A release and the keys that it was made with."""

    folder: Path
    key: Key
    public_file: Path
    version: Version


def saved_image(target: Path, layers: Sequence[bytes], *, version: str) -> Path:
    """Write an archive as `docker save` does."""
    labels = {
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.base.name": "docker.io/library/python:3.11@" + BASE_DIGEST,
        "org.opencontainers.image.base.digest": BASE_DIGEST,
    }
    packed = [tar_of({f"file-{number}": content}) for number, content in enumerate(layers)]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": labels, "User": "10001:0", "Healthcheck": {"Test": ["CMD", "true"]}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in packed]},
        "history": [],
    }
    files = {f"{number}.tar": each for number, each in enumerate(packed)}
    files["config.json"] = json.dumps(config).encode()
    files["manifest.json"] = json.dumps(
        [{"Config": "config.json", "RepoTags": None, "Layers": [f"{n}.tar" for n in range(len(packed))]}]
    ).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(tar_of(files))
    return target


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar archive of these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def small_release(
    folder: Path, *, version: str = "1.4.0", registry: str = "", layers: Sequence[bytes] = (b"base" * 999, b"own"), key: Key | None = None
) -> Made:
    """Make a release in `folder`/release."""
    parsed = Version.parse(version)
    work = folder / "work"
    (work / "source" / "docker").mkdir(parents=True)
    shutil.copytree(ROOT / "helm", work / "source" / "helm")
    shutil.copytree(ROOT / "docker" / "images" / "locks", work / "source" / "docker" / "images" / "locks")
    materials = {}
    for name in IMAGES:
        materials[name] = work / "materials" / name
        materials[name].mkdir(parents=True)
        (materials[name] / "sbom.cdx.json").write_text(json.dumps({"bomFormat": "CycloneDX", "metadata": {"component": {"name": name}}}))
        (materials[name] / "licences.txt").write_text("httpx 1: BSD\n")
    packages = work / "packages"
    packages.mkdir()
    wheel(packages / f"dblog-{parsed.python}-py3-none-any.whl", parsed.python)
    (packages / f"dblog-{parsed.python}.tar.gz").write_bytes(b"source")
    public = folder / "dblog.pub"
    if key is None:
        make_key(folder / "dblog.key")
        key = read_key(folder / "dblog.key")
    else:
        public.write_bytes(key.public_pem)
    archives = {name: saved_image(work / f"{name}.tar", [*layers, name.encode()], version=parsed.python) for name in IMAGES}
    assemble(folder / "release", parsed, COMMIT, key, Parts(work / "source", archives, packages, materials), registry=registry, began=BEGAN)
    return Made(folder / "release", key, public, parsed)


def wheel(target: Path, version: str) -> None:
    """Write a wheel that requires a pinned package and an optional one."""
    metadata = f'Metadata-Version: 2.4\nName: dblog\nVersion: {version}\nRequires-Dist: httpx==0.28.1\nRequires-Dist: PyJWT==2.15.1; extra == "oidc"\n\nText\n'
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(f"dblog-{version}.dist-info/METADATA", metadata)

"""Makes the folder of a release: builds what is shipped, describes it, signs it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stack.commands import run
from stack.environment import ROOT
from stack.errors import StackError

from release.chart import metadata, pack_chart, store_chart, values
from release.folder import PROVENANCE_FILE, RELEASES, Description, layout_of, seal, write_description
from release.image import StoredImage, store_image
from release.layout import Descriptor, Layout
from release.signing import Key, envelope, payload, store_attestations, store_signature
from release.stamp import Commit, commit_of, copy_sources, stamp_chart, stamp_packages
from release.statements import (
    CYCLONEDX,
    PROVENANCE,
    chart_images,
    chart_materials,
    digests_of,
    provenance,
    python_materials,
    statement,
)
from release.version import Version

IMAGES = ("dblog-worker", "dblog-sink")
CHART = "dblog"
"""Repository of the chart, which is its name."""
_LOCKS = "docker/images/locks"
_PROVENANCE_OF_FILES = "the files of the release, and the manifests of images and chart"


@dataclass(frozen=True, slots=True)
class Parts:
    """The files built from a commit, before they are described and signed."""

    sources: Path
    """The stamped sources."""
    archives: Mapping[str, Path]
    """An archive of each image by its name, as an engine saves it."""
    packages: Path
    """Folder of wheels, source archives and the code for spark-submit."""
    materials: Mapping[str, Path]
    """Folder with the bill of materials of each image, by its name."""


def make_release(version: Version, key: Key, *, registry: str, releases: Path = RELEASES) -> Path:
    """Build and sign the release of the checked-out commit. Return its folder.

    `registry` is where it will be published, as `host/path`; it may be empty. Raise StackError if
    the version was made before, or with the step that failed.
    """
    target = releases / version.text
    if target.exists():
        raise StackError(
            f"{target} is there already, and a version is made once. Name another version, or remove the folder if it was never published"
        )
    commit = commit_of()
    began = datetime.now(UTC)
    releases.mkdir(parents=True, exist_ok=True)
    # Below build/, so that git still knows of the copied sources which commit they are.
    with tempfile.TemporaryDirectory(dir=releases, prefix=f".{version.text}-") as work:
        parts = _build(commit, version, Path(work))
        made = Path(work) / "made"
        assemble(made, version, commit, key, parts, registry=registry, began=began)
        made.rename(target)
    return target


def _build(commit: Commit, version: Version, work: Path) -> Parts:
    sources = work / "source"
    copy_sources(commit, sources)
    stamp_packages(sources, version)
    build = sources / "build"
    build.mkdir()
    (build / "venv").symlink_to(ROOT / "build" / "venv")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{sources / 'docker'}:{sources / 'spark-sink' / 'src'}",
        "SOURCE_DATE_EPOCH": str(commit.epoch),
    }

    def build_by(what: str, *arguments: str) -> None:
        print(f"release: {what}", flush=True)
        run(
            [sys.executable, *arguments],
            what=what[0].upper() + what[1:],
            cwd=sources,
            env=environment,
            on_line=lambda line: print(f"  {line}", flush=True),
        )

    build_by("building wheels and source archives", "docker/dist.py")
    build_by("building the images", "-m", "images", "build")
    build_by("saving the images", "-m", "images", "save", str(work / "saved"))
    return Parts(
        sources,
        archives={name: work / "saved" / f"{name}.tar" for name in IMAGES},
        packages=build / "dist",
        materials={name: build / "images" / name for name in IMAGES},
    )


def assemble(folder: Path, version: Version, commit: Commit, key: Key, parts: Parts, *, registry: str, began: datetime) -> None:
    """Write the folder of a release from what was built."""
    layout = layout_of(folder)
    layout.create()
    print("release: packing the images", flush=True)
    moment = datetime.fromtimestamp(commit.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {
        "org.opencontainers.image.version": version.text,
        "org.opencontainers.image.revision": commit.revision,
        "org.opencontainers.image.created": moment,
    }
    images = {
        name: store_image(layout, archive, annotations={**annotations, "org.opencontainers.image.title": name})
        for name, archive in parts.archives.items()
    }

    print("release: packing the chart", flush=True)
    stamp_chart(parts.sources / "helm", version, registry=registry, digests={name: image.index.digest for name, image in images.items()})
    chart = pack_chart(parts.sources / "helm", folder / "chart", epoch=commit.epoch)
    stored_chart = store_chart(layout, chart, epoch=commit.epoch)

    shutil.copytree(parts.packages, folder / "python", ignore=shutil.ignore_patterns("*.sha256", f"{CHART}-*.tgz"))
    bills = _write_bills(folder, chart, parts)

    built = _provenance(commit, version, parts, images, registry=registry, began=began)
    files = digests_of(sorted(path for part in ("chart", "python") for path in (folder / part).iterdir()), folder)
    manifests = {f"{name}:{version.text}": image.index.digest for name, image in images.items()}
    subjects = {**files, **manifests, f"{CHART}:{version.text}": stored_chart.digest}
    (folder / PROVENANCE_FILE).write_bytes(envelope(key, statement(PROVENANCE, built, subjects)) + b"\n")

    print("release: signing", flush=True)
    signer = _Signer(layout, key, version, commit.epoch, registry)
    signer.attest(CHART, stored_chart, {PROVENANCE: built, CYCLONEDX: bills[CHART]})
    signer.sign(CHART, stored_chart.digest)
    for name, image in images.items():
        signer.attest(name, image.index, {PROVENANCE: built, CYCLONEDX: bills[name]})
        # Both: cosign looks at what the tag points to, Podman and Skopeo at the platform's manifest.
        signer.sign(name, image.index.digest)
        signer.sign(name, image.manifest.digest)
    # Published in this order: what can be installed comes after what it needs.
    for name, image in images.items():
        layout.tag(name, version.text, image.index)
    layout.tag(CHART, version.text, stored_chart)

    digests = {**{name: image.index.digest for name, image in images.items()}, CHART: stored_chart.digest}
    write_description(folder, Description(version.text, commit.revision, registry, digests))
    seal(folder, key)


@dataclass(frozen=True, slots=True)
class _Signer:
    layout: Layout
    key: Key
    version: Version
    epoch: int
    registry: str

    def sign(self, repository: str, digest: str) -> None:
        reference = f"{self.registry}/{repository}" if self.registry else repository
        signed = payload(reference, digest, creator=f"dblog {self.version.text}", epoch=self.epoch)
        store_signature(self.layout, repository, digest, self.key, signed)

    def attest(self, repository: str, about: Descriptor, predicates: Mapping[str, Mapping[str, Any]]) -> None:
        subject = {f"{self.registry}/{repository}" if self.registry else repository: about.digest}
        signed = {kind: envelope(self.key, statement(kind, predicate, subject)) for kind, predicate in predicates.items()}
        store_attestations(self.layout, repository, about.digest, signed)


def _write_bills(folder: Path, chart: Path, parts: Parts) -> dict[str, dict[str, Any]]:
    """Write the bills of materials of everything shipped. Return them by name."""
    out = folder / "sbom"
    out.mkdir()
    bills: dict[str, dict[str, Any]] = {}
    for name, made in parts.materials.items():
        bills[name] = json.loads((made / "sbom.cdx.json").read_text())
        shutil.copy(made / "licences.txt", out / f"{name}.licences.txt")
    described = metadata(chart)
    bills[CHART] = chart_materials(described["name"], described["version"], sorted(set(chart_images(values(chart)))))
    for wheel in sorted((folder / "python").glob("*.whl")):
        bills[wheel.name] = python_materials(wheel)
    for name, bill in bills.items():
        (out / f"{f'{CHART}-chart' if name == CHART else name}.cdx.json").write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    return bills


def _provenance(
    commit: Commit, version: Version, parts: Parts, images: Mapping[str, StoredImage], *, registry: str, began: datetime
) -> dict[str, Any]:
    bases = {
        image.labels["org.opencontainers.image.base.name"].partition("@")[0]: image.labels["org.opencontainers.image.base.digest"]
        for image in images.values()
        # A base that was made here has no digest in a registry.
        if image.labels.get("org.opencontainers.image.base.digest", "").startswith("sha256:")
    }
    locks = digests_of(sorted((parts.sources / _LOCKS).glob("*.txt")), parts.sources)
    return provenance(
        commit,
        version,
        registry=registry,
        builder=os.environ.get("DBLOG_BUILDER_ID"),
        bases=bases,
        locks=locks,
        began=began,
        ended=datetime.now(UTC),
    )

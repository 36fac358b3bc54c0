"""Packs the chart and stores it as Helm's registries want it.

Helm's own archive has the time of packing in it, so the same chart would have another digest each
time. The members of Helm's archive are packed again with the commit's time.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import tempfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml
from stack.commands import run
from stack.helm import kubernetes_clients

from release.layout import MANIFEST, Descriptor, Layout

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MEMBER_MODE = 0o644


def pack_chart(chart: Path, out: Path, *, epoch: int) -> Path:
    """Pack a chart into `out` as Helm does, with every file dated `epoch`. Return the archive.

    Raise StackError with Helm's words if it refuses the chart.
    """
    helm = str(kubernetes_clients(4) / "helm")
    run([helm, "lint", "--strict", "--quiet", str(chart)], what="Linting the chart")
    with tempfile.TemporaryDirectory() as folder:
        run([helm, "package", str(chart), "--destination", folder], what="Packing the chart")
        (packed,) = Path(folder).glob("*.tgz")
        out.mkdir(parents=True, exist_ok=True)
        again = out / packed.name
        again.write_bytes(_dated(packed, epoch))
    return again


def _dated(archive: Path, epoch: int) -> bytes:
    plain = BytesIO()
    with tarfile.open(archive) as given, tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as made:
        # Chart.yaml stays the first, as Helm writes it.
        for member in given.getmembers():
            info = tarfile.TarInfo(member.name)
            info.size, info.mtime, info.mode = member.size, epoch, _MEMBER_MODE
            made.addfile(info, given.extractfile(member))
    return gzip.compress(plain.getvalue(), mtime=0)


def metadata(archive: Path) -> dict[str, Any]:
    """Return what Chart.yaml of a packed chart says."""
    with tarfile.open(archive) as packed:
        file = packed.extractfile(next(name for name in packed.getnames() if name.count("/") == 1 and name.endswith("/Chart.yaml")))
        assert file is not None
        return dict(yaml.safe_load(file))


def values(archive: Path) -> dict[str, Any]:
    """Return the default values of a packed chart."""
    with tarfile.open(archive) as packed:
        file = packed.extractfile(next(name for name in packed.getnames() if name.count("/") == 1 and name.endswith("/values.yaml")))
        assert file is not None
        return dict(yaml.safe_load(file))


def store_chart(layout: Layout, archive: Path, *, epoch: int) -> Descriptor:
    """Store a packed chart with its manifest, and return the manifest's descriptor.

    Configuration and annotations are as `helm push` makes them (HIP 6).
    """
    described = metadata(archive)
    annotations = {
        "org.opencontainers.image.title": described["name"],
        "org.opencontainers.image.version": described["version"],
        "org.opencontainers.image.description": described["description"],
        "org.opencontainers.image.created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    content = layout.put(archive.read_bytes(), CONTENT)
    config = layout.put(json.dumps(described, separators=(",", ":")).encode(), CONFIG)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.json,
        "layers": [content.json],
        "annotations": annotations,
    }
    return layout.put_json(document, MANIFEST)

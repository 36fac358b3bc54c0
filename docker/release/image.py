"""Turns an image as an engine saves it into manifest and index with compressed layers.

An engine's own manifest differs between Docker, Podman and Buildah, and so would the digest. This
module makes it from the engine's layers and configuration alone: gzip without name and time, media
types of the OCI image specification 1.1.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from stack.errors import StackError

from release.layout import INDEX, MANIFEST, Descriptor, Layout, free_space, pieces

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_GZIP = 31
"""zlib's window size for a gzip header, which then has no time and no name."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in the layout."""

    index: Descriptor
    """The target of its tag: an index, which can get other platforms later."""
    manifest: Descriptor
    """Its one platform."""
    labels: Mapping[str, str]


def store_image(layout: Layout, archive: Path, *, annotations: Mapping[str, str]) -> StoredImage:
    """Store an image of an archive by `docker save` or `podman save`.

    `annotations` are those of the index. Raise StackError if the archive is damaged, or if it is
    not of one image.
    """
    free_space(layout.folder, archive.stat().st_size)
    try:
        with tarfile.open(archive) as saved:
            described = json.load(_member(saved, "manifest.json"))
            if len(described) != 1:
                raise StackError(f"{archive} has {len(described)} images, and one is expected. Save each into an archive of its own")
            config = _member(saved, described[0]["Config"]).read()
            parsed = json.loads(config)
            layers = [
                _store_layer(layout, _member(saved, name), expected, archive)
                for name, expected in zip(described[0]["Layers"], parsed["rootfs"]["diff_ids"], strict=True)
            ]
            platform = {"architecture": parsed["architecture"], "os": parsed["os"]}
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise StackError(f"{archive} is no archive of an image ({type(error).__name__}: {error}). Save the image again") from error
    labels = {key: str(value) for key, value in (parsed.get("config", {}).get("Labels") or {}).items()}
    manifest = layout.put_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": layout.put(config, CONFIG).json,
            "layers": [layer.json for layer in layers],
        },
        MANIFEST,
        platform=platform,
    )
    index = layout.put_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest.json], "annotations": dict(annotations)}, INDEX)
    return StoredImage(index, manifest, labels)


def _member(saved: tarfile.TarFile, name: str) -> Any:
    """Return a file of the archive; Podman makes some of them symbolic links."""
    opened = saved.extractfile(name)
    if opened is None:
        raise KeyError(name)
    return opened


def _store_layer(layout: Layout, layer: BinaryIO, expected: str, archive: Path) -> Descriptor:
    unpacked = hashlib.sha256()
    stored = layout.put_stream(_compressed(layer, unpacked), LAYER)
    if f"sha256:{unpacked.hexdigest()}" != expected:
        raise StackError(
            f"a layer of {archive} is damaged: it has another digest than {expected} of its configuration. Save the image again"
        )
    return stored


def _compressed(layer: BinaryIO, unpacked: Any) -> Iterator[bytes]:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    for piece in pieces(layer):
        unpacked.update(piece)
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()

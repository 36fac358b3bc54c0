"""The images and the chart of a release as one folder in OCI's image layout.

Every blob is named by its SHA-256, so signatures over a manifest cover all that it refers to. Each
entry of index.json has the repository and the tag it is to get, as `repository:tag`; OCI's image
layout specification 1.1 calls this annotation `org.opencontainers.image.ref.name`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from stack.errors import StackError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
REF_NAME = "org.opencontainers.image.ref.name"
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to a blob or a manifest by digest."""

    media_type: str
    digest: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    """Size in bytes."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields, such as `annotations` and `platform`."""

    @property
    def json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **self.extra}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Descriptor:
        """Return the descriptor of a manifest's entry."""
        extra = {key: value for key, value in given.items() if key not in {"mediaType", "digest", "size"}}
        return cls(str(given["mediaType"]), str(given["digest"]), int(given["size"]), extra)


@dataclass(frozen=True, slots=True)
class Entry:
    """A manifest or an index of the layout with the name it is published by."""

    repository: str
    """Last part of the repository's name, such as `dblog-worker`."""
    tag: str
    descriptor: Descriptor


class Layout:
    """An image layout in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs" / "sha256"

    def create(self) -> None:
        """Make an empty layout."""
        self._blobs.mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self._write_index([])

    def put(self, content: bytes, media_type: str, **extra: Any) -> Descriptor:
        """Store a blob and return its descriptor with the further fields."""
        digest = hashlib.sha256(content).hexdigest()
        (self._blobs / digest).write_bytes(content)
        return Descriptor(media_type, f"sha256:{digest}", len(content), extra)

    def put_json(self, document: Mapping[str, Any], media_type: str, **extra: Any) -> Descriptor:
        """Store a JSON document as a blob; equal documents give equal bytes."""
        return self.put(json.dumps(document, separators=(",", ":")).encode(), media_type, **extra)

    def put_stream(self, pieces: Iterator[bytes], media_type: str) -> Descriptor:
        """Store a blob that may be larger than the memory."""
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self._blobs, delete=False) as file:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
        # The mode of a temporary file would keep other users from reading the layout.
        Path(file.name).chmod(0o644)
        Path(file.name).rename(self._blobs / digest.hexdigest())
        return Descriptor(media_type, f"sha256:{digest.hexdigest()}", size)

    def tag(self, repository: str, tag: str, descriptor: Descriptor) -> Descriptor:
        """Enter a stored manifest or index into index.json. Return its descriptor."""
        named = {**descriptor.json, "annotations": {REF_NAME: f"{repository}:{tag}"}}
        self._write_index([*json.loads((self.folder / "index.json").read_text())["manifests"], named])
        return descriptor

    def entries(self) -> list[Entry]:
        """Return the entries of index.json in their order. Raise StackError if the folder is no layout of a release."""
        try:
            listed = json.loads((self.folder / "index.json").read_text())["manifests"]
            found = []
            for each in listed:
                repository, _, tag = each["annotations"][REF_NAME].partition(":")
                found.append(Entry(repository, tag, Descriptor.of_json({**each, "annotations": {}})))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StackError(
                f"{self.folder} is no image layout of a release: {type(error).__name__} in index.json. Make the release again"
            ) from error
        return found

    def path(self, digest: str) -> Path:
        """Return the file of a blob."""
        return self._blobs / digest.removeprefix("sha256:")

    def read(self, digest: str) -> bytes:
        """Return a small blob, such as a manifest. Raise StackError if it is missing or damaged."""
        try:
            content = self.path(digest).read_bytes()
        except OSError as error:
            raise StackError(f"the blob {digest} is missing in {self.folder}. Make the release again") from error
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise StackError(f"the blob {digest} in {self.folder} is damaged: its content has another digest. Make the release again")
        return content

    def check(self) -> None:
        """Raise StackError if a blob's content has another digest than its name."""
        for blob in sorted(self._blobs.iterdir()):
            with blob.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != blob.name:
                    raise StackError(
                        f"the blob sha256:{blob.name} in {self.folder} is damaged: its content has another digest. Make the release again"
                    )

    def _write_index(self, manifests: list[dict[str, Any]]) -> None:
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        (self.folder / "index.json").write_text(json.dumps(document, indent=1) + "\n")


def children(content: bytes) -> tuple[list[Descriptor], list[Descriptor]]:
    """Return the manifests and the blobs that a manifest or an index refers to."""
    document = json.loads(content)
    manifests = [Descriptor.of_json(each) for each in document.get("manifests", [])]
    blobs = [Descriptor.of_json(each) for each in ([document["config"]] if "config" in document else [])]
    return manifests, blobs + [Descriptor.of_json(each) for each in document.get("layers", [])]


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in pieces of a mebibyte."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def free_space(folder: Path, needed: int) -> None:
    """Raise StackError if the disk of `folder` has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StackError(
            f"{folder} has {free / 1e9:.1f} GB free and the release needs {needed / 1e9:.1f} GB. Free some space, then run it again"
        )

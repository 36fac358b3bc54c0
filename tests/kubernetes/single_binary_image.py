"""A container image with one static program and nothing else, as the archive that `ctr images import` and `docker load` read."""

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write_image(archive: Path, *, name: str, program: Path) -> None:
    """Write the image `name` ("example/pause:1") whose entry point is `program`, at the root of its file system."""
    entry = f"/{program.name}"
    layer = _tar({entry.removeprefix("/"): program.read_bytes()}, mode=0o755)
    settings = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [entry], "User": "65535"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer, "config.json": json.dumps(settings).encode(), "manifest.json": json.dumps(manifest).encode()}
    archive.write_bytes(_tar(files, mode=0o644))


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()

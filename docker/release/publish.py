"""Pushes a release to a registry, and prints the two commands that verify and install it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path

from stack.errors import StackError

from release.address import Address
from release.folder import PUBLIC_KEY, Description, layout_of, open_release
from release.layout import Descriptor, Entry, Layout, children
from release.make import CHART
from release.registry import Pulled, Registry
from release.version import Version


def publish(folder: Path, registry: Registry, *, trusted: bytes | None = None, log: Callable[[str], None] = print) -> tuple[str, str]:
    """Push images, chart and signatures of a release, and return the two commands.

    A second call sends what is missing. Raise StackError if the folder is not as it was signed, if
    the registry has another release of this version, or if it refuses.
    """
    description = open_release(folder, trusted=trusted)
    layout = layout_of(folder)
    entries = layout.entries()
    # Before anything is sent: a version that users may have must not become another one.
    for entry in entries:
        if not _is_attachment(entry) and (there := registry.manifest(entry.repository, entry.tag)):
            _refuse_another(there, entry, registry.address)
    for number, entry in enumerate(entries, 1):
        log(f"publish: {number} of {len(entries)}: {registry.address.name}/{entry.repository}:{entry.tag}")
        _push(layout, registry, entry, log)
    return commands(folder, description, registry.address)


def commands(folder: Path, description: Description, address: Address) -> tuple[str, str]:
    """Return the commands that verify the chart and install it, as a user types them."""
    chart = f"{address.name}/{CHART}"
    plain = " --allow-insecure-registry" if address.is_plain else ""
    verify = f"cosign verify --key {shlex.quote(str(folder / PUBLIC_KEY))} --insecure-ignore-tlog=true{plain} {chart}@{description.digests[CHART]}"
    install = f"helm install dblog oci://{chart} --version {description.version} --namespace dblog --create-namespace"
    if address.is_plain:
        install += " --plain-http"
    if description.registry != address.name:
        # The chart was made for another place, or for none.
        install += f" --set worker.image.registry={address.name} --set sink.image.registry={address.name}"
    return verify, install


def _refuse_another(there: Pulled, entry: Entry, address: Address) -> None:
    digest = f"sha256:{hashlib.sha256(there.content).hexdigest()}"
    if digest != entry.descriptor.digest:
        Version.parse(entry.tag)
        raise StackError(
            f"{address.name}/{entry.repository}:{entry.tag} is there already with another content ({digest})."
            " A published version is never replaced: release another version, or delete it in the registry if nobody has it"
        )


def _is_attachment(entry: Entry) -> bool:
    """Return True for signatures and attestations, whose tags may get further ones."""
    return entry.tag.startswith("sha256-")


def _push(layout: Layout, registry: Registry, entry: Entry, log: Callable[[str], None]) -> None:
    content = layout.read(entry.descriptor.digest)
    _push_parts(layout, registry, entry.repository, content, log)
    if _is_attachment(entry) and (there := registry.manifest(entry.repository, entry.tag)):
        content = with_layers_of(content, there.content)
    registry.push_manifest(entry.repository, entry.tag, content, entry.descriptor.media_type)
    back = registry.manifest(entry.repository, entry.tag)
    if back is None or back.content != content:
        raise StackError(
            f"{registry.address.name}/{entry.repository}:{entry.tag} does not come back as it was sent."
            " Run make publish again; if it stays so, the registry changes manifests, and signatures do not hold there"
        )


def _push_parts(layout: Layout, registry: Registry, repository: str, content: bytes, log: Callable[[str], None]) -> None:
    """Push all that a manifest or an index refers to."""
    manifests, blobs = children(content)
    for blob in blobs:
        if registry.push_blob(repository, layout.path(blob.digest), blob) and blob.size > 1 << 20:
            log(f"publish:   {_short(blob)}")
    for manifest in manifests:
        inner = layout.read(manifest.digest)
        _push_parts(layout, registry, repository, inner, log)
        registry.push_manifest(repository, manifest.digest, inner, manifest.media_type)


def with_layers_of(ours: bytes, there: bytes) -> bytes:
    """Return our attachment with the layers of the one that the registry has already.

    So signatures by other keys stay, as `cosign sign` keeps them. If the registry has all of ours,
    its own manifest is returned.
    """
    mine, theirs = json.loads(ours), json.loads(there)
    known = theirs.get("layers", [])
    new = [layer for layer in mine["layers"] if layer not in known]
    if not new:
        return there
    if not known:
        return ours
    return json.dumps({**theirs, "layers": known + new}, separators=(",", ":")).encode()


def _short(blob: Descriptor) -> str:
    return f"{blob.digest[:19]} {blob.size / 1e6:.1f} MB"

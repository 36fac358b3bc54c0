"""Statements about a release: bills of materials (CycloneDX 1.6) and provenance (in-toto, SLSA 1.0).

Each is a plain document; `signing` makes signed envelopes of them.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from release.stamp import Commit
from release.version import Version

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
CYCLONEDX = "https://cyclonedx.org/bom"
_BUILD_TYPE = "urn:dblog:release:v1"
"""Type of the build: `make release`. The page docs/releasing.md describes its parameters."""
_BUILDER = "urn:dblog:make-release"
"""Who builds, unless DBLOG_BUILDER_ID names another."""
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562, the namespace of URLs
_PINNED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*==\s*([^;,\s]+)")


def statement(predicate_type: str, predicate: Mapping[str, Any], subjects: Mapping[str, str]) -> dict[str, Any]:
    """Return an in-toto statement about `subjects`, whose SHA-256 (`sha256:...`) is given by name."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in subjects.items()],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def provenance(
    commit: Commit,
    version: Version,
    *,
    registry: str,
    builder: str | None,
    bases: Mapping[str, str],
    locks: Mapping[str, str],
    began: datetime,
    ended: datetime,
) -> dict[str, Any]:
    """Return the SLSA provenance: of which commit and with which parameters all of it was built.

    `bases` has the digest of each base image by its name, `locks` the SHA-256 of each list of
    packages by its path in the repository. No name of the building machine is in it.
    """
    source = f"git+{commit.source}" if commit.source else "git+urn:dblog:source"
    dependencies = [{"uri": f"{source}@{commit.revision}", "digest": {"gitCommit": commit.revision}}]
    dependencies += [{"uri": f"docker://{name}", "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in bases.items()]
    dependencies += [{"uri": f"{source}#{path}", "digest": {"sha256": digest}} for path, digest in locks.items()]
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {"version": version.text, "registry": registry, "revision": commit.revision},
            "internalParameters": {"sourceDateEpoch": commit.epoch},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {"id": builder or _BUILDER},
            "metadata": {"startedOn": _moment(began), "finishedOn": _moment(ended)},
        },
    }


def python_materials(wheel: Path) -> dict[str, Any]:
    """Return the bill of materials of a wheel: the packages that it requires, as it pins them."""
    headers = HeaderParser().parsestr(_metadata(wheel))
    parts = []
    for required in headers.get_all("Requires-Dist") or []:
        match = _PINNED.match(required)
        name = re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", required)[0]).lower()
        part = {"type": "library", "name": name, "bom-ref": f"pkg:pypi/{name}", "purl": f"pkg:pypi/{name}"}
        if match:
            part |= {"version": match[2], "bom-ref": f"pkg:pypi/{name}@{match[2]}", "purl": f"pkg:pypi/{name}@{match[2]}"}
        if "extra ==" in required:
            part["scope"] = "optional"
        parts.append(part)
    return _bill("library", headers["Name"], headers["Version"], _unique(parts))


def chart_materials(name: str, version: str, images: Sequence[str]) -> dict[str, Any]:
    """Return the bill of materials of the chart: the images that it runs, by digest."""
    parts = []
    for image in images:
        repository, _, digest = image.partition("@")
        purl = f"pkg:oci/{repository.rpartition('/')[2]}@{digest}?repository_url={repository}"
        parts.append({"type": "container", "name": repository, "version": digest, "bom-ref": purl, "purl": purl})
    return _bill("application", name, version, parts)


def digests_of(files: Sequence[Path], root: Path) -> dict[str, str]:
    """Return the SHA-256, in hexadecimal digits, of files by their path below `root`."""
    found = {}
    for file in files:
        with file.open("rb") as opened:
            found[file.relative_to(root).as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


def chart_images(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the images that values name by digest, wherever they stand."""
    for value in values.values():
        if isinstance(value, Mapping):
            if str(value.get("digest", "")).startswith("sha256:") and "repository" in value:
                registry = f"{value['registry']}/" if value.get("registry") else ""
                yield f"{registry}{value['repository']}@{value['digest']}"
            yield from chart_images(value)


def _metadata(package: Path) -> str:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    with tarfile.open(package) as archive:
        file = archive.extractfile(next(name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")))
        assert file is not None
        return file.read().decode()


def _unique(parts: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    return sorted({part["bom-ref"]: part for part in parts}.values(), key=lambda part: part["bom-ref"])


def _bill(kind: str, name: str, version: str, parts: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    text = f"{name} {version} " + " ".join(part["bom-ref"] for part in parts)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Derived from the content, so that the same release has the same document.
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": kind,
                "bom-ref": f"{name}@{version}",
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": list(parts),
    }


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

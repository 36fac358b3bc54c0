"""Writes what an environment of an image consists of: a CycloneDX 1.6 document of its Python packages and jars, and a list of their licences.

Runs inside a builder stage with the environment's own Python, so it may use the standard library only. Nothing in the documents depends on when or where they
are written: the same environment gives the same bytes.
"""

import argparse
import hashlib
import json
import re
import sys
import uuid
import zipfile
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*?)(?:-(?P<classifier>shaded-protobuf|linux-[\w-]+|tests))?\.jar")
_CLASSIFIERS = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_UNKNOWN = "not stated"
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562, the namespace of URLs


def components(environment: Path, *, without: str) -> list[dict[str, Any]]:
    """Return every Python distribution and jar below ``environment``, sorted.

    ``without`` is the package that the document describes.
    """
    found = [_of_distribution(each) for each in distributions(path=[str(path) for path in environment.glob("lib/python3*/site-packages")])]
    found += [_of_jar(path) for path in environment.rglob("*.jar") if path.is_file()]
    return sorted((each for each in found if each["name"] != without), key=lambda each: (each["purl"], each["bom-ref"]))


def _of_distribution(distribution: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{distribution.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
        "licenses": _licences(_licence_of(distribution)),
    }


def _licence_of(distribution: Distribution) -> str:
    """Return the licence expression (PEP 639).

    Older metadata gives the classifiers, or the free text if it is short enough to be a name.
    """
    metadata = distribution.metadata.json  # names in lower case, repeated fields as lists
    if expression := metadata.get("license_expression"):
        return str(expression)
    if classified := [match[1] for each in metadata.get("classifier", ()) if (match := _CLASSIFIERS.fullmatch(each))]:
        return " AND ".join(sorted(classified))
    text = str(metadata.get("license") or "").strip()
    return text if text and "\n" not in text else _UNKNOWN


def _of_jar(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    with zipfile.ZipFile(path) as jar:
        names = jar.namelist()
        described = [name for name in names if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", name)]
        properties = [_properties(jar.read(name).decode(errors="replace")) for name in described]
        manifest = (
            _properties(jar.read("META-INF/MANIFEST.MF").decode(errors="replace"), separator=":") if "META-INF/MANIFEST.MF" in names else {}
        )
    match = _JAR.fullmatch(path.name)
    name, version = (match["name"], match["version"]) if match else (path.stem, manifest.get("Implementation-Version", "0"))
    # A shaded jar describes several artifacts; the one with its own name counts.
    group = next((each.get("groupId") for each in properties if each.get("artifactId") == name), None)
    found: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        "licenses": _licences(manifest.get("Bundle-License", _UNKNOWN).split(";")[0].strip()),
    }
    if group:
        found["group"] = group
    return {**found, "bom-ref": f"{found['purl']}#{path.name}"}


def _properties(text: str, *, separator: str = "=") -> dict[str, str]:
    joined = re.sub(r"\r?\n ", "", text)  # a continuation line starts with a space
    pairs = (line.partition(separator) for line in joined.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, found, value in pairs if found}


def _licences(stated: str) -> list[dict[str, Any]]:
    return [] if stated == _UNKNOWN else [{"license": {"name": stated}}]


def document(name: str, version: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the CycloneDX document. Its serial number is derived from its content."""
    content = hashlib.sha256(json.dumps([name, version, parts], sort_keys=True).encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": name,
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
    }


def licence_list(parts: list[dict[str, Any]]) -> str:
    """Return a line for each component with name, version and licence."""
    lines = [(each["name"], each["version"], next((one["license"]["name"] for one in each["licenses"]), _UNKNOWN)) for each in parts]
    return "".join(f"{name} {version}: {licence}\n" for name, version, licence in lines)


def main(arguments: list[str]) -> int:
    """Write ``<out>/sbom.cdx.json`` and ``<out>/licences.txt``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="the image")
    parser.add_argument("--of", required=True, help="the package that the image is made for; its version is the image's")
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    parts = components(given.environment, without=given.of)
    version = next(
        each.version
        for each in distributions(path=[str(p) for p in given.environment.glob("lib/python3*/site-packages")])
        if each.metadata["Name"] == given.of
    )
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "sbom.cdx.json").write_text(json.dumps(document(given.name, version, parts), indent=1, sort_keys=True) + "\n")
    (given.out / "licences.txt").write_text(licence_list(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

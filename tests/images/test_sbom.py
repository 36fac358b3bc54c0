"""The bill of materials of an environment: every distribution and jar, with version, licence and hash."""

import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "docker" / "images" / "inside" / "sbom.py"
SPEC = importlib.util.spec_from_file_location("sbom", FILE)
sbom = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sbom)


def distribution(packages: Path, name: str, version: str, *fields: str) -> None:
    folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *fields]) + "\n")


def jar(path: Path, *, manifest: str = "Manifest-Version: 1.0\n", coordinates: tuple[str, str] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("META-INF/MANIFEST.MF", manifest)
        if coordinates:
            group, name = coordinates
            out.writestr(f"META-INF/maven/{group}/{name}/pom.properties", f"#made\ngroupId={group}\nartifactId={name}\nversion=1.0\n")


@pytest.fixture
def environment(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    distribution(packages, "dblog", "0.1.0", "License-Expression: Apache-2.0")
    distribution(packages, "Some.Thing", "2.0", "License-Expression: MIT")
    distribution(packages, "older", "1.0", "Classifier: License :: OSI Approved :: BSD License")
    distribution(packages, "silent", "3")
    jar(tmp_path / "share" / "kafka-clients-3.9.1.jar", coordinates=("org.apache.kafka", "kafka-clients"))
    jar(
        tmp_path / "share" / "made_2.13-4.1.1.jar",
        manifest="Manifest-Version: 1.0\r\nBundle-License: https://example.org/lic\r\n ence.txt;x=y\r\n",
    )
    return tmp_path


def test_every_distribution_and_jar_is_there_but_the_package_itself(environment):
    parts = sbom.components(environment, without="dblog")

    assert [each["purl"] for each in parts] == [
        "pkg:generic/made_2.13@4.1.1",
        "pkg:maven/org.apache.kafka/kafka-clients@3.9.1",
        "pkg:pypi/older@1.0",
        "pkg:pypi/silent@3",
        "pkg:pypi/some-thing@2.0",
    ]
    content = (environment / "share" / "kafka-clients-3.9.1.jar").read_bytes()
    assert parts[1]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def test_the_licences_are_listed_and_silence_is_said(environment):
    assert sbom.licence_list(sbom.components(environment, without="dblog")).splitlines() == [
        "made_2.13 4.1.1: https://example.org/licence.txt",
        "kafka-clients 3.9.1: not stated",
        "older 1.0: BSD License",
        "silent 3: not stated",
        "some-thing 2.0: MIT",
    ]


def test_the_same_environment_gives_the_same_document(environment, tmp_path):
    for out in ("a", "b"):
        assert sbom.main(["--name", "dblog-worker", "--of", "dblog", "--environment", str(environment), "--out", str(tmp_path / out)]) == 0

    first, second = ((tmp_path / out / "sbom.cdx.json").read_bytes() for out in ("a", "b"))
    assert first == second
    document = json.loads(first)
    assert document["metadata"]["component"]["version"] == "0.1.0"
    references = [each["bom-ref"] for each in document["components"]]
    assert len(references) == len(set(references)) == 5

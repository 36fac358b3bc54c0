"""Both images are built, by whichever engine is here or can be installed; `make images-test` runs them besides."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from images.build import IMAGES
from images.engine import Engine, engine, install
from stack.environment import BUILD, ROOT
from support.servers import required

BUILD_S_MAX = 1500
"""A first build downloads everything, beside other tests."""


@pytest.fixture(scope="module")
def builder() -> Engine:
    with required():
        install()
        return engine()


@pytest.mark.timeout(BUILD_S_MAX + 300)
def test_both_images_are_built_within_their_sizes_with_programs_licences_and_no_compiler(builder: Engine, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "images", "build", "--no-layers"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "docker")}
    built = subprocess.run(line, env=environment, capture_output=True, text=True, errors="replace", timeout=BUILD_S_MAX, check=False)

    assert built.returncode == 0, f"{built.stdout[-4000:]}\n{built.stderr[-4000:]}"
    for image in IMAGES:
        assert f"images: {image.tag} has " in built.stdout
        materials = json.loads((BUILD / "images" / image.name / "sbom.cdx.json").read_text())
        assert materials["metadata"]["component"]["name"] == image.name
        assert {"dblog-worker": "confluent-kafka", "dblog-sink": "pyspark"}[image.name] in {
            part["name"] for part in materials["components"]
        }
    builder.copy_out("dblog-worker:" + IMAGES[0].version, "/opt/dblog", tmp_path / "worker")
    assert {file.name.partition(".")[0] for file in (tmp_path / "worker").rglob("*.so") if "dblog" in file.parts} >= {
        "_fast",
        "_librdkafka",
    }
    builder.copy_out("dblog-sink:" + IMAGES[1].version, "/usr/bin", tmp_path / "bin")
    assert [file.name for file in (tmp_path / "bin").iterdir() if file.name in {"gcc", "cc", "javac", "mvn"}] == []

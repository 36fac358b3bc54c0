"""The images are built, by whichever engine is here or can be installed; `make images-test` runs them besides."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from images.build import IMAGES, Image
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


WORKER, SINK = IMAGES


def built(image: Image) -> None:
    """Build it, and look at what every image has to have."""
    line = [sys.executable, "-m", "images", "build", image.name, "--no-layers"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "docker")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, errors="replace", timeout=BUILD_S_MAX, check=False)

    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert f"images: {image.tag} has " in done.stdout
    materials = json.loads((BUILD / "images" / image.name / "sbom.cdx.json").read_text())
    assert materials["metadata"]["component"]["name"] == image.name
    assert {WORKER: "confluent-kafka", SINK: "pyspark"}[image] in {part["name"] for part in materials["components"]}


@pytest.mark.long
@pytest.mark.timeout(BUILD_S_MAX + 300)
def test_the_worker_s_image_is_built_within_its_size_with_its_compiled_parts(builder: Engine, tmp_path: Path) -> None:
    built(WORKER)

    builder.copy_out("dblog-worker:" + WORKER.version, "/opt/dblog", tmp_path / "worker")
    assert {file.name.partition(".")[0] for file in (tmp_path / "worker").rglob("*.so") if "dblog" in file.parts} >= {
        "_fast",
        "_librdkafka",
    }


@pytest.mark.long
@pytest.mark.timeout(BUILD_S_MAX + 300)
def test_the_sink_s_image_is_built_within_its_size_without_a_compiler(builder: Engine, tmp_path: Path) -> None:
    built(SINK)

    builder.copy_out("dblog-sink:" + SINK.version, "/usr/bin", tmp_path / "bin")
    assert [file.name for file in (tmp_path / "bin").iterdir() if file.name in {"gcc", "cc", "javac", "mvn"}] == []

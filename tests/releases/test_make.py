"""The targets of the Makefile: `make release-key`, `make release` and `make publish`."""

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from release.folder import open_release
from releases.small_release import small_release
from stack import ImageRegistry
from stack.environment import ROOT
from support.servers import required


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = ["make", "--no-print-directory", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DBLOG_")} | {"HOME": str(folder / "home")}
    given = {**kept, "DBLOG_CACHE": os.environ.get("DBLOG_CACHE", str(Path.home() / ".cache" / "dblog")), **environment}
    return subprocess.run(line, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository's files with a build folder of its own, whose virtual environment is the one that runs this test."""
    folder = tmp_path / "clone"
    (folder / "build" / "release").mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name != "build" and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    for made in ("venv", "stamps"):
        (folder / "build" / made).symlink_to(ROOT / "build" / made)
    return folder


def test_make_says_what_a_release_needs_and_makes_a_key(clone: Path):
    assert "which version? make release VERSION=1.4.0 KEY=dblog.key" in make(clone, "release").stderr
    assert "a release is signed: by which key?" in make(clone, "release", "VERSION=1.4.0").stderr
    assert "to which registry? make publish REGISTRY=" in make(clone, "publish").stderr

    made = make(clone, "release-key", "KEY=build/dblog.key")

    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE((clone / "build" / "dblog.key").stat().st_mode) == 0o600
    refused = make(clone, "release", "VERSION=1.4", "KEY=build/dblog.key")
    assert refused.returncode != 0
    assert "VERSION='1.4' is no version that images, chart and wheels can all have" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_make_publishes_and_prints_the_commands_that_verify_and_install(clone: Path, tmp_path: Path):
    made = small_release(tmp_path)
    made.folder.rename(clone / "build" / "release" / "1.4.0")
    with required():
        server = ImageRegistry(tmp_path / "registry")
        server.start()
    try:
        done = make(clone, "publish", f"REGISTRY={server.host}/a", f"TRUST={made.public_file}")
    finally:
        server.kill()

    assert done.returncode == 0, done.stderr
    verify, install = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")][-2:]
    assert verify.startswith("cosign verify --key ")
    assert install.startswith(f"helm install dblog oci://{server.host}/a/dblog --version 1.4.0 ")
    refused = make(clone, "publish", f"REGISTRY={server.host}/a", "VERSION=1.5.0")
    assert "there is no release 1.5.0 in" in refused.stderr


PODMAN = """#!{python}
import json, shutil, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {docker!r}]
from releases.small_release import saved_image
store = Path({store!r})
verb, *rest = sys.argv[1:]
print(verb, *rest, file=(store / "calls").open("a"))
if verb == "build":
    tag = rest[rest.index("--tag") + 1]
    saved_image(store / (tag + ".tar"), [tag.encode()], version=tag.partition(":")[2])
elif verb == "image":
    print("1000" if "{{{{.Size}}}}" in rest else "")
elif verb == "create":
    print(rest[0])
elif verb == "cp":
    target = Path(rest[1])
    target.mkdir()
    (target / "sbom.cdx.json").write_text(json.dumps({{"bomFormat": "CycloneDX", "metadata": {{"component": {{"name": rest[0]}}}}}}))
    (target / "licences.txt").write_text("")
elif verb == "save":
    shutil.copy(store / (rest[-1] + ".tar"), rest[rest.index("--output") + 1])
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_release_is_built_of_the_commit_with_its_version_in_wheels_images_and_chart(tmp_path: Path):
    """An engine that builds nothing stands in for Podman; the images are built by tests/images."""
    clone, store = tmp_path / "clone", tmp_path / "store"
    store.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", str(clone)], check=True)
    (clone / "build").mkdir()
    (clone / "build" / "venv").symlink_to(ROOT / "build" / "venv")
    engine, compiler = tmp_path / "podman", tmp_path / "cc"
    engine.write_text(PODMAN.format(python=sys.executable, tests=str(ROOT / "tests"), docker=str(ROOT / "docker"), store=str(store)))
    # Without optimisation, which takes half of the time.
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CC", "cc")} "$@" -O0\n')
    for program in (engine, compiler):
        program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(clone / "docker"), "ENGINE": str(engine), "CC": str(compiler)}
    python = [sys.executable, "-m", "release"]
    subprocess.run([*python, "key", str(tmp_path / "dblog.key")], env=environment, check=True)
    line = [*python, "make", "1.4.0-rc.1", "--key", str(tmp_path / "dblog.key"), "--registry", "registry.example/dblog"]

    done = subprocess.run(line, cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=1500)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    folder = clone / "build" / "release" / "1.4.0-rc.1"
    description = open_release(folder, trusted=(tmp_path / "dblog.pub").read_bytes())
    assert (
        description.revision
        == subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    )
    assert {path.name.split("-cp")[0] for path in (folder / "python").glob("*.whl")} == {
        "dblog-1.4.0rc1",
        "dblog_sink-1.4.0rc1-py3-none-any.whl",
    }
    (of_worker,) = (folder / "python").glob("dblog-*.whl")
    with zipfile.ZipFile(of_worker) as wheel:
        assert b'__version__ = "1.4.0rc1"' in wheel.read("dblog/__init__.py")
    with zipfile.ZipFile(folder / "python" / "dblog_sink.zip") as code:
        assert b'__version__ = "1.4.0rc1"' in code.read("dblog_sink/__init__.py")
    calls = (store / "calls").read_text()
    assert "--build-arg VERSION=1.4.0rc1" in calls
    assert f"--build-arg REVISION={description.revision}" in calls
    assert (folder / "chart" / "dblog-1.4.0-rc.1.tgz").is_file()
    assert json.loads((folder / "sbom" / "dblog-worker.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    # Nothing else is left, and the commit's files are as they were.
    assert [path.name for path in (clone / "build" / "release").iterdir()] == ["1.4.0-rc.1"]
    assert subprocess.run(["git", "-C", str(clone), "status", "--porcelain"], capture_output=True, check=True).stdout == b""
    assert (
        "is there already, and a version is made once"
        in subprocess.run(line, cwd=clone, env=environment, capture_output=True, text=True, check=False).stderr
    )

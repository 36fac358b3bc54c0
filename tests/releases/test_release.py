"""A release is complete, follows its version everywhere, is the same when it is made again, and shows every later change."""

import base64
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from chart.rendered import helm
from release.folder import chosen_release, layout_of, open_release, seal
from release.image import store_image
from release.layout import Layout, children
from release.make import IMAGES
from release.signing import make_key, read_key
from release.stamp import PACKAGES, commit_of, copy_sources, stamp_packages
from release.version import Version
from releases.cosign_rules import opened as opened_envelope
from releases.cosign_rules import openssl_accepts
from releases.small_release import BASE_DIGEST, COMMIT, Made, saved_image, small_release
from stack.environment import ROOT
from stack.errors import StackError

PLACE = "registry.example/dblog"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small_release(tmp_path_factory.mktemp("release"), version="1.4.0-rc.1", registry=PLACE)


def index_of(made: Made, image: str) -> str:
    return next(
        each.descriptor.digest for each in layout_of(made.folder).entries() if (each.repository, each.tag) == (image, made.version.text)
    )


@pytest.mark.parametrize("text", ["1.4", "v1.4.0", "01.4.0", "1.4.0-beta", "1.4.0+local", "1.4.0-rc.01", "", "1.4.0 ", "$(id)"])
def test_a_version_that_not_all_packages_can_have_is_refused_with_an_example(text: str):
    with pytest.raises(StackError, match=re.escape(f"VERSION={text!r} is no version")) as refused:
        Version.parse(text)

    assert "1.4.0-rc.1" in str(refused.value)


def test_a_candidate_is_spelt_as_each_kind_of_package_wants_it():
    assert (Version.parse("1.4.0-rc.2").text, Version.parse("1.4.0-rc.2").python) == ("1.4.0-rc.2", "1.4.0rc2")
    assert Version.parse("10.0.3").python == "10.0.3"


def test_the_packed_chart_runs_the_images_of_its_version_by_digest_from_their_registry(made: Made):
    done = helm("template", "rel", made.folder / "chart" / "dblog-1.4.0-rc.1.tgz", "--set", "sink.enabled=true")

    assert done.returncode == 0, done.stderr
    ran = set(re.findall(r'image: "?([^"\s]*dblog-[^"\s]*)', done.stdout))
    assert ran == {f"{PLACE}/{image}@{index_of(made, image)}" for image in IMAGES}
    shown = yaml.safe_load(helm("show", "chart", made.folder / "chart" / "dblog-1.4.0-rc.1.tgz").stdout)
    assert (shown["version"], shown["appVersion"]) == ("1.4.0-rc.1", "1.4.0-rc.1")
    assert f"{PLACE}/dblog-sink:1.4.0-rc.1" in shown["annotations"]["artifacthub.io/images"]
    assert "dblog-worker:0.1.0" not in shown["annotations"]["artifacthub.io/images"]


def test_other_lines_of_the_chart_are_as_in_the_repository(made: Made, tmp_path: Path):
    with tarfile.open(made.folder / "chart" / "dblog-1.4.0-rc.1.tgz") as packed:
        packed.extractall(tmp_path, filter="data")

    ours = (ROOT / "helm" / "values.yaml").read_text().splitlines()
    packed_lines = (tmp_path / "dblog" / "values.yaml").read_text().splitlines()
    changed = [now for before, now in zip(ours, packed_lines, strict=True) if before != now]
    assert [line.split(":")[0].strip() for line in changed] == ["registry", "digest"] * 2
    assert (tmp_path / "dblog" / "templates" / "NOTES.txt").read_text() == (ROOT / "helm" / "templates" / "NOTES.txt").read_text()


def test_the_same_commit_and_key_give_the_same_images_chart_and_signatures(made: Made, tmp_path: Path):
    again = small_release(tmp_path, version="1.4.0-rc.1", registry=PLACE, key=made.key)

    def tagged(release: Made) -> dict[str, str]:
        # Attestations have the times of the build in them.
        return {f"{e.repository}:{e.tag}": e.descriptor.digest for e in layout_of(release.folder).entries() if not e.tag.endswith(".att")}

    assert len(tagged(made)) == 8
    assert tagged(again) == tagged(made)


def test_checksums_are_signed_as_cosign_signs_files_and_openssl_verifies_them(made: Made):
    signature = base64.b64decode((made.folder / "SHA256SUMS.sig").read_text())

    assert openssl_accepts(made.public_file, (made.folder / "SHA256SUMS").read_bytes(), signature)
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for name in ("chart/dblog-1.4.0-rc.1.tgz", "python/dblog-1.4.0rc1-py3-none-any.whl", "images/index.json", "provenance.intoto.jsonl"):
        assert f"{name}: OK" in done.stdout


def test_provenance_names_commit_version_base_and_locks_and_every_file_and_no_machine(made: Made):
    (line,) = (made.folder / "provenance.intoto.jsonl").read_bytes().splitlines()
    statement = opened_envelope(line, made.public_file)

    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"version": "1.4.0-rc.1", "registry": PLACE, "revision": COMMIT.revision}
    dependencies = {each["uri"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert dependencies[f"git+{COMMIT.source}@{COMMIT.revision}"] == {"gitCommit": COMMIT.revision}
    assert dependencies["docker://docker.io/library/python:3.11"] == {"sha256": BASE_DIGEST.removeprefix("sha256:")}
    assert any(uri.endswith("#docker/images/locks/worker.txt") for uri in dependencies)
    subjects = {each["name"] for each in statement["subject"]}
    assert {"chart/dblog-1.4.0-rc.1.tgz", "python/dblog-1.4.0rc1.tar.gz", "dblog-worker:1.4.0-rc.1", "dblog:1.4.0-rc.1"} <= subjects
    assert statement["predicate"]["runDetails"]["metadata"]["startedOn"] == "2026-01-02T03:04:05Z"
    assert Path.home().as_posix() not in json.dumps(statement)
    assert subprocess.run(["hostname"], capture_output=True, text=True, check=False).stdout.strip() not in json.dumps(statement)


def test_everything_shipped_has_a_bill_of_materials(made: Made):
    bills = {path.name: json.loads(path.read_text()) for path in (made.folder / "sbom").glob("*.cdx.json")}

    assert set(bills) == {
        "dblog-worker.cdx.json",
        "dblog-sink.cdx.json",
        "dblog-chart.cdx.json",
        "dblog-1.4.0rc1-py3-none-any.whl.cdx.json",
    }
    of_wheel = {part["name"]: part for part in bills["dblog-1.4.0rc1-py3-none-any.whl.cdx.json"]["components"]}
    assert of_wheel["httpx"]["purl"] == "pkg:pypi/httpx@0.28.1"
    assert of_wheel["pyjwt"]["scope"] == "optional"
    of_chart = {part["name"]: part["version"] for part in bills["dblog-chart.cdx.json"]["components"]}
    assert of_chart[f"{PLACE}/dblog-worker"] == index_of(made, "dblog-worker")
    assert {"docker.io/apache/kafka", "docker.io/library/mariadb"} <= set(of_chart)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "release.json").write_text("{}"), "release.json differs from SHA256SUMS"),
        (lambda folder: (folder / "chart" / "more").write_text("x"), "chart/more is not in SHA256SUMS"),
        (lambda folder: (folder / "python" / "dblog-1.4.0rc1.tar.gz").unlink(), "dblog-1.4.0rc1.tar.gz is missing"),
        (lambda folder: (folder / "SHA256SUMS").write_text(""), "SHA256SUMS is not signed with this key"),
        (lambda folder: (folder / "SHA256SUMS.sig").unlink(), "is no complete release: .*SHA256SUMS.sig cannot be read"),
        (lambda folder: flip(next((folder / "images" / "blobs" / "sha256").iterdir())), "is damaged: its content has another digest"),
    ],
)
def test_a_release_that_was_changed_is_refused_by_the_name_of_the_file(made: Made, tmp_path: Path, change, message: str):
    shutil.copytree(made.folder, tmp_path / "copy")
    change(tmp_path / "copy")

    with pytest.raises(StackError, match=message):
        open_release(tmp_path / "copy")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_release_by_another_key_is_refused_where_a_key_is_trusted(made: Made, tmp_path: Path):
    shutil.copytree(made.folder, tmp_path / "copy")
    make_key(tmp_path / "other.key")
    seal(tmp_path / "copy", read_key(tmp_path / "other.key"))

    assert open_release(tmp_path / "copy").version == "1.4.0-rc.1"
    with pytest.raises(StackError, match="is not signed with this key"):
        open_release(tmp_path / "copy", trusted=made.public_file.read_bytes())


def test_an_image_keeps_its_configuration_and_layers_and_gets_an_index(made: Made):
    layout = layout_of(made.folder)
    (platform,), _ = children(layout.read(index_of(made, "dblog-sink")))
    _, (config, *layers) = children(layout.read(platform.digest))

    assert platform.extra["platform"] == {"architecture": "amd64", "os": "linux"}
    assert json.loads(layout.read(config.digest))["config"]["Healthcheck"] == {"Test": ["CMD", "true"]}
    with tarfile.open(layout.path(layers[2].digest)) as layer:
        assert layer.extractfile("file-2").read() == b"dblog-sink"


def test_an_archive_with_a_damaged_layer_is_refused(tmp_path: Path):
    archive = saved_image(tmp_path / "image.tar", [b"layer"], version="1.0.0")
    archive.write_bytes(archive.read_bytes().replace(b"layer", b"lager", 1))
    layout = Layout(tmp_path / "layout")
    layout.create()

    with pytest.raises(StackError, match=r"a layer of .*image.tar is damaged"):
        store_image(layout, archive, annotations={})


def test_versions_are_written_into_a_copy_of_the_commit_alone(tmp_path: Path):
    for place, package in PACKAGES.items():
        for file in ("pyproject.toml", f"src/{package}/__init__.py"):
            (tmp_path / "clone" / place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / place / file, tmp_path / "clone" / place / file)
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=All"], check=True)

    commit = commit_of(clone)
    copy_sources(commit, tmp_path / "copy", clone)
    stamp_packages(tmp_path / "copy", Version.parse("2.0.0-rc.3"))

    assert 'version = "2.0.0rc3"' in (tmp_path / "copy" / "connect-worker" / "pyproject.toml").read_text()
    assert '__version__ = "2.0.0rc3"' in (tmp_path / "copy" / "spark-sink" / "src" / "dblog_sink" / "__init__.py").read_text()
    assert commit_of(clone) == commit
    (clone / "connect-worker" / "mine.py").write_text("")
    with pytest.raises(StackError, match=r"not as committed: connect-worker/mine.py. Commit or remove them"):
        commit_of(clone)


def test_the_only_release_is_published_and_of_several_one_has_to_be_named(tmp_path: Path):
    with pytest.raises(StackError, match=r"there is no release in .* make release VERSION=... KEY=..."):
        chosen_release(None, tmp_path)
    for version in ("1.0.0", "1.1.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "SHA256SUMS").touch()
        if version == "1.0.0":
            assert chosen_release(None, tmp_path) == tmp_path / "1.0.0"

    with pytest.raises(StackError, match=r"has 1.0.0, 1.1.0. Name one: VERSION="):
        chosen_release(None, tmp_path)
    assert chosen_release("1.1.0", tmp_path) == tmp_path / "1.1.0"
    with pytest.raises(StackError, match=r"there is no release 9.9.9"):
        chosen_release("9.9.9", tmp_path)

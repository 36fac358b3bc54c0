"""A release pushed to a real registry program: what comes back is what was signed, helm installs from it, and what breaks is mended."""

import json
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chart.rendered import helm
from release.address import Address
from release.folder import layout_of, seal
from release.layout import children
from release.login import Login
from release.make import IMAGES
from release.publish import publish
from release.registry import Registry
from release.signing import make_key, read_key
from releases.cosign_rules import Viewer, attested, digest_of, signed_payloads
from releases.small_release import Made, small_release
from stack import ImageRegistry
from stack.errors import StackError
from stack.process import wait_until
from support.servers import required

PATH = "team/dblog"
LOGINS = "releaser:$2b$04$RWRGzFw65zU0kga8UgeqpOClCdM4o4S3xG2CS.6XMc8nChTCj4rA.\n"
"""With the password `only here`."""
LOGIN = Login("releaser", "only here")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory):
    with required():
        server = ImageRegistry(tmp_path_factory.mktemp("registry"), logins=LOGINS)
        server.start()
    try:
        yield server
    finally:
        server.kill()


def pushed(folder: Path, registry: ImageRegistry, *, path: str = PATH, login: Login | None = LOGIN) -> tuple[str, str]:
    """Publish a release, and return the two commands."""
    with Registry(Address.parse(f"{registry.host}/{path}"), login) as client:
        return publish(folder, client)


@pytest.fixture(scope="module")
def made(registry: ImageRegistry, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small_release(tmp_path_factory.mktemp("release"), registry=f"{registry.host}/{PATH}")


@pytest.fixture(scope="module")
def commands(made: Made, registry: ImageRegistry) -> tuple[str, str]:
    return pushed(made.folder, registry)


@pytest.fixture
def viewer(registry: ImageRegistry) -> Viewer:
    return Viewer(registry.host, ("releaser", "only here"))


def digests(made: Made) -> dict[str, str]:
    return json.loads((made.folder / "release.json").read_text())["digests"]


def test_everything_comes_back_by_digest_with_the_bytes_that_were_signed(made: Made, commands, viewer: Viewer):
    layout = layout_of(made.folder)

    def compare(repository: str, content: bytes) -> int:
        manifests, blobs = children(content)
        for blob in blobs:
            assert viewer.blob(repository, blob.digest) == layout.read(blob.digest)
        for manifest in manifests:
            assert viewer.manifest(repository, manifest.digest) == layout.read(manifest.digest)
        return len(blobs) + sum(1 + compare(repository, layout.read(manifest.digest)) for manifest in manifests)

    compared = 0
    for entry in layout.entries():
        content = viewer.manifest(f"{PATH}/{entry.repository}", entry.tag)
        assert digest_of(content) == entry.descriptor.digest
        compared += 1 + compare(f"{PATH}/{entry.repository}", content)
    assert compared > 30
    assert {name: digest_of(viewer.manifest(f"{PATH}/{name}", "1.4.0")) for name in digests(made)} == digests(made)
    assert len(viewer.tags(f"{PATH}/dblog-worker")) == 4


def test_signatures_and_statements_hold_by_cosign_s_rules_and_by_no_other_key(made: Made, commands, viewer: Viewer, tmp_path: Path):
    stranger = make_key(tmp_path / "stranger.key")

    for name, digest in digests(made).items():
        (payload,) = signed_payloads(viewer, f"{PATH}/{name}", digest, made.public_file)
        assert payload["critical"]["identity"]["docker-reference"] == f"{viewer.host}/{PATH}/{name}"
        assert signed_payloads(viewer, f"{PATH}/{name}", digest, stranger) == []
        assert set(attested(viewer, f"{PATH}/{name}", digest, made.public_file)) == {
            "https://slsa.dev/provenance/v1",
            "https://cyclonedx.org/bom",
        }
    for image in IMAGES:
        (platform,) = json.loads(viewer.manifest(f"{PATH}/{image}", "1.4.0"))["manifests"]
        assert len(signed_payloads(viewer, f"{PATH}/{image}", platform["digest"], made.public_file)) == 1


def test_the_printed_command_installs_the_chart_whose_images_are_those_of_the_release(
    made: Made, commands, registry: ImageRegistry, tmp_path: Path
):
    verify, install = commands
    command = install.split()
    assert command[:4] == ["helm", "install", "dblog", f"oci://{registry.host}/{PATH}/dblog"]
    assert "--set" not in command
    assert verify.endswith(f"{registry.host}/{PATH}/dblog@{digests(made)['dblog']}")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {registry.host: {"auth": "cmVsZWFzZXI6b25seSBoZXJl"}}}))

    for major in (3, 4):
        # What is installed, without a cluster to install it in.
        line = ["template", *command[2:], "--set", "sink.enabled=true", "--registry-config", str(config)]
        done = helm(*line, major=major)

        assert done.returncode == 0, done.stderr
        ran = set(re.findall(r'image: "?([^"\s]*dblog-[^"\s]*)', done.stdout))
        assert ran == {f"{registry.host}/{PATH}/{image}@{digests(made)[image]}" for image in IMAGES}


def test_the_pulled_chart_is_the_archive_of_the_release(made: Made, commands, registry: ImageRegistry, tmp_path: Path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {registry.host: {"auth": "cmVsZWFzZXI6b25seSBoZXJl"}}}))
    line = [
        "pull",
        f"oci://{registry.host}/{PATH}/dblog",
        "--version",
        "1.4.0",
        "--plain-http",
        "--registry-config",
        config,
        "--destination",
        tmp_path,
    ]

    done = helm(*line)

    assert done.returncode == 0, done.stderr
    assert f"Digest: {digests(made)['dblog']}" in done.stdout + done.stderr
    assert (tmp_path / "dblog-1.4.0.tgz").read_bytes() == (made.folder / "chart" / "dblog-1.4.0.tgz").read_bytes()


def test_publishing_again_sends_no_blob_and_changes_nothing(made: Made, commands, registry: ImageRegistry, viewer: Viewer):
    log = registry.folder / "registry.log"
    already = len(log.read_text())

    assert pushed(made.folder, registry) == commands

    assert '"POST ' not in log.read_text()[already:]
    assert len(viewer.tags(f"{PATH}/dblog-sink")) == 4


def test_a_mirror_s_command_names_where_the_images_are(made: Made, registry: ImageRegistry):
    _, install = pushed(made.folder, registry, path="mirror")

    assert f"--set worker.image.registry={registry.host}/mirror --set sink.image.registry={registry.host}/mirror" in install


def test_a_version_that_is_published_is_not_replaced_by_another_one(
    made: Made, commands, registry: ImageRegistry, viewer: Viewer, tmp_path: Path
):
    # Signed, and as whole as any: the sink's image under the worker's name.
    shutil.copytree(made.folder, tmp_path / "other")
    index = json.loads((tmp_path / "other" / "images" / "index.json").read_text())
    for entry in index["manifests"]:
        if entry["annotations"]["org.opencontainers.image.ref.name"] == "dblog-worker:1.4.0":
            entry["digest"] = digests(made)["dblog-sink"]
    (tmp_path / "other" / "images" / "index.json").write_text(json.dumps(index))
    seal(tmp_path / "other", made.key)

    with pytest.raises(StackError, match=rf"{PATH}/dblog-worker:1.4.0 is there already with another content .* release another version"):
        pushed(tmp_path / "other", registry)

    assert digest_of(viewer.manifest(f"{PATH}/dblog-worker", "1.4.0")) == digests(made)["dblog-worker"]


def test_a_login_that_is_missing_or_wrong_is_told_with_the_way_to_give_one_and_without_it(
    made: Made, registry: ImageRegistry, tmp_path: Path
):
    with pytest.raises(StackError, match=r"wants a login and there is none. Log in: docker login, or DBLOG_REGISTRY_USER"):
        pushed(made.folder, registry, login=None)
    with pytest.raises(StackError, match=r"refused: .*status 401 .*Log in: docker login") as refused:
        pushed(made.folder, registry, login=Login("releaser", "a wrong secret"))
    assert "a wrong secret" not in str(refused.value)


def test_no_login_is_in_the_client_s_text_or_the_registry_s_log(commands, registry: ImageRegistry):
    assert "only here" not in repr(Login("releaser", "only here"))
    assert "only here" not in (registry.folder / "registry.log").read_text()


def test_another_key_s_signature_stays_beside_ours(made: Made, commands, registry: ImageRegistry, viewer: Viewer, tmp_path: Path):
    make_key(tmp_path / "second.key")
    # Of the same layers, so the same images, signed by a second key.
    second = small_release(tmp_path / "second", registry=f"{registry.host}/{PATH}", key=read_key(tmp_path / "second.key"))

    pushed(second.folder, registry)

    for name, digest in digests(made).items():
        for public in (made.public_file, second.public_file):
            assert len(signed_payloads(viewer, f"{PATH}/{name}", digest, public)) == 1
        assert len(json.loads(viewer.manifest(f"{PATH}/{name}", digest.replace(":", "-") + ".sig"))["layers"]) == 2
    assert pushed(made.folder, registry) == commands


# ---- the long trial


LARGE = 192 << 20
"""Bytes of a layer that a registry is killed over."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_registry_that_is_killed_in_the_middle_gets_the_rest_when_it_is_back(tmp_path: Path):
    made = small_release(tmp_path, layers=(random.Random(7).randbytes(LARGE),))
    with required():
        server = ImageRegistry(tmp_path / "registry")
        server.start()
    kills: list[int] = []

    def arrived() -> int:
        uploads = server.folder / "data" / "docker" / "registry" / "v2" / "repositories" / PATH / "dblog-worker" / "_uploads"
        return sum(file.stat().st_size for file in uploads.rglob("data"))

    def kill_in_the_middle() -> None:
        wait_until(lambda: arrived() > LARGE // 8, timeout_s=300, what="an upload that is under way", pause_s=0.002)
        server.kill()
        kills.append(arrived())
        server.start()

    try:
        with ThreadPoolExecutor(1) as other:
            killing = other.submit(kill_in_the_middle)
            pushed(made.folder, server)
            killing.result()
        viewer, layout = Viewer(server.host), layout_of(made.folder)
        (platform,), _ = children(viewer.manifest(f"{PATH}/dblog-worker", "1.4.0"))
        _, (_, layer, _) = children(layout.read(platform.digest))

        assert LARGE // 8 < kills[0] < layer.size
        assert digest_of(viewer.blob(f"{PATH}/dblog-worker", layer.digest)) == layer.digest
        assert len(signed_payloads(viewer, f"{PATH}/dblog-worker", digests(made)["dblog-worker"], made.public_file)) == 1
    finally:
        server.kill()

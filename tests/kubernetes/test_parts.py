"""The pieces of the Kubernetes that `make kubernetes-test` runs, without running it."""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile

import pytest
from kubernetes import settings
from kubernetes.go_module import go_mod
from kubernetes.node import Node
from kubernetes.programs import Programs
from kubernetes.relay import relay
from kubernetes.single_binary_image import write_image

PUBLISHED = """\
// This is a generated file. Do not edit directly.

module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
)
"""


def test_the_parts_of_kubernetes_get_the_version_that_belongs_to_it():
    lines = go_mod(PUBLISHED, version="1.34.4").splitlines()

    assert "require k8s.io/kubernetes v1.34.4" in lines
    assert [line for line in lines if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.34.4",
        "replace k8s.io/kubelet => k8s.io/kubelet v0.34.4",
    ]
    assert {"go 1.24.0", "godebug default=go1.24"} <= set(lines)


def test_a_folder_that_a_node_cannot_see_is_refused(tmp_path):
    nowhere = Programs(*[tmp_path] * 7)

    with pytest.raises(ValueError, match="choose another folder"):
        Node(settings.Path("/var/lib/dblog-node"), nowhere)


KILL_POD = """
import sys
from pathlib import Path
from kubernetes import node
from kubernetes.programs import Programs

node._CGROUPS = folder = Path(sys.argv[1])
print(node.Node(folder / "node", Programs(*[folder] * 7)).kill_pod(sys.argv[2]))
"""


@pytest.fixture
def pods(tmp_path):
    """Control groups of Pods, as the kernel shows them: of a process that has just ended, or is of another namespace, the number is 0."""
    for name, shown in {"one": "0\n{pid}\n", "ended": "0\n", "": "{pid}\n"}.items():
        (tmp_path / "kubepods" / f"pod{name}" / "container").mkdir(parents=True)
        (tmp_path / "kubepods" / f"pod{name}" / "container" / "cgroup.procs").write_text(shown)
    return tmp_path


def killed(pods, uid):
    """How the kill of a Pod ended, in a process group of its own, and whether the Pod's process lives."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        for file in pods.rglob("cgroup.procs"):
            file.write_text(file.read_text().format(pid=process.pid))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, "-c", KILL_POD, str(pods), uid]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20 if done.returncode == 0 else 0.1)
        is_killed = process.poll() == -signal.SIGKILL
        process.kill()
    return done, is_killed


def test_the_kill_of_a_pod_ends_its_processes_and_not_its_own(pods):
    done, is_killed = killed(pods, "one")

    assert (done.returncode, done.stdout, is_killed) == (0, "1\n", True), done.stderr


@pytest.mark.parametrize("uid", ["ended", "other", ""])
def test_the_kill_of_a_pod_without_processes_ends_nothing_and_says_so(pods, uid):
    done, is_killed = killed(pods, uid)

    assert (done.returncode, is_killed) == (1, False)
    assert f"the Pod {uid!r} has no process that could be killed" in done.stderr


def test_logins_of_components_are_readable_by_their_owner_alone(tmp_path):
    settings.write(tmp_path, Programs(*[tmp_path] * 7))

    private = [tmp_path / "tokens.csv", *tmp_path.glob("*.kubeconfig"), *tmp_path.glob("*.key")]
    assert len(private) == 8
    assert {file.stat().st_mode & 0o077 for file in private} == {0}


def test_the_image_of_one_program_names_its_layer_by_its_digest(tmp_path):
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")

    write_image(tmp_path / "pause.tar", name="example/pause:1", program=program)

    with tarfile.open(tmp_path / "pause.tar") as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))
        config = json.load(archive.extractfile(manifest["Config"]))
        layer = archive.extractfile(manifest["Layers"][0]).read()
    assert manifest["RepoTags"] == ["example/pause:1"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert files.getmember(config["config"]["Entrypoint"][0].lstrip("/")).mode == 0o755


def test_two_relays_over_a_socket_file_join_a_client_and_a_server(tmp_path):
    async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())  # after the client's end of sending
        writer.close()

    async def story() -> bytes:
        server = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        outside = await relay(f"unix:{tmp_path}/s", f"tcp:127.0.0.1:{port}")
        inside = await relay("tcp:127.0.0.1:0", f"unix:{tmp_path}/s")
        reader, writer = await asyncio.open_connection(*inside.sockets[0].getsockname())
        writer.write(b"over two relays " * 10_000)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        for closing in (inside, outside, server):
            closing.close()
        return answer

    assert asyncio.run(asyncio.wait_for(story(), 30)) == b"OVER TWO RELAYS " * 10_000


def test_a_relay_whose_server_is_away_closes_the_connection(tmp_path):
    async def story() -> bytes:
        inside = await relay("tcp:127.0.0.1:0", f"unix:{tmp_path}/nobody")
        reader, writer = await asyncio.open_connection(*inside.sockets[0].getsockname())
        answer = await reader.read()
        writer.close()
        inside.close()
        return answer

    assert asyncio.run(asyncio.wait_for(story(), 30)) == b""

"""The first process of a node (pid 1 of its namespaces): it mounts, makes the network, starts the components in order, and collects what ends.

`python -m kubernetes.first_process FOLDER`, started by `kubernetes.node` in mount, network and process namespaces of its own, so that nothing of it is on
the machine: when this process is killed, the kernel ends every other one in the namespace, and mounts and interfaces go with them. The file `ready` in the
folder appears when the node takes Pods. When a component ends by itself this process ends too, and names it.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kubernetes import settings
from kubernetes.programs import Programs, programs
from stack.commands import run
from stack.process import wait_until

_OVERLAID = ("/etc", "/var/lib", "/var/log")
"""Where components write beside their own folders; what they write is in the node's folder."""

_WANTED = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the kernel that the kubelet wants to write: it is shown files that have them, and the machine's stay as they are."""


def main(folder: Path) -> int:
    parts = programs()
    _mount(folder)
    _make_network()
    settings.write(folder, parts)
    environment = {**os.environ, **parts.environment}
    control_plane, node = settings.control_plane(folder, parts), settings.node(folder, parts)
    running: dict[int, str] = {}

    def start(name: str, argv: list[str]) -> None:
        with (folder / "log" / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        running[started.pid] = name

    start("etcd", control_plane.pop("etcd"))
    start("api-server", control_plane.pop("api-server"))
    start("containerd", node.pop("containerd"))
    wait_until(lambda: _answers(parts, folder, "get", "--raw=/readyz"), timeout_s=120, what="the API server", pause_s=0.25)
    for name, argv in control_plane.items():
        start(name, argv)
    runtime = [str(parts.system / "usr/bin/ctr"), f"--address={settings.RUNTIME}"]
    wait_until(lambda: _succeeds([*runtime, "version"], environment), timeout_s=60, what="containerd", pause_s=0.25)
    run([*runtime, "--namespace=k8s.io", "images", "import", str(parts.pause_image)], what="Importing the image of Pods' first process")
    for name, argv in node.items():
        start(name, argv)
    ready = ("wait", "--for=condition=Ready", f"node/{settings.NODE}", "--timeout=10s")
    account = ("get", "serviceaccount", "default", "--namespace=default")
    for question in (ready, account):
        wait_until(
            lambda asked=question: _answers(parts, folder, *asked), timeout_s=120, what=f"kubectl {' '.join(question)}", pause_s=0.25
        )
    (folder / "ready").touch()
    while True:  # orphans of Pods' runtimes are collected here too
        pid, status = os.wait()
        if name := running.get(pid):
            print(f"{name} has ended (wait status {status}); its log is {folder}/log/{name}.log", file=sys.stderr)
            return 1


def _mount(folder: Path) -> None:
    run(["mount", "--make-rshared", "/"], what="Sharing mounts with containers")
    run(["mount", "-t", "tmpfs", "tmpfs", "/run"], what="Mounting /run")
    for path in _OVERLAID:
        upper, work = (folder / "overlay" / f"{path.replace('/', '_')}.{part}" for part in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={path},upperdir={upper},workdir={work}"
        run(["mount", "-t", "overlay", "overlay", "-o", options, path], what=f"Mounting over {path}")
    shown = folder / "sysctl"
    shown.mkdir()
    for name, value in _WANTED.items():
        if (real := Path("/proc/sys") / name).exists():
            (shown / real.name).write_text(value)
            run(["mount", "--bind", str(shown / real.name), str(real)], what=f"Showing {name}")


def _make_network() -> None:
    for command in (
        "link set lo up",
        "link add node0 type bridge",
        f"addr add {settings.ADDRESS}/24 dev node0",
        "link set node0 up",
        "route add default dev node0",
    ):
        run(["ip", *command.split()], what=f"ip {command}")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _answers(parts: Programs, folder: Path, *arguments: str) -> bool:
    return _succeeds([str(parts.kubectl), f"--kubeconfig={settings.kubeconfig(folder, 'admin')}", *arguments], {})


def _succeeds(argv: list[str], environment: Mapping[str, str]) -> bool:
    return subprocess.run(argv, capture_output=True, env={**os.environ, **environment}, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

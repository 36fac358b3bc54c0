"""A Kubernetes with one node on this machine, in namespaces of its own: up in some 15 seconds, and gone with everything in it at the end.

`with Node(folder) as node: node.kubectl("get", "pods")`. The machine sees no listener, no interface and no mount of it. Its Pods are processes of this
machine, in control groups below `kubepods`; those are removed at the end, which is why a machine has one such node at a time.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from kubernetes import settings
from kubernetes.programs import Programs
from stack import GuardedProcess, StackError, Unavailable
from stack.cache import locked
from stack.commands import run
from stack.process import free_port, wait_until

_TESTS = Path(__file__).parents[1]
BRIDGES = ("node0", "pods0")
"""Interfaces that a node makes, in its own network."""
_PODS = "kubepods"
_CGROUPS = Path("/sys/fs/cgroup")
_HIDDEN = ("/run", "/etc", "/var/lib", "/var/log")


class Node(contextlib.AbstractContextManager["Node"]):
    """The node; `start` and `stop` by `with`. Its files are in `folder`, which must not exist yet."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder = folder.absolute()
        if any(self.folder.is_relative_to(hidden) for hidden in _HIDDEN):
            raise ValueError(f"{self.folder} is not seen inside a node, which has its own {', '.join(_HIDDEN)}: choose another folder")
        self.programs = programs
        namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = GuardedProcess(
            "Kubernetes",
            [*namespaces, sys.executable, "-m", "kubernetes.first_process", str(self.folder)],
            log=self.folder / "node.log",
            env={"PYTHONPATH": f"{_TESTS}{os.pathsep}{_TESTS.parent / 'docker'}"},
            ready=(self.folder / "ready").exists,
            ready_timeout_s=180,
        )
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(locked("kubernetes-node"))
            if others := another_node():
                raise Unavailable(f"another Kubernetes runs on this machine: {others}")
            remove_cgroups()  # a run that was killed leaves empty ones
            self.folder.mkdir(parents=True)
            opened.callback(remove_cgroups)
            opened.callback(self._process.kill)
            self._process.start()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def entering(self, *argv: str, mounts: bool = False) -> list[str]:
        """The command line that runs `argv` on the node's network (and with its mounts)."""
        return ["nsenter", f"--target={self._first_process()}", "--net", *(["--mount"] if mounts else []), *argv]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of kubectl as the cluster's administrator. Raises StackError with what it printed when it fails."""
        return self._run([str(self.programs.kubectl), *arguments], stdin=stdin)

    def get(self, *arguments: str) -> Any:
        """What `kubectl get` has, as JSON."""
        return json.loads(self.kubectl("get", "--output=json", *arguments))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects."""
        self.kubectl("apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def helm(self, *arguments: str) -> str:
        """Standard output of helm, with a state folder of its own."""
        return self._run([str(self.programs.helm), *arguments])

    def import_image(self, archive: Path, *, name: str) -> None:
        """Load the image `name` ("docker.io/library/dblog-worker:1") from an archive of `docker save`, `podman save` or of OCI's layout."""
        before = set(self._images("list", "--quiet").split())
        self._images("import", str(archive))
        loaded = [image for image in self._images("list", "--quiet").split() if image not in before and not image.startswith("sha256:")]
        for other in loaded:
            if other != name:
                self._images("tag", "--force", other, name)

    def _images(self, *arguments: str) -> str:
        runtime = [str(self.programs.system / "usr/bin/ctr"), f"--address={settings.RUNTIME}", "--namespace=k8s.io", "images"]
        return run(self.entering(*runtime, *arguments, mounts=True), what=f"ctr images {arguments[0]}")

    def volume(self, name: str, *, owner: int, size: str = "1Gi") -> Path:
        """Make a volume of the class `node` that a claim may take, in a folder of this machine; the folder."""
        folder = self.folder / "volumes" / name
        folder.mkdir()
        os.chown(folder, owner, 0)
        folder.chmod(0o2770)
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": size},
                    "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                    "hostPath": {"path": str(folder), "type": "Directory"},
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": "node",
                },
            }
        )
        return folder

    def kill_pod(self, uid: str) -> int:
        """SIGKILL every process of a Pod, as the loss of its machine would; how many there were. Raises StackError when there is none."""
        files = {file for top in cgroups() for file in top.rglob(f"pod{uid}/**/cgroup.procs")} if uid else set()
        # The kernel shows a process that has just ended, or is of another namespace, as 0; a kill of 0 would end this process and its whole group.
        processes = {int(pid) for file in files for pid in file.read_text().split()} - {0}
        if not processes:
            raise StackError(f"the Pod {uid!r} has no process that could be killed: it has ended, or is not to be seen from here")
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):  # its parent's end has taken it along
                os.kill(pid, signal.SIGKILL)
        return len(processes)

    @contextlib.contextmanager
    def reaching(self, *ports: int) -> Iterator[None]:
        """While this runs, the ports of the machine's loopback interface answer at the node's address too."""
        with contextlib.ExitStack() as relays:
            for port in ports:
                here, there = f"tcp:127.0.0.1:{port}", f"tcp:{settings.ADDRESS}:{port}"
                relays.enter_context(self._joined(f"out-{port}", outer=here, inner=there, outwards=True))
            yield

    @contextlib.contextmanager
    def reached(self, host: str, port: int) -> Iterator[str]:
        """While this runs, a port of the machine leads to an address of the cluster; its `host:port`."""
        here = f"127.0.0.1:{free_port()}"
        with self._joined(f"in-{host}-{port}", outer=f"tcp:{here}", inner=f"tcp:{host}:{port}", outwards=False):
            yield here

    @contextlib.contextmanager
    def _joined(self, name: str, *, outer: str, inner: str, outwards: bool) -> Iterator[None]:
        """Two relays, one on the machine's network and one on the node's, that meet at a socket file; its path is short, as the kernel wants it."""
        with tempfile.TemporaryDirectory(prefix="dblog-") as folder:
            file = f"unix:{folder}/socket"
            outside, inside = (f"{file}={outer}", f"{inner}={file}") if outwards else (f"{outer}={file}", f"{file}={inner}")
            with self._relay(f"{name}-outside", [], outside), self._relay(f"{name}-inside", self.entering(), inside):
                yield

    def _relay(self, name: str, entering: list[str], pair: str) -> GuardedProcess:
        log = self.folder / "log" / f"relay-{name}.log"
        log.unlink(missing_ok=True)
        script = Path(__file__).with_name("relay.py")
        return GuardedProcess(
            f"the relay {name}",
            [*entering, sys.executable, str(script), pair],
            log=log,
            ready=lambda: log.exists() and "relaying" in log.read_text(),
            ready_timeout_s=30,
            grace_s=1,
        )

    def _run(self, argv: list[str], *, stdin: str | None = None) -> str:
        environment = {
            "KUBECONFIG": str(settings.kubeconfig(self.folder, "admin")),
            **{f"HELM_{kind}_HOME": str(self.folder / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
        }
        words = " ".join([Path(argv[0]).name, *argv[1:3]])
        return run(self.entering(*argv), what=words, env=environment, stdin=None if stdin is None else stdin.encode())

    def _first_process(self) -> int:
        """It has another number outside of its namespace: the only child of `unshare`."""
        return int(Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0])


def another_node() -> str | None:
    """Say which processes another Kubernetes has on this machine, None when there is none."""
    used = sum(len((group / "cgroup.procs").read_text().split()) for top in cgroups() for group in (top, *top.rglob("*/")))
    return f"{used} processes are in the control groups {_PODS} of its Pods" if used else None


def remove_cgroups() -> None:
    """Remove the control groups that the kubelet made for Pods. They are empty: their processes have ended with the node's namespace."""
    wait_until(_cgroups_removed, timeout_s=30, what="the control groups of Pods to be empty")


def cgroups() -> list[Path]:
    """The topmost control groups of Pods on this machine: one for each controller, or a single one."""
    return [found for found in (*_CGROUPS.glob(f"*/{_PODS}"), _CGROUPS / _PODS) if found.is_dir()]


def _cgroups_removed() -> bool:
    for top in cgroups():
        for group, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # a process in it is still ending
                Path(group).rmdir()
    return not cgroups()

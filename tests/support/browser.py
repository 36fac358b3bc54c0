"""Playwright and axe-core for the tests of the page in a browser: Playwright in a folder of its own, and axe-core.

Both are taken where a Chromium is installed, and nowhere else: Playwright's wheel has 45 MB, and
drives the machine's own browser by its path. Versions and hashes are pinned here.
"""

import hashlib
import os
import sys
import tarfile
from pathlib import Path

from stack.cache import cached
from stack.commands import program, run
from stack.environment import install_browser
from stack.errors import StackError, Unavailable

_PLAYWRIGHT = "1.65.2"
_REQUIREMENTS = Path(__file__).with_name("browser.txt")
_AXE = "4.14.1"
_AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
"""Hash of axe-core's packed archive."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """Return the path of a Chromium. Raise Unavailable if this machine has none.

    With CI=true it is installed, because nothing may be skipped there. Elsewhere nobody gets a
    browser for running tests.
    """
    for name in _BROWSERS:
        if (found := _installed(name)) is not None:
            return found
    if os.environ.get("CI") == "true":
        install_browser()
    return program(_BROWSERS[0], install="Chromium (Debian: apt-get install chromium)")


def _installed(name: str) -> str | None:
    try:
        return program(name, install="")
    except Unavailable:
        return None


def playwright_folder() -> Path:
    """Return the folder with Playwright's package, installed if necessary."""

    def fill(folder: Path) -> None:
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        try:
            run([*line, f"--target={folder}", f"--requirement={_REQUIREMENTS}"], what="Installing Playwright")
        except StackError as reason:
            raise Unavailable(str(reason)) from reason

    return cached(f"playwright-{_PLAYWRIGHT}-{hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:8]}", fill)


def axe() -> str:
    """Return the text of axe-core, which looks for what people with assistive technology trip over."""

    def fill(folder: Path) -> None:
        npm = program("npm", install="npm (Debian: apt-get install npm)")
        named = run([npm, "pack", "--silent", f"axe-core@{_AXE}"], what="Downloading axe-core", cwd=folder)
        archive = folder / named.split()[-1]
        if hashlib.sha256(archive.read_bytes()).hexdigest() != _AXE_SHA256:
            raise StackError(f"axe-core {_AXE} is not the archive that this project has tried: its SHA-256 differs")
        with tarfile.open(archive) as tar:
            packed = tar.extractfile("package/axe.min.js")
            assert packed is not None
            (folder / "axe.min.js").write_bytes(packed.read())
        archive.unlink()

    return (cached(f"axe-core-{_AXE}", fill) / "axe.min.js").read_text(encoding="utf-8")

"""Runs a registry of images: CNCF's distribution 2.8 from Debian 12's package, else that of the machine."""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from stack.debian import unpacked
from stack.errors import Unavailable
from stack.process import free_port
from stack.server import Server

_INSTALLER_NEEDS = ("adduser", "lsb-base", "init-system-helpers")
"""Packages that only the package's service needs."""
_NAMES = ("docker-registry", "registry")
"""Names of the program, on Debian and elsewhere."""


class ImageRegistry(Server):
    """A registry that keeps images and charts in its folder: `with ImageRegistry(folder) as r: r.host`."""

    def __init__(self, folder: Path, *, logins: str | None = None) -> None:
        """Prepare the settings.

        `logins` are the lines of a htpasswd file, with bcrypt hashes; None lets everybody in.
        """
        super().__init__("registry of images", folder, log="registry.log")
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self._logins = logins

    def prepare(self) -> list[str]:
        settings: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": False}},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.host, "secret": "of one test"},
        }
        if self._logins is not None:
            (self.folder / "htpasswd").write_text(self._logins)
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(self.folder / "htpasswd")}}
        (self.folder / "registry.json").write_text(json.dumps(settings, indent=1))  # JSON is YAML
        return [*program(), "serve", str(self.folder / "registry.json")]

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}/v2/", timeout=5):
                return True
        except urllib.error.HTTPError as refusal:
            # It wants a login, so it is there.
            refusal.close()
            return True
        except OSError:
            return False


def program() -> list[str]:
    """Return the command of the registry's program."""
    try:
        return unpacked("docker-registry", package="docker-registry", suite="bookworm", installed=_INSTALLER_NEEDS).command(
            "usr/bin/docker-registry"
        )
    except Unavailable as missing:
        found = next(filter(None, map(shutil.which, _NAMES)), None)
        if found is not None:
            return [found]
        raise Unavailable(
            f"no registry of images can be had here: {missing}. Install distribution's registry, so that it is on the PATH"
        ) from missing

"""Collects certificates, package sources and indexes of this machine as build secrets for images.

No image keeps them. A builder that reaches the public registries needs none. Behind a proxy with
its own certificates, or with private registries, the existing settings of pip, Maven and the
machine are passed on; variables name others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_CA = ("DBLOG_BUILD_CA", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables that name a file of certificates, in order of precedence."""
_PIP = re.compile(r"(?:global|install|:env:)\.(index-url|extra-index-url|trusted-host|proxy)='(.*)'")


def build_secrets(folder: Path, environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the secrets of a build by id. Files written for them go into `folder`."""
    found: dict[str, Path | None] = {
        "ca": next((Path(environment[name]) for name in _CA if environment.get(name)), None),
        "apt": Path(environment["DBLOG_BUILD_APT_SOURCES"]) if environment.get("DBLOG_BUILD_APT_SOURCES") else None,
        "pip": _pip_settings(folder),
        "maven": Path(environment.get("DBLOG_BUILD_MAVEN_SETTINGS") or Path.home() / ".m2" / "settings.xml"),
    }
    return {name: path for name, path in found.items() if path is not None and path.is_file()}


def _pip_settings(folder: Path) -> Path | None:
    """Return pip's indexes, from its files and variables, as one file; None for the public one."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    found = {match[1]: match[2] for match in map(_PIP.fullmatch, listed.splitlines()) if match}
    if not found:
        return None
    settings = folder / "pip.conf"
    settings.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in found.items()))
    settings.chmod(0o600)
    return settings

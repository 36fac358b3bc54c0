"""Finds the login for a registry: in variables, or in the file that `docker login` writes.

A login is never an argument of a command, so that it stands neither in the list of processes nor in
a shell's history.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack.errors import StackError

USER, PASSWORD, PASSWORD_FILE = "DBLOG_REGISTRY_USER", "DBLOG_REGISTRY_PASSWORD", "DBLOG_REGISTRY_PASSWORD_FILE"
HELP = f"Log in: docker login, or {USER} and {PASSWORD_FILE} (a file with the password or token) in the environment"
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Login:
    """A user's name and password. Its text form has no password."""

    user: str
    password: str = field(repr=False)


def find_login(host: str, environment: Mapping[str, str] = os.environ) -> Login | None:
    """Return the login for a registry's host, or None if there is none.

    Raise StackError if one is there but cannot be used.
    """
    if user := environment.get(USER):
        return Login(user, _password(environment))
    for file in _files(environment):
        if file.is_file():
            return _of_file(file, host)
    return None


def _password(environment: Mapping[str, str]) -> str:
    if file := environment.get(PASSWORD_FILE):
        try:
            return Path(file).read_text().rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise StackError(
                f"the file {file} of {PASSWORD_FILE} cannot be read ({type(error).__name__}). Name a file with the password"
            ) from error
    if password := environment.get(PASSWORD):
        return password
    raise StackError(f"{USER} is set and the password is not. Set {PASSWORD_FILE}, a file with it, or {PASSWORD}")


def _files(environment: Mapping[str, str]) -> list[Path]:
    """Return the files where a login may be, in order of precedence."""
    if chosen := environment.get("REGISTRY_AUTH_FILE"):
        return [Path(chosen)]
    home = Path(environment.get("HOME", "/"))
    found = [Path(environment.get("DOCKER_CONFIG") or home / ".docker") / "config.json"]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        found.append(Path(runtime) / "containers" / "auth.json")
    return found


def _of_file(file: Path, host: str) -> Login | None:
    try:
        settings = json.loads(file.read_text())
        names = [
            name for one in (_DOCKER_HUB if host in _DOCKER_HUB else (host,)) for name in (one, f"https://{one}", f"https://{one}/v1/")
        ]
        helpers = settings.get("credHelpers", {})
        helper = next((helpers[name] for name in names if name in helpers), None)
        entry = next((settings["auths"][name] for name in names if name in settings.get("auths", {})), None)
        if helper is None and not (entry and entry.get("auth")) and entry is not None:
            helper = settings.get("credsStore")
        if helper is not None:
            return _of_helper(str(helper), names[-1] if host in _DOCKER_HUB else host)
        if entry is None:
            return None
        if entry.get("identitytoken"):
            raise StackError(f"the login for {host} in {file} is an identity token, which is not taken here. {HELP}")
        user, colon, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        if not colon:
            raise ValueError("no colon")
        return Login(user, password)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        # The exception's own text may have a part of the login.
        raise StackError(f"the login for {host} in {file} cannot be read ({type(error).__name__}). {HELP}") from None


def _of_helper(helper: str, host: str) -> Login | None:
    """Ask one of docker's credential helpers. Return None if it knows no login for the host."""
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run([program, "get"], input=host.encode(), capture_output=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StackError(f"{program}, which keeps the login for {host}, does not answer ({type(error).__name__}). {HELP}") from error
    if done.returncode != 0:
        return None
    kept = json.loads(done.stdout)
    if kept["Username"] == "<token>":
        raise StackError(f"{program} has an identity token for {host}, which is not taken here. {HELP}")
    return Login(kept["Username"], kept["Secret"])

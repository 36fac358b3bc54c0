"""The file of contexts: names for workers, each with address, login and authorities.

It is ``~/.config/dblog/contexts.json``, or what DBLOG_CONTEXTS names. It has passwords, so it is
made for its owner alone (0600), and one that others may read is refused.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dblog.errors import DefiniteError

FILE_VARIABLE, NAME_VARIABLE = "DBLOG_CONTEXTS", "DBLOG_CONTEXT"
DEFAULT_URL = "http://localhost:8083"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A worker, and how to log in there."""

    url: str = DEFAULT_URL
    user: str = ""
    password: str = ""
    ca: str = ""
    """File of authorities, or empty for the machine's."""

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, or None."""
        return (self.user, self.password) if self.user else None


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts, and the name of the one that is used."""

    known: Mapping[str, Context]
    current: str


def file_of(environment: Mapping[str, str]) -> Path:
    """Return the path of the file."""
    if named := environment.get(FILE_VARIABLE):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "/")) / ".config")
    return Path(base) / "dblog" / "contexts.json"


def read(path: Path) -> Contexts:
    """Return the contexts of the file; none if there is no file. Raise DefiniteError."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise DefiniteError(f"{path} has passwords and others may read it (mode {mode:o}); run: chmod 600 {path}")
            body = json.load(file)
        known = {str(name): Context(**{key: str(value) for key, value in each.items()}) for name, each in body["contexts"].items()}
        return Contexts(known, str(body.get("current", "")))
    except FileNotFoundError:
        return Contexts({}, "")
    except OSError as e:
        raise DefiniteError(f"{path} cannot be read: {e.strerror}") from e
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise DefiniteError(f"{path} is no file of contexts; remove it, and make them again with dblog context set") from e


def write(path: Path, contexts: Contexts) -> None:
    """Write the file for its owner alone. Raise DefiniteError."""
    body = {"current": contexts.current, "contexts": {name: asdict(each) for name, each in contexts.known.items()}}
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(body, file, indent=2)
        new.replace(path)
    except OSError as e:
        raise DefiniteError(f"{path} cannot be written: {e.strerror}") from e


def chosen(contexts: Contexts, name: str | None) -> Context:
    """Return the context of this name, or without one the current, or one for this machine.

    Raise DefiniteError for an unknown name.
    """
    wanted = name or contexts.current
    if not wanted:
        return Context()
    if wanted not in contexts.known:
        known = ", ".join(contexts.known) or "none"
        raise DefiniteError(f"there is no context {wanted}; there are {known}. dblog context set {wanted} --url URL makes it")
    return contexts.known[wanted]

"""Reads the wanted connectors from files, one per file, in JSON or YAML.

A file has ``name`` (by default the file's own), ``config`` and ``state`` (``running``, ``paused``
or ``stopped``; without it the connector stays as people paused or stopped it). Alternatively it is
the flat configuration that Connect's own tools take. Folders are read recursively, except names
that begin with a dot, where Kubernetes keeps the versions of a mounted ConfigMap. Messages never
contain values of a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dblog.errors import DefiniteError

YAML_SUFFIXES = (".yaml", ".yml")
SUFFIXES = (".json", *YAML_SUFFIXES)
FILE_BYTES_MAX = 1024 * 1024
_TOO_DEEP = "has braces or brackets in each other too deep to be read; a connector's values are texts"
_FIELDS = {"name", "config", "state"}


class WantedState(StrEnum):
    """State that a connector shall have."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wanted connector."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    state: WantedState | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a connector is not as wanted; ``key`` is the option at fault, empty if there is
    none.
    """

    connector: str
    text: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.connector}: {f'{self.key}: ' if self.key else ''}{self.text}"


@dataclass(frozen=True, slots=True)
class Files:
    """Connectors that the files want. If there are problems, the list may lack some, so a connector
    that is missing here must not be taken for unwanted.
    """

    wanted: Mapping[str, Wanted]
    problems: tuple[Problem, ...] = ()


class UnusableError(Exception):
    """A file that cannot be used, with the reason."""


def read_wanted(path: Path) -> Files:
    """Read all connectors of a file or folder.

    Raise DefiniteError if the path does not exist: an empty folder wants no connector, but a
    missing folder is a mistake.
    """
    if not path.exists():
        raise DefiniteError(f"{path} does not exist; name a file or a folder with connectors")
    wanted: dict[str, Wanted] = {}
    origin: dict[str, Path] = {}
    problems: list[Problem] = []
    for file in _files(path):
        try:
            found = read_file(file)
        except UnusableError as e:
            problems.append(Problem(str(file), str(e)))
            continue
        if found.name in origin:
            problems.append(Problem(found.name, f"{origin[found.name]} and {file} both want it; keep one of them"))
            wanted.pop(found.name, None)
            continue
        origin[found.name] = file
        wanted[found.name] = found
    return Files(wanted, tuple(problems))


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith(".") and name.endswith(SUFFIXES))


def read_file(file: Path) -> Wanted:
    """Read the connector of one file; raise UnusableError with the reason if it has none."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise UnusableError(f"is larger than {FILE_BYTES_MAX // 1024 // 1024} MiB")
        text = file.read_text(encoding="utf-8")
    except OSError as e:
        raise UnusableError(f"cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise UnusableError("is not UTF-8 text") from None
    content = _json(text) if file.suffix == ".json" else _yaml(text)
    if not isinstance(content, dict):
        raise UnusableError("must hold one connector: name, config and state")
    if "config" not in content:
        if "connector.class" not in content:
            raise UnusableError("has neither config nor connector.class; write name, config and state, or a flat configuration")
        content = {"config": content, "name": content.get("name")}
    if unknown := set(content) - _FIELDS:
        raise UnusableError(f"has the unknown field {min(map(str, unknown))}; a connector has {', '.join(sorted(_FIELDS))}")
    config = _config(content["config"])
    name = str(content.get("name") or config.get("name") or file.stem).strip()
    if config.get("name", name).strip() != name:
        raise UnusableError("has one name in config and another beside it; keep one")
    return Wanted(name, {**config, "name": name}, _state(content.get("state")))


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str)  # keeps numbers as they are written
    except ValueError as e:
        place = f" at line {e.lineno}" if isinstance(e, json.JSONDecodeError) else ""
        raise UnusableError(f"is not JSON{place}") from None
    except RecursionError:
        raise UnusableError(_TOO_DEEP) from None


def _yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415  JSON files do not need it

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  makes only texts, lists and maps: 1.10 stays 1.10, and no stays no
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        raise UnusableError("is not YAML" + (f" at line {mark.line + 1}" if mark is not None else "")) from None
    except RecursionError:
        raise UnusableError(_TOO_DEEP) from None


def _config(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not given:
        raise UnusableError("has no configuration in config")
    config = {}
    for key, value in given.items():
        if isinstance(value, dict | list) or value is None:
            raise UnusableError(f"has no text at config.{key}")
        config[str(key)] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return config


def _state(given: object) -> WantedState | None:
    if given is None:
        return None
    try:
        return WantedState(str(given).strip().lower())
    except ValueError:
        raise UnusableError(f"has an unknown state; known are {', '.join(WantedState)}") from None

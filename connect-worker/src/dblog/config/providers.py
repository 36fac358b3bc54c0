"""Config providers: ``${file:/path:key}``, ``${env:NAME}``, ``${dir:/path:file}`` become values at start and at validation only.

What is stored, returned by REST or logged is always the placeholder (kafka-connect contract 5.7): ``Resolution.scrub`` puts the
placeholder back into any text that might carry the value. Unlike Connect, a provider or key that does not exist is an error, since a
password that silently stays ``${vault:x}`` only fails later, as "access denied".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dblog.config.named_files import NamedFile
from dblog.config.properties import parse_properties
from dblog.errors import ConfigError, DefiniteError

_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")
_SCRUBBED_LENGTH_MIN = 4
"""Shorter values ("1", "db") would blank out half of any message and are no secrets worth the name."""


class Provider(Protocol):
    """Where a value comes from."""

    def get(self, path: str, key: str) -> str:
        """The value; ``LookupError`` with the reason, or ``ConfigError`` for a file that cannot be used."""


@dataclass(frozen=True, slots=True)
class FileProvider:
    """A key of a ``.properties`` file (FileConfigProvider)."""

    allowed_paths: tuple[Path, ...] = ()

    def get(self, path: str, key: str) -> str:
        """``${file:/path/x.properties:key}``."""
        file = NamedFile(f"${{file:{path}:{key}}}", str(_allowed(path, self.allowed_paths)), f"a properties file with the key {key}")
        try:
            properties = parse_properties(_text(file))
        except DefiniteError as e:
            raise file.unusable(str(e)) from None
        if key not in properties:
            raise file.unusable("it has no such key")
        return properties[key]


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """A whole file of a directory (DirectoryConfigProvider), as Kubernetes mounts secrets."""

    allowed_paths: tuple[Path, ...] = ()

    def get(self, path: str, key: str) -> str:
        """``${dir:/path:filename}``."""
        if "/" in key or key in ("", ".", ".."):
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        target = _allowed(str(Path(path) / key), self.allowed_paths)
        return _text(NamedFile(f"${{dir:{path}:{key}}}", str(target), "a text in UTF-8"))


@dataclass(frozen=True, slots=True)
class EnvProvider:
    """An environment variable of the worker (EnvVarConfigProvider)."""

    allowlist: re.Pattern[str] | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def get(self, path: str, key: str) -> str:
        """``${env:NAME}``."""
        if path:
            raise LookupError("environment variables have no path: write ${env:NAME}")
        if self.allowlist is not None and not self.allowlist.fullmatch(key):
            raise LookupError(f"the variable {key} is not in the provider's allowlist.pattern")
        if key not in self.environment:
            raise LookupError(f"the worker has no environment variable {key}")
        return self.environment[key]


@dataclass(frozen=True, slots=True)
class Resolution:
    """Properties with their placeholders replaced, and how to hide the replacements again."""

    values: dict[str, str]
    placeholders: dict[str, str]
    """Key to original text, for keys that held a placeholder."""
    secrets: dict[str, str]
    """Resolved value to placeholder."""
    errors: dict[str, list[str]]

    def scrub(self, text: str) -> str:
        """The text with every resolved value replaced by its placeholder."""
        for secret, placeholder in sorted(self.secrets.items(), key=lambda item: -len(item[0])):
            text = text.replace(secret, placeholder)
        return text


_CLASSES = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
}


def build_providers(names: tuple[str, ...], properties: Mapping[str, str]) -> dict[str, Provider]:
    """The providers that ``config.providers`` names, with their ``class`` and ``param.*`` (a ``ConfigError`` for a class we lack)."""
    built: dict[str, Provider] = {}
    errors: dict[str, list[str]] = {}
    for name in names:
        prefix = f"config.providers.{name}."
        class_name = properties.get(prefix + "class", "").strip()
        kind = _CLASSES.get(class_name)
        paths = tuple(Path(p.strip()) for p in properties.get(prefix + "param.allowed.paths", "").split(",") if p.strip())
        match kind:
            case "file":
                built[name] = FileProvider(paths)
            case "dir":
                built[name] = DirectoryProvider(paths)
            case "env":
                pattern = properties.get(prefix + "param.allowlist.pattern")
                built[name] = EnvProvider(re.compile(pattern) if pattern else None)
            case _:
                known = ", ".join(c for c in _CLASSES if "." in c)
                errors[prefix + "class"] = [f"Class {class_name or 'null'} could not be found; this worker has {known}."]
    if errors:
        raise ConfigError(errors)
    return built


def resolve(properties: Mapping[str, str | None], providers: Mapping[str, Provider]) -> Resolution:
    """Replace every placeholder; keys with one that cannot be replaced come back in ``errors``, by key and without any value."""
    values: dict[str, str] = {}
    placeholders: dict[str, str] = {}
    secrets: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    for name, text in properties.items():
        if text is None:
            continue
        parts: list[str] = []
        end = 0
        for found in _PLACEHOLDER.finditer(text):
            alias, path, key = found.group(1), found.group(2) or "", found.group(3)
            parts.append(text[end : found.start()])
            end = found.end()
            provider = providers.get(alias)
            try:
                if provider is None:
                    known = ", ".join(providers) or "none"
                    raise LookupError(f"the worker has no config provider {alias!r} (config.providers: {known})")
                value = provider.get(path, key)
            except (LookupError, ConfigError) as e:
                reason = e.args[0] if isinstance(e, LookupError) else "; ".join(text for texts in e.errors.values() for text in texts)
                errors.setdefault(name, []).append(f"{found.group(0)} of {name} cannot be resolved: {reason}")
                parts.append(found.group(0))
                continue
            parts.append(value)
            if len(value.strip()) >= _SCRUBBED_LENGTH_MIN:
                secrets[value] = found.group(0)
                secrets.setdefault(value.strip(), found.group(0))
        if end:
            placeholders[name] = text
            parts.append(text[end:])
            values[name] = "".join(parts)
        else:
            values[name] = text
    return Resolution(values, placeholders, secrets, errors)


def _text(file: NamedFile) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise file.unusable("it is no text in UTF-8") from None


def _allowed(path: str, allowed: tuple[Path, ...]) -> Path:
    target = Path(os.path.normpath(path))
    if not target.is_absolute():
        raise LookupError(f"{path!r} is not an absolute path")
    if allowed and not any(target.resolve().is_relative_to(root.resolve()) for root in allowed):
        raise LookupError(f"the path {target} is outside the provider's allowed.paths")
    return target

"""Config providers: ``${file:/path:key}``, ``${env:NAME}``, ``${dir:/path:file}`` are resolved only
at start and at validation.

Stored texts, REST answers and logs always have the placeholder (KIP-297): config/secrets.py and
observe/hidden.py put it back into any text that might contain the value. Unlike in Connect, a
missing provider or key is an error, because a password that silently stays ``${vault:x}`` fails
only later, as "access denied".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import structlog

from dblog.config.named_files import NamedFile
from dblog.config.properties import parse_properties
from dblog.config.regex import Pattern, PatternError, as_written
from dblog.errors import ConfigError, DefiniteError

_log = structlog.get_logger("dblog.config")

SCRUBBED_LENGTH_MIN = 4
"""Shortest value to hide. Shorter ones ("1", "db") are hardly secrets, and would blank out half of
any message.
"""


class Provider(Protocol):
    """A source of values."""

    def get(self, path: str, key: str) -> str:
        """Return the value.

        Raise LookupError with the reason, or ConfigError for an unusable file.
        """

    def for_owner(self) -> Provider:
        """Return a copy for texts written by the worker's operator: see ``NamedFile.for_owner``."""


@dataclass(frozen=True, slots=True)
class FileProvider:
    """Gives a key of a ``.properties`` file (FileConfigProvider)."""

    allowed_paths: tuple[Path, ...] = ()
    owner: bool = False

    def get(self, path: str, key: str) -> str:
        """Return the value of ``${file:/path/x.properties:key}``."""
        if not path or not key:
            raise LookupError("it has no key after the path; write it as ${file:/path:key}")
        target = str(_allowed(path, self.allowed_paths))
        file = NamedFile(
            f"${{file:{path}:{key}}}", target, f"a properties file with the key {key}", within=self.allowed_paths, for_owner=self.owner
        )
        text = _text(file)
        try:
            properties = parse_properties(text)
        except DefiniteError as e:
            raise file.unusable(str(e)) from None
        if key not in properties:
            raise file.unusable("it has no such key")
        return properties[key]

    def for_owner(self) -> FileProvider:
        """Return a copy whose errors have reasons."""
        return replace(self, owner=True)


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """Gives a whole file of a directory (DirectoryConfigProvider), as Kubernetes mounts secrets."""

    allowed_paths: tuple[Path, ...] = ()
    owner: bool = False

    def get(self, path: str, key: str) -> str:
        """Return the value of ``${dir:/path:filename}``."""
        if not path or not key:
            raise LookupError("it has no name of a file after the folder; write it as ${dir:/path:file}")
        if "/" in key or key in (".", ".."):
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        target = _allowed(str(Path(path) / key), self.allowed_paths)
        return _text(NamedFile(f"${{dir:{path}:{key}}}", str(target), "a text in UTF-8", within=self.allowed_paths, for_owner=self.owner))

    def for_owner(self) -> DirectoryProvider:
        """Return a copy whose errors have reasons."""
        return replace(self, owner=True)


@dataclass(frozen=True, slots=True)
class EnvProvider:
    """Gives an environment variable of the worker (EnvVarConfigProvider)."""

    allowlist: Pattern | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def get(self, path: str, key: str) -> str:
        """Return the value of ``${env:NAME}``."""
        if path:
            raise LookupError("environment variables have no path: write ${env:NAME}")
        if self.allowlist is not None and not self.allowlist.fullmatch(key):
            raise LookupError(f"the variable {key} is not in the provider's allowlist.pattern; name one that is, or widen it")
        if key not in self.environment:
            raise LookupError(f"the worker has no environment variable {key}; set it where the worker is started")
        return self.environment[key]

    def for_owner(self) -> EnvProvider:
        """Return this provider: its errors always have reasons."""
        return self


@dataclass(frozen=True, slots=True)
class WithheldProvider:
    """Stands, for connectors, for a provider that the worker's file reserves for itself."""

    option: str

    def get(self, path: str, key: str) -> str:
        """Raise LookupError: connectors may not use this provider."""
        del path, key
        raise LookupError(
            f"the worker keeps this config provider for its own file ({self.option}); use another one, or a secret of the connector's own"
        )

    def for_owner(self) -> WithheldProvider:
        """Return this provider: the worker's file uses the real one."""
        return self


@dataclass(frozen=True, slots=True)
class Resolution:
    """Properties with their placeholders resolved, and what to show instead of the values."""

    values: dict[str, str]
    placeholders: dict[str, str]
    """Original text by key, for keys that had a placeholder."""
    secrets: dict[str, str]
    """Placeholder by resolved value."""
    errors: dict[str, list[str]]


_CLASSES = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
    "File": "file",
    "Directory": "dir",
    "EnvVar": "env",
}


_LIMITS = {
    "file": ("param.allowed.paths", "any properties file that the worker may read"),
    "dir": ("param.allowed.paths", "any text file that the worker may read"),
    "env": ("param.allowlist.pattern", "any environment variable of the worker"),
}
"""The option that limits a provider, and what users can read by a connector without it."""


def build_providers(names: tuple[str, ...], properties: Mapping[str, str], *, withheld: Collection[str] = ()) -> dict[str, Provider]:
    """Return the providers that ``config.providers`` names, with their ``class`` and ``param.*``.

    As in Kafka, a provider may have no limits; a log line then explains the consequence, unless it
    is ``withheld`` from connectors. Raise ConfigError for an unknown class.
    """
    built: dict[str, Provider] = {}
    errors: dict[str, list[str]] = {}
    for name in names:
        prefix = f"config.providers.{name}."
        class_name = properties.get(prefix + "class", "").strip()
        kind = _CLASSES.get(class_name)
        # Kafka's rule: an empty text allows everything. But a list of empty items or an empty
        # pattern must not.
        given_paths = properties.get(prefix + "param.allowed.paths", "")
        paths = tuple(Path(p.strip()) for p in given_paths.split(",")) if given_paths else ()
        if kind in ("file", "dir") and not all(path.is_absolute() for path in paths):
            errors[prefix + "param.allowed.paths"] = [f"{given_paths!r} is not a list of absolute paths with commas between them"]
            continue
        match kind:
            case "file":
                built[name] = FileProvider(paths)
            case "dir":
                built[name] = DirectoryProvider(paths)
            case "env":
                pattern = properties.get(prefix + "param.allowlist.pattern")
                try:
                    built[name] = EnvProvider(Pattern(pattern) if pattern is not None else None)
                except PatternError as e:
                    errors[prefix + "param.allowlist.pattern"] = [
                        f"{as_written(pattern or '')} is not a regular expression that can be used: {e}"
                    ]
            case _:
                known = ", ".join(c for c in _CLASSES if "." in c)
                errors[prefix + "class"] = [f"Class {class_name or 'null'} could not be found; this worker has {known}."]
        if (
            kind is not None
            and name not in withheld
            and not (properties.get(prefix + _LIMITS[kind][0]) or (kind == "env" and prefix + _LIMITS[kind][0] in properties))
        ):
            setting, readable = prefix + _LIMITS[kind][0], _LIMITS[kind][1]
            _log.warning(
                "a config provider without limits: anybody who may post a connector can read more than secrets",
                setting=setting,
                readable=readable,
            )
    if errors:
        raise ConfigError(errors)
    return built


def resolve(properties: Mapping[str, str | None], providers: Mapping[str, Provider]) -> Resolution:
    """Replace every placeholder.

    Keys whose placeholder cannot be resolved are in ``errors``, without any value.
    """
    values: dict[str, str] = {}
    placeholders: dict[str, str] = {}
    secrets: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    known: dict[str, _Value | _Unknown] = {}
    chars = 0
    for name, text in properties.items():
        if text is None:
            continue
        parts: list[str] = []
        troubles: dict[str, str] = {}
        end = 0
        for start, behind in placeholders_in(text):
            placeholder = text[start:behind]
            if placeholder not in known:
                # Each different placeholder may require reading a file.
                known[placeholder] = _asked(placeholder, providers) if len(known) < _PLACEHOLDERS_MAX else _TOO_MANY
            parts.append(text[end:start])
            end = behind
            match known[placeholder]:
                case _Value(value) if (chars := chars + len(value)) > _RESOLVED_CHARS_MAX:
                    parts.append(placeholder)
                    troubles.setdefault(_TOO_LONG, placeholder)
                case _Value(value):
                    parts.append(value)
                    if len(value.strip()) >= SCRUBBED_LENGTH_MIN:
                        secrets[value] = placeholder
                        secrets.setdefault(value.strip(), placeholder)
                case _Unknown(reason):
                    parts.append(placeholder)
                    troubles.setdefault(reason, placeholder)
        if troubles:
            errors[name] = [f"{placeholder} of {name} cannot be resolved: {reason}" for reason, placeholder in troubles.items()]
        if end:
            placeholders[name] = text
            parts.append(text[end:])
            values[name] = "".join(parts)
        else:
            values[name] = text
    return Resolution(values, placeholders, secrets, errors)


@dataclass(frozen=True, slots=True)
class _Value:
    text: str


@dataclass(frozen=True, slots=True)
class _Unknown:
    reason: str


_PLACEHOLDERS_MAX = 1000
_RESOLVED_CHARS_MAX = 2_000_000
_TOO_LONG = f"the values of a configuration's placeholders may have {_RESOLVED_CHARS_MAX} characters together"
_TOO_MANY = _Unknown(f"a configuration may have {_PLACEHOLDERS_MAX} different placeholders")


def _asked(placeholder: str, providers: Mapping[str, Provider]) -> _Value | _Unknown:
    alias, _, rest = placeholder[2:-1].partition(":")
    path, key = rest.split(":", 1) if ":" in rest else ("", rest)
    provider = providers.get(alias)
    if provider is None:
        named = f"config.providers: {', '.join(providers) or 'none'}"
        return _Unknown(
            f"the worker has no config provider {alias!r} ({named}); use one that it has, or name this one there with its class"
        )
    try:
        return _Value(provider.get(path, key))
    except LookupError as e:
        return _Unknown(str(e.args[0]))
    except ConfigError as e:
        return _Unknown("; ".join(text for texts in e.errors.values() for text in texts))


def placeholders_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each ``${alias:key}`` and ``${alias:path:key}``.

    Takes linear time for any text.
    """
    end = 0
    while (start := text.find("${", end)) >= 0 and (close := text.find("}", start)) >= 0:
        end = close + 1
        if text.find(":", start, close) >= 0:
            yield start, end


def _text(file: NamedFile) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise file.unusable("it is not UTF-8 text") from None


def _allowed(path: str, allowed: tuple[Path, ...]) -> Path:
    target = Path(os.path.normpath(path))
    if not target.is_absolute():
        raise LookupError(f"{path!r} is not an absolute path")
    if allowed and not any(target.resolve().is_relative_to(root.resolve()) for root in allowed):
        raise LookupError(f"the path {target} is outside the provider's allowed.paths; move the file, or add its folder there")
    return target

"""The sink's options: each declared once with its type, default and meaning (D13); files, flags and help derive from the list.

A configuration is flat, ``key=value``. YAML files may nest: ``registry: {url: ...}`` is ``registry.url``. Later sources win: file, then
``--set`` flags. Keys under ``kafka.`` go to the Kafka clients and keys under ``spark.`` to Spark, both unchanged. ``${env:NAME}`` in a value
is replaced by the environment variable and ``${file:PATH}`` by the file's content, so secrets need not stand in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dblog_sink.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: ``read`` turns its text into a value and raises ValueError with the reason if it cannot."""

    name: str
    read: Callable[[str], Any]
    default: str | None
    doc: str


def _text(text: str) -> str:
    if not text.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    return text.strip()


def _numeric(convert: Callable[[str], Any], kind: str, least: int) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            number = convert(text)
        except ValueError:
            msg = f"must be {kind}"
            raise ValueError(msg) from None
        if not number >= least:  # nor is NaN
            msg = f"must be at least {least}"
            raise ValueError(msg)
        return number

    return read


def _whole(least: int) -> Callable[[str], Any]:
    return _numeric(int, "a whole number", least)


_number = _numeric(float, "a number", 0)


def _truth(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        msg = "must be true or false"
        raise ValueError(msg)
    return lowered == "true"


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip() not in words:
            msg = f"must be one of {', '.join(words)}"
            raise ValueError(msg)
        return text.strip()

    return read


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        msg = f"is not a regular expression: {e}"
        raise ValueError(msg) from None


def _name_pattern(text: str) -> re.Pattern[str]:
    pattern = _pattern(text)
    if not {"db", "table"} <= set(pattern.groupindex):
        msg = "needs the named groups (?P<db>...) and (?P<table>...)"
        raise ValueError(msg)
    return pattern


OPTIONS: tuple[Option, ...] = (
    Option(
        name="name",
        read=_text,
        default="dblog-sink",
        doc="Name of this pipeline; part of every Delta transaction id and of the checkpoint path.",
    ),
    Option(name="topics", read=_text, default=None, doc="Topics to read, separated by commas. Give this or topics.pattern."),
    Option(
        name="topics.pattern",
        read=_text,
        default=None,
        doc="Java regular expression; topics that appear later and match are picked up while running.",
    ),
    Option(
        name="topics.exclude",
        read=_pattern,
        default=r"(.*\.)?dblog\..*|__.*|.*[-.]signal",
        doc="Topics that match are not tables: their records are left out. Heartbeat, transaction and schema-change records are also known by their schema.",
    ),
    Option(
        name="topics.name",
        read=_name_pattern,
        default=r"(?:(?P<prefix>.+)\.)?(?P<db>[^.]+)\.(?P<table>[^.]+)",
        doc="Regular expression with the groups db and table (prefix is optional) that a table topic's whole name matches.",
    ),
    Option(name="topics.start", read=_one_of("earliest", "latest"), default="earliest", doc="Where to begin when there is no checkpoint."),
    Option(
        name="registry.url",
        read=_text,
        default=None,
        doc="Confluent-compatible schema registry, for instance the worker's own REST address.",
    ),
    Option(name="registry.auth", read=_text, default=None, doc="user:password for basic authentication at the registry."),
    Option(
        name="registry.wait.max.s",
        read=_number,
        default="600",
        doc="How long a registry that is away is waited for, in seconds; then the job stops, its checkpoint intact.",
    ),
    Option(
        name="registry.unknown.wait.s",
        read=_number,
        default="20",
        doc="How long a schema id that the registry does not know is asked for again, in seconds; then its records go to quarantine.",
    ),
    Option(
        name="registry.cache.path",
        read=_text,
        default=None,
        doc="Local folder that keeps schemas by id, so that a restart asks for none; default: memory only.",
    ),
    Option(name="target.path", read=_text, default=None, doc="Base path of all tables: local, or any URL that Spark can write."),
    Option(name="target.template", read=_text, default="{base}/{db}/{table}", doc="Path of one table; {base}, {prefix}, {db}, {table}."),
    Option(name="state.path", read=_text, default=None, doc="Tombstones and quarantine; default {target.path}/_dblog."),
    Option(name="checkpoint.path", read=_text, default=None, doc="Checkpoint of the query; default {state.path}/checkpoints/{name}."),
    Option(
        name="position",
        read=_one_of("source", "topic"),
        default="source",
        doc="Order of rows per key: source position (D7), or topic order (the Kafka offset) for foreign PostgreSQL topics.",
    ),
    Option(name="trigger.interval.s", read=_number, default="2", doc="Least time between the starts of two batches, in seconds."),
    Option(name="trigger.once", read=_truth, default="false", doc="Process what is there in batches of batch.records.max, then stop."),
    Option(name="batch.records.max", read=_whole(1), default="250000", doc="Most Kafka records in one batch."),
    Option(name="merge.threads", read=_whole(1), default="4", doc="Tables written at the same time."),
    Option(
        name="merge.split.rows.min",
        read=_whole(1),
        default="5000",
        doc="From this many dump rows or inserts of a table in a batch, new keys are appended without a merge.",
    ),
    Option(
        name="rewrite.rows.max",
        read=_whole(0),
        default="50000",
        doc="A table of up to this many rows is written anew for a batch, one job and one commit, instead of merged into; 0: never.",
    ),
    Option(
        name="merge.attempts.max", read=_whole(1), default="5", doc="Attempts of one table's write when another writer commits in between."
    ),
    Option(
        name="compact.commits", read=_whole(0), default="100", doc="A table's small files are compacted after this many commits; 0: never."
    ),
    Option(
        name="tombstones.keep.h",
        read=_number,
        default="168",
        doc="Hours that the position of a deleted key is kept; an older dump row that arrives later would bring the row back.",
    ),
    Option(
        name="quarantine.rows.max",
        read=_whole(0),
        default="100",
        doc="A batch with more bad records than this, and more than quarantine.fraction.max of it, stops the job.",
    ),
    Option(name="quarantine.fraction.max", read=_number, default="0.001", doc="See quarantine.rows.max."),
    Option(
        name="restart.attempts.max",
        read=_whole(0),
        default="10",
        doc="Restarts of the query after failures that may pass, without one finished batch in between.",
    ),
    Option(
        name="progress.file",
        read=_text,
        default=None,
        doc="Local file that gets one JSON line for each batch; default: none, only the log.",
    ),
)
"""Every option of the sink."""

_PASSED_ON = ("kafka.", "spark.")


@dataclass(frozen=True, slots=True)
class Settings:
    """A checked configuration: ``settings["merge.threads"]`` is the option's value; ``kafka`` and ``spark`` hold what is passed on."""

    values: Mapping[str, Any]
    kafka: Mapping[str, str]
    spark: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def base_path(self) -> str:
        """Base path of the tables, without a slash at the end."""
        return str(self.values["target.path"]).rstrip("/")

    @property
    def state_path(self) -> str:
        """Where tombstones and quarantine live."""
        return str(self.values["state.path"] or f"{self.base_path}/_dblog").rstrip("/")

    @property
    def checkpoint_path(self) -> str:
        """Checkpoint of the query."""
        return str(self.values["checkpoint.path"] or f"{self.state_path}/checkpoints/{self.values['name']}")

    def table_path(self, *, prefix: str, db: str, table: str) -> str:
        """Path of one table's mirror."""
        template: str = self.values["target.template"]
        return template.format(base=self.base_path, prefix=prefix, db=db, table=table)


def parse(properties: Mapping[str, str]) -> Settings:
    """Settings of the given flat properties; raises ConfigError with every fault at once."""
    errors: dict[str, str] = {}
    known = {option.name: option for option in OPTIONS}
    resolved: dict[str, str] = {}
    for key, text in properties.items():
        try:
            resolved[key] = _resolve(text)
        except ValueError as e:
            errors[key] = str(e)
    for key in resolved:
        if key not in known and not key.startswith(_PASSED_ON):
            errors[key] = "is not an option of the sink; see --help"
    values: dict[str, Any] = {}
    for option in OPTIONS:
        text_or_none = resolved.get(option.name, option.default)
        try:
            values[option.name] = None if text_or_none is None else option.read(text_or_none)
        except ValueError as e:
            errors[option.name] = str(e)
    if "kafka.bootstrap.servers" not in resolved:
        errors["kafka.bootstrap.servers"] = "is required"
    for name in ("registry.url", "target.path"):
        if name not in resolved:
            errors[name] = "is required"
    if ("topics" in resolved) == ("topics.pattern" in resolved):
        errors["topics"] = "give either topics or topics.pattern"
    template = values.get("target.template")
    if template is not None:
        try:
            template.format(base="", prefix="", db="", table="")
        except (KeyError, IndexError, ValueError):
            errors["target.template"] = "may use only {base}, {prefix}, {db} and {table}"
    if errors:
        raise ConfigError(errors)
    return Settings(
        values=values,
        kafka={k: v for k, v in resolved.items() if k.startswith("kafka.")},
        spark={k: v for k, v in resolved.items() if k.startswith("spark.")},
    )


def read_file(path: Path) -> dict[str, str]:
    """Flat properties of a YAML file (.yaml, .yml) or of a Java properties file; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError({"--config": f"cannot read {path}: {e.strerror}"}) from e
    if path.suffix in (".yaml", ".yml"):
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as e:
            raise ConfigError({"--config": f"{path} is not YAML: {e}"}) from e
        if not isinstance(content, dict):
            raise ConfigError({"--config": f"{path} must hold key: value pairs"})
        return _flatten(content, "")
    return _read_properties(text)


def _flatten(content: Mapping[Any, Any], prefix: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{name}."))
        elif isinstance(value, list):
            flat[name] = ",".join(str(item) for item in value)
        elif isinstance(value, bool):
            flat[name] = "true" if value else "false"
        elif value is not None:
            flat[name] = str(value)
    return flat


def _read_properties(text: str) -> dict[str, str]:
    """The part of java.util.Properties' format that people use: comments, ``=`` or ``:``, lines continued by a backslash."""
    flat: dict[str, str] = {}
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    for line in joined.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        match = re.match(r"([^=:\s]+)\s*[=:]?\s*(.*)", stripped)
        if match:
            flat[match.group(1)] = match.group(2).replace("\\\\", "\\")
    return flat


def _resolve(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        kind, name = match.group(1), match.group(2)
        if kind == "env":
            if name not in os.environ:
                msg = f"the environment variable {name} is not set"
                raise ValueError(msg)
            return os.environ[name]
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except OSError as e:
            msg = f"cannot read {name}: {e.strerror}"
            raise ValueError(msg) from None

    return re.sub(r"\$\{(env|file):([^}]+)\}", value, text)


def help_text() -> str:
    """All options with defaults and meaning, for --help."""
    lines = ["options (in the file, or as --set key=value):"]
    for option in OPTIONS:
        default = "" if option.default is None else f" [{option.default}]"
        lines.append(f"  {option.name}{default}\n      {option.doc}")
    lines.append("  kafka.*\n      Passed to the Kafka clients; kafka.bootstrap.servers is required.")
    lines.append("  spark.*\n      Passed to Spark.")
    return "\n".join(lines)

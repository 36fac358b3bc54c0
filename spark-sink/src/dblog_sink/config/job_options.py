"""Declares the sink's options, each once with type, default and meaning (D13).

Files, flags and help derive from the list. A configuration is flat, ``key=value``; YAML files may
nest, so ``registry: {url: ...}`` is ``registry.url``. Later sources win: files, then ``--set``
flags. Keys under ``kafka.`` go to the Kafka clients and keys under ``spark.`` to Spark, both
unchanged. ``${env:NAME}`` in a value is replaced by the environment variable and ``${file:PATH}``
by the file's content, so secrets need not be in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from dblog_sink.config.lake_paths import plainly
from dblog_sink.config.log_retention import FILES_H, LOG_LONGER_H, OWN_LOG_H, is_own_hot
from dblog_sink.config.options import Option, address, number, one_of, pattern, text, topic_or_none, truth, web_addresses, whole
from dblog_sink.config.policy import Policy
from dblog_sink.config.tables import PREFIX, TABLE_OPTIONS, TableRule, TableSpec, rules, spec
from dblog_sink.errors import ConfigError

_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def _name_pattern(given: str) -> re.Pattern[str]:
    found = pattern(given)
    if not {"db", "table"} <= set(found.groupindex):
        msg = "needs the named groups (?P<db>...) and (?P<table>...)"
        raise ValueError(msg)
    return found


def _words(given: str) -> frozenset[str]:
    return frozenset(given.split())


_EXCLUDED = r"(.*\.)?dblog\..*|__.*|.*[-.]signal"

OPTIONS: tuple[Option, ...] = (
    Option(
        name="name",
        read=text,
        default="dblog-sink",
        doc="Name of this pipeline; part of every Delta transaction id and of the checkpoint path.",
    ),
    Option(name="topics", read=text, default=None, doc="Topics to read, separated by commas. Give this or topics.pattern."),
    Option(
        name="topics.pattern",
        read=text,
        default=None,
        doc="Java regular expression of topics to read. New topics that match are read as soon as they appear.",
    ),
    Option(
        name="topics.exclude",
        read=pattern,
        default=_EXCLUDED,
        doc=(
            "Regular expression of topics that are not tables; their records are left out. Heartbeat, "
            "transaction and schema-change records are also recognized by their schema. If it is not set, a "
            "topic with rows in Debezium's envelope is always a table, whatever its name."
        ),
    ),
    Option(
        name="topics.markers",
        read=pattern,
        default=r"__dblog-chunks\..*",
        doc=(
            "Regular expression of the topics of chunk markers, which topics.exclude does not affect. The "
            "counts of the markers are compared with the rows that arrived. Empty: no comparison."
        ),
    ),
    Option(
        name="topics.name",
        read=_name_pattern,
        default=r"(?:(?P<prefix>.+)\.)?(?P<db>[^.]+)\.(?P<table>[^.]+)",
        doc=(
            "Regular expression with the groups db and table, and optionally prefix, that matches the whole "
            "name of a table's topic. If names of databases or tables contain dots, it should name the "
            "prefix."
        ),
    ),
    Option(
        name="topics.transaction",
        read=text,
        default=None,
        doc=(
            "Transaction topic of the source (<topic.prefix>.transaction, with one partition, written with "
            "provide.transaction.metadata=true). It must be one of the job's topics. The manifest needs it."
        ),
    ),
    Option(
        name="topics.start",
        read=one_of("earliest", "latest"),
        default="earliest",
        doc="Offsets at which to begin if there is no checkpoint: earliest or latest.",
    ),
    Option(
        name="registry.url",
        read=web_addresses,
        default=None,
        doc="URL of a schema registry with Confluent's interface, for instance the worker's REST address.",
    ),
    Option(name="registry.auth", read=text, default=None, doc="Login at the registry (basic authentication), as user:password."),
    Option(name="registry.token", read=text, default=None, doc="Bearer token for the registry, instead of registry.auth."),
    Option(
        name="registry.ssl.ca.file",
        read=text,
        default=None,
        doc="PEM file with the certificate authorities that may sign the registry's certificate. If absent, they are the machine's.",
    ),
    Option(
        name="registry.ssl.certificate.file",
        read=text,
        default=None,
        doc="PEM file with a client certificate for the registry, and its key unless registry.ssl.key.file has it.",
    ),
    Option(
        name="registry.ssl.key.file", read=text, default=None, doc="PEM file with the key of the client certificate, without a password."
    ),
    Option(
        name="registry.wait.max.s",
        read=number,
        default="600",
        doc="Seconds to wait for a registry that does not answer. After that the job stops; its checkpoint stays valid.",
    ),
    Option(
        name="registry.unknown.wait.s",
        read=number,
        default="20",
        doc=(
            "Seconds during which a schema id that the registry does not know is asked for again. After that its records go to quarantine."
        ),
    ),
    Option(
        name="registry.cache.path",
        read=text,
        default=None,
        doc="Local folder that keeps schemas by id, so that a restart need not ask for them. If absent, they are kept in memory only.",
    ),
    Option(name="target.path", read=text, default=None, doc="Path under which all tables are: local, or any URL that Spark can write."),
    Option(
        name="target.template", read=text, default="{base}/{db}/{table}", doc="Path of a table, made of {base}, {prefix}, {db} and {table}."
    ),
    Option(
        name="state.path",
        read=text,
        default=None,
        doc=(
            "Path of the sink's own tables and files: landing table, control table, quarantine, tombstones "
            "and others. If absent, it is {target.path}/_dblog."
        ),
    ),
    Option(
        name="checkpoint.path",
        read=text,
        default=None,
        doc="Path of the query's checkpoint. If absent, it is {state.path}/checkpoints/{name}.",
    ),
    Option(
        name="storage.shared.mount",
        read=truth,
        default="false",
        doc=(
            "If true, paths on the machine (file:) are on a mount that the driver and all executors share. "
            "Without a shared mount such paths need a local Spark master."
        ),
    ),
    Option(
        name="storage.single.driver",
        read=truth,
        default="false",
        doc=(
            "If true, no other program writes to the tables, so S3 needs no log store for several drivers. "
            "Otherwise s3a: paths need spark.delta.logStore.s3a.impl=dblog.sink.S3ConditionalLogStore "
            "(docs/object-stores.md)."
        ),
    ),
    Option(
        name="position",
        read=one_of("source", "topic"),
        default="source",
        doc=(
            "Order of the rows of a key: source (position in the database's log) or topic (Kafka offset), "
            "which is for PostgreSQL topics that other programs write."
        ),
    ),
    Option(name="trigger.interval.s", read=number, default="2", doc="Minimum number of seconds between the starts of two batches."),
    Option(
        name="trigger.once",
        read=truth,
        default="false",
        doc="If true, the job processes the records that exist, in batches of batch.records.max, then stops.",
    ),
    Option(
        name="batch.records.max",
        read=whole(1),
        default="1000000",
        doc="Maximum number of Kafka records in one batch. Batches of rows of many kilobytes have fewer.",
    ),
    Option(name="merge.threads", read=whole(1), default="4", doc="Number of tables that are written at the same time."),
    Option(
        name="rewrite.rows.max",
        read=whole(0),
        default="50000",
        doc=(
            "Number of rows up to which a table is rewritten as a whole for a batch, in one job and one "
            "commit, instead of merged; 0 means never."
        ),
    ),
    Option(
        name="merge.rows.min",
        read=whole(1),
        default="20000",
        doc=(
            "Number of rows of a table from which on a batch, or landed rows, may be merged at once. The more "
            "a merge costs, the more rows it takes."
        ),
    ),
    Option(
        name="merge.broadcast.rows.max",
        read=whole(0),
        default="2000000",
        doc=(
            "Number of changed rows up to which their keys and positions are sent to every executor, instead "
            "of shuffling the table's; 0 means never."
        ),
    ),
    Option(name="merge.rows.max", read=whole(1), default="2000000", doc="Maximum number of landed rows that are merged at once."),
    Option(
        name="merge.age.max.s",
        read=number,
        default="60",
        doc=(
            "Seconds after which the merge of landed rows begins at the latest, if a thread is free. Tables whose merge is cheap wait less."
        ),
    ),
    Option(
        name="merge.background.threads",
        read=whole(1),
        default="2",
        doc="Number of tables that are merged from the landing table at the same time.",
    ),
    Option(
        name="manifest.interval.s",
        read=number,
        default="0",
        doc=(
            "Minimum number of seconds between two snapshots of the manifest. A snapshot is all tables of the "
            "source at the end of one transaction, named by their Delta versions in {state.path}/manifest. "
            "All rows land then, and are merged for snapshots. 0: no manifest."
        ),
    ),
    Option(
        name="manifest.keep.h",
        read=number,
        default="168",
        doc="Hours during which a snapshot can be read. The tables keep files and log for it, whatever vacuum.keep.h is.",
    ),
    Option(
        name="manifest.incomplete.max.s",
        read=number,
        default="300",
        doc=(
            "Seconds after which a transaction with missing records, which blocks the next snapshot, is reported. The report is repeated."
        ),
    ),
    Option(
        name="manifest.pass",
        read=_words,
        default=None,
        doc=(
            "Ids of transactions, separated by spaces, that block no snapshot although some of their records "
            "are missing and will never arrive."
        ),
    ),
    Option(
        name="landing.keep.h",
        read=number,
        default="24",
        doc="Hours for which landed records are kept after they are merged.",
    ),
    Option(name="control.interval.s", read=number, default="5", doc="Minimum number of seconds between two writes of the control table."),
    Option(
        name="merge.path",
        read=one_of("auto", "merge"),
        default="auto",
        doc=(
            "Way in which changed rows are written. auto uses the sink's own upsert if this version of Delta "
            "has the internal functions that it calls, otherwise Delta's MERGE. merge always uses MERGE, "
            "whose interface is public; it is slower."
        ),
    ),
    Option(
        name="merge.attempts.max",
        read=whole(1),
        default="5",
        doc="Number of attempts to write a table if other writers commit at the same time.",
    ),
    Option(
        name="compact.commits",
        read=whole(0),
        default="100",
        doc="Number of commits after which a table's small files are compacted; 0 means never.",
    ),
    Option(
        name="vacuum.interval.h",
        read=number,
        default="24",
        doc="Hours between two VACUUMs of a table, also of the sink's own tables; 0 means never.",
    ),
    Option(
        name="vacuum.keep.h",
        read=number,
        default="168",
        doc=(
            "Hours for which files of older versions are kept, for running readers and for time travel. A "
            "value between 0 and 168 keeps them for a week, Delta's own default, unless the table's owner has "
            "set its delta.deletedFileRetentionDuration to less."
        ),
    ),
    Option(
        name="vacuum.share.max",
        read=number,
        default="0.1",
        doc="Maximum share of the time that VACUUMs may take.",
    ),
    Option(
        name="tombstones.keep.h",
        read=number,
        default="168",
        doc=(
            "Hours for which the position of a deleted key is kept. An older row of a dump that arrives later "
            "than that would bring the row back."
        ),
    ),
    Option(
        name="chunks.wait.s",
        read=number,
        default="60",
        doc="Seconds to wait for the rows of a dumped chunk after its marker, before they are reported as missing.",
    ),
    Option(name="chunks.keep.h", read=number, default="168", doc="Hours for which the counts of dumped chunks are kept."),
    Option(
        name="quarantine.rows.max",
        read=whole(0),
        default="100",
        doc=(
            "Number of bad records of one table in a batch or merge. If it is exceeded, and "
            "quarantine.fraction.max too, the job stops or the table is parked (see failure)."
        ),
    ),
    Option(name="quarantine.fraction.max", read=number, default="0.001", doc="Share of bad records; see quarantine.rows.max."),
    Option(
        name="restart.attempts.max",
        read=whole(0),
        default="10",
        doc="Number of restarts of the query after errors that may pass, without a finished batch between them.",
    ),
    Option(
        name="progress.file",
        read=text,
        default=None,
        doc="Local file to which one JSON line is written for each batch. If absent, only the log reports batches.",
    ),
    Option(
        name="progress.file.mib.max",
        read=whole(0),
        default="256",
        doc="Size in MiB at which progress.file is renamed to <progress.file>.1, which replaces the one before; 0 means never.",
    ),
    Option(
        name="report.topic",
        read=topic_or_none,
        default="__dblog-sinks",
        doc=(
            "Compacted topic to which the job reports how it and its tables are, without values of rows; the "
            "worker's page and `dblog sinks` show it. The worker names it in dblog.sinks.topic. Empty: no report."
        ),
    ),
    Option(
        name="report.interval.s",
        read=whole(1),
        default="10",
        doc="Seconds between two reports. A report has at most 201 records, each smaller than 4 KiB.",
    ),
    Option(
        name="metrics.listen",
        read=address,
        default=None,
        doc=(
            "host:port, or a port, on which Prometheus reads the job's metrics under /metrics. If absent, "
            "they are not served. It needs the package prometheus-client."
        ),
    ),
    Option(
        name="tracing.enabled",
        read=truth,
        default="false",
        doc=(
            "If true, batches and merges report OpenTelemetry traces, which continue the worker's by the "
            "records' header traceparent. It needs the extra dblog-sink[tracing] on the driver, whose "
            "variable OTEL_EXPORTER_OTLP_ENDPOINT and others decide where traces are sent."
        ),
    ),
    Option(
        name="log.format",
        read=one_of("plain", "json"),
        default="plain",
        doc=(
            "Format of the driver's log lines: plain for people, json for machines (one object a line). Each "
            "batch, table, snapshot and failure has one, with its numbers."
        ),
    ),
    Option(name="log.level", read=one_of("DEBUG", "INFO", "WARN", "ERROR"), default="INFO", doc="Lowest level that is logged."),
)
"""Declarations of all options of the sink."""

_PASSED_ON = ("kafka.", "spark.")
_SECRET_NAME = re.compile(
    r"password|secret|jaas|token(?!.*\.url)|credential|access\.key|account\.key|(keystore|private|encryption)\.key$", re.IGNORECASE
)
_QUOTED_SECRET = re.compile(r"""(?:password|secret|clientSecret|token)\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_PEM = "-----BEGIN "
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")


@dataclass(frozen=True, slots=True)
class Settings:
    """A checked configuration.

    ``settings["merge.threads"]`` is an option's value; ``kafka`` and ``spark`` have the options
    that are passed on.
    """

    values: Mapping[str, Any]
    kafka: Mapping[str, str]
    spark: Mapping[str, str]
    rules: tuple[TableRule, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def base_path(self) -> str:
        """Base path of the tables, without a trailing slash."""
        return str(self.values["target.path"]).rstrip("/")

    @property
    def state_path(self) -> str:
        """Path of the sink's own tables and files."""
        return str(self.values["state.path"] or f"{self.base_path}/_dblog").rstrip("/")

    @property
    def checkpoint_path(self) -> str:
        """Path of the query's checkpoint."""
        return str(self.values["checkpoint.path"] or f"{self.state_path}/checkpoints/{self.values['name']}")

    @property
    def paths_by_option(self) -> dict[str, str]:
        """Option to its path; templates are filled with example names."""
        found = {"target.path": self.base_path, "state.path": self.state_path, "checkpoint.path": self.checkpoint_path}
        parts = {"base": self.base_path, "prefix": "prefix", "db": "db", "table": "table"}
        found["target.template"] = self.values["target.template"].format(**parts)
        for rule in self.rules:
            if (template := rule.settings.get("target.path")) is not None:
                found[f"{PREFIX}{rule.name}.target.path"] = template.format(**parts)
        return found

    def tombstones_path(self, path: str) -> str:
        """Return the path of the tombstones of the table at ``path``."""
        return f"{self.state_path}/tombstones/{self._relative(path)}"

    def confirmed_path(self, path: str) -> str:
        """Return the path of the keys that a dump has confirmed in the history at ``path``."""
        return f"{self.state_path}/confirmed/{self._relative(path)}"

    def _relative(self, path: str) -> str:
        # Behind a slash, or a table in lake2 would have the tombstones of one in lake/2.
        base, found = f"{plainly(self.base_path)}/", plainly(path)
        return found.removeprefix(base) if found.startswith(base) else path.replace("://", "/").strip("/")

    def paths(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the paths of all Delta tables that the job writes, by name.

        Tables of the topics have their own names, the sink's tables their names under state.path.
        """
        own = ("landing", "control", "quarantine", "chunks", "fingerprints", "verified", *(("manifest",) if self.snapshots else ()))
        found = {f"_dblog/{name}": f"{self.state_path}/{name}" for name in own}
        for topic in topics:
            spec = self.table(topic)
            if spec is not None and self.reserved(topic) is None:
                found[spec.name] = spec.path
                found[f"_dblog/tombstones/{spec.name}"] = self.tombstones_path(spec.path)
                if spec.mode == "history":
                    found[f"_dblog/confirmed/{spec.name}"] = self.confirmed_path(spec.path)
        return found

    def reserved(self, topic: str) -> str | None:
        """Return why the topic's table may not be at its path, or None if it may.

        A source chooses the names of its tables, so a path could lead to the sink's own folders.
        """
        spec = self.table(topic)
        for option, own in (("state.path", self.state_path), ("checkpoint.path", self.checkpoint_path)):
            if spec is not None and f"{plainly(spec.path)}/".startswith(f"{plainly(own)}/"):
                return (
                    f"the table of topic {topic} would be at {spec.path}, in the sink's own folder {own} ({option}); give it another with "
                    "table.<rule>.target.path, or leave its topic out with topics.exclude"
                )
        return None

    def table_name(self, topic: str) -> str:
        """Return the name of the topic's table, or the topic if it does not match topics.name."""
        spec = self.table(topic)
        return topic if spec is None else spec.name

    @property
    def secrets(self) -> frozenset[str]:
        """Values that no log may show.

        They are found by the names of their options, and inside JAAS configurations,
        ``user:password`` and PEM texts.
        """
        auth: str | None = self.values["registry.auth"]
        found = {} if auth is None else {"registry.password": auth, "password": auth.partition(":")[2]}
        token: str | None = self.values["registry.token"]
        found |= {} if token is None else {"registry.token": token}
        found |= {key: value for key, value in {**self.kafka, **self.spark}.items() if _SECRET_NAME.search(key)}
        inside = {quoted for value in found.values() for quoted in _QUOTED_SECRET.findall(value)}
        # A message may show a part of a key, or its lines joined.
        inside |= {line for value in found.values() if _PEM in value for line in _PEM_LINE.findall(value)}
        return frozenset({*found.values(), *inside} - {""})

    @property
    def policy(self) -> Policy:
        """Limits of the two tiers."""
        return Policy(
            trigger_s=self.values["trigger.interval.s"],
            rows_min=self.values["merge.rows.min"],
            rows_max=self.values["merge.rows.max"],
            age_max_s=self.values["merge.age.max.s"],
            snapshots=self.snapshots,
        )

    def table_parts(self, topic: str) -> tuple[str, str]:
        """Return database and table that topics.name finds in the topic, empty if it does not
        match.
        """
        match = self.values["topics.name"].fullmatch(topic)
        return ("", "") if match is None else (match["db"] or "", match["table"] or "")

    def excludes(self, topic: str) -> bool:
        """Return True if topics.exclude matches the topic, or the job reports to it."""
        # The job would report what it reads, and read what it reports.
        return topic == self.values["report.topic"] or self.values["topics.exclude"].fullmatch(topic) is not None

    def may_be_table(self, topic: str) -> bool:
        """Return True if an excluded topic is a table if it has rows.

        That is so if only the default of topics.exclude matches it, not a configured pattern.
        """
        chosen = self.values["topics.exclude"].pattern != _EXCLUDED
        return not chosen and not topic.startswith("__") and self.table(topic) is not None

    @property
    def snapshots(self) -> bool:
        """True if there is a manifest."""
        return bool(self.values["manifest.interval.s"] > 0)

    @property
    def table_keep_h(self) -> float:
        """Hours that old versions of tables can be read.

        With a manifest it is an hour more than snapshots are kept, because a snapshot is read some
        time after its versions are known.
        """
        keep_h: float = self.values["vacuum.keep.h"]
        return max(keep_h, self.values["manifest.keep.h"] + 1.0) if self.snapshots else keep_h

    @property
    def log_h(self) -> float:
        """Hours of log retention for tables whose old versions may be read."""
        return max(self.table_keep_h + LOG_LONGER_H, FILES_H)

    def log_h_of(self, name: str) -> float:
        """Return the hours of log retention of a table by its name in ``paths``."""
        return OWN_LOG_H if is_own_hot(name) else self.log_h

    def table(self, topic: str) -> TableSpec | None:
        """Return the settings of the topic's table, or None if it does not match topics.name."""
        match = self.values["topics.name"].fullmatch(topic)
        if match is None:
            return None
        parts = {name: match.groupdict().get(name) or "" for name in ("prefix", "db", "table")}

        by_prefix: dict[str, bool] = {}

        def path_of(template: str) -> str:
            made = template.format(base=self.base_path, **parts)
            by_prefix[made] = bool(parts["prefix"]) and "{prefix" in template
            return made

        plain = TableSpec(name=f"{parts['db']}.{parts['table']}", topic=topic, path=path_of(self.values["target.template"]))
        found = spec(self.rules, plain, path_of)
        # A manifest is of one source, with that source's own names.
        if by_prefix[found.path] and not self.snapshots:
            return replace(found, name=f"{parts['prefix']}.{plain.name}", source=plain.name)
        return found


def parse(properties: Mapping[str, str]) -> Settings:
    """Return the settings of flat properties. Raise ConfigError with all faults at once."""
    errors: dict[str, str] = {}
    known = {option.name: option for option in OPTIONS}
    resolved: dict[str, str] = {}
    for key, given in properties.items():
        try:
            resolved[key] = resolve(given)
        except ValueError as e:
            errors[key] = str(e)
    for key in resolved:
        if key not in known and not key.startswith((*_PASSED_ON, PREFIX)):
            errors[key] = "is not an option of the sink; see --help"
    table_rules = rules({key: given for key, given in resolved.items() if key not in known}, errors)
    values: dict[str, Any] = {}
    for option in OPTIONS:
        text_or_none = resolved.get(option.name, option.default)
        try:
            values[option.name] = None if text_or_none is None else option.read(text_or_none)
        except ValueError as e:
            errors[option.name] = str(e)
    for name in ("kafka.bootstrap.servers", "registry.url", "target.path"):
        if name not in properties:
            errors[name] = "is required"
    if ("topics" in properties) == ("topics.pattern" in properties):
        errors["topics"] = "is needed, or topics.pattern: one of the two"
    _check_manifest(values, errors)
    if values.get("registry.auth") and values.get("registry.token"):
        errors["registry.token"] = "cannot be given beside registry.auth: one of the two"
    if values.get("registry.ssl.key.file") and not values.get("registry.ssl.certificate.file"):
        errors["registry.ssl.key.file"] = "is the key of registry.ssl.certificate.file, which is not given"
    template = values.get("target.template")
    if template is not None:
        try:
            template.format(base="", prefix="", db="", table="")
        except (KeyError, IndexError, ValueError):
            errors["target.template"] = "may use only {base}, {prefix}, {db} and {table}"
    if errors:
        raise ConfigError(errors)
    settings = Settings(
        values=values,
        rules=table_rules,
        kafka={k: v for k, v in resolved.items() if k.startswith("kafka.")},
        spark={k: v for k, v in resolved.items() if k.startswith("spark.")},
    )
    # Spark, Delta and the job would resolve a relative path from different folders.
    relative = [option for option, path in settings.paths_by_option.items() if option in resolved and not _WHOLE.match(path)]
    if relative:
        raise ConfigError(dict.fromkeys(relative, "must be an absolute path (/...) or a URL"))
    return settings


def _check_manifest(values: Mapping[str, Any], errors: dict[str, str]) -> None:
    """Check that a manifest has its transaction topic and source positions."""
    if not values.get("manifest.interval.s"):
        return
    name = values.get("topics.transaction")
    if name is None:
        errors["topics.transaction"] = (
            "is required by manifest.interval.s: name the source's transaction topic (<topic.prefix>.transaction, which the source writes with "
            "provide.transaction.metadata=true)"
        )
        return
    if values.get("topics") is not None and name not in {part.strip() for part in values["topics"].split(",")}:
        errors["topics.transaction"] = f"names {name}, and topics does not: add it there"
    if values.get("topics.pattern") is not None and not _may_match(values["topics.pattern"], name):
        errors["topics.transaction"] = f"names {name}, which topics.pattern does not match: extend the pattern"
    if values.get("topics.exclude") is not None and values["topics.exclude"].fullmatch(name):
        errors["topics.transaction"] = f"names {name}, which topics.exclude leaves out: change topics.exclude"
    if values.get("position") == "topic":
        errors["position"] = "must be source with manifest.interval.s: a snapshot ends at a position of the source's log"


def _may_match(java_pattern: str, name: str) -> bool:
    """Return True if the name matches, or if Python cannot read Java's pattern."""
    try:
        return re.fullmatch(java_pattern, name) is not None
    except re.error:
        return True


def read_file(path: Path) -> dict[str, str]:
    """Return the flat properties of a YAML file (.yaml, .yml) or a Java properties file.

    Raise ConfigError if it cannot be read.
    """
    try:
        content_text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError({"--config": f"cannot read {path}: {e.strerror}"}) from e
    if path.suffix in (".yaml", ".yml"):
        try:
            content = yaml.safe_load(content_text)
        except yaml.YAMLError as e:
            raise ConfigError({"--config": f"{path} is not YAML: {e}"}) from e
        if not isinstance(content, dict):
            raise ConfigError({"--config": f"{path} must hold key: value pairs"})
        return _flatten(content, "")
    return _read_properties(content_text)


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


def _read_properties(content_text: str) -> dict[str, str]:
    """Parse the commonly used part of java.util.Properties' format.

    That is comments, ``=`` or ``:``, and lines continued by a backslash.
    """
    flat: dict[str, str] = {}
    joined = re.sub(r"\\\r?\n[ \t]*", "", content_text)
    for line in joined.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        match = re.match(r"([^=:\s]+)\s*[=:]?\s*(.*)", stripped)
        if match:
            flat[match.group(1)] = match.group(2).replace("\\\\", "\\")
    return flat


def listed(topics: str) -> frozenset[str]:
    """Return the names in the option ``topics``."""
    return frozenset(part.strip() for part in topics.split(","))


def resolves_here(properties: Mapping[str, str]) -> bool:
    """Return True if this machine has the variables and files of all placeholders."""
    try:
        for given in properties.values():
            resolve(given)
    except ValueError:
        return False
    return True


def resolve(given: str) -> str:
    """Return a value with ``${env:NAME}`` and ``${file:PATH}`` replaced.

    Raise ValueError if there is no such variable or file.
    """

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

    return re.sub(r"\$\{(env|file):([^}]+)\}", value, given)


def help_text() -> str:
    """Return all options with defaults and meaning, for --help."""
    lines = ["options (in the file, or as --set key=value):"]
    for option in OPTIONS:
        default = "" if option.default is None else f" [{option.default}]"
        lines.append(f"  {option.name}{default}\n      {option.doc}")
    lines.append("settings of tables (table.<rule>.<setting>; table.<rule>.match is a regular expression for db.table):")
    for option in TABLE_OPTIONS:
        default = "" if option.default is None else f" [{option.default}]"
        lines.append(f"  {option.name}{default}\n      {option.doc}")
    lines.append("passed on:")
    lines.append("  kafka.*\n      Passed to the Kafka clients; kafka.bootstrap.servers is required.")
    lines.append("  spark.*\n      Passed to Spark.")
    return "\n".join(lines)

r"""Reads the settings of tables: rules by pattern, each setting decided by the last matching rule.
Pure.

A rule is a group of keys ``table.<rule>.<setting>``; ``table.<rule>.match`` is a regular expression
for the whole of ``db.table``. Every matching rule applies, in the order of the configuration, so a
broad rule comes first and exceptions after it:

    table:
      all:    {match: '.*', columns.exclude: 'password|.*_secret'}
      orders: {match: 'shop\.orders', cluster.by: 'customer', target.path: '{base}/gold/{table}'}

Settings are read, checked and looked up here; other modules act on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dblog_sink.config.options import Option, name_list, number, one_of, pattern, text, whole
from dblog_sink.errors import AwayError, ParkError

PREFIX = "table."
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""Debezium's default of ``unavailable.value.placeholder``."""
_TEMPLATE_FIELDS = {"base": "", "prefix": "", "db": "", "table": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The settings of one table.

    Fields have the names of options with underscores; ``TABLE_OPTIONS`` describes them.
    """

    name: str
    """``db.table``, or ``prefix.db.table`` if the prefix is part of the path, since several sources
    may then have a table of that name.
    """
    path: str
    topic: str
    source: str = ""
    """``db.table``; empty if it equals ``name``."""
    mode: str = "auto"
    records: str = "auto"
    target_catalog: tuple[str, ...] = ()
    """Parts of the name in the catalog; empty if it has none."""
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    columns_include: re.Pattern[str] | None = None
    columns_exclude: re.Pattern[str] | None = None
    columns_rename: Mapping[str, str] = field(default_factory=dict)
    soft_delete: str | None = None
    retention_h: float | None = None
    evolution: str = "evolve"
    evolution_drop: str = "keep"
    evolution_incompatible: str = "fail"
    evolution_fill: str = "default"
    json_type: str = "string"
    decimal_overflow: str = "string"
    unavailable_value_placeholder: str = UNAVAILABLE_VALUE
    truncate: str = "apply"
    failure: str = "stop"
    failure_retries: int = 3

    @property
    def source_name(self) -> str:
        """Name of the table in its source, ``db.table``."""
        return self.source or self.name

    def parks(self, error: BaseException) -> bool:
        """Return True if this error parks the table once retries cannot help or are used up."""
        return isinstance(error, ParkError) or (self.failure == "park" and not isinstance(error, AwayError))

    def column(self, source: str) -> str | None:
        """Return the target's name of a source column, or None if the column is left out."""
        if self.columns_include is not None and self.columns_include.fullmatch(source) is None:
            return None
        if self.columns_exclude is not None and self.columns_exclude.fullmatch(source) is not None:
            return None
        return self.columns_rename.get(source, source)


def _renames(given: str) -> Mapping[str, str]:
    renames: dict[str, str] = {}
    for pair in name_list(given):
        source, arrow, target = (part.strip() for part in pair.partition(":"))
        if not arrow or not source or not target:
            msg = f"must be pairs source:target, and {pair!r} is not one"
            raise ValueError(msg)
        if source in renames:
            msg = f"renames {source} twice"
            raise ValueError(msg)
        renames[source] = target
    if len({target.lower() for target in renames.values()}) < len(renames):
        msg = "gives two columns one name"
        raise ValueError(msg)
    return renames


def _template(given: str) -> str:
    try:
        given.format(**_TEMPLATE_FIELDS)
    except (KeyError, IndexError, ValueError):
        msg = "may use only {base}, {prefix}, {db} and {table}"
        raise ValueError(msg) from None
    return text(given)


def _catalog_name(given: str) -> tuple[str, ...]:
    # Split before it is filled, because a table's name may contain a dot.
    parts = tuple(part.strip() for part in _template(given).split("."))
    if not all(parts) or len(parts) > CATALOG_PARTS_MAX:
        msg = "must be table, schema.table or catalog.schema.table"
        raise ValueError(msg)
    return parts


def _placeholder(given: str) -> str:
    if given.startswith("hex:"):
        try:
            bytes.fromhex(given[4:])
        except ValueError:
            msg = "must be a text, or hex: and bytes in hexadecimal"
            raise ValueError(msg) from None
    return text(given)


def _guarded_name(given: str) -> str:
    if given.lower().startswith("_dblog_"):
        msg = "names that begin with _dblog_ belong to the sink"
        raise ValueError(msg)
    return text(given)


def _cluster(given: str) -> tuple[str, ...]:
    names = name_list(given)
    if len(names) > CLUSTER_COLUMNS_MAX:
        msg = f"Delta clusters by up to {CLUSTER_COLUMNS_MAX} columns"
        raise ValueError(msg)
    return names


CLUSTER_COLUMNS_MAX = 4
CATALOG_PARTS_MAX = 3

TABLE_OPTIONS: tuple[Option, ...] = (
    Option(
        name="mode",
        read=one_of("auto", "mirror", "history", "append"),
        default="auto",
        doc=(
            "mirror: the rows of the source (needs a key); history: every version of a row (SCD2, needs a "
            "key); append: the list of changes. auto: mirror with a key, append without."
        ),
    ),
    Option(
        name="records",
        read=one_of("auto", "envelope", "unwrapped"),
        default="auto",
        doc=(
            "Form of records. envelope: Debezium's; unwrapped: rows made by ExtractNewRecordState, in the "
            "order of Kafka offsets, where a null value is a delete. auto recognizes the form by the schema; "
            "it must be set for a topic that begins with deletes."
        ),
    ),
    Option(
        name="target.path",
        read=_template,
        default=None,
        doc="Path of the Delta table, made of {base}, {prefix}, {db} and {table}. If absent, it is target.template.",
    ),
    Option(
        name="target.catalog",
        read=_catalog_name,
        default=None,
        doc=(
            "Name under which the table is also registered in a catalog: {table}, {db}.{table}, or with a "
            "catalog before it, for instance lake.{db}.{table} (Unity Catalog; spark.sql.catalog.lake). The "
            "table is external there, at its path."
        ),
    ),
    Option(
        name="keys",
        read=name_list,
        default=None,
        doc=(
            "Key columns (names in the target), separated by commas, in place of the record's key. Deletes "
            "then need the old row in the record. Rows may exchange their keys within a batch if their old "
            "rows are logged completely and differ in another column."
        ),
    ),
    Option(
        name="partition.by",
        read=name_list,
        default=None,
        doc=(
            "Partition columns of a new table. Choose columns that never change. Delta writes an empty text "
            "there as NULL; a row with such a key goes to quarantine."
        ),
    ),
    Option(name="cluster.by", read=_cluster, default=None, doc="Columns by which a new table is clustered (liquid), up to four."),
    Option(
        name="columns.include",
        read=pattern,
        default=None,
        doc="Regular expression of the source columns that are kept; all others are left out.",
    ),
    Option(name="columns.exclude", read=pattern, default=None, doc="Regular expression of the source columns that are left out."),
    Option(name="columns.rename", read=_renames, default=None, doc="Renamed columns, as pairs source:target separated by commas."),
    Option(
        name="soft.delete",
        read=_guarded_name,
        default=None,
        doc="Mirror: boolean column that is true for deleted rows, which then stay in the table. If absent, deleted rows are deleted.",
    ),
    Option(
        name="retention.h",
        read=number,
        default=None,
        doc=(
            "History: hours for which a version is kept after it ended, by the source's clock. Older ones are "
            "removed when the table is compacted. If absent, all are kept."
        ),
    ),
    Option(
        name="evolution",
        read=one_of("evolve", "lenient", "ignore", "fail"),
        default="evolve",
        doc=(
            "Reaction to changed columns. evolve: the target follows, and the options evolution.* decide the "
            "rest; lenient: the target follows, and a type that does not fit gets a column of its own "
            "(evolution.incompatible=column); ignore: the target stays the same, values are cast, and records "
            "with values that cannot be cast go to quarantine; fail: any change stops the table."
        ),
    ),
    Option(
        name="evolution.drop",
        read=one_of("keep", "drop"),
        default="keep",
        doc=(
            "Treatment of a column that was dropped in the source: keep it, with NULL in rows written from "
            "then on, or drop it (by column mapping)."
        ),
    ),
    Option(
        name="evolution.incompatible",
        read=one_of("fail", "column", "quarantine"),
        default="fail",
        doc=(
            "Treatment of a type that Delta cannot widen the column to. fail: the table stops (see failure); "
            "column: later values go to <column>__v2; quarantine: values are cast, and records with values "
            "that cannot be cast go to quarantine."
        ),
    ),
    Option(
        name="evolution.fill",
        read=one_of("default", "none"),
        default="default",
        doc="Treatment of a column that was added with a default: existing rows get the default, as in the source, or NULL.",
    ),
    Option(name="json.type", read=one_of("string", "variant"), default="string", doc="Type of a new column for JSON: text, or VARIANT."),
    Option(
        name="decimal.overflow",
        read=one_of("string", "quarantine"),
        default="string",
        doc=(
            "Treatment of decimals that are declared with more than 38 digits. string: STRING, in which every "
            "value fits; quarantine: DECIMAL(38, s), and a record with a value that does not fit goes to "
            "quarantine. A column that is a decimal in the table stays one."
        ),
    ),
    Option(
        name="unavailable.value.placeholder",
        read=_placeholder,
        default=UNAVAILABLE_VALUE,
        doc=(
            "Value of the connector's option of the same name (PostgreSQL): the placeholder that it writes "
            "for an unchanged value that is stored apart (TOAST). A mirror or history keeps the value that "
            "the row had; a record whose row does not exist goes to quarantine."
        ),
    ),
    Option(
        name="truncate",
        read=one_of("apply", "ignore", "park"),
        default="apply",
        doc=(
            "Reaction to a TRUNCATE of the source table. apply: older rows are deleted (mirror), ended "
            "(history), or one row for the TRUNCATE is appended (append); park: the table is parked before "
            "it."
        ),
    ),
    Option(
        name="failure",
        read=one_of("stop", "park"),
        default="stop",
        doc=(
            "Reaction after failure.retries failed attempts: stop the job, or park the table. Then other "
            "tables go on, and the table's records wait."
        ),
    ),
    Option(name="failure.retries", read=whole(0), default="3", doc="Number of attempts after the first, for errors that may pass."),
)
"""Declarations of all settings of a table; ``table.<rule>.match`` selects the tables."""


@dataclass(frozen=True, slots=True)
class TableRule:
    """A rule with the pattern of the tables that it matches, and its settings."""

    name: str
    match: re.Pattern[str]
    settings: Mapping[str, Any]


def rules(properties: Mapping[str, str], errors: dict[str, str]) -> tuple[TableRule, ...]:
    """Return the rules among flat properties, in order. Faults are added to ``errors`` by key."""
    known = {option.name: option for option in TABLE_OPTIONS}
    groups: dict[str, dict[str, str]] = {}
    for key, given in properties.items():
        if not key.startswith(PREFIX):
            continue
        rule, dot, setting = key[len(PREFIX) :].partition(".")
        if not dot or not rule:
            errors[key] = "must be table.<rule>.<setting>"
            continue
        groups.setdefault(rule, {})[setting] = given
    made = []
    for rule, given_settings in groups.items():
        match = None
        values: dict[str, Any] = {}
        for setting, given in given_settings.items():
            key = f"{PREFIX}{rule}.{setting}"
            try:
                if setting == "match":
                    match = pattern(given)
                elif setting not in known:
                    errors[key] = f"is not a setting of a table; there are match, {', '.join(known)}"
                else:
                    values[setting] = known[setting].read(given)
            except ValueError as e:
                errors[key] = str(e)
        if "match" not in given_settings:
            errors[f"{PREFIX}{rule}.match"] = "is required: a regular expression for db.table"
        if match is not None:
            made.append(TableRule(rule, match, values))
    _contradictions(made, errors)
    return tuple(made)


def _contradictions(made: Iterable[TableRule], errors: dict[str, str]) -> None:
    for rule in made:
        where = f"{PREFIX}{rule.name}."
        if rule.settings.get("partition.by") and rule.settings.get("cluster.by"):
            errors[where + "cluster.by"] = "a Delta table is either partitioned or clustered; give partition.by or cluster.by"
        if rule.settings.get("soft.delete") and rule.settings.get("mode") in ("append", "history"):
            errors[where + "soft.delete"] = "belongs to mode mirror; the other modes keep deleted rows anyway"
        if rule.settings.get("retention.h") is not None and rule.settings.get("mode") in ("append", "mirror"):
            errors[where + "retention.h"] = "belongs to mode history"


def spec(found: Iterable[TableRule], plain: TableSpec, path_of: Callable[[str], str]) -> TableSpec:
    """Return the settings of the table ``plain.name``: defaults, then every matching rule.

    ``path_of`` fills a template's fields.
    """
    known = {one.name for one in fields(TableSpec)}
    result = plain
    for rule in found:
        if rule.match.fullmatch(plain.name) is None:
            continue
        values = {setting.replace(".", "_"): value for setting, value in rule.settings.items()}
        if "target_path" in values:
            values["path"] = path_of(values.pop("target_path"))
        if values.get("target_catalog"):
            values["target_catalog"] = tuple(path_of(part) for part in values["target_catalog"])
        assert values.keys() <= known
        result = replace(result, **values)
    if result.evolution == "lenient":
        result = replace(result, evolution_incompatible="column")
    return result

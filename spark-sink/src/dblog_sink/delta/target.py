"""Opens, creates and alters the sink's Delta tables, and keeps their state between batches.

A table's properties record what the sink decided at its creation (mode and key columns) and are
read back after a restart. The rest is a cache, which is discarded when a write fails.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.tables import TableSpec
from dblog_sink.delta import retention
from dblog_sink.delta.catalog import register
from dblog_sink.delta.file_skipping import newest, row_count
from dblog_sink.delta.restored import Commit, first_of, loss
from dblog_sink.delta.session import fitted
from dblog_sink.errors import DefiniteError, ParkError
from dblog_sink.records.decode import OP, SEQ1, SEQ2, Columns
from dblog_sink.schema import evolve
from dblog_sink.schema.literal_sql import is_literal
from dblog_sink.schema.types import quote, text_sql
from dblog_sink.state.new_table import new_table

log = logging.getLogger(__name__)

MIRROR, HISTORY, APPEND = "mirror", "history", "append"
FROM, TO, CURRENT = "_dblog_from", "_dblog_to", "_dblog_current"
TO1, TO2 = "_dblog_to_seq1", "_dblog_to_seq2"
_GUARDS: Mapping[str, tuple[tuple[str, t.DataType], ...]] = {
    MIRROR: ((SEQ1, t.LongType()), (SEQ2, t.LongType())),
    APPEND: ((OP, t.StringType()), (SEQ1, t.LongType()), (SEQ2, t.LongType())),
    HISTORY: (
        (OP, t.StringType()),
        (FROM, t.TimestampType()),
        (TO, t.TimestampType()),
        (CURRENT, t.BooleanType()),
        (SEQ1, t.LongType()),
        (SEQ2, t.LongType()),
        (TO1, t.LongType()),
        (TO2, t.LongType()),
    ),
}
"""Columns that the sink adds, by mode."""
_MODE, _KEYS, _RECORDS, _NEWEST, _FILLS = "dblog.mode", "dblog.keys", "dblog.records", "dblog.schema", "dblog.fills"
_LEFT_OUT, _ORDER, _RENAMED, _RENAMING = "dblog.left.out", "dblog.order", "dblog.renamed", "dblog.renaming"
_SHOWN = "dblog.renamed.shown"
_COLUMNS, _SOFT, TOPIC, _KEPT, _LOOKED = "dblog.columns", "dblog.soft", "dblog.topic", "dblog.kept.at", "dblog.version"
_MODES = {"mirror": MIRROR, "append": APPEND, "history": HISTORY}
OPTION_OF = {mode: option for option, mode in _MODES.items()}
"""Mode to its name in the options."""
CUBE_BYTES = 4 << 30
"""Minimum size of a cube that OPTIMIZE does not rewrite, in bytes.

New cubes are half as large again, so that they stay until a third of their rows are deleted.
"""
_CUBE_FILE_BYTES = 128 << 20
_CUBE_LEAST = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold"
_CUBE_WANTED = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize"
_FILE_MOST = "spark.databricks.delta.optimize.maxFileSize"
_WITH_STATISTICS = (t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType, t.StringType)
"""Types of columns that Delta accepts for statistics (SkippingEligibleDataType)."""


@dataclass(slots=True)
class Target:
    """A Delta table of the sink.

    ``columns`` are all columns of the source including key columns, in table order, without the
    sink's.
    """

    name: str
    path: str
    mode: str
    key_names: tuple[str, ...]
    columns: Columns
    rows: int
    """Number of live rows, for progress; counted when the table is opened."""
    kind: str = "envelope"
    """Kind of its records, in an envelope or unwrapped; the two are ordered differently."""
    newest: int = -1
    """Highest schema id when its columns last changed."""
    fills: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Lower-case column to a schema id and SQL. Rows of lower schema ids are older than the column,
    and have the value of the SQL in it.
    """
    order: tuple[str, ...] = ()
    """Columns in the order of the newest schema, which shows when two of them swapped names."""
    renamed: str | None = None
    """Key of the last statement whose renames it has followed (``tables/schema_changes.py``), None
    if none.
    """
    shown: Mapping[int, str] = field(default_factory=dict)
    """Schema id to the key of the statement that precedes it and all later ids."""
    left_out: frozenset[str] = frozenset()
    """Source columns that were left out, in lower case. Their values in older rows are unknown."""
    id: str = ""
    """Delta's id of the table. A table that was moved away and created again has a new one."""
    soft: str | None = None
    """Column that is true for a deleted row, None if deleted rows are removed."""
    partitions: tuple[str, ...] = ()
    """Partition columns."""
    clusters: tuple[str, ...] = ()
    """Clustering columns."""
    commits: int = 0
    """Number of commits since the last compaction, by any writer."""
    growing: bool = True
    """True if its last batch had new rows only.

    The next one is then written while it is decoded (``tables/modes/new_rows.py``).
    """
    declined: int = 0
    """Number of batches for which writing during decoding is not tried, after a failure."""
    repeats: bool = False
    """True if the last large batch had a key more than once; the next one is then not checked for
    unique keys first.
    """

    @property
    def keys(self) -> Columns:
        """Key columns in key order."""
        kinds = dict(self.columns)
        return tuple((name, kinds[name]) for name in self.key_names)

    @property
    def others(self) -> Columns:
        """Columns that are not key columns."""
        return tuple((name, kind) for name, kind in self.columns if name not in self.key_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns in the order in which they are written."""
        return tuple(name for name, _ in (*self.columns, *_own(self.mode, self.soft)))


def _own(mode: str, soft: str | None) -> tuple[tuple[str, t.DataType], ...]:
    """Return the columns that the sink adds to a table."""
    return (*([(soft, t.BooleanType())] if soft is not None else []), *_GUARDS[mode])


def open_target(session: SparkSession, *, spec: TableSpec, reading: bool = False) -> Target | None:
    """Open the table of ``spec``, or return None if there is none.

    ``reading`` is True if the caller only reads; what an interrupted attempt left unfinished is
    then left to the job. Raise DefiniteError or ParkError if somebody else created the table, or it
    has another configuration.
    """
    path = spec.path
    if not DeltaTable.isDeltaTable(session, path):
        return None
    table = DeltaTable.forPath(session, path)
    detail: Row = table.detail().select("properties", "id", "clusteringColumns", "partitionColumns").first()  # type: ignore[assignment]
    properties: Mapping[str, str] = detail["properties"]
    if _MODE not in properties:
        msg = f"{path} is a Delta table that the sink did not make; move it away, or choose another target for {spec.name}"
        raise ParkError(msg)
    if (owner := properties.get(TOPIC, spec.topic)) != spec.topic:
        raise two_topics(spec, owner)
    if not reading and json.loads(properties.get(_RENAMING, "{}")):
        _finish_renaming(session, path, properties)
        return open_target(session, spec=spec)
    mode = properties[_MODE]
    if spec.mode != "auto" and mode != _MODES[spec.mode]:
        msg = f"{path} was made in mode {mode}, and {spec.name} is configured for {spec.mode}; move it away and dump the table again, or change the mode back"
        raise DefiniteError(msg)
    soft = properties.get(_SOFT)
    if mode == MIRROR and soft != spec.soft_delete:
        msg = (
            f"{path} was made with soft.delete={soft or 'unset'}, and {spec.name} is configured for {spec.soft_delete or 'unset'}; set it back, or move the "
            "table away and dump it again"
        )
        raise DefiniteError(msg)
    frame = table.toDF()
    _untouched(spec, frame, mode, json.loads(properties.get(_COLUMNS, "[]")))
    guards = {name for name, _ in _own(mode, soft)}
    target = Target(
        name=spec.name,
        path=path,
        mode=mode,
        key_names=tuple(json.loads(properties[_KEYS])),
        columns=tuple((field.name, field.dataType) for field in frame.schema.fields if field.name not in guards),
        rows=row_count(session, path),
        kind=properties.get(_RECORDS, "envelope"),
        newest=int(properties.get(_NEWEST, "-1")),
        order=tuple(json.loads(properties.get(_ORDER, "[]"))),
        renamed=properties.get(_RENAMED),
        shown={int(schema): at for schema, at in json.loads(properties.get(_SHOWN, "{}")).items()},
        left_out=frozenset(json.loads(properties.get(_LEFT_OUT, "[]"))),
        id=detail["id"],
        soft=soft,
        clusters=tuple(detail["clusteringColumns"] or ()),
        partitions=tuple(detail["partitionColumns"]),
    )
    fills = _fills_of(spec, properties)
    if reading:
        target.fills = {name: (one["below"], one["sql"]) for name, one in fills.items()}
        return target
    _fill(session, target, fills)
    register(session, spec)
    return target


def two_topics(spec: TableSpec, owner: str) -> ParkError:
    """Return the error for a second topic that maps to a table.

    The positions are of two logs, so the rows of one topic would overwrite the other's.
    """
    return ParkError(
        f"two topics map to the Delta table {spec.path}, {owner} and {spec.topic}, and it is {owner}'s; use {{prefix}} in target.template, or "
        f"table.<rule>.target.path, start the sink again and resume {spec.topic}. If it carries on the same source's log instead of {owner}: "
        f"ALTER TABLE delta.`{spec.path}` SET TBLPROPERTIES ('{TOPIC}' = '{spec.topic}') before that, or, where there is no table, leave {owner} out with "
        "topics.exclude"
    )


def _untouched(spec: TableSpec, frame: DataFrame, mode: str, kept: Sequence[str]) -> None:
    """Raise DefiniteError if another writer dropped columns or wrote rows.

    The table is then no longer a copy of the source.
    """
    there = {name.lower() for name in frame.columns}
    if missing := [name for name in (*kept, *(name for name, _ in _GUARDS[mode])) if name.lower() not in there]:
        msg = (
            f"{spec.name}: somebody dropped or renamed {', '.join(missing)} in {spec.path}; if the sink has written nothing since (DESCRIBE HISTORY), "
            "restore the table to the version before (RESTORE TABLE ... TO VERSION AS OF ...); else move it away and dump it again, for what "
            "a RESTORE takes away never comes again"
        )
        raise DefiniteError(msg)
    # Statistics show that no file has such a row, so no data is read.
    if frame.where(F.col(SEQ1).isNull()).limit(1).count():
        msg = (
            f"{spec.name}: somebody else wrote rows without a position into {spec.path}; delete the rows where {SEQ1} IS NULL, and let the sink be its "
            "only writer. A RESTORE would remove the rows that the sink has written since, and they never come again"
        )
        raise DefiniteError(msg)


def identity(session: SparkSession, path: str) -> str | None:
    """Return Delta's id of the table at ``path``, or None if there is none."""
    if not DeltaTable.isDeltaTable(session, path):
        return None
    # DESCRIBE DETAIL also counts files, which needs the whole reconstructed log.
    _, snapshot = newest(session, path)
    return str(snapshot.metadata().id())


def recorded_in(session: SparkSession, path: str) -> tuple[str | None, str | None]:
    """Return topic and kind of records of the table at ``path``.

    Both are None if the sink has no table there.
    """
    if not DeltaTable.isDeltaTable(session, path):
        return None, None
    properties: Mapping[str, str] = DeltaTable.forPath(session, path).detail().select("properties").first()[0]  # type: ignore[index]
    return properties.get(TOPIC), properties.get(_RECORDS)


def create(
    session: SparkSession,
    *,
    spec: TableSpec,
    keys: Sequence[str],
    plan: evolve.Plan,
    kind: str,
    newest: int,
    log_h: float,
    order: tuple[str, ...] = (),
    left_out: frozenset[str] = frozenset(),
) -> Target:
    """Create an empty table in the configured mode, or the one that its key allows.

    ``log_h`` is its log retention in hours.
    """
    columns = plan.columns
    mode = _MODES[spec.mode] if spec.mode != "auto" else (MIRROR if keys else APPEND)
    if mode != APPEND and not keys:
        msg = (
            f"{spec.name} has no key, and mode {spec.mode} must know which row a change is about; set table.<rule>.keys to columns that are unique "
            "and never NULL, or use mode append"
        )
        raise DefiniteError(msg)
    names = {name.lower(): name for name, _ in columns}
    for what, wanted in (("keys", keys), ("partition.by", spec.partition_by), ("cluster.by", spec.cluster_by)):
        if missing := [name for name in wanted if name.lower() not in names]:
            msg = f"{spec.name}: table.<rule>.{what} names {', '.join(missing)}, and the table has no such column"
            raise DefiniteError(msg)
    key_names = tuple(names[key.lower()] for key in keys)
    kinds = dict(columns)
    soft = spec.soft_delete if mode == MIRROR else None
    if soft is not None and soft.lower() in names:
        msg = f"{spec.name}: table.<rule>.soft.delete names {soft}, which is a column of the source; choose another name"
        raise DefiniteError(msg)
    fields: list[tuple[str, t.DataType]] = [*columns, *_own(mode, soft)]
    target = Target(
        name=spec.name, path=spec.path, mode=mode, key_names=key_names, columns=columns, rows=0, kind=kind, newest=newest, soft=soft
    )
    builder = (
        new_table(session, spec.path, log_h=log_h)
        .addColumns(t.StructType([t.StructField(column, one) for column, one in fields]))
        .property(_MODE, mode)
        .property(TOPIC, spec.topic)
        .property(_KEYS, json.dumps(key_names))
        .property(_RECORDS, kind)
        .property(_NEWEST, str(newest))
        .property(_LEFT_OUT, json.dumps(sorted(left_out)))
        .property(_ORDER, json.dumps(order))
        .property(_COLUMNS, json.dumps([column for column, _ in columns]))
        .property("delta.enableDeletionVectors", "true" if mode != APPEND else "false")
        # A checkpoint every 10 commits is too often for a table with a commit every few seconds.
        .property("delta.checkpointInterval", "50")
        # Statistics only for columns by which files can be skipped: the sink's own, and those of
        # clustering. The table's owner can add others.
        .property("delta.dataSkippingStatsColumns", _statistics((*key_names, *spec.cluster_by), kinds, spec.partition_by, mode))
    )
    if any(evolve.needs_mapping(column, one) for column, one in fields):
        builder = builder.property(*evolve.MAPPED)
    if plan.renamed is not None:
        builder = builder.property(_RENAMED, plan.renamed).property(_SHOWN, json.dumps(plan.shown or {}))
    if soft is not None:
        builder = builder.property(_SOFT, soft)
    if spec.partition_by:
        builder = builder.partitionedBy(*spec.partition_by)
    if spec.cluster_by:
        builder = builder.clusterBy(*spec.cluster_by)
    with fitted(session, 0):
        builder.execute()
    target.id = identity(session, spec.path) or ""
    target.clusters = spec.cluster_by
    target.partitions = tuple(names[name.lower()] for name in spec.partition_by)
    target.left_out, target.order, target.renamed, target.shown = left_out, order, plan.renamed, plan.shown or {}
    register(session, spec)
    return target


def _statistics(names: Iterable[str], kinds: Mapping[str, t.DataType], partitions: Sequence[str], mode: str) -> str:
    spelled = {name.lower(): name for name in kinds}
    apart = {name.lower() for name in partitions}
    wanted = dict.fromkeys(spelled[name.lower()] for name in names if name.lower() not in apart)
    indexed = [name for name in wanted if isinstance(kinds[name], _WITH_STATISTICS)]
    return ",".join(quote(column) for column in (*indexed, SEQ1, SEQ2, *((TO1, TO2) if mode == HISTORY else ())))


def leave_out(session: SparkSession, target: Target, names: frozenset[str]) -> None:
    """Record that the table lacks these columns of the source, which records had."""
    if names - target.left_out:
        target.left_out |= names
        _set(session, target.path, {_LEFT_OUT: json.dumps(sorted(target.left_out))})


def alter(session: SparkSession, target: Target, plan: evolve.Plan, *, newest: int, order: tuple[str, ...] = ()) -> None:
    """Alter the table as planned.

    A column that the source adds with a default gets it in existing rows too. This is recorded
    first, so that opening the table finishes an interrupted attempt. A column that was left out
    until now keeps NULL in older rows, because its values there are unknown.
    """
    fills: dict[str, Any] = {name: {"below": below, "sql": sql, "done": True} for name, (below, sql) in target.fills.items()}
    for change in plan.changes:
        unknown = (
            isinstance(change, evolve.AddColumn)
            and {one.member.lower() for fields in plan.fields.values() for one in fields if one.name == change.name} & target.left_out
        )
        if unknown:
            log.warning(
                "%s: column %s was left out until now, so rows that are older have NULL in it; to fill it ask for a dump of the column: "
                "dblog dumps start CONNECTOR %s --mode columns --column %s",
                target.name,
                change.name,
                target.name,
                change.name,
            )
        if isinstance(change, evolve.AddColumn) and change.fill is not None and target.mode == MIRROR and not unknown:
            first = min(number for number, fields in plan.fields.items() if any(one.name == change.name for one in fields))
            fills[change.name.lower()] = {"below": first, "sql": change.fill, "done": False}
        if isinstance(change, evolve.DropColumn):
            fills.pop(change.name.lower(), None)
    renames = {change.name: change.to for change in plan.changes if isinstance(change, evolve.RenameColumn)}
    fills |= {to.lower(): fills.pop(name.lower()) for name, to in list(renames.items()) if name.lower() in fills} if renames else {}
    # The list of columns is changed before columns are dropped and after columns are added, so that
    # a crash in between does not look as if somebody else had dropped a column.
    after = {name.lower() for name, _ in plan.columns}
    moved = {name.lower() for pair in renames.items() for name in pair}
    staying = [name for name, _ in target.columns if name.lower() in after - moved]
    target.order = order or target.order
    target.renamed = plan.renamed if plan.renamed is not None else target.renamed
    target.shown = {**target.shown, **(plan.shown or {})}
    place = {} if target.renamed is None else {_RENAMED: target.renamed, _SHOWN: json.dumps(target.shown)}
    followed = {_ORDER: json.dumps(target.order), **place}
    properties = {_NEWEST: str(max(newest, target.newest)), _COLUMNS: json.dumps(staying), **({_FILLS: json.dumps(fills)} if fills else {})}
    if renames:
        _set(session, target.path, dict([evolve.MAPPED]))
        found = _physical_names(session, target.path)
        properties[_RENAMING] = json.dumps({"names": {found[name]: to for name, to in renames.items()}, "properties": followed})
        followed[_RENAMING] = "{}"
    _set(session, target.path, properties)
    evolve.apply(session, target.path, plan.changes)
    _set(session, target.path, {_COLUMNS: json.dumps([name for name, _ in plan.columns]), **followed})
    target.columns = plan.columns
    target.newest = max(newest, target.newest)
    _fill(session, target, fills)


def _physical_names(session: SparkSession, path: str) -> dict[str, str]:
    """Return each column's name in the files, which a rename does not change."""
    _, snapshot = newest(session, path)
    fields = json.loads(snapshot.metadata().schemaString())["fields"]
    return {field["name"]: field["metadata"].get("delta.columnMapping.physicalName", field["name"]) for field in fields}


def _finish_renaming(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    """Finish the renames that an interrupted attempt has left undone."""
    wanted: Mapping[str, Any] = json.loads(properties[_RENAMING])
    names = _physical_names(session, path)
    renames = {name: to for name, own in names.items() if (to := wanted["names"].get(own, name)) != name}
    evolve.apply(session, path, [evolve.RenameColumn(name, to) for name, to in renames.items()])
    known = {name.lower() for name in json.loads(properties.get(_COLUMNS, "[]"))} | {to.lower() for to in wanted["names"].values()}
    columns = [now for name in names if (now := renames.get(name, name)).lower() in known]
    _set(session, path, {_COLUMNS: json.dumps(columns), **wanted["properties"], _RENAMING: "{}"})


def _fills_of(spec: TableSpec, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the defaults of columns that the table's property has, by lower-case name.

    Raise ParkError for SQL that the sink did not write: it would run with the sink's rights.
    """
    fills: dict[str, Any] = json.loads(properties.get(_FILLS, "{}"))
    for name, one in fills.items():
        if not (isinstance(one["below"], int) and isinstance(one["sql"], str) and is_literal(one["sql"])):
            msg = (
                f"{spec.name}: the property {_FILLS} of {spec.path} holds a default of column {name} that the sink did not write; find out who writes to this "
                "folder, and restore the property from a version before (DESCRIBE HISTORY), or move the table away and dump it again"
            )
            raise ParkError(msg)
    return fills


def _fill(session: SparkSession, target: Target, fills: dict[str, Any]) -> None:
    """Fill new columns with their default in existing rows.

    No row that has these columns is written before.
    """
    names = {name.lower(): name for name, _ in target.columns}
    open_ones = {name: one for name, one in fills.items() if not one["done"] and name in names}
    for name, one in open_ones.items():
        column = quote(names[name])
        session.sql(f"UPDATE delta.{quote(target.path)} SET {column} = {one['sql']} WHERE {column} IS NULL")
        one["done"] = True
    if open_ones:
        _set(session, target.path, {_FILLS: json.dumps(fills)})
    target.fills = {name: (one["below"], one["sql"]) for name, one in fills.items()}


def _set(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    pairs = ", ".join(f"{text_sql(key)} = {text_sql(value)}" for key, value in properties.items())
    session.sql(f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ({pairs})")


def retain(session: SparkSession, path: str, *, keep_h: float, now_s: float, since_ms: int | None = None, refresh: bool = False) -> None:
    """Keep the table's old versions readable for as long as the manifest promises.

    Longer times of the owner stay, shorter ones are replaced (``delta/retention.py``). Call it
    before a commit that replaces the newest version. ``since_ms`` is the commit time of the
    promised version if that is not the newest. ``refresh`` commits again if the newest version is
    old, so that later snapshots name a young one. It makes one commit of properties at most.
    """
    delta: Any = session._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    log = delta.DeltaLog.forTable(session._jsparkSession, path)  # noqa: SLF001
    # Each write of the job updates it, so nothing is listed only for this question.
    snapshot = log.unsafeVolatileSnapshot()
    metadata = snapshot.metadata()
    age_h = (now_s - (since_ms or snapshot.timestamp()) / 1000.0) / 3600.0
    kept_h = min(delta.DeltaLog.tombstoneRetentionMillis(metadata), log.deltaRetentionMillis(metadata)) / 3_600_000.0
    long_enough = kept_h >= retention.least_h(age_h, keep_h)
    if long_enough and not (refresh and retention.rests(age_h)):
        return
    wanted_h = retention.kept_h(age_h, keep_h)
    times = {
        "delta.deletedFileRetentionDuration": (delta.DeltaLog.tombstoneRetentionMillis(metadata), wanted_h),
        "delta.logRetentionDuration": (log.deltaRetentionMillis(metadata), wanted_h + retention.LOG_LONGER_H),
    }
    longer = {name: f"interval {hours} hours" for name, (ms, hours) in times.items() if not long_enough and ms < hours * 3_600_000}
    _set(session, path, {**longer, _KEPT: datetime.fromtimestamp(now_s, tz=UTC).isoformat(timespec="seconds")})


def committed_ms(session: SparkSession, path: str, version: int) -> int | None:
    """Return a version's commit time in milliseconds by the store's clock.

    Return None if the commit is no longer in the log.
    """
    if not DeltaTable.isDeltaTable(session, path):
        return None
    log, _ = newest(session, path)
    commit = _commit_of(session, log, version)
    store = commit.getFileSystem(log.newDeltaHadoopConf())
    return int(store.getFileStatus(commit).getModificationTime()) if store.exists(commit) else None


def look_at(session: SparkSession, name: str, path: str, known: int | None) -> tuple[int, bool]:
    """Check the commits since version ``known`` for a RESTORE.

    Return the newest version, and True if there was a RESTORE without loss, after which cached
    facts may be outdated. ``known`` is None if the table was never checked. It reads the first
    lines of each commit. Raise DefiniteError if a RESTORE lost rows of the sink
    (``delta/restored.py``).
    """
    log, snapshot = newest(session, path)
    now = int(snapshot.version())
    checked = snapshot.metadata().configuration().get(_LOOKED)
    known = known if known is None or not checked.isDefined() else max(known, int(checked.get()))
    if known is None or now <= known:
        return now, False
    manager: Any = session._jvm.org.apache.spark.sql.delta.DeltaHistoryManager  # type: ignore[union-attr]  # noqa: SLF001
    hadoop = log.newDeltaHadoopConf()
    first: int | None = None
    for version in range(known + 1, now + 1):
        commit = _commit_of(session, log, version)
        if not commit.getFileSystem(hadoop).exists(commit):
            msg = (
                f"{name}: the log of {path} has no version {version} any more, so whether somebody restored an older version is unknown; if "
                f"nobody did: ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{_LOOKED}' = '{now}'), and start the sink again or resume the "
                "table; else move it away and dump it again"
            )
            raise DefiniteError(msg)
        info = manager.getCommitInfoOpt(log.store(), commit, hadoop)
        if info.isDefined() and info.get().operation() == "RESTORE":
            first = version if first is None else first
    commits: list[Commit] = []
    while first is not None and (not commits or first < commits[0].version):
        commits = _commits(session, log, first, now)
        first = first_of(commits)
    found = loss(commits) if commits else None
    if found is None:
        return now, first is not None
    undo = (
        f"undo that (RESTORE TABLE delta.`{path}` TO VERSION AS OF {found.whole}) and start the sink again or resume the table, or move the table away"
        if found.whole is not None
        else "the sink has written since, so undoing it would lose that: move the table away"
    )
    msg = (
        f"{name}: version {found.version} of {path} is a RESTORE, which took rows away that the sink had written; it would never write them "
        f"again, for the Delta log still shows them as written; {undo} and dump it again"
    )
    raise DefiniteError(msg)


def _commit_of(session: SparkSession, log: Any, version: int) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001
    return jvm.org.apache.spark.sql.delta.util.FileNames.unsafeDeltaFile(log.logPath(), version)


def _commits(session: SparkSession, log: Any, first: int, last: int) -> list[Commit]:
    """Return commits for ``restored`` to judge.

    One that is no longer there counts as the sink's.
    """
    hadoop = log.newDeltaHadoopConf()
    paths = {version: _commit_of(session, log, version) for version in range(first, last + 1)}
    there = [path.toString() for path in paths.values() if path.getFileSystem(hadoop).exists(path)]
    actions = session.read.schema(
        "txn STRUCT<appId: STRING>, commitInfo STRUCT<operation: STRING, operationParameters: STRUCT<version: STRING>>"
    ).json(there)
    named = actions.select(
        F.regexp_extract(F.input_file_name(), r"(\d+)\.json$", 1).cast("long").alias("version"),
        F.col("txn").isNotNull().alias("own"),
        F.coalesce(F.col("commitInfo.operation") == "RESTORE", F.lit(False)).alias("restored"),
        F.col("commitInfo.operationParameters.version").alias("to"),
    )
    rows = named.groupBy("version").agg(F.max("own").alias("own"), F.max("restored").alias("restored"), F.max("to").alias("to")).collect()
    found = {row["version"]: Commit(row["version"], row["own"], row["restored"], int(row["to"]) if row["to"] else None) for row in rows}
    return [found.get(version, Commit(version, own=True)) for version in paths]


def version_of(session: SparkSession, path: str) -> tuple[int, int]:
    """Return version and time in milliseconds of the job's own last commit, from Delta's memory.

    Python has no public API for it (``merge.written``).
    """
    jvm: Any = session._jvm  # noqa: SLF001
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).unsafeVolatileSnapshot()  # noqa: SLF001
    return int(snapshot.version()), int(snapshot.timestamp())


def purge(session: SparkSession, target: Target, *, keep_h: float) -> None:
    """Delete versions of a history table that ended more than ``keep_h`` hours before."""
    ended_before = F.current_timestamp() - F.make_interval(secs=F.lit(keep_h * 3600.0))
    DeltaTable.forPath(session, target.path).delete(F.col(TO) < ended_before)
    target.rows = row_count(session, target.path)


def compact(session: SparkSession, target: Target) -> None:
    """Compact small files and remove rows that deletion vectors hide.

    The caller must own the session.

    In a clustered table Delta sorts all rows in cubes below 100 GiB again
    (ZCube.filterOutLargeZCubes), which are all rows of most tables, every time. So a cube counts as
    full at CUBE_BYTES of live rows, and only younger rows are sorted. Files are smaller than
    Delta's default; otherwise a cube would have too few files to skip any. Settings that the
    configuration makes are left alone.
    """
    cubes = {_CUBE_LEAST: CUBE_BYTES, _CUBE_WANTED: CUBE_BYTES * 3 // 2, _FILE_MOST: _CUBE_FILE_BYTES} if target.clusters else {}
    ours = {name: value for name, value in cubes.items() if session.conf.get(name, None) is None}
    for name, value in ours.items():
        session.conf.set(name, str(value))
    try:
        DeltaTable.forPath(session, target.path).optimize().executeCompaction()
    finally:
        for name in ours:
            session.conf.unset(name)

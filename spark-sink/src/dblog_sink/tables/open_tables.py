"""Finds, creates, alters, checks and compacts the tables that the sink has open.

The caller must see to it that a table has one writer at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dblog_sink.config.job_options import Settings
from dblog_sink.config.log_retention import OWN_LOG_H
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta import log_cleanup
from dblog_sink.delta import target as targets
from dblog_sink.delta import tombstones as tombstones_of
from dblog_sink.delta.merge import is_conflict
from dblog_sink.delta.target import Target
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.errors import DefiniteError, ParkError
from dblog_sink.records.decode import LogEnds
from dblog_sink.schema.evolve import DropColumn, Plan, Policy, RenameColumn, planned, swapped, wider
from dblog_sink.schema.renamings import followed, made
from dblog_sink.schema.resolve import Known
from dblog_sink.schema.writer_schemas import Field
from dblog_sink.state.crash_points import Reached
from dblog_sink.state.notes import Compacted, Note, State
from dblog_sink.tables.quarantine import Quarantine
from dblog_sink.tables.schema_changes import SchemaChanges, place_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenTable:
    """An open table with its tombstones and, for a history, the keys that dumps have confirmed."""

    target: Target
    tombstones: Tombstones | None
    confirmed: Tombstones | None = None


class OpenTables:
    """The open tables by topic. With ``reading`` nothing is created, altered or written."""

    def __init__(
        self,
        settings: Settings,
        *,
        state: State,
        record: Callable[[Sequence[Note], bool], None],
        schema_changes: SchemaChanges,
        quarantine: Quarantine,
        reached: Reached,
        reading: bool,
    ) -> None:
        self._settings = settings
        self._state = state
        self._record = record
        self._schema_changes = schema_changes
        self._quarantine = quarantine
        self._reached = reached
        self._reading = reading
        self._open: dict[str, OpenTable] = {}
        self._topic_of_path: dict[str, str] = {}
        self._claims = threading.Lock()
        self._path_of_tombstones: dict[str, str] = {}
        """Path of tombstones to the path of their table. Empty before the first claim."""
        self._checked: dict[str, tuple[str, int]] = {}
        """Topic to the id of its Delta table and the version up to which commits were checked."""

    def forget(self, topic: str | None = None) -> None:
        """Discard the cached facts of a table, or of all, because they may be wrong."""
        if topic is None:
            self._open.clear()
        else:
            self._open.pop(topic, None)

    def claim_path(self, spec: TableSpec, opened: OpenTable | None) -> None:
        """Refuse a second topic with the same path before anything is created.

        Both may be in one batch, in two threads. Also refuse two tables whose tombstones would have
        the same path: a path outside ``target.path`` may look like one inside, and a delete of one
        table would hide rows of the other. A path belongs to the topic that its Delta table names;
        without a table to the topic that had it first, even before this start. Raise ParkError,
        because names of tables in a source decide paths.
        """
        with self._claims:
            if not self._topic_of_path:
                self._topic_of_path = {one.path: one.topic for one in self._known() if not self._settings.excludes(one.topic)}
            if opened is not None:
                self._topic_of_path[spec.path] = spec.topic
            elif (other := self._topic_of_path.setdefault(spec.path, spec.topic)) != spec.topic:
                raise targets.two_topics(spec, other)
            if spec.mode == targets.OPTION_OF[targets.APPEND]:
                return
            if not self._path_of_tombstones:
                self._claim_tombstones(self._known())
            path = self._claim_tombstones([spec])
        if path != spec.path:
            msg = (
                f"{spec.name}: the tombstones of {spec.path} would be in {self.tombstones_path(spec.path)}, where those of {path} are; give the table "
                "another path with table.<rule>.target.path, start the sink again and resume the table"
            )
            raise ParkError(msg)

    def _known(self) -> list[TableSpec]:
        """Return the tables that the control table knows, with their current configuration."""
        return [one for topic in list(self._state.table_ids) if (one := self._settings.table(topic)) is not None]

    def _claim_tombstones(self, specs: Iterable[TableSpec]) -> str:
        """Claim the paths of the tables' tombstones.

        Return the path of the table that owns those of the last one.
        """
        path = ""
        for spec in specs:
            if spec.mode != targets.OPTION_OF[targets.APPEND]:
                path = self._path_of_tombstones.setdefault(self.tombstones_path(spec.path), spec.path)
        return path

    def found(self, spec: TableSpec, session: SparkSession) -> OpenTable | None:
        """Return the topic's table, or None if it does not exist."""
        opened = self._open.get(spec.topic)
        if opened is None:
            target = targets.open_target(session, spec=spec, reading=self._reading)
            if target is None:
                return None
            opened = self._keep(spec, target, session)
        return opened

    def prepared(self, spec: TableSpec, opened: OpenTable | None, known: Known, session: SparkSession) -> tuple[OpenTable, Plan, list[str]]:
        """Create or alter the topic's table so that it can hold the records.

        Return the table, the plan of columns, and the changes for the progress line.
        """
        whole = [envelope.schema_id for envelope in known.envelopes.values() if not envelope.partial]
        newest = max(whole, default=-1 if opened is None else opened.target.newest)
        if opened is None:
            keys, key_fields = _keys(spec, known)
            plan = planned(
                spec.name,
                (),
                _versions(known),
                _policy(spec),
                keys=frozenset(key.lower() for key in keys),
                key_fields=key_fields,
                partial=_partial(known),
            )
            plan = self._made_late(spec, plan, known, keys)
            with _refusals_park(spec):
                target = targets.create(
                    session,
                    spec=spec,
                    keys=keys,
                    plan=plan,
                    kind=known.kind or spec.records,
                    newest=newest,
                    log_h=self._settings.log_h,
                    order=_order(known, plan),
                    left_out=_left_out(known, plan),
                )
            self._reached("altered")
            lost = spec.topic in self._state.compacted_at
            if lost:
                log.warning(
                    "%s: its Delta table %s was there and is not any more; a new one holds only what comes from here on: dump the table again",
                    spec.name,
                    spec.path,
                )
            self._checked[spec.topic] = (target.id, 0)
            return self._keep(spec, target, session), plan, ["made again"] if lost else []
        target = opened.target
        of_whole_rows = {number: fields for number, fields in _versions(known).items() if number not in _partial(known)}
        # Schemas in JSON have no order.
        is_new = newest > target.newest or newest < 0
        try:
            plan = self.planned(spec, target, known)
        # A value that does not fit may belong to another column: a rename that was not read yet may
        # have freed the name.
        except DefiniteError:
            if not is_new or not self._schema_changes.caught_up(spec, session):
                raise
            plan = self.planned(spec, target, known)
        if is_new and swapped(target.columns, target.order, of_whole_rows, plan) and self._schema_changes.caught_up(spec, session):
            plan = self.planned(spec, target, known)
        targets.leave_out(session, target, _left_out(known, plan))
        order = _order(known, plan)
        # Each JSON schema may be the newest.
        moved = order != target.order and (newest > target.newest >= 0 or (newest < 0 and bool(order)))
        if plan.changes or moved or plan.renamed not in (None, target.renamed):
            with _refusals_park(spec):
                targets.alter(session, target, plan, newest=newest, order=order)
            for positions in (opened.tombstones, opened.confirmed):
                if positions is not None:
                    positions.evolved(session, spec.name, target.keys)
            self._reached("altered")
        for change in plan.changes:
            log.info("%s: %s", spec.name, change)
        return opened, plan, [str(change) for change in plan.changes]

    def planned(self, spec: TableSpec, target: Target, known: Known) -> Plan:
        """Return the plan by which the table's columns follow those of the records.

        Raise DefiniteError if they cannot.
        """
        keys, key_fields = _keys(spec, known)
        if target.key_names and keys and {key.lower() for key in keys} != {key.lower() for key in target.key_names}:
            msg = (
                f"{spec.name}: its key in the source changed from ({', '.join(target.key_names)}) to ({', '.join(keys)}); "
                f"move {spec.path} and {self.tombstones_path(spec.path)} away and dump the table again"
            )
            raise DefiniteError(msg)
        statements = self._schema_changes.of(spec) if spec.evolution in ("evolve", "lenient") else {}
        keys_of = list(statements)
        versions, key_names = _versions(known), frozenset(key.lower() for key in target.key_names)
        found = followed(
            [name for name, _ in target.columns],
            list(statements.values()),
            place_of(target.renamed, keys_of),
            {number: [field.name for field in fields] for number, fields in versions.items()},
            order=target.order,
            keys=key_names,
            partial=_partial(known),
            newest=target.newest,
            shown={schema: place_of(at, keys_of) for schema, at in target.shown.items()},
        )
        plan = planned(
            spec.name,
            tuple((found.moves.get(name, name), kind) for name, kind in target.columns),
            {number: _renamed(fields, found.names[number]) for number, fields in versions.items()},
            _policy(spec),
            keys=key_names,
            key_fields=key_fields if target.key_names else (),
            newest=target.newest,
            partial=_partial(known),
        )
        laid = {name.lower() for name in (*target.partitions, *target.clusters)}
        if needed := [change.name for change in plan.changes if isinstance(change, DropColumn) and change.name.lower() in laid]:
            msg = (
                f"{spec.name}: the source dropped column {', '.join(needed)}, by which the Delta table is partitioned or clustered, and Delta drops no such "
                f"column; set table.<rule>.evolution.drop=keep, or move {spec.path} and {self.tombstones_path(spec.path)} away and dump the table again"
            )
            raise DefiniteError(msg)
        renames = tuple(RenameColumn(name, now) for name, now in found.moves.items())
        at = keys_of[found.done - 1] if found.done else None
        shown = {schema: keys_of[place - 1] for schema, place in found.shown.items()}
        return replace(plan, changes=(*renames, *plan.changes), renamed=at, shown=shown)

    def _made_late(self, spec: TableSpec, plan: Plan, known: Known, keys: Sequence[str]) -> Plan:
        """Return the plan of a table that is created after the source has renamed columns.

        Fields of older schemas go to the columns under their current names.
        """
        statements = self._schema_changes.of(spec) if spec.evolution in ("evolve", "lenient") else {}
        versions = _versions(known)
        whole = [number for number in versions if number not in _partial(known)]
        if not statements or not whole:
            return plan
        key_names = frozenset(key.lower() for key in keys)
        names = {number: [field.name for field in fields] for number, fields in versions.items()}
        found = made(list(statements.values()), names, keys=key_names, partial=_partial(known))
        keys_of = list(statements)
        table = planned(
            spec.name,
            (),
            {number: _renamed(fields, found.names[number]) for number, fields in versions.items()},
            _policy(spec),
            keys=key_names,
            key_fields=_keys(spec, known)[1],
            partial=_partial(known),
        )
        shown = {schema: keys_of[place - 1] for schema, place in found.shown.items()}
        return replace(table, renamed=keys_of[found.done - 1] if found.done else None, shown=shown)

    def tombstones_path(self, path: str) -> str:
        """Return the path of the tombstones of the table at ``path``."""
        return self._settings.tombstones_path(path)

    # -- commits of others --------------------------------------------------------------------------------------------------------------

    def restored(self, topic: str, target: Target, known: LogEnds, session: SparkSession, *, replayed: bool = False) -> bool:
        """Check the commits since the last check. Return True if the table must be opened again.

        It must after a RESTORE. Raise DefiniteError if that removed rows of the sink. A replay has
        no version to check from, unless the table was checked before.
        """
        table_id, version = self._checked.get(topic, (known.table_id, known.version))
        if version is None and replayed:
            return False
        checked, restored = targets.look_at(session, target.name, target.path, version if table_id == target.id else None)
        self._checked[topic] = (target.id, checked)
        if restored:
            self.forget(topic)
        return restored

    def checked_version(self, topic: str) -> int | None:
        """Return the version up to which the table's commits were checked."""
        return self._checked.get(topic, ("", None))[1]

    def check(self, topic: str, target: Target, known: LogEnds, session: SparkSession) -> tuple[str, int]:
        """Check the commits now and return the table's id and the version.

        Raise as ``restored`` does.
        """
        self.restored(topic, target, known, session)
        return self._checked[topic]

    def check_unopened(self, spec: TableSpec, known: LogEnds, session: SparkSession) -> tuple[str, int] | None:
        """Check the commits of a table without opening it: only its log is read.

        Return None if the table is not the sink's. A table that was never checked has nothing to
        compare with; it is checked when it is opened.
        """
        found = targets.identity(session, spec.path)
        if found is None or found != known.table_id:
            return None
        checked, _ = targets.look_at(session, spec.name, spec.path, self._checked.get(spec.topic, (found, known.version))[1])
        self._checked[spec.topic] = (found, checked)
        return found, checked

    # -- upkeep ---------------------------------------------------------------------------------------------------------------------------

    def keep_readable(self, target: Target, session: SparkSession) -> None:
        """Keep the version that the newest snapshot names readable. Call it before a commit."""
        if self._settings.snapshots:
            targets.retain(session, target.path, keep_h=self._settings["manifest.keep.h"], now_s=time.time())

    def compact_if_due(self, spec: TableSpec, opened: OpenTable, session: SparkSession) -> None:
        """Rewrite small files if enough commits were made. A failure only postpones it."""
        every: int = self._settings["compact.commits"]
        if every == 0 or opened.target.commits < every:
            return
        # If it fails, it is tried again after as many commits.
        opened.target.commits = 0
        try:
            self.compact(spec, opened, session)
        except Exception as e:  # noqa: BLE001  whatever is wrong with the table, the next write reports
            reason = "another writer committed in between" if is_conflict(e) else str(e).strip().partition("\n")[0]
            log.warning("%s: compaction postponed: %s", opened.target.name, reason)

    def compact(self, spec: TableSpec, opened: OpenTable, session: SparkSession) -> None:
        """Rewrite small files of the table and its tombstones, and delete expired versions and
        tombstones.
        """
        if spec.retention_h is not None and opened.target.mode == targets.HISTORY:
            targets.purge(session, opened.target, keep_h=spec.retention_h)
        targets.compact(session, opened.target)
        if opened.tombstones is not None:
            oldest_ms = self._quarantine.oldest_ms(session, spec.topic)
            opened.tombstones.compact(session, self._settings["tombstones.keep.h"], oldest_ms=oldest_ms)
        # Longer than a dump may take whose ghosts are removed.
        if opened.confirmed is not None:
            opened.confirmed.compact(session, 2 * self._settings["chunks.keep.h"])
        self._record_compacted(spec.topic, opened.target, targets.version_of(session, opened.target.path)[0])

    def _record_compacted(self, topic: str, target: Target, version: int) -> None:
        target.commits = 0
        self._record([Compacted(topic, version)], False)

    def _follow_log(self, spec: TableSpec, opened: OpenTable, session: SparkSession) -> None:
        """Set the retention of the tables' logs to the configured one.

        They may come from an earlier version or configuration.
        """
        log_cleanup.follow(session, spec.path, self._settings.log_h, before=lambda: self.keep_readable(opened.target, session))
        for positions in (opened.tombstones, opened.confirmed):
            if positions is not None and positions.exists:
                log_cleanup.follow(session, positions.path, OWN_LOG_H)

    def _keep(self, spec: TableSpec, target: Target, session: SparkSession) -> OpenTable:
        opened = OpenTable(target, None)
        if target.mode != targets.APPEND:
            opened.tombstones = tombstones_of.opened(session, path=self.tombstones_path(spec.path), keys=target.keys)
            if target.mode == targets.HISTORY:
                opened.confirmed = tombstones_of.opened(session, path=self._settings.confirmed_path(spec.path), keys=target.keys)
            for positions in (opened.tombstones, opened.confirmed):
                if positions is not None and positions.keys != target.keys and not self._reading:
                    positions.evolved(session, spec.name, target.keys)
        self._open[spec.topic] = opened
        if not self._reading:
            self._follow_log(spec, opened, session)
            version, _ = targets.version_of(session, target.path)
            target.commits = version - self._state.compacted_at.get(spec.topic, version + 1)
            # The table is opened for the first time, or was created again.
            if target.commits < 0:
                self._record_compacted(spec.topic, target, version)
        return opened


@contextmanager
def _refusals_park(spec: TableSpec) -> Iterator[None]:
    """Park a table whose columns Delta or Spark refuses.

    Otherwise a column name in the source would stop the job at each start.
    """
    try:
        yield
    except AnalysisException as e:
        condition = (e.getCondition() or "").partition(".")[0]
        if is_conflict(e) or not condition.startswith(_OF_NAMES):
            raise
        msg = (
            f"{spec.name}: Delta refuses its columns: {str(e).strip().partition(chr(10))[0]}; rename the column with table.<rule>.columns.rename, or leave it "
            "out with columns.exclude, start the sink again and resume the table"
        )
        raise ParkError(msg) from e


_OF_NAMES = (
    *("COLUMN_ALREADY_EXISTS", "FIELD_ALREADY_EXISTS", "INVALID_COLUMN_NAME", "PARSE_SYNTAX_ERROR"),
    *("DELTA_DUPLICATE_COLUMN", "DELTA_INVALID_CHARACTERS_IN_COLUMN", "DELTA_INVALID_COLUMN_NAME"),
)
"""Prefixes of Spark's and Delta's error conditions for column names that no table can have."""


def numbers(known: Known) -> list[int]:
    """Return a distinct number for each schema, in the order of schema ids.

    It is the registry's id, which rises with time, or a negative number for JSON, which has none.
    """
    return [envelope.schema_id if envelope.schema_id >= 0 else -1 - n for n, envelope in enumerate(known.envelopes.values())]


def _versions(known: Known) -> dict[int, tuple[Field, ...]]:
    return dict(zip(numbers(known), (envelope.fields for envelope in known.envelopes.values()), strict=True))


def _partial(known: Known) -> frozenset[int]:
    """Return the numbers of schemas whose records have some columns only."""
    return frozenset(number for number, one in zip(numbers(known), known.envelopes.values(), strict=True) if one.partial)


def _renamed(fields: tuple[Field, ...], names: Mapping[str, str | None]) -> tuple[Field, ...]:
    """Return the fields with the current names of their columns."""
    under = [(field, names.get(field.name.lower(), field.name)) for field in fields]
    return tuple(replace(field, name=now, source=field.member) if now != field.name else field for field, now in under if now is not None)


def _order(known: Known, plan: Plan) -> tuple[str, ...]:
    """Return the columns in the order of the newest schema of whole rows."""
    whole = [number for number in numbers(known) if number not in _partial(known)]
    return tuple(field.name for field in plan.fields[max(whole)]) if whole else ()


def _left_out(known: Known, plan: Plan) -> frozenset[str]:
    """Return lower-case source columns that whole rows have and the table lacks.

    They are left out by its settings or by ``evolution=ignore``.
    """
    found: set[str] = set()
    for number, envelope in zip(numbers(known), known.envelopes.values(), strict=True):
        if not envelope.partial:
            taken = {field.member.lower() for field in plan.fields[number]}
            found |= {name.lower() for name in envelope.left_out} | {
                field.member.lower() for field in envelope.fields if field.member.lower() not in taken
            }
    return frozenset(found)


def _policy(spec: TableSpec) -> Policy:
    return Policy(evolution=spec.evolution, drop=spec.evolution_drop, incompatible=spec.evolution_incompatible, fill=spec.evolution_fill)


def _keys(spec: TableSpec, known: Known) -> tuple[tuple[str, ...], list[Field]]:
    key_fields = [] if spec.keys else _key_fields(spec.name, [schema.fields for schema in known.key_schemas.values()])
    return spec.keys or tuple(field.name for field in key_fields), key_fields


def _key_fields(table: str, versions: list[tuple[Field, ...]]) -> list[Field]:
    """Return the key's fields over all schemas of the records.

    Each has the first spelling of its name and a type that holds the values of all schemas.
    """
    found: dict[str, Field] = {}
    for fields in versions:
        for one in fields:
            known = found.setdefault(one.name.lower(), one)
            kind, other = known.conversion.type, one.conversion.type
            grown = wider(kind, other) or wider(other, kind)
            if grown is None:
                msg = f"{table}, key column {one.name}: its type changed from {kind.simpleString()} to {other.simpleString()}; no Delta column holds both"
                raise DefiniteError(msg)
            if grown != kind:
                found[one.name.lower()] = replace(known, conversion=replace(known.conversion, type=grown))
    return list(found.values())

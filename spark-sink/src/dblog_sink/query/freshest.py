"""Computes the freshest state of a mirror: the mirror with landed records that are not merged yet.

``fresh(session, settings, "shop.orders")`` is a frame with the mirror's columns, up to date with
the last landed batch, whatever the merges are doing. The landed records are decoded by the job's
own code and applied by its own rule: the highest position of a key wins, including tombstones and
truncates. Records that were merged a moment ago may be applied again; the rule makes that harmless,
so no merge has to wait for a reader. Reading costs the tail, which the merges keep short.

For a notebook or a test in the same session, ``register`` makes it a temporary view; call it again
for a later state.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.batches.landing import Landing
from dblog_sink.config.job_options import Settings
from dblog_sink.delta.merge import overlaid
from dblog_sink.delta.session import SessionPool
from dblog_sink.delta.target import MIRROR, recorded_in
from dblog_sink.errors import DefiniteError
from dblog_sink.job.build import registry_of
from dblog_sink.records.decode import BAD, OP, SEQ1, SEQ2
from dblog_sink.records.latest import latest
from dblog_sink.schema.registry import Registry
from dblog_sink.state.control_table import read_state
from dblog_sink.state.crash_points import nothing
from dblog_sink.state.notes import State
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.modes.missing_values import completed
from dblog_sink.tables.profile import profile
from dblog_sink.tables.quarantine import Quarantine

_ALL_BATCHES = (1 << 62) - 1


def fresh(session: SparkSession, settings: Settings, table: str) -> DataFrame:
    """Return the rows of a table's mirror with everything that has landed.

    ``table`` is ``db.table`` or its topic. Raise DefiniteError if it has no mirror.
    """
    named = settings.table(table)
    topic = None if named is None else recorded_in(session, named.path)[0]
    spec = None if topic is None else settings.table(topic)
    state = read_state(session, settings.state_path)
    applier, _ = reader(session, settings, state)
    found = None if topic is None else applier.found(topic, session)
    if topic is None or spec is None or found is None:
        msg = f"the sink has no Delta table of {table}, or not yet: name it as db.table or as its topic"
        raise DefiniteError(msg)
    if found.target.mode != MIRROR or found.tombstones is None:
        msg = f"{spec.name} is kept in mode {found.target.mode}; only a mirror has a freshest state"
        raise DefiniteError(msg)
    landing = Landing(session, f"{settings.state_path}/landing", keep_h=0.0, reached=nothing)
    if landing.id is None:
        return session.read.format("delta").load(spec.path)
    raw = landing.records(topic, after=state.merged_up_to.get(topic, -1), to=_ALL_BATCHES)
    tail = None
    for stats in profile(raw):
        tail = applier.rows(stats, raw, session)
    mirror = session.read.format("delta").load(spec.path)
    if tail is None:
        return mirror
    opened, rows = tail
    target = opened.target
    assert opened.tombstones is not None
    rows, held = completed(rows, target, session, opened.tombstones)
    for frame in held:
        frame.unpersist()
    good = rows.where(F.col(BAD).isNull())
    floor = good.where(F.col(OP) == "t").agg(F.max(F.struct(SEQ1, SEQ2))).collect()[0][0] if spec.truncate == "apply" else None
    kept = latest(good.where(F.col(OP) != "t"), target.keys)
    if floor is not None:
        before = (F.col(SEQ1) < floor[0]) | ((F.col(SEQ1) == floor[0]) & (F.col(SEQ2) < floor[1]))
        mirror, kept = mirror.where(~before), kept.where(~before)
    oldest = kept.agg(F.min(F.struct(SEQ1, SEQ2))).collect()[0][0]
    if oldest is None:
        return mirror
    kept = opened.tombstones.alive(session, kept, (oldest[0], oldest[1]))
    return overlaid(mirror, kept, keys=target.keys, columns=target.column_names, soft=target.soft)


def register(session: SparkSession, settings: Settings, table: str, name: str) -> None:
    """Register the freshest state as a temporary view of the session."""
    fresh(session, settings, table).createOrReplaceTempView(name)


def reader(session: SparkSession, settings: Settings, state: State) -> tuple[Applier, Registry]:
    """Return an applier and registry that only read: they create, alter and write nothing."""
    registry = registry_of(settings)
    applier = Applier(
        settings=settings,
        registry=registry,
        pool=SessionPool(session, 1),
        quarantine=Quarantine(f"{settings.state_path}/quarantine", rows_max=0, fraction_max=0.0),
        state=state,
        reading=True,
    )
    return applier, registry

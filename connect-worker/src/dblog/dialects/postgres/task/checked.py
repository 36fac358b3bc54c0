"""Passes a configuration to the check of its server, at validation and at a task's start alike."""

from __future__ import annotations

from collections.abc import Sequence

from dblog.config.options import Settings
from dblog.config.stream_params import STREAM_PARAMS, stream_params
from dblog.core.selection import Parts, key_rules
from dblog.dialects.postgres.task.connections import by_root, reader_name
from dblog.dialects.postgres.task.plans import PostgresPlans
from dblog.dialects.postgres.wire.check import check
from dblog.dialects.postgres.wire.session import Session
from dblog.model import Table, TableId
from dblog.readers.start import may_start_over


def check_configured(
    session: Session,
    settings: Settings,
    *,
    tables: Sequence[Table],
    plans: PostgresPlans,
    signal_tables: frozenset[TableId],
    named: Parts,
    starts: bool = False,
) -> list[str]:
    """Run ``wire.check.check`` with the options of a configuration. Return warnings; raise
    DefiniteError that names everything that is missing.
    """
    warnings = check(
        session,
        tables=[plans.chunk_sql.of(table) for table in tables],
        slot=settings.text("slot.name"),
        publication=settings.text("publication.name"),
        autocreate=settings.text("publication.autocreate.mode"),
        cannot_show=plans.cannot_show,
        reader=reader_name(settings),
        read_only=settings.boolean("read.only"),
        by_root=by_root(settings),
        signal_tables=signal_tables,
        key_rules=key_rules(settings.originals.get("message.key.columns")),
        further=stream_params(settings.text_or_none(STREAM_PARAMS)),
        named=named,
        starts=starts,
    )
    mode = settings.text("snapshot.mode")
    if settings.boolean("slot.drop.on.stop") and not may_start_over(mode):
        warnings.insert(
            0,
            f"slot.drop.on.stop=true and snapshot.mode={mode}: no log keeps the changes between a stop and the next start, so that start will "
            "fail; set snapshot.mode=when_needed, which dumps again then, or leave the slot where it is (slot.drop.on.stop=false)",
        )
    return warnings

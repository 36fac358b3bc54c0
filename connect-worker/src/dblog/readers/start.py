"""Decides what a task does at its start: dump, continue a dump, or only follow, and from which
position. Pure: facts in, a plan out.

The modes are Debezium's ``snapshot.mode`` (Debezium manual, "snapshot.mode"), on top of a dump that
never stops the log. ``initial`` dumps if there is no offset; ``initial_only`` ends after the dump.
``always`` dumps at every start, while following the log from the stored offset, so that rows
deleted since then are reported too. ``no_data`` (``schema_only``) follows from now. ``when_needed``
is ``initial``, but starts over like ``always`` if the stored position is lost. ``never`` follows
from the oldest log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dblog.core.dumps import Dump, dump_from_text
from dblog.core.selection import name_matcher
from dblog.core.takeover import Unfinished, unfinished_snapshot
from dblog.errors import DefiniteError
from dblog.model import OffsetMap, TableId


class From(Enum):
    """Starting points in the log."""

    NOW = "now"
    OLDEST = "oldest"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """Plan of a start.

    ``dump`` is the dump to continue, None if there is none. With ``new_dump`` a new one covers all
    selected tables. ``dumps_new_tables`` is True if tables that are new to the connector are
    dumped. ``ends_after_dump`` is True for initial_only.
    """

    log_from: From
    new_dump: bool
    dump: Dump | None
    dumps_new_tables: bool
    ends_after_dump: bool
    unfinished: tuple[Unfinished, ...] = ()
    """Tables of an incremental snapshot that Debezium has not finished."""
    earlier: Dump | None = None
    """Dump of the stored offset that a new one replaces; the new one also repairs the tables that
    it had to repair.
    """


LOST_POSITION = "dblog_lost"
"""Key of an offset in memory: the reason why its position is lost, if several runs found it lost
but their starts did not. It is never stored, so the next process does not know it.
"""

DUMPING_MODES = frozenset({"initial", "initial_only", "always", "when_needed"})


def start_plan(mode: str, offset: OffsetMap | None, lists: Mapping[str, Sequence[TableId]] | None = None) -> StartPlan:
    """Return the plan for a snapshot mode and the stored offset.

    An unfinished initial snapshot of Debezium is started again, as Debezium would. An unfinished
    incremental snapshot continues in every mode: it has sent some of the rows, and nothing else
    would send the rest. # I3

    ``lists`` are the stored lists of tables. The offset's dump may refer to one; raise
    PositionLostError if that one is missing.
    """
    mode = {"schema_only": "no_data"}.get(mode.lower(), mode.lower())
    if mode not in DUMPING_MODES | {"no_data", "never"}:
        message = f"snapshot.mode={mode} is not supported; use initial, initial_only, always, no_data, when_needed or never"
        raise DefiniteError(message)
    unfinished = unfinished_snapshot(offset or {})
    dumps = mode in DUMPING_MODES
    dump = None
    unfinished_elsewhere = False
    if offset is not None:
        text = offset.get("dblog_dump")
        dump = dump_from_text(text, lists or {}) if isinstance(text, str) else None
        unfinished_elsewhere = dump is None and offset.get("snapshot") not in {None, False, "INCREMENTAL"}
    if offset is None or unfinished_elsewhere:
        return StartPlan(
            log_from=From.OLDEST if mode == "never" else From.NOW,
            new_dump=dumps,
            dump=None,
            dumps_new_tables=dumps,
            ends_after_dump=mode == "initial_only",
        )
    again = mode == "always"
    return StartPlan(
        log_from=From.OFFSET,
        new_dump=again,
        dump=None if again else dump,
        dumps_new_tables=dumps,
        ends_after_dump=mode == "initial_only",
        unfinished=unfinished,
        earlier=dump if again else None,
    )


def may_start_over(mode: str) -> bool:
    """Return True if a lost position leads to a new dump instead of an error."""
    return mode.lower() in {"when_needed", "always"}


def dumps_at_all(mode: str) -> bool:
    """Return True if the mode dumps rows that are older than the connector.

    Other modes do not dump tables again, either.
    """
    return mode.lower() in DUMPING_MODES


def dumps(mode: str, selected: str | None) -> Callable[[TableId], bool]:
    """Return a predicate for tables whose rows may be dumped.

    The mode has to dump, and snapshot.include.collection.list, if set, has to select the table.
    """
    if not dumps_at_all(mode):
        return lambda _: False
    selects = name_matcher(selected, option="snapshot.include.collection.list")
    return lambda table: selects is None or selects(str(table))

"""Decides what a task does when it starts: dump, go on with a dump, only follow, from where. Pure: facts in, a plan out.

The modes are Debezium's ``snapshot.mode`` (Debezium manual, "snapshot.mode"), on top of a dump that never stops the log: ``initial`` dumps when there
is no offset; ``initial_only`` ends after the dump; ``always`` dumps at every start, beside the log from the stored offset, so that rows deleted since
then are reported too; ``no_data`` (``schema_only``) follows from now; ``when_needed`` is ``initial``, and starts over when the stored position is lost,
as ``always`` does; ``never`` follows from the oldest log.
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
    """Where the log is read from."""

    NOW = "now"
    OLDEST = "oldest"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """``dump`` None: no dump goes on; with ``new_dump`` a fresh one covers all selected tables. ``dumps_new_tables``: tables that the connector did not know
    before are dumped. ``ends_after_dump``: initial_only.
    """

    log_from: From
    new_dump: bool
    dump: Dump | None
    dumps_new_tables: bool
    ends_after_dump: bool
    unfinished: tuple[Unfinished, ...] = ()
    """What Debezium has left of an incremental snapshot."""
    earlier: Dump | None = None
    """The dump of the stored offset that a new one takes the place of. What it had to repair, the new one repairs."""


LOST_POSITION = "dblog_lost"
"""The reason why the position of an offset is lost, where several runs found it so and their starts did not. Only in the memory of a process: the next
start begins anew."""

DUMPING_MODES = frozenset({"initial", "initial_only", "always", "when_needed"})


def start_plan(mode: str, offset: OffsetMap | None, lists: Mapping[str, Sequence[TableId]] | None = None) -> StartPlan:
    """The plan for a snapshot mode and the stored offset. A dump of Debezium's that it had not finished is started again, as Debezium would; an incremental
    snapshot that it had not finished goes on, whatever the mode: it has sent a part of the rows, and nobody else would send the rest. # I3

    ``lists``: the stored lists of tables, to one of which the offset's dump may refer; PositionLostError when it is not among them.
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
    """Whether a lost position is answered by a new dump instead of an error."""
    return mode.lower() in {"when_needed", "always"}


def dumps_at_all(mode: str) -> bool:
    """Whether the mode brings rows that are older than the connector; without them nothing is dumped again either."""
    return mode.lower() in DUMPING_MODES


def dumps(mode: str, selected: str | None) -> Callable[[TableId], bool]:
    """Whether rows of a table may come by a dump: the mode dumps, and snapshot.include.collection.list (all without it) selects the table."""
    if not dumps_at_all(mode):
        return lambda _: False
    selects = name_matcher(selected, option="snapshot.include.collection.list")
    return lambda table: selects is None or selects(str(table))

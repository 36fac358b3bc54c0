"""The one warning about tables whose rows stay: which it names, with which remedy, and when it goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.model import Column, Table, TableId
from dblog.readers.log.removed_rows import RemovedRows
from dblog.readers.standing_warnings import CHARS_MAX, StandingWarnings

T, U = TableId("d", "t"), TableId("d", "u")


def table(id_: TableId, *key: str) -> Table:
    return Table(id=id_, columns=(Column(name="id", type="int", type_text="int", nullable=False),), key=key)


class Kept:
    """What a history keeps. Implements ``removed_rows.KnownRemovals``."""

    def __init__(self, *keyless: TableId) -> None:
        self._keyless = keyless
        self.tables: dict[TableId, str] = {}

    def table(self, table_id: TableId) -> Table:
        return table(table_id) if table_id in self._keyless else table(table_id, "id")

    def removals(self) -> Mapping[TableId, str]:
        return dict(self.tables)

    def note_removals(self, tables: Mapping[TableId, str]) -> None:
        self.tables.update(tables)

    def end_removals(self, tables: Iterable[TableId]) -> None:
        for table_id in tables:
            self.tables.pop(table_id, None)


def made(*keyless: TableId, kept: Kept | None = None) -> tuple[RemovedRows, StandingWarnings]:
    warnings = StandingWarnings()
    return RemovedRows(connector="shop", schemas=kept or Kept(*keyless), warnings=warnings), warnings


def test_one_warning_names_each_table_with_what_removed_its_rows_and_the_request_that_helps() -> None:
    removed, warnings = made()

    removed.removed({T: "TRUNCATE"})
    (first,) = warnings.texts()
    removed.removed({U: "DROP PARTITION"})
    (text,) = warnings.texts()

    assert "d.t (TRUNCATE)" in first
    assert "`dblog dumps start shop d.t --mode repair`" in first
    assert "with skipped.operations=none a TRUNCATE reaches the lake" in first
    assert "`dblog dumps start shop d.t d.u --mode repair` removes them from the lake; with" in text
    assert "d.t (TRUNCATE), d.u (DROP PARTITION)" in text
    removed.take_back([T])
    (text,) = warnings.texts()
    assert "d.t" not in text
    assert "`dblog dumps start shop d.u --mode repair` removes them from the lake" in text
    assert "skipped.operations" not in text, "no TRUNCATE was among them"
    removed.take_back([T, U])
    assert warnings.texts() == ()


def test_fifteen_thousand_tables_are_one_short_warning() -> None:
    removed, warnings = made()

    removed.removed({TableId("a_database", f"a_table_of_some_name_{n}"): "EXCHANGE PARTITION" for n in range(15_000)})

    (text,) = warnings.texts()
    assert "and 14980 more tables" in text
    assert len(text) < CHARS_MAX


def test_a_table_without_a_key_is_offered_no_dump() -> None:
    removed, warnings = made(T)

    removed.removed({T: "TRUNCATE"})
    (text,) = warnings.texts()
    assert "dblog dumps" not in text
    assert "without a key" in text

    removed.removed({U: "TRUNCATE"})
    (text,) = warnings.texts()
    assert "`dblog dumps start shop d.u --mode repair` removes them from the lake, and the same request" in text


def test_another_run_names_what_an_earlier_one_has_named_until_a_repair_has_read_it() -> None:
    kept = Kept(U)
    removed, warnings = made(kept=kept)
    removed.removed({T: "TRUNCATE", U: "TRUNCATE"})

    removed, warnings = made(kept=kept)
    (text,) = warnings.texts()
    assert "d.t (TRUNCATE)" in text
    assert "d.u" not in text, "nothing but a restart ends a warning about a table without a key"

    removed.take_back([T])
    assert made(kept=kept)[1].texts() == warnings.texts() == ()

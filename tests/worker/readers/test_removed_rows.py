"""The one warning about tables whose rows stay: which it names, with which remedy, and when it goes."""

from __future__ import annotations

from dblog.model import Column, Table, TableId
from dblog.readers.removed_rows import RemovedRows
from dblog.readers.standing_warnings import CHARS_MAX, StandingWarnings

T, U = TableId("d", "t"), TableId("d", "u")


def table(id_: TableId, *key: str) -> Table:
    return Table(id=id_, columns=(Column(name="id", type="int", type_text="int", nullable=False),), key=key)


def made(*keyless: TableId) -> tuple[RemovedRows, StandingWarnings]:
    warnings = StandingWarnings()
    return RemovedRows(
        connector="shop", table_of=lambda id_: table(id_) if id_ in keyless else table(id_, "id"), warnings=warnings
    ), warnings


def test_one_warning_names_each_table_with_what_removed_its_rows_and_the_request_that_helps() -> None:
    removed, warnings = made()

    removed.removed({T: "TRUNCATE"})
    (first,) = warnings.texts()
    removed.removed({U: "DROP PARTITION"})
    (text,) = warnings.texts()

    assert "d.t (TRUNCATE)" in first
    assert r"`dblog dumps start shop 'd\.t' --mode repair`" in first
    assert "d.t (TRUNCATE), d.u (DROP PARTITION)" in text
    removed.take_back([T])
    assert [r"'d\.u'" in text and "d.t" not in text for text in warnings.texts()] == [True]
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
    assert r"'d\.u'" in text

"""Warnings that stand: raised and withdrawn by key, and bounded."""

from dblog.model import TableId
from dblog.readers.standing_warnings import CHARS_MAX, COUNT_MAX, KEPT_MAX, StandingWarnings


def test_a_warning_stands_until_its_key_is_withdrawn():
    warnings = StandingWarnings()

    warnings.raise_warning("a", "first")
    warnings.raise_warning("b", "second")
    warnings.withdraw("a")
    warnings.withdraw("never raised")

    assert warnings.texts() == ("second",)


def test_a_key_that_stands_keeps_its_place_and_gets_the_new_text():
    warnings = StandingWarnings()

    warnings.raise_warning("a", "1 table")
    warnings.raise_warning("b", "other")
    warnings.raise_warning("a", "2 tables")

    assert warnings.texts() == ("2 tables", "other")


def test_two_keys_with_one_text_are_shown_once_and_the_text_stands_until_both_are_withdrawn():
    warnings = StandingWarnings()
    warnings.raise_warning("a", "same")
    warnings.raise_warning("b", "same")

    assert warnings.texts() == ("same",)

    warnings.withdraw("a")
    assert warnings.texts() == ("same",)


def test_what_is_shown_is_bounded_and_counts_the_rest():
    warnings = StandingWarnings()

    for number in range(15_000):
        warnings.raise_warning(f"table {number}", f"{number}: {'x' * 3 * CHARS_MAX}")

    texts = warnings.texts()
    assert len(texts) == COUNT_MAX + 1
    assert texts[-1].startswith(f"{KEPT_MAX - COUNT_MAX} more warnings")
    assert max(map(len, texts)) == CHARS_MAX + 3


def test_a_warning_beyond_those_that_are_shown_moves_up_when_others_are_withdrawn():
    warnings = StandingWarnings()
    for number in range(COUNT_MAX + 1):
        warnings.raise_warning(str(number), f"warning {number}")

    warnings.withdraw("0")

    assert warnings.texts()[-1] == f"warning {COUNT_MAX}"


def test_a_warning_of_tables_names_each_until_it_has_ended_for_it():
    warnings = StandingWarnings()
    a, b, c = (TableId("d", name) for name in "abc")

    warnings.raise_of_tables("k", [b, a], before="rows stay in ", after=": ask")
    warnings.raise_of_tables("k", [c], before="rows stay in ", after=": ask")
    assert warnings.texts() == ("rows stay in d.a, d.b, d.c: ask",)
    assert warnings.found_again("k", c)
    assert not warnings.found_again("other", c)
    warnings.raise_of_tables("other", [], before="of ", after="")

    warnings.end_for([b])
    assert warnings.texts() == ("rows stay in d.a, d.c: ask",)
    warnings.end_for([a, c])
    assert warnings.texts() == ()

    warnings.raise_of_tables("k", [TableId("d", f"{n:03}") for n in range(1000)], before="of ", after=".")
    assert warnings.texts()[0].endswith("d.019 and 980 more.")
    warnings.withdraw("k")
    assert warnings.texts() == ()


def test_the_next_run_begins_with_what_it_would_not_find_out_again():
    warnings = StandingWarnings()
    warnings.raise_warning("found again", "x")
    warnings.raise_warning("lost", "y", lasting=True)
    warnings.raise_of_tables("k", [TableId("d", "a"), TableId("d", "b")], before="of ", after="")

    later = warnings.of_next_run().of_next_run()
    assert later.texts() == ("y", "of d.a, d.b")

    later.withdraw("lost")
    later.end_for([TableId("d", "a")])
    assert later.texts() == ("of d.b",)
    assert warnings.texts() == ("x", "y", "of d.a, d.b"), "the run before has its own"


def test_a_repair_ends_a_warning_of_a_table_that_was_found_before_it_began():
    warnings = StandingWarnings()
    a, b = TableId("d", "a"), TableId("d", "b")
    warnings.raise_of_tables("k", [a, b], before="of ", after="")
    for table in (a, b):
        warnings.repair_begins("r", table, warnings.found_here)

    assert warnings.found_again("k", b)
    assert not warnings.found_again("other", b)
    warnings.repair_ends("r", a)
    warnings.repair_ends("r", b)
    assert warnings.texts() == ("of d.b",), "the repair may have passed the row of b"

    warnings.repair_ends("unknown", b)
    assert warnings.texts() == ("of d.b",)
    warnings.repair_begins("s", b, warnings.found_here)
    later = warnings.of_next_run()
    assert later.found_again("k", b)
    warnings.repair_ends("s", b)
    later.repair_ends("s", b)
    assert (warnings.texts(), later.texts()) == ((), ("of d.b",)), "each run has its own"


def test_a_repair_that_goes_on_in_the_next_run_ends_what_was_found_before_it_began():
    warnings = StandingWarnings()
    a = TableId("d", "a")
    warnings.raise_of_tables("k", [a], before="of ", after="")
    warnings.repair_begins("r", a, warnings.found_here)

    later = warnings.of_next_run()
    later.repair_ends("r", a)
    assert later.texts() == ()


def test_a_repair_that_begins_in_the_midst_of_decoded_log_leaves_what_was_found_in_that():
    warnings = StandingWarnings()
    a, b, c = (TableId("d", name) for name in "abc")
    warnings.raise_of_tables("k", [a, b], before="of ", after="")
    found = warnings.found
    assert warnings.found_again("k", b)
    warnings.found_ahead(since=found)
    warnings.raise_of_tables("given out", [c], before="of ", after="")

    for table in (a, b, c):
        warnings.repair_begins("r", table, warnings.found_here)
    warnings.found_ahead(since=warnings.found)
    for table in (a, b, c):
        warnings.repair_ends("r", table)
    assert warnings.texts() == ("of d.b",)

    warnings.repair_begins("s", b, warnings.found_here)
    warnings.repair_ends("s", b)
    assert warnings.texts() == ()

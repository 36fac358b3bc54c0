"""Warnings that stand: raised and withdrawn by key, and bounded."""

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
